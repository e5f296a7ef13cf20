"""Everything that is probably wrong in a log: units, axes, signs, exchanged wheels, time offsets, pauses."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from replay.rows import source_of
from vehicled.configuration import Configuration, load_configuration
from vehicled.log_check.lags import Lag, LagFinder
from vehicled.log_check.motion import Window
from vehicled.log_check.rates import Rate, RateCounter
from vehicled.messages import Measurement
from vehicled.sources.mounting_check import MountingCheck
from vehicled.sources.sensors import Sensors
from vehicled.sources.steering import CHANNELS_BY_SOURCE
from vehicled.sources.unit_check import UnitCheck

USUAL_CAR = "saloon"
"""The shipped configuration whose dimensions are used where no other is given."""

_WINDOW_NS = 30_000_000_000
_LEAST_YAW_RATE, _LEAST_ACCELERATION = 0.03, 0.2
"""rad/s and m/s², root mean square: with less, nothing is compared."""
_OPPOSITE, _SAME = -0.6, 0.9
"""Correlations from which on a sign is wrong, and from which on a time offset is known."""
_SURE = 9.0
"""Of `Lag.excess`: three standard deviations."""
_USUAL_OFFSETS = {
    "steer": (-0.35, 0.05),
    "imu.ay": (-0.1, 0.1),
    "gnss": (-0.1, 0.1),
    "": (-0.06, 0.06),
}
"""s, by the beginning of a channel's name: the car turns after it has been steered; courses and accelerations are
also of the sideslip, which builds up by itself."""


@dataclass(frozen=True)
class Finding:
    """Something that is probably wrong."""

    kind: str
    """`unit`, `mounting`, `sign`, `wheels`, `time offset` or `gap`."""
    channels: tuple[str, ...]
    value: float | None
    """The figure by which it was found, in `unit`; None where the text alone has it."""
    unit: str
    text: str


@dataclass(frozen=True)
class LogCheck:
    """What was found in a log."""

    rates: list[Rate]
    lags: list[Lag]
    findings: list[Finding]


class LogChecker:
    """Takes the measurements of a log, in bounded memory."""

    def __init__(self, configuration: Configuration | None) -> None:
        """`configuration`: the car and how its sensors are mounted; without, a usual car whose IMU points ahead."""
        given = configuration or load_configuration(USUAL_CAR)
        self._sensors, self._vehicle, self._is_usual = given.sensors, given.vehicle, configuration is None
        self._counters: dict[tuple[str, str], RateCounter] = {}
        self._channels: set[str] = set()
        self._waiting: list[Measurement] = []
        self._window = Window(self._sensors, self._vehicle)
        self._checks: tuple[UnitCheck, MountingCheck] | None = None
        """From the end of the first window on, as it shows which steering channel there is."""
        self._yaw_rates, self._accelerations = LagFinder(_LEAST_YAW_RATE), LagFinder(_LEAST_ACCELERATION)

    def take(self, m: Measurement) -> None:
        """Take a measurement, in the order of the log."""
        begun = self._window.begun_ns
        if begun is not None and not -_WINDOW_NS < m.t - begun < _WINDOW_NS:
            self._compare()
        groups: dict[str, list[str]] = {}
        for channel in m.values:
            groups.setdefault(source_of(channel), []).append(channel)
        for source, channels in groups.items():
            counter = self._counters.get((m.source, source))
            if counter is None:
                counter = self._counters[m.source, source] = RateCounter(source)
            counter.take(m, channels)
        self._channels.update(m.values)
        self._waiting.append(m)
        self._window.take(m)

    def _compare(self) -> None:
        """Add what the last window has."""
        units, mounting = self._checks or self._make_checks()
        averages = units.averages
        for m in self._waiting:
            units.take(m)
            if units.averages is not averages:
                averages = units.averages
                mounting.take(averages, None)
        self._waiting.clear()
        self._yaw_rates.take(self._window.find_yaw_rates())
        self._accelerations.take(self._window.find_accelerations())
        self._window.clear()

    def _make_checks(self) -> tuple[UnitCheck, MountingCheck]:
        sensors = _with_steering(self._sensors, self._channels) if self._is_usual else self._sensors
        self._checks = UnitCheck(sensors, self._vehicle), MountingCheck(sensors, self._vehicle)
        return self._checks

    def _find_usual(self, channel: str, reference: str) -> tuple[float, float]:
        """Range of time offsets that are no fault, s."""
        configured = _find_configured(channel, reference, self._sensors)
        low, high = next(limits for begin, limits in _USUAL_OFFSETS.items() if channel.startswith(begin))
        return low + configured, high + configured

    def find(self) -> LogCheck:
        """What there is in all that was taken."""
        self._compare()
        units, mounting = self._checks or self._make_checks()
        rates = [counter.find() for counter in self._counters.values()]
        yaw_rates, accelerations = (
            finder.find(self._find_usual) for finder in (self._yaw_rates, self._accelerations)
        )
        lags = [*yaw_rates, *accelerations]
        findings = [
            *_find_units(units),
            *_find_mounting(mounting, self._channels),
            *_find_signs(yaw_rates),
            *_find_signs(accelerations),
            *_find_offsets(lags, self._sensors),
            *_find_pauses(rates),
        ]
        return LogCheck(rates, lags, findings)


def _find_configured(channel: str, reference: str, sensors: Sensors) -> float:
    """s by which a channel is later than another one by the latencies of the configuration."""
    return _find_latency(channel, sensors) - _find_latency(reference, sensors)


def _with_steering(sensors: Sensors, channels: set[str]) -> Sensors:
    """The sensors with the steering that a log has."""
    source = next((s for s, cs in CHANNELS_BY_SOURCE.items() if not channels.isdisjoint(cs)), None)
    if source is None or source == sensors.steering.source:
        return sensors
    return dataclasses.replace(sensors, steering=dataclasses.replace(sensors.steering, source=source))  # type: ignore[arg-type]


def _find_units(units: UnitCheck) -> list[Finding]:
    return [Finding("unit", tuple(names.split(", ")), None, "", text) for names, text in units.find().items()]


def _find_mounting(mounting: MountingCheck, channels: set[str]) -> list[Finding]:
    angle = mounting.turned_by
    if not mounting.wrong or angle is None:
        return []
    text = (
        f"accelerations are turned by {math.degrees(angle):.0f}° about the vertical axis against changes of speed "
        "and course: expected the axes that the configuration gives"
    )
    return [
        Finding("mounting", tuple(c for c in sorted(mounting.wrong) if c in channels), angle, "rad", text)
    ]


def _find_signs(lags: list[Lag]) -> list[Finding]:
    """Channels with the other sign than most: where that is most of the channels, it is the reference."""
    opposite = [lag for lag in lags if lag.correlation <= _OPPOSITE]
    same = [lag for lag in lags if lag.correlation >= -_OPPOSITE]
    if not opposite:
        return []
    if len(opposite) > len(same):
        against = ", ".join(f"{lag.channel} ({lag.correlation:.2f})" for lag in opposite)
        worst = min(lag.correlation for lag in opposite)
        return [Finding("sign", (opposite[0].reference,), worst, "", f"opposite sign to {against}")]
    return [_describe_sign(lag) for lag in opposite]


def _describe_sign(lag: Lag) -> Finding:
    against = f"{lag.reference}, correlation {lag.correlation:.2f}"
    if lag.channel.startswith("wheel."):
        text = f"as if on the other side of the car, against {against}: exchanged left and right?"
        return Finding("wheels", (lag.channel,), lag.correlation, "", text)
    return Finding("sign", (lag.channel,), lag.correlation, "", f"opposite sign to {against}")


def _find_offsets(lags: list[Lag], sensors: Sensors) -> list[Finding]:
    found = []
    for lag in lags:
        configured = _find_configured(lag.channel, lag.reference, sensors)
        if lag.correlation < _SAME or lag.excess < _SURE:
            continue
        late = "later" if lag.offset > 0.0 else "earlier"
        known = f"; the configuration has {configured * 1e3:.0f} ms" if configured else ""
        size = f"{abs(lag.offset) * 1e3:.0f} ms"
        text = f"{size} {late} than {lag.reference}{known} (correlation {lag.correlation:.2f})"
        found.append(Finding("time offset", (lag.channel,), lag.offset, "s", text))
    return found


def _find_latency(channel: str, sensors: Sensors) -> float:
    """s, that the configuration has for a channel."""
    if channel.startswith("steer."):
        return sensors.steering.latency
    settings = (settings for _, settings in sensors.items() if channel in settings.LIMITS)
    return next((s.latency for s in settings), 0.0)


def _find_pauses(rates: list[Rate]) -> list[Finding]:
    found = []
    for rate in rates:
        if rate.has_paused:
            text = (
                f"{rate.pauses} pause{'s' * (rate.pauses > 1)} at a rate of {rate.rate:.3g} Hz; the longest, "
                f"{rate.longest:.3g} s, from t = {rate.longest_at:.3f} s"
            )
            found.append(Finding("gap", rate.channels, rate.longest, "s", text))
    return found
