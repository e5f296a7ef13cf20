"""Correlation of the errors of x and y: against the covariance, in messages, and in the ellipse of the page."""

import dataclasses
import json
import math
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, prototype, steps, with_sensors

import vehicled.view
from vehicled import Estimator
from vehicled.filter.states import POSITION
from vehicled.schemas import decode_estimate, encode_estimate
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario

OUTAGE = 2 * SECOND
"""Time from which there are no fixes."""


@lru_cache
def run(yaw: float, point: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> Run:
    scenario = Scenario(
        duration=5.0, initial=InitialMotion(speed=15.0, yaw=yaw), inputs=DriveInputs(rear_torque=90.0)
    )
    given = [m for m in Drive(scenario).measurements(5) if m.t < OUTAGE or not m.source.startswith("gnss")]
    # The latency of the receiver is known: else the estimate is a mean over two hypotheses (`fix_time`).
    gnss = dataclasses.replace(prototype().sensors.gnss, latency_sigma=0.0)
    configuration = dataclasses.replace(with_sensors(gnss=gnss), point=point)
    return Run(configuration, steps(given), estimator=Estimator(configuration))


def test_the_correlation_is_that_of_the_covariance() -> None:
    found = run(0.25 * math.pi)
    f, last = found.estimator.filter, found.estimates[-1]
    x, y, _ = f.states.places(POSITION)
    p = f.covariance[np.ix_([x, y], [x, y])]
    assert last.correlation == pytest.approx(p[0, 1] / math.sqrt(p[0, 0] * p[1, 1]), abs=1e-9)
    assert 0.05 < abs(last.correlation) < 1.0
    message = decode_estimate("position", encode_estimate("position", last))[1]
    assert message["correlation.xy"] == pytest.approx(last.correlation, abs=1e-8)


def test_the_correlation_changes_sign_with_the_heading() -> None:
    """Without fixes, the position is less certain along the path than across it, or the reverse."""
    north_east, north_west = run(0.25 * math.pi), run(0.75 * math.pi)
    one, other = north_east.estimates[-1].correlation, north_west.estimates[-1].correlation
    assert one == pytest.approx(-other, abs=0.1)
    assert abs(one) > 0.05


def test_the_correlation_at_a_point_far_ahead_comes_from_the_heading() -> None:
    """Far ahead of the car, most of the error is lateral and comes from the heading."""
    assert run(0.25 * math.pi, (300.0, 0.0, 0.0)).estimates[-1].correlation < -0.5


PAGE = Path(vehicled.view.__file__).parent / "page" / "ellipse.js"


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
@pytest.mark.parametrize(
    ("x", "y", "correlation"), [(2.0, 1.0, 0.0), (1.0, 2.0, 0.3), (1.0, 1.0, -0.9), (3.0, 1.0, 0.999)]
)
def test_the_page_draws_the_ellipse_of_the_covariance(x: float, y: float, correlation: float) -> None:
    script = f"import {{ ellipseOf }} from {json.dumps(PAGE.as_uri())};"
    script += f"console.log(JSON.stringify(ellipseOf({x}, {y}, {correlation})))"
    found = json.loads(
        subprocess.run(
            ["node", "--input-type=module", "--eval", script], capture_output=True, text=True, check=True
        ).stdout
    )
    cos, sin = math.cos(found["angle"]), math.sin(found["angle"])
    turn = np.array([[cos, -sin], [sin, cos]])
    drawn = turn @ np.diag([found["a"] ** 2, found["b"] ** 2]) @ turn.T
    assert drawn == pytest.approx(
        np.array([[x * x, correlation * x * y], [correlation * x * y, y * y]]), abs=1e-9
    )
    assert found["a"] >= found["b"]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_without_a_correlation_the_axes_are_east_and_north() -> None:
    script = f"import {{ ellipseOf }} from {json.dumps(PAGE.as_uri())};"
    script += "const e = ellipseOf(2, 1, NaN); console.log(e.a, e.b, e.angle)"
    out = subprocess.run(
        ["node", "--input-type=module", "--eval", script], capture_output=True, text=True, check=True
    ).stdout
    assert [float(v) for v in out.split()] == [2.0, 1.0, 0.0]
