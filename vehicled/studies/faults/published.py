"""What a daemon publishes in a run, whatever becomes of its recording; and what of it the recordings have."""

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
    """Collects all that is published, in a thread of its own. A context manager."""

    def __init__(self, endpoint: str) -> None:
        """`endpoint`: of the daemon, which need not be there yet."""
        self._endpoint = endpoint
        self._messages: list[list[bytes]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="subscription", daemon=True)

    def save(self, path: Path) -> None:
        """End, and write what has come to a file for `McapLog`."""
        self._stop.set()
        self._thread.join()
        writer = McapWriter(path)
        last: dict[bytes, bytes] = {}
        for topic, data in self._messages:
            # The last value of a topic is sent again whenever another subscriber comes.
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
        # Seldom, to disturb the run little; but what waits when the daemon starts again would be lost.
        while not self._stop.wait(_COLLECT_EVERY_S):
            while socket.poll(0):
                self._messages.append(socket.recv_multipart())
        context.destroy(linger=0)


def read_recorded_steps(folder: Path) -> np.ndarray:
    """(n,) int64 ns, of all recordings in a folder, as MCAP's own reader finds them; none of damaged files."""
    decode = msgspec.json.Decoder(StepRecord).decode
    times: list[int] = []
    for path in sorted(folder.glob("*.mcap")):
        with open(path, "rb") as file, contextlib.suppress(McapError):
            found = make_reader(file).iter_messages(topics=["/step"])
            times += [decode(message.data).t for _, _, message in found]
    return np.unique(np.array(times, dtype=np.int64))
