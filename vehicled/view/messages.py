"""Messages for the page: rows of an estimate in binary form, everything else as JSON.

Times are seconds since `begin` of the drive, the first of its times that the server has received.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from vehicled.live.shown import ShownCommand, ShownStatus
from vehicled.messages import CORRELATION, WHEELS

COLUMNS: tuple[str, ...] = (
    *("x", "y", "yaw", "vx", "vy", "wz", "ax", "ay", "sideslip"),
    *("sigma.x", "sigma.y", CORRELATION, "sigma.yaw", "sigma.vx", "sigma.sideslip"),
    *(f"slip.{w}.{c}" for w in WHEELS for c in ("angle", "ratio")),
    *(f"tyre.{w}.{c}" for w in WHEELS for c in ("fx", "fy", "fz")),
    *(f"suspension.{w}.deflection" for w in WHEELS),
)
"""Columns of an estimate that the page shows; in a row they follow the time."""

ROW_BYTES = 4 * (1 + len(COLUMNS))
INTERVAL_NS = 40_000_000
"""Time between rows: 25 Hz, as fast as a page needs to be redrawn."""


def encode(message: object) -> str:
    """A message as JSON."""
    return msgspec.json.encode(message).decode()


def pack_row(seconds: float, estimate: Mapping[str, float | None]) -> bytes:
    """A row as `ROW_BYTES` bytes of float32 in little-endian order, NaN for unknown values."""
    values = map(estimate.get, COLUMNS)
    return np.array([seconds, *(np.nan if v is None else v for v in values)], dtype="<f4").tobytes()


def hello(title: str, live: bool) -> str:
    """The first message of a drive; the page deletes earlier data."""
    return encode({"type": "hello", "title": title, "live": live, "columns": ["t", *COLUMNS]})


def status_message(begin: int, status: ShownStatus, takes_marks: bool) -> str:
    """The part of a status that the page shows; `begin`, ns."""
    counters = status.counters
    return encode(
        {
            "type": "status",
            "t": (status.t - begin) * 1e-9,
            "state": status.state,
            "reason": status.reason,
            "faults": status.faults,
            "sensors": counters.estimator.sensors,
            "inputs": counters.estimator.inputs,
            "restarts": counters.estimator.restarts,
            "devices": counters.devices,
            "loop": counters.loop,
            "dropped": 0 if counters.queue is None else sum(counters.queue.dropped.values()),
            "recorder": counters.recorder,
            "takes_marks": takes_marks,
        }
    )


def command_message(begin: int, command: ShownCommand) -> str:
    """A mark, or another executed command; `begin`, ns."""
    text = command.arguments.get("text") if command.name == "mark" else None
    t = (command.step - begin) * 1e-9
    return encode({"type": "command", "t": t, "name": command.name, "text": text})
