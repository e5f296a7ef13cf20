"""Further points of the car: their motion against `output.point`, their message, and invalid points."""

import dataclasses
import json

import msgspec
import numpy as np
import pytest
from estimator_rig import Run, cruise, prototype, steps

from vehicled import schemas
from vehicled.configuration import parse_configuration
from vehicled.errors import SettingsError
from vehicled.messages import ESTIMATE_INDEX, POINT_QUANTITIES

PLACES = {"driver": (0.1, 0.35, 0.2), "hitch": (-2.3, 0.0, -0.2)}


def run(**changes) -> Run:
    configured = dataclasses.replace(prototype(), **changes)
    return Run(configured, steps(cruise(2.5).measurements(51, gnss="rtk")))


@pytest.mark.parametrize(
    ("name", "of"), [("driver", (0.0, 0.0, 0.0)), ("driver", (-1.3, 0.2, 0.1)), ("hitch", (-1.3, 0.2, 0.1))]
)
def test_a_further_point_moves_as_an_estimate_of_that_point(name, of):
    whole = run(point=PLACES[name])
    both = run(point=of, points=PLACES)
    columns = [ESTIMATE_INDEX[q] for q in POINT_QUANTITIES]
    found = np.array([e.points[name] for e in both.estimates])
    assert found == pytest.approx(whole.values[:, columns], abs=1e-6)


def test_without_points_nothing_is_computed_or_sent():
    assert {e.points for e in run().estimates} == {None}


def test_the_message_has_every_point_and_fits_its_schema():
    last = run(points=PLACES).estimates[-1]
    message = json.loads(schemas.encode_points(last))
    assert message["points"].keys() == PLACES.keys()
    assert message["points"]["driver"]["vx"] == pytest.approx(last.points["driver"][3], abs=1e-6)
    msgspec.convert(message, schemas.Points)
    assert "points" in schemas.PUBLISHED


@pytest.mark.parametrize(
    ("points", "wrong"),
    [
        ({f"p{i}": "0 0 0 m" for i in range(9)}, "at most 8, got 9"),
        ({"a": "antenna"}, "output.points.a"),
        ({"a": "nowhere"}, "nowhere"),
    ],
)
def test_invalid_points_are_refused(points, wrong):
    text = prototype().text.replace("  point: center_of_mass", f"  points: {json.dumps(points)}")
    begin, end = text.index("  gnss:\n"), text.index("  gnss2: null")
    with pytest.raises(SettingsError, match=wrong):
        parse_configuration(text[:begin] + "  gnss: null\n" + text[end:])
