"""The configured origin of the world: a place on the Earth, which is used only near the drive."""

import math

import pytest

from vehicled.errors import SettingsError
from vehicled.filter.settings import World
from vehicled.reading.settings import loads
from vehicled.sources.world import WorldFrame

FIX = 48.2649, 11.67, 480.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{latitude: 148.26 deg, longitude: 11 deg}",
            "latitude: expected at least -90 deg and at most 90 deg",
        ),
        (
            "{latitude: 48 deg, longitude: -181 deg}",
            "longitude: expected at least -180 deg and at most 180 deg",
        ),
        (
            "{latitude: 48 deg, longitude: 11 deg, height: 30 km}",
            "height: expected at least -1000 m and at most",
        ),
    ],
)
def test_an_origin_that_is_not_on_the_earth_is_refused(text, message):
    with pytest.raises(SettingsError, match=message):
        loads(text, World)


@pytest.mark.parametrize("latitude", [-90, 90])
def test_poles_and_the_date_line_are_accepted(latitude):
    world = loads(f"{{latitude: {latitude} deg, longitude: {2 * latitude} deg}}", World)
    assert world.latitude == pytest.approx(math.radians(latitude))


def test_an_origin_far_from_the_first_fix_is_reported_once_and_not_used(caplog):
    frame = WorldFrame(World(latitude=math.radians(47.2649), longitude=math.radians(11.67)))
    for _ in range(3):
        frame.find_origin(FIX)
        assert (frame.origin.latitude, frame.origin.longitude) == FIX[:2]
        frame.reset()
    (record,) = caplog.records
    assert "world: 47.2649, 11.6700 is 111 km from the first fix, 48.2649, 11.6700" in record.getMessage()


def test_an_origin_on_the_other_side_of_the_earth_is_not_used(caplog):
    frame = WorldFrame(World(latitude=math.radians(-48.2649), longitude=math.radians(11.67 - 180.0)))
    frame.find_origin(FIX)
    assert frame.origin.latitude == FIX[0]
    assert "is 12733 km from" in caplog.text


def test_an_origin_near_the_drive_is_used(caplog):
    frame = WorldFrame(World(latitude=math.radians(48.0), longitude=math.radians(11.0)))
    frame.find_origin(FIX)
    assert frame.origin.latitude == pytest.approx(48.0)
    assert not caplog.records
