"""An estimator that begins while the car moves: heading, sideslip and place are right soon, and σ honest."""

import math

import numpy as np
import pytest

from vehicled.configuration import load_configuration
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_INDEX
from vehicled.studies.faults.drives import START, make_drive

PERIOD = 4_000_000
SEED = 7


@pytest.mark.parametrize(
    ("drive", "within"),
    [("corner", 0.2), ("slalom", 0.2), ("reverse", 0.7), ("skid", 0.6), ("straight", 0.2)],
)
def test_it_begins_with_the_motion_that_the_car_has(drive: str, within: float) -> None:
    """`within`: s in which the first estimate comes."""
    configuration = load_configuration("prototype")
    driven = make_drive(configuration, drive, "rtk", SEED)
    estimator = Estimator(configuration)
    t = round(START * 1e9)
    waiting = [m for m in driven.measurements if m.t >= t]
    begun = None
    while t < (START + 3.0) * 1e9:
        t += PERIOD
        arrived = [m for m in waiting[:40] if m.arrival <= t]
        waiting = [m for m in waiting[:40] if m.arrival > t] + waiting[40:]
        estimate = estimator.step(t, arrived)
        if estimate is not None and begun is None:
            begun = t * 1e-9
    assert begun is not None
    assert begun - START < within
    assert estimate is not None
    assert estimator.status()["restarts"] == 0
    truth = driven.truth[int(np.searchsorted(driven.t, t))]
    for column in ("yaw", "vx", "vy"):
        error = estimate[column] - truth[ESTIMATE_INDEX[column]]
        error = math.remainder(error, 2 * math.pi) if column == "yaw" else error
        assert abs(error) < 5.0 * estimate[f"sigma.{column}"], column
    assert abs(math.remainder(estimate["yaw"] - truth[ESTIMATE_INDEX["yaw"]], 2 * math.pi)) < math.radians(
        1.0
    )
    north, east = (
        math.radians(estimate[c] - truth[ESTIMATE_INDEX[c]]) * 6.37e6 * scale
        for c, scale in (("lat", 1.0), ("lon", math.cos(math.radians(estimate["lat"]))))
    )
    assert math.hypot(north, east) < 0.2
