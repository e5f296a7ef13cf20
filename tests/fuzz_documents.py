"""Targets of `tests/fuzz.py`: recordings, commands and configurations."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from unittest import mock

import zmq
from fuzz_frames import Feed, Frame, Rng, Target, damage
from mcap.reader import make_reader
from mcap.writer import CompressionType, Writer
from recording_rig import write_recording

from replay.mcap_log import McapLog
from replay.mcap_recovery import recover
from vehicled.configuration import File, configure
from vehicled.daemon import commands
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.errors import VehicledError
from vehicled.reading.settings import config_path, loads

STEPS = 40


class McapTarget:
    """A damaged recording: read it, recover it, read it again."""

    name = "mcap"
    limit_ms = 100.0

    @functools.cached_property
    def _recordings(self) -> tuple[bytes, bytes]:
        """A recording as this program writes it, and one in small chunks without checksums or compression."""
        with tempfile.TemporaryDirectory() as folder:
            ours = write_recording(Path(folder) / "whole.mcap", STEPS)
        reader, copy = make_reader(io.BytesIO(ours)), io.BytesIO()
        writer = Writer(copy, chunk_size=2000, compression=CompressionType.NONE, enable_crcs=False)
        writer.start()
        channels: dict[int, int] = {}
        for schema, channel, message in reader.iter_messages(log_time_order=False):
            if channel.id not in channels:
                known = writer.register_schema(schema.name, schema.encoding, schema.data) if schema else 0
                channels[channel.id] = writer.register_channel(
                    channel.topic, channel.message_encoding, known, channel.metadata
                )
            writer.add_message(
                channels[channel.id], message.log_time, message.data, message.publish_time, message.sequence
            )
        writer.finish()
        return ours, copy.getvalue()

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "damaged.mcap"

            def feed(frame: Frame) -> bool:
                path.write_bytes(frame.data)
                read = _read(path)
                with _one_line():
                    recover(path)
                assert _read(path) >= 0
                return read > 0

            yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            whole = rng.choice(self._recordings)
            yield Frame(0, damage(rng, whole, whole, b"\x89MCAP\x05\x06\x01\x0f{}[]:,-9n"))


def _read(path: Path) -> int:
    with _one_line():
        log = McapLog(path)
        run, steps = log.read_run(), list(log.recorded_steps())
        return len(run.measurements) + len(steps)
    return 0


@contextlib.contextmanager
def _one_line() -> Iterator[None]:
    """Accept an error meant for the user if it is one line."""
    try:
        yield
    except VehicledError as error:
        if "\n" in str(error):
            raise AssertionError("more than a line") from error


_REQUESTS: tuple[dict[str, Any], ...] = (
    {"command": "status"},
    {"command": "reset"},
    {"command": "set_position", "lat": 48.1, "lon": 11.5, "yaw": 0.1},
    {"command": "set_position", "x": 1.0, "y": -2.0},
    {"command": "reload_noise"},
    {"command": "mark", "text": "kerb – 3"},
)
_TOKENS = (
    *(b"null", b"true", b"1e999", b"-0", b"NaN", b'""', b"[]", b"{}", b"[" * 500, b"9" * 400),
    *(b'"\\ud800"', b'"\\u0000"', b"{", b"}", b",", b'"command":', b'"lat":', b'"x":'),
)


class CommandsTarget:
    """Requests to the command server's thread through ZeroMQ."""

    name = "commands"
    limit_ms = 50.0

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        with contextlib.ExitStack() as opened:
            for bound in ("_REQUESTS_PER_S", "_REQUESTS_AT_ONCE", "_CHANGES_PER_S", "_CHANGES_AT_ONCE"):
                opened.enter_context(mock.patch.object(commands, bound, 1e9))
            folder = opened.enter_context(tempfile.TemporaryDirectory())
            options = PublishOptions(command_endpoint=f"ipc://{folder}/commands")
            endpoints = Endpoints(options)
            opened.callback(endpoints.close)
            server = commands.CommandServer(endpoints, options, _execute, lambda: None, dict)
            server.start()
            opened.callback(server.close)
            context = opened.enter_context(zmq.Context())
            socket = opened.enter_context(context.socket(zmq.REQ))
            socket.linger = 0
            socket.connect(server.endpoint)

            def feed(frame: Frame) -> bool:
                socket.send(frame.data)
                assert socket.poll(5000), "no reply within 5 s"
                reply = json.loads(socket.recv())
                assert isinstance(reply["ok"], bool)
                assert reply["ok"] or "\n" not in reply["error"], reply
                return reply["ok"]

            yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        before = b"{}"
        while True:
            data = json.dumps(rng.choice(_REQUESTS)).encode()
            kind = rng.random()
            if kind < 0.4:
                at = rng.randrange(len(data))
                data = data[:at] + rng.choice(_TOKENS) + data[at + rng.choice((0, 1, 4)) :]
            elif kind < 0.8:
                data, before = damage(rng, data, before, b'{}[]",:\\0'), data
            yield Frame(0, data)


def _execute(name: str, arguments: dict[str, Any]) -> Future[dict[str, Any]]:
    del arguments
    done: Future[dict[str, Any]] = Future()
    done.set_result({"executed": name})
    return done


_WORDS = (
    *(
        "nan",
        ".inf",
        "1e999",
        "-1",
        "0",
        "~",
        "yes",
        "3 furlongs",
        "5 km/h",
        "''",
        "[]",
        "{}",
        "&a",
        "*a",
        "<<: *a",
    ),
    *(
        "!!python/object/apply:os.system [x]",
        "!!binary a",
        "? ",
        "- ",
        "|",
        ">",
        "%YAML 9",
        "---",
        "\t",
        "\x00",
        "\ufeff",
    ),
    *("[" * 300, "{a: " * 300, "&a [*a, *a]", "1_000", "0x1F", "2001-01-01", "é" * 50, "9" * 400),
)


class ConfigurationTarget:
    """A shipped configuration with replaced words and moved, repeated or damaged lines."""

    name = "configuration"
    limit_ms = 3000.0

    @functools.cached_property
    def _texts(self) -> list[str]:
        return [config_path(name).read_text(encoding="utf-8") for name in ("prototype", "hatchback")]

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        def feed(frame: Frame) -> bool:
            text = frame.data.decode("utf-8", "surrogatepass")
            with _one_line():
                configure(loads(text, File), text)
                return True
            return False

        yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            lines = rng.choice(self._texts).splitlines()
            for _ in range(rng.choice((1, 1, 2, 5))):
                at = rng.randrange(len(lines))
                words = lines[at].split(" ")
                match rng.randrange(6):
                    case 0 | 1 | 2:
                        words[rng.randrange(len(words))] = rng.choice(_WORDS)
                        lines[at] = " ".join(words)
                    case 3:
                        lines[at] = damage(rng, lines[at].encode(), b"a: 1", b": -{}[],'\"#&*!|>%@`").decode(
                            "utf-8", "replace"
                        )
                    case 4:
                        lines.insert(rng.randrange(len(lines) + 1), lines[at])
                    case 5:
                        lines[at] = rng.choice(lines)
            yield Frame(0, "\n".join(lines).encode("utf-8", "surrogatepass"))


def make_documents() -> list[Target]:
    return [McapTarget(), CommandsTarget(), ConfigurationTarget()]
