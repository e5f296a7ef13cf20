"""A publisher that tests feed in place of a daemon."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.publisher import Publisher
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate, SourceFault, Status

COUNTERS: dict[str, Any] = {
    "queue": {"put": 100, "dropped": {"imu": 0}},
    "loop": {
        "steps": 500,
        "missed": 2,
        "rate_hz": 250.0,
        "step_us": {"median": 410.0, "p99": 600.0, "p999": 900.0, "max": 1200.0},
    },
    "recorder": {"state": "recording", "bytes": 2_500_000, "path": "/runs/a.mcap"},
    "estimator": {
        "sensors": {
            "imu.gyro": {"state": "active", "fused": 500, "rejected": 0},
            "gnss.position": {"state": "lost", "fused": 10, "rejected": 3},
        },
        "inputs": {"steering": "measured", "drive": "measured"},
    },
}
"""The part of a daemon's counters that viewers show."""

FAULT = SourceFault("gnss.position", "silent for 2.1 s", ("position", "heading"))


@contextlib.contextmanager
def publishing(endpoint: str) -> Iterator[Publisher]:
    options = PublishOptions(endpoint=endpoint)
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.start()
    try:
        yield publisher
    finally:
        publisher.close()
        endpoints.close()


def circling(t: float, t0: int = 0) -> Estimate:
    """Estimate at time t (s) of a car on a circle of 30 m radius at 10 m/s. Its time stamp is t0 (ns) + t."""
    turn = t / 3.0
    values = np.zeros(len(ESTIMATE_COLUMNS))
    columns = {
        **{"x": 30 * math.sin(turn), "y": 30 - 30 * math.cos(turn), "yaw": turn, "vx": 10.0, "ay": 10 / 3},
        **{"lat": math.nan, "lon": math.nan, "alt": math.nan, "sideslip": 0.02},
        **{"sigma.x": 0.03, "sigma.y": 0.04, "sigma.yaw": 0.01, "sigma.vx": 0.05, "sigma.sideslip": 0.005},
        **{f"tyre.{w}.fz": 3500.0 for w in ("fl", "fr", "rl", "rr")},
    }
    for name, value in columns.items():
        values[ESTIMATE_INDEX[name]] = value
    return Estimate(t0 + round(t * 1e9), values)


def status(t: int, state: Any = "degraded", counters: dict[str, Any] | None = None) -> Status:
    """A status; if degraded, with a fault of a silent receiver."""
    faults = (FAULT,) if state == "degraded" else ()
    return Status(t, state, COUNTERS if counters is None else counters, since=t, faults=faults)
