"""Shared by tests with devices, threads and processes that run in real time."""

import time
from collections.abc import Callable
from pathlib import Path

IMU = {"imu.ax": 0.5, "imu.ay": -1.25, "imu.az": 9.75, "imu.wx": 0.125, "imu.wy": -0.5, "imu.wz": 0.75}
"""A sample that every device format represents exactly."""


def wait_until(condition: Callable[[], object], timeout_s: float = 20.0) -> None:
    """Wait for the condition. The timeout is long: only a failing test reaches it."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"it did not happen within {timeout_s:g} s"
        time.sleep(0.002)


def is_running(pid: int) -> bool:
    """Whether there is a process with this number that has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
