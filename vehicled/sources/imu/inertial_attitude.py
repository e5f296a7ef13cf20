"""The attitude that gyroscopes add up to, drawn towards one that is known over longer times: a complementary filter.

Of an attitude it has the upward ends of the axes ahead and to the left, as real and imaginary part of a complex
number r: the sines of climb and bank. Of a car that turns at ω about its axes, ṙ = −i ω_z r + (i ω_x − ω_y) u, where
u is the upward end of the third axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

CERTAIN = 0.1
"""m/s, 1 σ: corrections of a velocity that is less certain, as by fixes of a phone, look like a lean or a bias."""
LEVELLING_TIME = 5.0
"""s, by default, over which what gyroscopes have added up to is forgotten."""


class InertialAttitude:
    """Adds up angular rates."""

    def __init__(self) -> None:
        self.rises = 0j
        """Upward ends of the axes ahead and to the left."""

    def advance(
        self,
        since: float,
        rates: Sequence[float],
        towards: complex,
        most: float = math.inf,
        time: float = LEVELLING_TIME,
    ) -> None:
        """Go on by `since` seconds at angular rates (3,), rad/s in vehicle axes.

        `towards`: what is known over longer times. It counts no further away than `most` in either axis, so that it
        may be noisy or wrong for a while. `time`: s, as LEVELLING_TIME.
        """
        wx, wy, wz = rates
        r = self.rises
        up = math.sqrt(max(1.0 - r.real * r.real - r.imag * r.imag, 0.0))
        self.rises = r + since * (complex(-wy, wx) * up - 1j * wz * r + limit(towards - r, most, most) / time)


def find_rises(
    force: complex, acceleration: complex, velocity: complex, turning: float, place: complex, gravity: float
) -> complex:
    """Upward ends of the axes by specific force (m/s²), where a car's change of velocity is known (m/s²).

    All with what is ahead as the real part, and what is to the left as the imaginary one: `acceleration` is the
    change of the velocity's components (m/s) along the car's axes, `turning` its yaw rate (rad/s), `place` that of
    the accelerometers beside where the velocity is of (m).
    """
    return (force - acceleration - 1j * turning * velocity + turning * turning * place) / gravity


def limit(value: complex, ahead: float, left: float) -> complex:
    """A value whose real part is no farther from zero than `ahead`, and its imaginary part than `left`."""
    return complex(min(max(value.real, -ahead), ahead), min(max(value.imag, -left), left))
