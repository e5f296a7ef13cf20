"""Attitude by integrated gyroscopes, corrected towards one that is right over longer times: a complementary filter.

An attitude is given by the vertical components of the forward and left axes, as real and imaginary part of a
complex number r: the sines of climb and bank. With angular rates ω about the car's axes, ṙ = −i ω_z r + (i
ω_x − ω_y) u, where u is the vertical component of the third axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CERTAIN = 0.1
"""m/s, 1 σ: corrections of a less certain velocity, as by fixes of a phone, look like a lean or a bias."""
LEVELLING_TIME = 5.0
"""s: default time constant with which integrated rates are forgotten."""


class InertialAttitude:
    """Integrates angular rates."""

    def __init__(self) -> None:
        self.rises = 0j
        """Vertical components of the forward and left axes."""

    def advance(
        self,
        since: float,
        rates: Sequence[float],
        towards: complex,
        most: float = math.inf,
        time: float = LEVELLING_TIME,
    ) -> None:
        """Go on by `since` seconds at angular rates (3,), rad/s in vehicle axes.

        `towards`: attitude that is right over longer times. Its difference is limited to `most` in either
        axis, so that it may be noisy or wrong for a while. `time`: time constant, s.
        """
        wx, wy, wz = rates
        r = self.rises
        up = math.sqrt(max(1.0 - r.real * r.real - r.imag * r.imag, 0.0))
        self.rises = r + since * (complex(-wy, wx) * up - 1j * wz * r + limit(towards - r, most, most) / time)


def find_rises(
    force: complex, acceleration: complex, velocity: complex, turning: float, place: complex, gravity: float
) -> complex:
    """Vertical components of the axes from specific force and known change of velocity (both m/s²).

    Complex numbers: forward as the real part, left as the imaginary one. `acceleration`: change of the
    components of `velocity` (m/s) along the car's axes; `turning`: yaw rate (rad/s); `place`: of the
    accelerometers relative to the point of the velocity (m).
    """
    return (force - acceleration - 1j * turning * velocity + turning * turning * place) / gravity


def limit(value: complex, ahead: float, left: float) -> complex:
    """A value with its real part limited to ±`ahead`, and its imaginary part to ±`left`."""
    return complex(min(max(value.real, -ahead), ahead), min(max(value.imag, -left), left))
