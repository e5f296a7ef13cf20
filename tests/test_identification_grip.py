"""Identification at the limit of grip: friction is found as well, and the search begins with enough plant noise."""

import math

import pytest
from drives_rig import bend, changed, drive, prototype_file

from vehicled.configuration import configure
from vehicled.identification.vehicle.estimate import Search
from vehicled.identification.vehicle.names import choose
from vehicled.identification.vehicle.prediction_error import PredictionError, ScoredDrive, SensorError, survey
from vehicled.identification.vehicle.session import _find_friction
from vehicled.reading import settings

TEXT = settings.config_path("prototype").read_text(encoding="utf-8")


def search() -> Search:
    file = prototype_file()
    return Search(file, TEXT, choose("mass", file), (), [], lambda *_: None, None)


def test_friction_is_found_where_a_car_corners_at_the_limit():
    file = changed(front__friction=math.log(1.2), rear__friction=math.log(1.2))
    limit = 0.8 * max(p.get(file) or 0.0 for p in choose("*.friction", file)) * file.vehicle.gravity
    assert _find_friction(file, 0.99 * limit) is None
    assert f"exceeds {1.01 * limit:.3g} m/s²" in (_find_friction(file, 1.01 * limit) or "")


def test_cornering_is_what_a_drive_exceeds_for_two_seconds():
    file = prototype_file()
    found = survey(configure(file, TEXT), ScoredDrive(drive(file, bend(5.0)), frozenset()))
    assert found.counting
    assert 5.0 < found.cornering < 9.0
    short = survey(configure(file, TEXT), ScoredDrive(drive(file, bend(2.5)), frozenset()))
    assert short.cornering == 0.0


@pytest.mark.parametrize(("follows_from", "expected"), [(1.0, 1.0), (3.0, 10**0.5), (9.0, 10.0)])
def test_plant_noise_is_raised_until_the_filter_follows(follows_from, expected, monkeypatch):
    """By a filter whose criterion is least at that noise, and that diverges with a third of it."""

    def measure(self: Search, theta: object, plant_noise: float = 1.0) -> PredictionError | None:
        ratio = plant_noise / follows_from
        return (
            None
            if ratio < 0.4
            else PredictionError({"imu.gyro": SensorError(likelihood=math.log(ratio) ** 2)})
        )

    monkeypatch.setattr(Search, "measure", measure)
    f = search()
    f.raise_noise()
    assert f.plant_noise == pytest.approx(expected)
