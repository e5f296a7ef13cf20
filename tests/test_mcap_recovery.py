"""Recordings cut off at any place are repaired: any reader then opens them and finds all complete chunks."""

import fcntl
import os
import tracemalloc

import pytest
from mcap.reader import make_reader
from recording_rig import PERIOD, UTC, messages, read_recording, step, write_recording

from replay.mcap_format import MAGIC
from replay.mcap_log import McapLog
from replay.mcap_recovery import recover
from replay.mcap_writer import McapWriter
from vehicled.cli import main
from vehicled.errors import UsageError


def test_a_recording_cut_off_at_any_place_is_recovered(tmp_path):
    path = tmp_path / "run.mcap"
    whole = write_recording(path)
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    chunks = summary.chunk_indexes
    head = chunks[0].chunk_start_offset
    complete = [c.chunk_start_offset + c.chunk_length + c.message_index_length for c in chunks]
    # Every kind of place: in the head, on and beside each border of chunks and their indexes, in the summary.
    borders = [*complete, *(c.chunk_start_offset + c.chunk_length for c in chunks)]
    cuts = {head - 100, head, len(whole) - 1, *(b + d for b in borders for d in (-1, 0, 1, 25))}
    for cut in sorted(cuts):
        path.write_bytes(whole[:cut])
        recovered = recover(path)
        assert recovered is not None
        steps = read_recording(path)
        assert steps == list(range(len(steps)))
        ends = [c.message_end_time for c, end in zip(chunks, complete, strict=True) if end <= cut]
        assert len(steps) == (len(ends) > 1 and (ends[-1] - UTC) // PERIOD + 1)
        assert [s.measurements for s in McapLog(path).recorded_steps()] == [step(i)[1] for i in steps]
        assert not McapLog(path).read_run().problems
        size = path.stat().st_size
        assert recover(path) is None
        assert path.stat().st_size == size


@pytest.mark.parametrize(
    "tail", [bytes(5000), b"\x06" + b"\xff" * 200, MAGIC], ids=["zeros", "ones", "magic"]
)
def test_garbage_that_a_file_system_leaves_at_the_end_is_removed(tmp_path, tail):
    path = tmp_path / "run.mcap"
    whole = write_recording(path)
    path.write_bytes(whole[: len(whole) * 2 // 3] + tail)
    assert recover(path) is not None
    assert read_recording(path)


def test_a_last_chunk_with_content_missing_on_the_disk_is_removed(tmp_path):
    path = tmp_path / "run.mcap"
    whole = bytearray(write_recording(path))
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    last = summary.chunk_indexes[-1]
    middle = last.chunk_start_offset + last.chunk_length // 2
    whole[middle : middle + 500] = bytes(500)
    path.write_bytes(whole[: last.chunk_start_offset + last.chunk_length + last.message_index_length])
    recovered = recover(path)
    assert recovered is not None
    assert recovered.removed == last.chunk_length + last.message_index_length
    assert 0 < len(read_recording(path)) < 300


def test_a_damaged_chunk_is_left_out_of_the_index_and_unusable_files_do_not_end_the_command(tmp_path, capsys):
    path, pipe, text = tmp_path / "run.mcap", tmp_path / "pipe.mcap", tmp_path / "text.mcap"
    whole = bytearray(write_recording(path))
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    damaged = summary.chunk_indexes[1]
    middle = damaged.chunk_start_offset + damaged.chunk_length // 2
    whole[middle : middle + 100] = bytes(100)
    path.write_bytes(whole[:-10])
    os.mkfifo(pipe)
    text.write_text("no recording")
    assert main(["recover", str(pipe), str(text), str(path)]) == 2
    output = capsys.readouterr()
    assert output.err.splitlines() == [
        f"vehicled: {pipe}: expected a recording (an MCAP file), but it is no regular file",
        f"vehicled: {text}: expected a recording (an MCAP file), but it does not start as one",
    ]
    assert "; 1 damaged chunks left out of the index" in output.out
    assert 0 < len(read_recording(path)) < 300


@pytest.mark.parametrize("begin", [0, -4], ids=["name", "length of the name"])
def test_a_damaged_attachment_is_left_out_of_the_index(tmp_path, begin):
    path = tmp_path / "run.mcap"
    whole = bytearray(write_recording(path))
    at = whole.index(b"configuration.yaml") + begin
    whole[at : at + 4] = b"\xff" * 4
    path.write_bytes(whole[: len(whole) * 2 // 3])
    assert recover(path) is not None
    assert read_recording(path)
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert not summary.attachment_indexes
    assert [m.name for m in summary.metadata_indexes] == ["vehicled"]


def test_a_repair_that_was_interrupted_is_repeated(tmp_path):
    path = tmp_path / "run.mcap"
    whole = write_recording(path)
    path.write_bytes(whole[: len(whole) * 2 // 3])
    recover(path)
    repaired = path.read_bytes()
    for cut in range(len(repaired) - 3000, len(repaired), 100):
        path.write_bytes(repaired[:cut])
        recover(path)
        assert path.read_bytes() == repaired


@pytest.mark.parametrize(
    "content", [b"", b"hello", MAGIC, MAGIC + bytes(100)], ids=["empty", "text", "magic", "zeros"]
)
def test_a_file_that_is_no_recording_is_not_changed(tmp_path, content):
    path = tmp_path / "run.mcap"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"run\.mcap: expected a recording"):
        recover(path)
    assert path.read_bytes() == content


def test_the_command_reports_its_result(tmp_path, capsys):
    path = tmp_path / "run.mcap"
    whole = write_recording(path, 100)
    path.write_bytes(whole[:-10])
    assert main(["recover", str(path)]) == 0
    assert f"{messages(100) + 2:,} messages" in capsys.readouterr().out
    assert main(["recover", str(path)]) == 0
    assert "complete, not changed" in capsys.readouterr().out
    with open(path, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert main(["recover", str(path)]) == 1
    assert "is being written" in capsys.readouterr().err
    assert main(["recover", str(tmp_path / "none.mcap")]) == 2
    assert "none.mcap: No such file or directory; expected a recording" in capsys.readouterr().err


def test_the_index_of_a_long_run_is_complete_and_takes_little_memory(tmp_path):
    """Five minutes of chunks, each with one message of every second topic."""
    path, chunks, topics = tmp_path / "run.mcap", 1200, range(1, 17, 2)
    writer = McapWriter(path)
    tracemalloc.start()
    for k in range(chunks):
        if k == chunks // 2:
            before, _ = tracemalloc.get_traced_memory()
        for topic in topics:
            writer.write(topic, UTC + k * PERIOD, UTC, b"{}")
        writer.end_chunk()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    writer.close()
    assert taken < 120 * chunks // 2
    with open(path, "rb") as file:
        summary = make_reader(file).get_summary()
    assert summary is not None
    assert [c.message_start_time for c in summary.chunk_indexes] == [UTC + k * PERIOD for k in range(chunks)]
    assert all(set(c.message_index_offsets) == set(topics) for c in summary.chunk_indexes)
