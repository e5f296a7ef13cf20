"""Tyre laws: forces at the contact as functions of slip velocities and wheel load.

Sign conventions (ISO 8855): t points forward and l to the left in the ground plane, n up. `v_t` and `v_l` are
the velocity of the wheel's material at the contact; a driven wheel has v_t < 0 and is pushed forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vehicled.symbolic.graph import Atom, Graph


@dataclass(frozen=True)
class Contact:
    """Arguments of a tyre law, per wheel."""

    v_t: Atom
    v_l: Atom
    """Velocity of the wheel's material at the contact, m/s."""
    hub_speed: Atom
    """Speed of the hub along t, m/s."""
    rolling_speed: Atom
    """Rolling radius times spin, m/s."""
    load: Atom
    """Normal force, N, never negative."""
    penetration: Atom
    """Depth of the undeformed tyre in the ground, m."""
    radius: Atom
    """Radius of the undeformed tyre, m."""
    stiffness: Atom
    """Factor on the lateral stiffness, as estimated by a filter."""
    friction: Atom
    """Factor on the greatest forces."""
    h: Atom
    """Step, s."""


Changes = list[tuple[Atom, Atom]]
"""(symbol, new value) of internal states."""


@dataclass(frozen=True)
class TyreForces:
    """Results of a tyre law at the contact, per wheel: forces along t and l, N, and values for the step."""

    fx: Atom
    fy: Atom
    mz: Atom
    """Aligning torque about n, N·m."""
    damping_t: Atom
    damping_l: Atom
    """−∂force/∂velocity with the slip-dependent gain held, N·s/m: for the tangent matrix."""
    states: Changes
    """Internal states at the end of the step."""


class Symbols(Protocol):
    """Makes the stored lane symbols that a law needs."""

    def __call__(self, name: str) -> Atom:
        """The symbol of that name, per wheel."""


_MOST_USED = 0.89
"""Largest used share: even a tyre that spins or locks keeps some lateral force."""


def calc_used(g: Graph, along: Atom, greatest: Atom) -> Atom:
    """Share, 0 to 1, of the `greatest` longitudinal force (N) that the force `along` (N) takes."""
    return g.min(g.abs(along) / (greatest + 1e-3), _MOST_USED)


def calc_left(g: Graph, used: Atom) -> Atom:
    """Share of the greatest lateral force that the friction ellipse leaves; `used` as from `calc_used`.

    Scaling the friction by it leaves the slope at the origin unchanged (Hindiyeh and Gerdes 2014, *A
    controller framework for autonomous drifting*: derating of the lateral force).
    """
    return g.sqrt(1.0 - used * used)


_LEAST_RATIO = 0.1
"""Least ratio to the nominal load: at lower loads the curve has the shape at this load."""
_AT_ONCE = 1e4
"""Relaxation rate of forces that follow within a step, 1/s."""


class LinearLaw:
    """Slip-proportional forces on a friction circle: (fx, fy)·tanh(s)/s, s = |(fx, fy)|/(μ Fz).

    The law of the published reference vehicle, on which four engines agree; no transients.
    """

    kind = "linear"
    contact_on_ground = False
    """The force acts at the lowest point of the undeformed wheel."""
    parameters = ("tyre.slip_stiffness_x", "tyre.slip_stiffness_y", "tyre.friction", "tyre.least_speed")
    states: tuple[str, ...] = ()

    def steady_lateral(self, g: Graph, c: Contact, parameter: Symbols) -> Atom:
        """Lateral force without transients, N."""
        return self.forces(g, c, parameter, parameter).fy

    def calc_greatest(self, g: Graph, load: Atom, parameter: Symbols) -> Atom:
        """Greatest longitudinal force at a load (N), N."""
        return parameter("tyre.friction") * load

    def calc_excess(self, g: Graph, used: Atom, load: Atom, parameter: Symbols) -> Atom:
        """Ratio of the slip to the slip in proportion to the force; `used` as from `calc_used`.

        From F = 2 s/(1 + s²), in shares of the greatest force: at 0.8 of it, the tanh law differs by a tenth.
        """
        return 2.0 / (1.0 + calc_left(g, used))

    def calc_relaxation(self, g: Graph, damping: Atom, parameter: Symbols) -> Atom:
        """As `TMeasyLaw`; forces follow within a step."""
        return g.constant(_AT_ONCE)

    def calc_compliance(self, g: Graph, c: Contact, damping: Atom, parameter: Symbols) -> Atom:
        """As `TMeasyLaw`; zero, as this tyre has no deflection."""
        return g.zero

    def deflect(self, change: Atom, state: Symbols) -> Changes:
        """As `TMeasyLaw`."""
        return []

    def forces(self, g: Graph, c: Contact, parameter: Symbols, state: Symbols) -> TyreForces:
        """Forces from slip velocity over speed, limited by friction times load."""
        speed = g.max(g.abs(c.hub_speed), parameter("tyre.least_speed"))
        kx = parameter("tyre.slip_stiffness_x") / speed
        ky = parameter("tyre.slip_stiffness_y") * c.stiffness / speed
        fx, fy = -(kx * c.v_t), -(ky * c.v_l)
        limit = parameter("tyre.friction") * c.friction * c.load
        # Tiny offsets keep tanh(s)/s defined without force or without load.
        s = g.sqrt(fx * fx + fy * fy + 1e-12) / (limit + 1e-6)
        share = g.tanh(s) / s
        return TyreForces(fx * share, fy * share, g.zero, kx * share, ky * share, [])


class TMeasyLaw:
    """TMeasy: steady-state characteristics from a few data points, combined slip, first-order dynamics.

    Rill, *Road Vehicle Dynamics*, chapter 3: degressive wheel-load influence, generalised slip, tyre
    deflections ẋ = −(v* c x + f v)/(v* d + f), which become sticking (a spring) at standstill.
    """

    kind = "tmeasy"
    contact_on_ground = True
    parameters = (
        "tyre.nominal_load",
        *(f"tyre.{a}.{p}{n}" for a in "xy" for p in ("df0", "fm", "fs", "sm", "ss") for n in (1, 2)),
        *(f"tyre.{a}.{p}" for a in "xy" for p in ("stiffness", "damping")),
        "tyre.trail",
        "tyre.trail_zero",
        "tyre.trail_end",
    )
    states = ("deflection.x", "deflection.x.rate", "deflection.y", "deflection.y.rate")

    creep_speed = 1e-3
    """m/s; keeps slip finite at standstill (v_N of the source), small enough for a negligible creep."""
    greatest_load_ratio = 3.0
    """The degressive parabola is followed up to this multiple of the nominal load."""

    def steady_lateral(self, g: Graph, c: Contact, parameter: Symbols) -> Atom:
        """Lateral force without transients, N."""
        slip, _, gain, _ = self._characteristic(g, c, parameter)
        return gain["y"] * slip["y"]

    def _characteristic(
        self, g: Graph, c: Contact, parameter: Symbols
    ) -> tuple[dict[str, Atom], dict[str, Atom], dict[str, Atom], dict[str, Atom]]:
        """Normalised slips, their reference speeds v*, ratios of force to slip, and the normalising factors.

        With a factor c on the stiffness and μ on the greatest force, the curve F(s) becomes μ F(c s/μ).
        """
        ratio = self._calc_ratio(g, c.load, parameter)

        def degressive(axis: str, p: str) -> Atom:
            return _grow(parameter, f"tyre.{axis}.{p}", ratio)

        def linear(axis: str, p: str) -> Atom:
            return _shift(parameter, f"tyre.{axis}.{p}", ratio)

        df0 = {a: degressive(a, "df0") for a in "xy"}
        fm = {a: degressive(a, "fm") for a in "xy"}
        fs = {a: degressive(a, "fs") for a in "xy"}
        sm = {a: linear(a, "sm") for a in "xy"}
        ss = {a: linear(a, "ss") for a in "xy"}
        # Normalising factors bring longitudinal and lateral slip to a common scale; at nominal load, so that
        # they are constants of the tyre.
        n_sm = {a: parameter(f"tyre.{a}.sm1") for a in "xy"}
        n_fd = {a: parameter(f"tyre.{a}.fm1") / parameter(f"tyre.{a}.df01") for a in "xy"}
        scale = {a: n_sm[a] / (n_sm["x"] + n_sm["y"]) + n_fd[a] / (n_fd["x"] + n_fd["y"]) for a in "xy"}

        reference = g.abs(c.rolling_speed) + self.creep_speed
        v_star = {a: scale[a] * reference for a in "xy"}
        slip = {"x": -(c.v_t / v_star["x"]), "y": -(c.v_l / v_star["y"])}
        # The direction of vanishing slip is taken as longitudinal.
        along, across = slip["x"] / c.friction + 1e-9, slip["y"] * (c.stiffness / c.friction)
        s = g.sqrt(along * along + across * across)
        cos, sin = along / s, across / s

        def combined(x: Atom, y: Atom) -> Atom:
            a, b = x * cos, y * sin
            return g.sqrt(a * a + b * b + 1e-12)

        stiffness = combined(df0["x"] * scale["x"], df0["y"] * scale["y"])
        peak = combined(fm["x"], fm["y"])
        slide = combined(fs["x"], fs["y"])
        s_peak = combined(sm["x"] / scale["x"], sm["y"] / scale["y"])
        s_slide = combined(ss["x"] / scale["x"], ss["y"] / scale["y"])
        sigma = s / s_peak
        rising = stiffness / (1.0 + sigma * (sigma + stiffness * s_peak / (peak + 1e-6) - 2.0))
        u = (s - s_peak) / (s_slide - s_peak)
        falling = (peak - (peak - slide) * (u * u * (3.0 - 2.0 * u))) / s
        gain = g.where_less(s, s_peak, rising, g.where_less(s, s_slide, falling, slide / s))
        return slip, v_star, {"x": gain, "y": gain * c.stiffness}, scale

    def calc_greatest(self, g: Graph, load: Atom, parameter: Symbols) -> Atom:
        """Greatest longitudinal force at a load (N), N."""
        return _grow(parameter, "tyre.x.fm", self._calc_ratio(g, load, parameter))

    def calc_excess(self, g: Graph, used: Atom, load: Atom, parameter: Symbols) -> Atom:
        """As `LinearLaw`; from the rising part of the curve, F = k s/(1 + s (s + k − 2))."""
        ratio = g.max(self._calc_ratio(g, load, parameter), _LEAST_RATIO)
        slope, greatest = (_grow(parameter, f"tyre.x.{name}", ratio) for name in ("df0", "fm"))
        k = slope * _shift(parameter, "tyre.x.sm", ratio) / (greatest + 1e-6)
        b = k - (k - 2.0) * used
        return 2.0 * k / (b + g.sqrt(g.max(b * b - 4.0 * used * used, 0.0)))

    def _calc_ratio(self, g: Graph, load: Atom, parameter: Symbols) -> Atom:
        return g.min(load / parameter("tyre.nominal_load"), self.greatest_load_ratio)

    def calc_relaxation(self, g: Graph, damping: Atom, parameter: Symbols) -> Atom:
        """Rate at which the lateral force approaches its steady value, 1/s.

        `damping`: −∂(steady force)/∂(lateral velocity), N·s/m.
        """
        return parameter("tyre.y.stiffness") / (damping + parameter("tyre.y.damping") + 1e-6)

    def calc_compliance(self, g: Graph, c: Contact, damping: Atom, parameter: Symbols) -> Atom:
        """Change of deflection per change of lateral force, m/N; `damping` as in `calc_relaxation`.

        With ẋ = −x/τ, apart from the effect of slip, and τ = (c + d)/k, the force k x + d ẋ is k x c/(c + d).
        """
        d = parameter("tyre.y.damping") + 1e-6
        more = (damping + d) / (g.max(damping, d) * parameter("tyre.y.stiffness"))
        return g.where_less(0.0, c.load, more, g.zero)

    def deflect(self, change: Atom, state: Symbols) -> Changes:
        """Add a deflection to the left, m."""
        deflection = state("deflection.y")
        return [(deflection, deflection + change)]

    def forces(self, g: Graph, c: Contact, parameter: Symbols, state: Symbols) -> TyreForces:
        """Forces of the deflected tyre at the end of the step c.h, and its deflections as states."""
        slip, v_star, gain, scale = self._characteristic(g, c, parameter)
        forces, dampings, states = {}, {}, []
        for axis, v in (("x", c.v_t), ("y", c.v_l)):
            k, d = parameter(f"tyre.{axis}.stiffness"), parameter(f"tyre.{axis}.damping")
            old, old_rate = state(f"deflection.{axis}"), state(f"deflection.{axis}.rate")
            # ẋ = −x/τ − w v, by the θ-method: trapezoidal for slow, implicit for fast relaxation.
            denominator = v_star[axis] * d + gain[axis] + 1e-6
            inverse_tau = v_star[axis] * k / denominator
            w = gain[axis] / denominator
            x = c.h * inverse_tau
            theta = 0.5 + 0.5 * x / (x + 6.0)
            implicit = 1.0 + theta * x
            new = (old + c.h * (1.0 - theta) * old_rate - c.h * theta * (w * v)) / implicit
            rate = -(inverse_tau * new) - w * v
            # A wheel in the air has no force, and its deflection is reset.
            touching = g.where_less(0.0, c.load, g.one, g.zero)
            new, rate = new * touching, rate * touching
            forces[axis] = k * new + d * rate
            dampings[axis] = w * (k * c.h * theta + d) / implicit * touching
            states += [(old, new), (old_rate, rate)]

        # Aligning torque: pneumatic trail, a share of the contact length that fades with lateral slip.
        length = 2.0 * g.sqrt(c.radius * g.max(c.penetration, 0.0) + 1e-9)
        lateral = g.abs(slip["y"] * scale["y"])
        zero, end = parameter("tyre.trail_zero"), parameter("tyre.trail_end")
        back = (end - lateral) / (end - zero)
        fading = g.where_less(
            lateral,
            zero,
            1.0 - lateral / zero,
            g.where_less(lateral, end, -((lateral - zero) / zero * (back * back)), g.zero),
        )
        mz = -(parameter("tyre.trail") * length * fading * forces["y"])
        return TyreForces(forces["x"], forces["y"], mz, dampings["x"], dampings["y"], states)


def _grow(parameter: Symbols, name: str, ratio: Atom) -> Atom:
    """Parabola through zero and its values at the nominal load and at twice that; `ratio` to the nominal load."""
    one, two = parameter(f"{name}1"), parameter(f"{name}2")
    return ratio * ((2.0 * one - 0.5 * two) - (one - 0.5 * two) * ratio)


def _shift(parameter: Symbols, name: str, ratio: Atom) -> Atom:
    """Line through its values at the nominal load and at twice that; `ratio` to the nominal load."""
    one, two = parameter(f"{name}1"), parameter(f"{name}2")
    return (2.0 * one - two) + (two - one) * ratio


LAWS = {law.kind: law for law in (LinearLaw(), TMeasyLaw())}
