"""Steps to record, and a simulated disk that fails or hangs."""

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader

from replay import mcap_writer
from vehicled.daemon.recorder import Recorder
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Innovation, Measurement
from vehicled.schemas import TOPIC_COLUMNS

START = 5_000_000_000_000
PERIOD = 4_000_000
UTC = 1_700_000_000_000_000_000
OFFSET = UTC - START


def step(i: int) -> tuple[int, list[Measurement], Estimate | None, list[Innovation]]:
    """One step. Some steps have a late fix, some have no measurements, and the first ones have no estimate."""
    t = START + i * PERIOD
    rng = np.random.default_rng(i)
    measurements = [Measurement("imu", t - 1_000_000 - i, t - 500_000, {"imu.ax": rng.standard_normal()})]
    if i % 5 == 0:
        fix = {"gnss.lat": 48.0 + rng.standard_normal(), "gnss.quality": 4.0}
        measurements.append(Measurement("receiver", t - 80_000_000, t - 2_000_000, fix))
    if i % 7 == 3:
        measurements = []
    values = rng.standard_normal(len(ESTIMATE_COLUMNS))
    values[3:6] = np.nan
    estimate = Estimate(t, values) if i >= 10 else None
    innovation = Innovation(
        t - 1_000_000, t, "imu.gyro", "imu", [0.1], [0.2], [-0.1], [1e-4], 1.0, 0.1, bool(i % 2), "fused"
    )
    return t, measurements, estimate, [innovation] if estimate else []


def messages(steps: int) -> int:
    """Number of recorded messages of the first steps."""
    return sum(
        1 + len(m) + len(n) + len(TOPIC_COLUMNS) * (e is not None) for _, m, e, n in map(step, range(steps))
    )


class Disk:
    """Stands in for `OutputStream` of `replay.mcap_writer`: files that fail, or hang, when they are written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.error: int | None = None
        """Error number of every write and of every opening."""
        self.responds = threading.Event()
        self.responds.set()
        self.hanging = threading.Event()
        """Set once something waits for the disk to respond."""
        monkeypatch.setattr(mcap_writer, "OutputStream", self._open)

    def _open(self, path: Path, mode: str) -> io.FileIO:
        self.check()
        return _File(self, path, mode)

    def check(self) -> None:
        """Hang or fail as set."""
        if not self.responds.is_set():
            self.hanging.set()
            self.responds.wait(30)
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))


class _File(io.FileIO):
    def __init__(self, disk: Disk, path: Path, mode: str) -> None:
        super().__init__(path, mode.replace("b", ""))
        self._disk = disk

    def write(self, data: Any) -> int:
        self._disk.check()
        return super().write(data)


def write_recording(path: Path, steps: int = 300) -> bytes:
    with Recorder(path, "rate: 250 Hz\n", START, OFFSET) as recorder:
        for i in range(steps):
            recorder.record_step(*step(i))
    return path.read_bytes()


def read_recording(path: Path) -> list[int]:
    """Steps that the mcap library finds through the index, which must exist."""
    with open(path, "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert summary.statistics.message_count == len(list(reader.iter_messages()))
        return [m.sequence - 1 for _, _, m in reader.iter_messages("/step")]
