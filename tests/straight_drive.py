"""Deterministic measurements of the prototype on a straight line to the north, for tests of single steps."""

from collections.abc import Iterator

from vehicled.messages import Measurement

PERIOD = 4_000_000
_BEGIN = 1_000_000_000
_LATITUDE, _DEGREE = 40.0, 111035.0
"""deg, and length of a degree of latitude there, m."""
_PULLS_OFF = 1.0, 4.0
"""Start and end of an acceleration of 2 m/s², s."""


def _unlike(k: int, n: int) -> float:
    """A deterministic number within ±1e-4 that differs from sample to sample."""
    return ((k * 7919 + n * 104729) % 1000 / 1000 - 0.5) * 2e-4


def drive_straight(
    seconds: float, speed: float, pulls_off: bool = False, apart: bool = False, fixes_every: int = 25
) -> Iterator[tuple[int, list[Measurement]]]:
    """Steps: time (ns) and measurements. IMU 250 Hz, speed and steering 83 Hz, an RTK receiver.

    `pulls_off`: accelerates from 1 s to 4 s. `apart`: the receiver's velocity comes in its own message, first.
    """
    way = 0.0
    for k in range(round(seconds * 1e9 / PERIOD)):
        t, dt = _BEGIN + k * PERIOD, PERIOD * 1e-9
        ahead = 2.0 if pulls_off and _PULLS_OFF[0] < k * dt < _PULLS_OFF[1] else 0.0
        speed += ahead * dt
        way += speed * dt
        forces = {
            "imu.ax": ahead + _unlike(k, 1),
            "imu.ay": _unlike(k, 2),
            "imu.az": 9.81 + _unlike(k, 3),
        }
        rates = {f"imu.w{axis}": 0.1 * _unlike(k, n) for n, axis in enumerate("xyz", 4)}
        given = [Measurement("imu", t, t, forces | rates)]
        if k % 3 == 0:
            given.append(
                Measurement("can", t, t, {"vehicle.speed": speed, "steer.rack": 0.01 * _unlike(k, 7)})
            )
        if k % fixes_every == 0:
            place = {"gnss.lat": _LATITUDE + way / _DEGREE, "gnss.lon": -3.0, "gnss.alt": 100.0}
            place |= {"gnss.quality": 4.0, "gnss.h_acc": 0.02, "gnss.v_acc": 0.03}
            velocity = {"gnss.vn": speed + 10 * _unlike(k, 8), "gnss.ve": 10 * _unlike(k, 9), "gnss.vd": 0.0}
            velocity |= {"gnss.s_acc": 0.02}
            parts = (velocity, place) if apart else (place | velocity,)
            given += [Measurement("gnss", t, t, part) for part in parts]
        yield t, given
