"""A radius converts a speed to the rate of a wheel, and is refused where it would have no effect."""

import pytest

from drivers.can import CanOptions, CanSignal, unit_factor
from replay.foreign.csv_signals import CsvSignals
from replay.foreign.mapped_log import MappedLog
from replay.foreign.mapping import LogMapping
from vehicled.errors import OptionError, SettingsError
from vehicled.reading import settings


def convert(tmp_path, mapping: str) -> list[float]:
    """Values of the first channel of a table whose column has no unit."""
    path = tmp_path / "drive.csv"
    path.write_text("t,WFL\n0.0,10\n0.1,20\n")
    log = MappedLog(CsvSignals(path), settings.loads(f"channels: {mapping}", LogMapping))
    return [next(iter(m.values.values())) for m in log.measurements()]


def test_a_speed_with_a_radius_is_the_rate_of_a_wheel(tmp_path):
    found = convert(tmp_path, "{wheel.fl.speed: {signal: WFL, radius: 500 mm, unit: km/h}}")
    assert found == pytest.approx([10 / 1.8, 20 / 1.8])


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            "wheel.fl.speed: {signal: WFL, radius: 316 mm}",
            "wheel.fl.speed.*a unit like m/s or km/h beside `radius`",
        ),
        ("wheel.fl.speed: {signal: WFL, radius: 316 mm, unit: rad/s}", "beside `radius`, got 'rad/s'"),
        (
            "imu.wz: {signal: WFL, radius: 316 mm, unit: m/s}",
            "channels.imu.wz.radius: expected only for wheel.fl",
        ),
        (
            "wheel.fl.speed: {signal: WFL, scale: 0}",
            "channels.wheel.fl.speed.scale: expected a number other than 0",
        ),
        ("imu.wz: {signal: WFL, unit: deg}", "expected a unit like rad/s, such as deg/s, got 'deg'$"),
        ("wheel.fl.speed: {signal: WFL, unit: m/s}", "or a speed with a radius, got 'm/s'"),
    ],
)
def test_an_invalid_radius_scale_or_unit_of_a_mapping_is_refused(tmp_path, mapping, message):
    with pytest.raises(SettingsError, match=message):
        convert(tmp_path, f"{{{mapping}}}")


def test_an_invalid_radius_or_scale_of_a_can_signal_is_refused():
    with pytest.raises(OptionError, match="a unit like m/s or km/h beside `radius`, got 'rad/s'"):
        unit_factor("wheel.fl.speed", CanSignal(message="M", signal="S", radius=0.3), "rad/s")
    text = "{dbc: a.dbc, signals: {CHANNEL: {message: M, signal: S, KEY}}}"
    for channel, key, message in (
        ("imu.wz", "radius: 0.3 m", "signals.imu.wz.radius: expected only for"),
        ("imu.wz", "scale: 0", "signals.imu.wz.scale: expected a number other than 0"),
    ):
        with pytest.raises(SettingsError, match=message):
            settings.loads(text.replace("CHANNEL", channel).replace("KEY", key), CanOptions)
