"""A short run of the fuzzer, `tests/fuzz.py`, a repetition of its earlier findings, and tests of the fuzzer."""

import contextlib
import mmap
import time

import fuzz
import pytest
from fuzz import CORPUS, load, make_targets, replay, run, save
from fuzz_frames import Frame

TARGETS = make_targets()
FRAMES = {"mcap": 100, "commands": 500, "configuration": 12, "vbo": 600, "ncom": 250, "csv": 600}
KEPT = sorted(CORPUS.glob("*.json"))


@pytest.mark.parametrize("name", TARGETS)
def test_no_frame_fails(name, monkeypatch):
    monkeypatch.setattr(TARGETS[name], "limit_ms", 1e9)  # the machine of a test may be busy
    monkeypatch.setattr(fuzz, "GROWTH_MB", 1e9)
    result = run(TARGETS[name], FRAMES.get(name, 4000), 60.0, seed=11)
    assert result.failure is None
    assert result.valid > 0


@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_an_earlier_finding_does_not_fail_again(path):
    name, frames = load(path)
    assert replay(TARGETS[name], frames) is None


class Faulty:
    """Fails at an `x` that comes after two `y`."""

    name = "faulty"
    limit_ms = 1000.0

    def fail(self):
        raise ValueError("x after y y")

    @contextlib.contextmanager
    def open(self):
        seen = b""

        def feed(frame):
            nonlocal seen
            seen += frame.data
            if seen.endswith(b"x") and seen.count(b"y") >= 2:
                self.fail()
            return True

        yield feed

    def frames(self, rng):
        while True:
            yield Frame(1, bytes(rng.choices(b"xyz", [1, 30, 1000])))


def test_a_failure_is_found_reduced_and_kept(tmp_path):
    target = Faulty()
    result = run(target, 1e6, 60.0, seed=1)
    what, frames = result.failure
    assert what == "ValueError: x after y y"
    assert frames[-1].data == b"x"
    assert b"".join(frame.data for frame in frames).count(b"y") < 2 * 2 * 2
    assert run(target, 1e6, 60.0, seed=1).failure == result.failure
    name, kept = load(save(target.name, what, frames, tmp_path))
    assert (name, kept) == ("faulty", frames)
    assert isinstance(replay(target, kept), ValueError)


def test_a_hang_is_a_failure(monkeypatch):
    monkeypatch.setattr(fuzz, "HANG_S", 0.1)
    monkeypatch.setattr(Faulty, "fail", lambda _: time.sleep(1000.0))
    what, _ = run(Faulty(), 1e6, 60.0, seed=1).failure
    assert what.startswith("HangError: ")


def test_a_slow_frame_is_a_failure(monkeypatch):
    def count(_):
        for _ in range(3_000_000):
            pass

    monkeypatch.setattr(Faulty, "fail", count)
    monkeypatch.setattr(Faulty, "limit_ms", 15.0)
    what, frames = run(Faulty(), 1e6, 60.0, seed=1).failure
    assert what.startswith("SlowError: ")
    assert frames[-1].data == b"x"


def test_growth_is_a_failure(monkeypatch):
    kept = []

    def keep(_):
        # New pages, because the allocator may have free memory left from other tests.
        kept.append(mmap.mmap(-1, 10_000_000, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
        kept[-1].write(b"1" * 10_000_000)

    monkeypatch.setattr(Faulty, "fail", keep)
    what, _ = run(Faulty(), 4000, 60.0, seed=1, session=1000).failure
    assert what.startswith("memory grew by ")
