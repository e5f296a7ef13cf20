"""Describes the probable faults of a log in words, from the figures that were found."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Mapping
from dataclasses import dataclass
from operator import itemgetter

from vehicled.log_check.clocks import ClockOffset, describe_clock
from vehicled.log_check.lags import SAME, Lag
from vehicled.log_check.motion import CAR_SPEEDS, WHEEL_SPEEDS
from vehicled.log_check.rates import Rate
from vehicled.log_check.tracks import (
    AS_GIVEN,
    EXCHANGED,
    FROM_EAST,
    IN_DEGREES,
    OPPOSITE_LONGITUDE,
    Agreement,
    PathFit,
)
from vehicled.messages import CHANNELS
from vehicled.sources.checks.mounting_check import LARGEST_ANGLE, MountingCheck
from vehicled.sources.checks.unit_check import UnitCheck
from vehicled.sources.imu.coarse_axes import COARSE
from vehicled.sources.imu.imu import ACCELEROMETERS, GYROSCOPES
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.wheels import SPEEDS

_OPPOSITE = -0.6
"""Signs are opposite if the correlation is less than this."""
_UNRELATED, _LARGER = 0.3, 2.0
"""Limits for an axis of the accelerometer that shows another motion than the car's changes of speed: largest
correlation with these, least ratio of standard deviations."""
_SURE = 9.0
"""Least `Lag.excess` of a finding: three standard deviations."""
_PROBABLE = 4.0
"""Least `Lag.evidence` of a finding: two standard deviations."""
_PROPORTIONAL, _LARGEST_RATIO = 0.8, 4.5
"""Least correlation for comparing the sizes of two yaw rates, and the ratio that understeer, banks and noise
may cause."""
_LARGEST_SLOPE = 1.6
"""Largest usual ratio of accelerations along the car: slopes of the road, squat, and the radii of a usual
car's wheels cause less."""
_ONE_G, _NEAR_G = 9.80665, 1.3
"""g, m/s², and the factor within which a ratio of accelerations must agree with it to suggest the unit g."""
_AGREED_SHARE, _TURNED = 0.9, math.radians(10.0)
"""Least `Agreement.share` and largest angle, rad, where courses and positions agree."""
_SPEED_RATIO, _UNKNOWN_CAR = 1.08, 1.2
"""Largest usual ratio of speeds: in general, and for wheels with the radius of a usual car."""
_LATE = 0.05
"""Usual time offset between fixes and a speed, s."""
_SLOWEST, _FASTEST = 1.0, 20_000.0
"""Range of the rate of a car's fastest sensor, Hz."""
_HELD = 0.75
"""Largest share of values that occur in more than one sample in succession."""
_FILLED = 0.4
"""Largest share of samples on straight lines: if each second one is interpolated, it is a half."""
_BEHIND, _SET_BACK = 0.01, 0.1
"""Least share of samples with earlier times, and least step back, s, of a clock that was set; single rows do
no harm."""
_COUNTED = 100
"""Least number of samples for a rate."""
_OTHER_SIDE = "as if on the other side of the car, against"

_COURSE, _FROM_NORTH = ("gnss.course",), "expected from north, clockwise"
_COURSES = (
    (IN_DEGREES, "unit", _COURSE, "in deg, not in rad"),
    (
        FROM_EAST,
        "course",
        _COURSE,
        f"counted from east, counter-clockwise; {_FROM_NORTH}: in a mapping `scale: -1, offset: 90 deg`",
    ),
    (
        OPPOSITE_LONGITUDE,
        "course",
        _COURSE,
        f"counted from north, counter-clockwise; {_FROM_NORTH}: in a mapping `scale: -1`",
    ),
    (OPPOSITE_LONGITUDE, "sign", ("gnss.lon",), "positive to the west; expected positive to the east"),
    (EXCHANGED, "course", ("gnss.lat", "gnss.lon"), "latitude and longitude exchanged"),
)
"""Explanations of courses that disagree with positions: variant, kind of the finding, channels,
description."""


@dataclass(frozen=True)
class Finding:
    """Something that is probably wrong."""

    kind: str
    """`time unit`, `range`, `clock`, `unit`, `course`, `scale`, `mounting`, `sign`, `wheels`, `time offset`,
    `held`, `gap` or `not read`."""
    channels: tuple[str, ...]
    value: float | None
    """The figure that shows it, in `unit`; None if only the text describes it."""
    unit: str
    text: str


def find_configured(channel: str, reference: str, sensors: Sensors) -> float:
    """Time by which a channel is later than another according to the configured latencies, s."""
    return _find_latency(channel, sensors) - _find_latency(reference, sensors)


def find_units(units: UnitCheck) -> list[Finding]:
    """Channels in units that explain their ratios to others, and an IMU that is upside down."""
    found = []
    for names, text in units.find().items():
        channels = tuple(names.split(", "))
        is_mounting = units.points_down and ACCELEROMETERS[2] in channels
        found.append(Finding("mounting" if is_mounting else "unit", channels, None, "", text))
    return found


def find_mounting(mounting: MountingCheck, channels: Collection[str]) -> list[Finding]:
    """An IMU that is turned about the vertical axis."""
    angle = mounting.turned_by
    if angle is None or abs(angle) <= LARGEST_ANGLE:
        return []  # a z axis that points down is a finding of `find_units`
    text = (
        f"accelerations are turned by {math.degrees(angle):.0f}° about the vertical axis against changes of speed "
        "and course: expected the axes that the configuration gives"
    )
    return [
        Finding("mounting", tuple(c for c in sorted(mounting.wrong) if c in channels), angle, "rad", text)
    ]


def find_signs(lags: list[Lag], *, of_turns: bool) -> list[Finding]:
    """Channels with the other sign than most: where that is most of the sensors, it is the reference.

    `of_turns`: `lags` are of yaw rates, where exchanged wheels have the other sign.
    """
    sure = [lag for lag in lags if lag.evidence >= _PROBABLE]
    opposite = [lag for lag in sure if lag.correlation <= _OPPOSITE]
    same = [lag for lag in sure if lag.correlation >= -_OPPOSITE]
    if not opposite:
        return []
    of_opposite, of_same = _group(opposite), _group(same)
    if len(of_opposite) == 1 and not same:
        channels = tuple(lag.channel for lag in opposite)
        worst = _find_worst(opposite)
        exchanged = ", or wheels are exchanged left and right" if of_turns and "wheel" in of_opposite else ""
        text = f"opposite signs, correlation {worst:.2f}: one of them is wrong{exchanged}"
        return [Finding("sign", (*channels, opposite[0].reference), worst, "", text)]
    if len(of_opposite.keys() - of_same.keys()) > len(of_same.keys() - of_opposite.keys()):
        against = ", ".join(f"{lag.channel} ({lag.correlation:.2f})" for lag in opposite)
        reference, worst = opposite[0].reference, _find_worst(opposite)
        if of_turns and reference.startswith("wheel."):  # the reference is a wheel if there is no gyroscope
            wheels = (reference, *(lag.channel for lag in same if lag.channel.startswith("wheel.")))
            return [
                Finding("wheels", wheels, worst, "", f"{_OTHER_SIDE} {against}: exchanged left and right?")
            ]
        return [Finding("sign", (reference,), worst, "", f"opposite sign to {against}")]
    others = [lag.channel for lag in same if not (of_turns and lag.channel.startswith("wheel."))]
    return [
        _describe_sign(found, others, of_turns and source == "wheel") for source, found in of_opposite.items()
    ]


def _group(lags: list[Lag]) -> dict[str, list[Lag]]:
    """Group by kind of sensor, as each kind counts once: all wheels may be exchanged together."""
    found: dict[str, list[Lag]] = {}
    for lag in lags:
        found.setdefault(lag.channel.split(".")[0], []).append(lag)
    return found


def _find_worst(lags: list[Lag]) -> float:
    return min(lag.correlation for lag in lags)


def _describe_sign(lags: list[Lag], others: list[str], of_sides: bool) -> Finding:
    """Finding for one kind of sensor, against the reference and the channels that agree with it."""
    channels, worst = tuple(lag.channel for lag in lags), _find_worst(lags)
    against = f"{', '.join([lags[0].reference, *others])}, correlation {worst:.2f}"
    if of_sides:
        text = f"{_OTHER_SIDE} {against}: exchanged left and right?"
        return Finding("wheels", channels, worst, "", text)
    return Finding("sign", channels, worst, "", f"opposite sign to {against}")


def find_other_axis(lags: list[Lag]) -> list[Finding]:
    """Whether the longitudinal accelerometer does not show the car's changes of speed. `lags`: of accelerations."""
    lags = [lag for lag in lags if lag.channel in CAR_SPEEDS]
    if not lags or any(abs(lag.correlation) > _UNRELATED or lag.ratio < _LARGER for lag in lags):
        return []
    text = (
        f"does not follow the changes of {', '.join(lag.channel for lag in lags)} (correlations within "
        f"±{_UNRELATED:g}): expected what is accelerated along the axis that the configuration gives"
    )
    largest = max((lag.correlation for lag in lags), key=abs)
    return [Finding("mounting", (lags[0].reference,), largest, "", text)]


def find_magnitudes(backwards: Mapping[str, int]) -> list[Finding]:
    """Speeds without a sign in a drive with reversing. `backwards`: number of departures backwards, by channel."""
    if not backwards:
        return []
    departures = max(backwards.values())
    text = (
        f"never negative, though by {ACCELEROMETERS[0]} the car departs backwards ({departures} time"
        f"{'s' * (departures > 1)}): without a sign; the filter takes that of the motion that it estimates "
        "(docs/limits.md, Reversing)"
    )
    return [Finding("sign", tuple(backwards), None, "", text)]


def find_offsets(lags: list[Lag], sensors: Sensors) -> list[Finding]:
    """Channels that are later or earlier than others by more than is usual and configured."""
    found = []
    for lag in lags:
        configured = find_configured(lag.channel, lag.reference, sensors)
        if lag.correlation < SAME or lag.excess < _SURE:
            continue
        late = "later" if lag.offset > 0.0 else "earlier"
        known = f"; the configuration has {configured * 1e3:.0f} ms" if configured else ""
        size = f"{abs(lag.offset) * 1e3:.0f} ms (± {lag.sigma * 1e3:.0f} ms)"
        text = f"{size} {late} than {lag.reference}{known} (correlation {lag.correlation:.2f})"
        found.append(Finding("time offset", (lag.channel,), lag.offset, "s", text))
    return found


def _find_latency(channel: str, sensors: Sensors) -> float:
    """Configured latency of a channel, s."""
    settings = (s for _, s in (*sensors.items(), *sensors.inputs()) if channel in s.LIMITS)
    return next((s.latency for s in settings), 0.0)


def find_pauses(rates: list[Rate]) -> list[Finding]:
    """Sensors that are silent for longer than usual."""
    found = []
    for rate in rates:
        if rate.has_paused:
            text = (
                f"{rate.pauses} pause{'s' * (rate.pauses > 1)} at a rate of {rate.rate:.3g} Hz; the longest, "
                f"{rate.longest:.3g} s, from t = {rate.longest_at:.3f} s"
            )
            found.append(Finding("gap", rate.channels, rate.longest, "s", text))
    return found


def find_set_back(rates: list[Rate]) -> list[Finding]:
    """Sensors whose clock was set back during logging: some times occur twice."""
    found = []
    for rate in rates:
        if rate.behind < _BEHIND * rate.samples or rate.furthest < _SET_BACK:
            continue
        text = (
            f"goes back by {rate.furthest:.3g} s to t = {rate.furthest_at:.3f} s, as if it had been set; "
            "sensors were not compared"
        )
        found.append(Finding("clock", rate.channels, -rate.furthest, "s", text))
    return found


def find_clocks(clocks: list[ClockOffset], channels: Collection[str]) -> list[Finding]:
    """Sensors whose clock is off by seconds."""
    return [
        Finding(
            "clock",
            tuple(c for c in channels if c.split(".")[0] == clock.source),
            clock.offset,
            "s",
            f"{describe_clock(clock)}; sensors were not compared in any other way",
        )
        for clock in clocks
    ]


def find_held(rates: list[Rate]) -> list[Finding]:
    """Samples that a logger repeated at a rate of its own: noise of an IMU or a receiver never repeats itself."""
    found = []
    for rate in rates:
        if not rate.source.startswith(("imu", "gnss")) or rate.values < _COUNTED:
            continue
        if rate.repeated > _HELD * rate.values:
            each = rate.samples / rate.values
            text = f"each value stands {each:.3g} times: expected each sample once, when it was measured, else blank"
            found.append(Finding("held", rate.channels, each, "", text))
    return found


def find_interpolated(rates: list[Rate]) -> list[Finding]:
    """Samples that lie on straight lines between others, as in a table that was filled to a rate of its own."""
    found = []
    for rate in rates:
        share = rate.straight / rate.samples
        if rate.source.startswith(("imu", "gnss")) and rate.samples >= _COUNTED and share > _FILLED:
            text = f"{share:.0%} of the samples lie on straight lines between others: expected measured ones alone"
            found.append(Finding("interpolated", rate.channels, share, "", text))
    return found


def find_bursts(rates: list[Rate]) -> list[Finding]:
    """Samples that have the times at which a logger received them, several at once."""
    found = []
    for rate in rates:
        is_held = rate.repeated > _HELD * rate.values
        if rate.burst > 0.0 and rate.samples >= _COUNTED and not is_held:
            text = (
                f"{rate.in_burst:.2g} samples at once, every {rate.burst * 1e3:.0f} ms, as by their arrival: "
                "expected the time when each was measured, by the sensor's clock, or evenly over that time"
            )
            found.append(Finding("bursts", rate.channels, rate.burst, "s", text))
    return found


def find_coarse(step: float, sensors: Sensors) -> list[Finding]:
    """Gyroscopes with readings in steps (rad/s) beyond their configured noise: errors last as long as a reading."""
    if sensors.imu is None or sensors.imu.gyroscopes is None or step < COARSE * sensors.imu.gyroscopes.noise:
        return []
    noise = sensors.imu.gyroscopes.noise
    text = (
        f"in steps of {step:.2g} rad/s, where the configured noise is {noise:.2g} rad/s: "
        f"`sensors.imu.gyroscopes.noise: {step:.2g} rad/s`"
    )
    return [Finding("coarse", GYROSCOPES, step, "rad/s", text)]


def find_rate(rates: list[Rate]) -> list[Finding]:
    """Whether the log's time is in another unit."""
    counted = [rate for rate in rates if rate.samples >= _COUNTED]
    fastest = max(counted, key=lambda rate: rate.rate, default=None)
    if fastest is None or _SLOWEST <= fastest.rate <= _FASTEST:
        return []
    text = (
        f"{fastest.rate:.3g} Hz is the highest rate in the log; expected {_SLOWEST:g} Hz to {_FASTEST / 1e3:g} kHz: "
        "is the time in another unit?"
    )
    return [Finding("time unit", fastest.channels, fastest.rate, "Hz", text)]


def find_beyond(
    left_out: Mapping[str, tuple[int, float]],
    beyond: Mapping[str, tuple[int, float]],
    taken: Mapping[str, int],
    limits: Mapping[str, float],
) -> list[Finding]:
    """Values that no sensor can have.

    `left_out`, `beyond`: by channel, number of such values and one of them: those omitted when the log was
    read, and those among the values taken, whose total number is in `taken`.
    """
    found = []
    for channel in dict.fromkeys((*left_out, *beyond)):
        unit = CHANNELS[channel]
        (out, last), (more, other) = left_out.get(channel, (0, 0.0)), beyond.get(channel, (0, 0.0))
        number = f"{out + more} of {out + taken.get(channel, 0)} values"
        such = other if more else last
        limit = f"beyond ±{limits[channel]:g} {unit}" if channel in limits else "absurd"
        text = f"{number} {limit}, such as {such:.6g}: they are not used"
        found.append(Finding("range", (channel,), such, unit, text))
    return found


def find_ratios(lags: list[Lag], named: Container[str]) -> list[Finding]:
    """Yaw rates that correlate but differ in size.

    Not compared if a speed is in a wrong unit, as most of them are calculated with it.
    """
    if "vehicle.speed" in named or "gnss.speed" in named or SPEEDS[0] in named:
        return []
    found = []
    for lag in lags:
        is_sure = abs(lag.correlation) >= _PROPORTIONAL and lag.evidence >= _PROBABLE
        is_far = not 1.0 / _LARGEST_RATIO < lag.ratio < _LARGEST_RATIO
        if lag.channel.startswith("wheel.") or not is_sure or not is_far:
            continue
        if lag.channel in named or lag.reference in named:
            continue
        is_in_g = lag.channel in ACCELEROMETERS and _is_in_g(1.0 / lag.ratio)
        text = (
            f"a yaw rate {lag.ratio:.3g} times that of {lag.reference} (correlation {lag.correlation:.2f}): "
            + (f"is {lag.channel} in g, not in m/s²?" if is_in_g else "is one of them in degrees?")
        )
        found.append(Finding("unit", (lag.channel, lag.reference), lag.ratio, "", text))
    return found


def _is_in_g(factor: float) -> bool:
    """Whether an acceleration that is smaller than another by this factor seems to be in g."""
    return _ONE_G / _NEAR_G < factor < _ONE_G * _NEAR_G


def find_slopes(lags: list[Lag], named: Container[str]) -> list[Finding]:
    """Longitudinal accelerations that correlate but differ in size. `lags`: of accelerations."""
    lags = [
        lag
        for lag in lags
        if abs(lag.correlation) >= _PROPORTIONAL and lag.evidence >= _PROBABLE and lag.channel not in named
    ]
    far = _group([lag for lag in lags if not 1.0 / _LARGEST_SLOPE < lag.ratio < _LARGEST_SLOPE])
    if not far or lags[0].reference in named:
        return []
    reference = lags[0].reference
    others = [lag for found in far.values() for lag in found]
    ratio = math.exp(sum(math.log(lag.ratio) for lag in others) / len(others))
    is_in_g = reference in ACCELEROMETERS and _is_in_g(ratio)
    if len(far) == len(_group(lags)) and (len(far) > 1 or is_in_g):
        names = ", ".join(lag.channel for lag in others)
        text = f"accelerations {1.0 / ratio:.3g} times those by {names}: " + (
            "is it in g, not in m/s²?" if is_in_g else "is it in another unit?"
        )
        return [Finding("unit", (reference,), 1.0 / ratio, "", text)]
    return [_describe_slope(found) for found in far.values()]


def _describe_slope(lags: list[Lag]) -> Finding:
    """Finding for one kind of sensor."""
    worst = max(lags, key=lambda lag: abs(math.log(lag.ratio)))
    text = (
        f"changes of speed {worst.ratio:.3g} times those of {worst.reference} (correlation "
        f"{worst.correlation:.2f}): is the unit{', or the radius,' * (worst.channel in SPEEDS)} another one?"
    )
    return Finding("scale", tuple(lag.channel for lag in lags), worst.ratio, "", text)


def find_course(agreements: list[Agreement] | None, yaw_rates: list[Lag]) -> list[Finding]:
    """Whether positions move in the directions of the courses."""
    if agreements is None:
        return []
    agree = [a.share >= _AGREED_SHARE and abs(a.angle) <= _TURNED for a in agreements]
    given = agreements[AS_GIVEN]
    if agree[AS_GIVEN]:
        return []
    explained = sorted((e for e in _COURSES if agree[e[0]]), key=lambda e: -agreements[e[0]].share)
    turns = [lag.correlation for lag in yaw_rates if (lag.channel,) == _COURSE and lag.evidence >= _PROBABLE]
    if turns and abs(turns[0]) >= -_OPPOSITE:
        # If courses and positions turn in opposite directions, only the one that contradicts the car is
        # wrong.
        are_courses = turns[0] < 0.0
        explained = [e for e in explained if e[0] == IN_DEGREES or (e[2] == _COURSE) == are_courses]
    if explained:
        channels = dict.fromkeys(c for _, _, named, _ in explained for c in named)
        text = "by the path of the positions " + ", or ".join(words for *_, words in explained)
        return [Finding(explained[0][1], tuple(channels), given.angle, "rad", text)]
    text = f"positions move {math.degrees(given.angle):.0f}° to the left of the courses"
    if given.share < _AGREED_SHARE:
        text = "the directions in which positions move do not follow the courses"
    text += ": expected courses over ground, clockwise from north, and positive degrees north and east"
    return [Finding("course", ("gnss.course", "gnss.lat", "gnss.lon"), given.angle, "rad", text)]


def find_speeds(fits: Mapping[str, PathFit], named: Container[str], is_usual: bool) -> list[Finding]:
    """Speeds that disagree with the positions. `is_usual`: the car is not known."""
    found = []
    for name, fit in fits.items():
        channels = SPEEDS if name == WHEEL_SPEEDS else (name,)
        most = _UNKNOWN_CAR if is_usual and name == WHEEL_SPEEDS else _SPEED_RATIO
        if 1.0 / most < fit.factor < most or any(c in named for c in channels):
            continue
        text = f"{1.0 / fit.factor:.3g} times the speed of the positions"
        if name == WHEEL_SPEEDS:
            text += f": is the unit another one, or are radii {fit.factor:.3g} times those configured?"
        found.append(Finding("scale", tuple(channels), 1.0 / fit.factor, "", text))
    return found


def find_late_fixes(fits: Mapping[str, PathFit], sensors: Sensors) -> list[Finding]:
    """Time offset of positions and the speeds of the car.

    No speed is early, but the bus's speed may be smoothed for the driver and thus late. So the largest delay
    of the fixes relative to any speed counts.
    """
    found, late = [], []
    for name, channel in (("vehicle.speed", "vehicle.speed"), (WHEEL_SPEEDS, SPEEDS[0])):
        if name not in fits or not math.isfinite(fits[name].latency):
            continue
        fit = fits[name]
        configured = find_configured("gnss.lat", channel, sensors)
        off = fit.latency - configured
        known = f"(± {fit.sigma * 1e3:.0f} ms); the configuration has {configured * 1e3:.0f} ms"
        size = f"{abs(fit.latency) * 1e3:.0f} ms"
        if off >= max(_LATE, 3.0 * fit.sigma):
            text = f"{size} {'later' if fit.latency > 0.0 else 'earlier'} than {name} {known}: `sensors.gnss.latency`"
            finding = Finding("time offset", ("gnss.lat", "gnss.lon"), fit.latency, "s", text)
            late.append((off - fit.sigma, finding))
        elif -off >= max(_LATE, 3.0 * fit.sigma):
            text = f"{size} {'later' if fit.latency < 0.0 else 'earlier'} than the fixes {known}"
            found.append(Finding("time offset", (channel,), -fit.latency, "s", text))
    return [*found, *(finding for _, finding in sorted(late, key=itemgetter(0))[-1:])]


def find_unread(sensors: Sensors, channels: Container[str]) -> list[Finding]:
    """Channels of sensors that the configuration does not have."""
    return [
        Finding("not read", unread, None, "", f"the configuration has no `{key}`")
        for key, unread in sensors.find_unread(channels).items()
    ]
