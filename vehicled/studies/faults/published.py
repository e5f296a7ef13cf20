"""Messages that a daemon publishes in a run, whether recorded or not, and steps found in its recordings."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Self

import msgspec
import numpy as np
import zmq
from mcap.exceptions import McapError
from mcap.reader import make_reader

from replay.mcap_writer import CHANNEL, McapWriter
from vehicled.schemas import PUBLISHED, StepRecord

_COLLECT_EVERY_S = 0.05


class Subscription:
    """Collects all published messages, in its own thread. A context manager."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint`: of the daemon, which need not exist yet."""
        self._endpoint = endpoint
        self._messages: list[list[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="subscription", daemon=True)

    def save(self, path: Path) -> None:
        """End, and write the messages to a file for `McapLog`."""
        self._stop.set()
        self._thread.join()
        writer = McapWriter(path)
        last: dict[bytes, bytes] = {}
        for topic, data in self._messages:
            # The last value of a topic is sent again whenever a subscriber connects.
            if data != last.get(topic):
                last[topic] = data
                writer.write(CHANNEL[topic.decode()], 0, 0, data)
        writer.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()

    def _run(self) -> None:
        context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        socket = context.socket(zmq.SUB)
        socket.rcvhwm = 0
        for topic in PUBLISHED:
            socket.subscribe(topic)
        socket.connect(self._endpoint)
        # At long intervals, to disturb the run little; but messages still queued when the daemon restarts
        # would be lost.
        while not self._stop.wait(_COLLECT_EVERY_S):
            while socket.poll(0):
                self._messages.append(socket.recv_multipart())
        context.destroy(linger=0)


def read_recorded_steps(folder: Path) -> np.ndarray:
    """(n,) int64 ns, times in all recordings of a folder, as read by MCAP's own reader; none from damaged files."""
    decode = msgspec.json.Decoder(StepRecord).decode
    times: list[int] = []
    for path in sorted(folder.glob("*.mcap")):
        with open(path, "rb") as file, contextlib.suppress(McapError):
            found = make_reader(file).iter_messages(topics=["/step"])
            times += [decode(message.data).t for _, _, message in found]
    return np.unique(np.array(times, dtype=np.int64))
