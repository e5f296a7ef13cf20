"""Tyre laws on a test bench of their own: one wheel, given slip velocities and load."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest
from vehicle_rig import vehicle

from vehicled.messages import WHEELS
from vehicled.symbolic import python
from vehicled.symbolic.evaluate import FLOAT, evaluate
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.vehicle.model_parameters import corner_parameters
from vehicled.vehicle.parameters import TMeasyTyre
from vehicled.vehicle.tyres import LAWS, Contact, calc_left, calc_used

INPUTS = (
    "v_t",
    "v_l",
    "hub_speed",
    "rolling_speed",
    "load",
    "penetration",
    "radius",
    "stiffness",
    "friction",
    "h",
)


class Bench:
    """A tyre law as a function of its contact, with its states kept from call to call."""

    def __init__(self, kind: str, parameters: dict[str, float]):
        g = Graph()
        program = Program(g)
        contact = dict(zip(INPUTS, program.array("contact", len(INPUTS)), strict=True))
        known: dict[str, dict[str, Atom]] = {"parameter": {}, "state": {}}

        def symbols(group: str):
            def symbol(name: str) -> Atom:
                if name not in known[group]:
                    known[group][name] = g.symbol(f"{group}.{name}")
                return known[group][name]

            return symbol

        out = program.array("forces", 5)
        f = LAWS[kind].forces(g, Contact(**contact), symbols("parameter"), symbols("state"))
        program.store("parameters", list(known["parameter"].values()))
        program.store("states", list(known["state"].values()))
        values = [f.fx, f.fy, f.mz, f.damping_t, f.damping_l]
        kernel = program.kernel("forces", [*zip(out, values, strict=True), *f.states])
        program.finish([])
        self._function = python.function(program.kernels[kernel], program.layout)
        self._workspace = program.layout.allocate()
        self._view = lambda name: program.layout.view(self._workspace, name)
        self._view("parameters")[:] = [parameters[n] for n in known["parameter"]]
        self.states = self._view("states")

    def __call__(
        self, load: float, v_t=0.0, v_l=0.0, rolling=0.0, h=4e-3, stiffness=1.0, friction=1.0
    ) -> np.ndarray:
        """fx, fy, mz, damping_t, damping_l; the wheel's material moves with (v_t, v_l), its hub with v_t plus
        the rolling speed."""
        factors = stiffness, friction
        self._view("contact")[:] = (v_t, v_l, v_t + rolling, rolling, load, load / 2e5, 0.3, *factors, h)
        self._function(self._workspace)
        return self._view("forces").copy()

    def steady(self, load: float, v_t=0.0, v_l=0.0, rolling=20.0, **factors: float) -> np.ndarray:
        """Forces after the relaxation."""
        self.states[:] = 0.0
        forces = np.full(5, np.inf)
        for _ in range(400):
            before, forces = forces, self(load, v_t, v_l, rolling, 20e-3, **factors)
            if (np.abs(forces - before) <= 1e-9 * load).all():
                break
        return forces


@lru_cache
def tmeasy() -> tuple[Bench, TMeasyTyre]:
    v = vehicle("prototype")
    assert isinstance(v.front.tyre, TMeasyTyre)
    return Bench("tmeasy", corner_parameters(v, WHEELS[0])), v.front.tyre


@pytest.mark.parametrize("twice", [0, 1])
def test_tmeasy_goes_through_its_data_points(twice):
    bench, tyre = tmeasy()
    load = tyre.nominal_load * (1 + twice)
    for axis, c in ((0, tyre.longitudinal), (1, tyre.lateral)):

        def force(slip: float, axis=axis) -> float:
            velocity = {"v_t" if axis == 0 else "v_l": -20.0 * slip}
            return bench.steady(load, **velocity)[axis]

        assert force(1e-5) / 1e-5 == pytest.approx(c.df0[twice], rel=2e-3)
        assert force(c.sm[twice]) == pytest.approx(c.fm[twice], rel=1e-3)
        assert force(c.ss[twice]) == pytest.approx(c.fs[twice], rel=1e-3)
        assert force(3.0) == pytest.approx(c.fs[twice], rel=1e-3)
        slips = np.linspace(0.02, 1.2, 13) * c.sm[twice]
        forces = np.array([force(s) for s in slips])
        assert forces.max() <= c.fm[twice] * (1 + 1e-6)
        assert (np.diff(forces[slips <= c.sm[twice]]) > 0).all()
        assert force(-c.sm[twice]) == pytest.approx(-c.fm[twice], rel=1e-3)


def test_tmeasy_is_degressive_in_load():
    bench, _ = tmeasy()
    stiffness = [bench.steady(n, v_l=-0.02)[1] / n for n in (1000.0, 3000.0, 6000.0)]
    assert stiffness[0] > stiffness[1] > stiffness[2]
    assert bench.steady(0.0, v_l=-1.0)[:3] == pytest.approx(0.0)


def test_combined_slip_stays_within_the_ellipse_of_greatest_forces():
    bench, tyre = tmeasy()
    limits = np.array([tyre.longitudinal.fm[0], tyre.lateral.fm[0]])
    rng = np.random.default_rng(1)
    nearest = 0.0
    for _ in range(60):
        slip = rng.uniform(-0.4, 0.4, 2)
        fx, fy = bench.steady(tyre.nominal_load, v_t=-20 * slip[0], v_l=-20 * slip[1])[:2]
        used = np.hypot(fx / limits[0], fy / limits[1])
        nearest = max(nearest, used)
        assert used < 1.005
        assert fx * slip[0] >= 0
        assert fy * slip[1] >= 0
    assert nearest > 0.97
    # Braking reduces the lateral force.
    alone = bench.steady(3000.0, v_l=-20 * 0.08)[1]
    assert bench.steady(3000.0, v_t=-20 * 0.15, v_l=-20 * 0.08)[1] < 0.6 * alone


def test_relaxation_length_is_slip_stiffness_over_carcass_stiffness():
    bench, tyre = tmeasy()
    c = tyre.lateral
    for speed in (5.0, 20.0, 50.0):
        bench.states[:] = 0.0
        slip, distance, final = 1e-3, 0.0, c.df0[0] * 1e-3
        h = 2e-3 / speed
        while True:
            force = bench(tyre.nominal_load, v_l=-slip * speed, rolling=speed, h=h)[1]
            distance += speed * h
            if force > (1 - np.exp(-1)) * final:
                break
        # The carcass' damper slows the deflection and carries force meanwhile: to first order,
        # the distance to 1 − 1/e of the force does not depend on it.
        assert distance == pytest.approx(c.df0[0] / c.stiffness, rel=0.05)


def test_standing_tyre_is_a_spring_until_it_slides():
    bench, tyre = tmeasy()
    c = tyre.longitudinal
    bench.states[:] = 0.0
    h, speed = 1e-3, -5e-3
    forces = np.array([bench(3000.0, v_t=speed, h=h)[0] for _ in range(400)])
    distance = -speed * h * np.arange(1, 401)
    # ẋ = −v/(1 + d v_N s/f).
    early = distance < 1e-4
    assert forces[early] - c.damping * 5e-3 == pytest.approx(c.stiffness * distance[early], rel=0.06, abs=2.0)
    # Pulled by half a metre, it slides.
    forces = np.array([bench(3000.0, v_t=-0.5, h=h)[0] for _ in range(1000)])
    assert forces.max() < c.fm[0]
    assert forces[-1] == pytest.approx(c.fs[0], rel=1e-6)
    # Stopped well before it slides, the tyre keeps its force.
    bench.states[:] = 0.0
    for _ in range(40):
        bench(3000.0, v_t=speed, h=h)
    wound = c.stiffness * 40 * -speed * h
    held = [bench(3000.0, h=h)[0] for _ in range(1000)]
    assert held[0] == pytest.approx(wound, rel=0.06)
    assert held[-1] == pytest.approx(held[0], rel=0.01)


def test_standing_tyre_creeps_less_than_0_15_mm_per_minute():
    """Held against 150 N, as on a 5 % slope: the hub's steady speed."""
    bench, _ = tmeasy()
    low, high = 0.0, 1e-3
    for _ in range(12):
        v = 0.5 * (low + high)
        bench.states[:] = 0.0
        for _ in range(300):
            force = bench(3000.0, v_t=-v, h=2.0)[0]
        low, high = (v, high) if force < 150.0 else (low, v)
    assert v * 60.0 < 0.15e-3


def test_damping_outputs_are_slopes_of_one_step():
    """−∂F/∂v of one step at small slip, which the tangent matrix of the integrator relies on."""
    for rolling in (0.0, 0.5, 20.0):
        bench, _ = tmeasy()
        bench.states[:] = 0.0
        e = 1e-7
        up = bench(3000.0, v_t=e, rolling=rolling)
        bench.states[:] = 0.0
        down = bench(3000.0, v_t=-e, rolling=rolling)
        assert -(up[0] - down[0]) / (2 * e) == pytest.approx(up[3], rel=0.02)


def test_aligning_torque_changes_its_sign_and_vanishes_as_slip_grows():
    bench, tyre = tmeasy()
    load = tyre.nominal_load
    length = 2 * np.sqrt(0.3 * load / 2e5)
    fy, mz = bench.steady(load, v_l=-20 * 1e-4)[1:3]
    assert mz / fy == pytest.approx(-tyre.trail * length, rel=2e-3)
    assert abs(bench.steady(load, v_l=-20 * tyre.trail_zero)[2]) < 1.0
    assert bench.steady(load, v_l=-20 * 0.35)[2] > 0
    assert bench.steady(load, v_l=-20 * tyre.trail_end * 1.5)[2] == pytest.approx(0.0, abs=1e-6)


def test_forces_are_continuous_where_branches_meet():
    bench, tyre = tmeasy()
    c = tyre.lateral
    for slip in (c.sm[0], c.ss[0], tyre.trail_zero, tyre.trail_end):
        one, two = (bench.steady(3000.0, v_l=-20.0 * slip * (1 + e)) for e in (-1e-6, 1e-6))
        assert one == pytest.approx(two, rel=1e-3, abs=0.5)


def test_wheel_in_the_air_forgets_its_deflection():
    bench, _ = tmeasy()
    bench.steady(3000.0, v_l=-1.0)
    assert np.abs(bench.states).max() > 0
    bench(0.0, v_l=-1.0, rolling=20.0)
    assert (bench.states == 0).all()


def test_linear_law_follows_its_formula():
    v = vehicle("reference_vehicle")
    bench = Bench("linear", corner_parameters(v, "fl"))
    for load, v_t, v_l, rolling in (
        (3000.0, -0.3, 0.5, 20.0),
        (2000.0, 4.0, -3.0, 12.0),
        (100.0, 0.01, 0.02, 0.5),
    ):
        speed = max(abs(v_t + rolling), 2.0)
        f = np.array([-60e3 * v_t / speed, -50e3 * v_l / speed])
        s = np.hypot(*f) / (0.9 * load)
        assert bench(load, v_t, v_l, rolling)[:2] == pytest.approx(f * np.tanh(s) / s, rel=1e-6)
    assert np.hypot(*bench(1000.0, 30.0, 20.0, 5.0)[:2]) == pytest.approx(900.0, rel=1e-4)
    assert bench(0.0, 1.0, 1.0, 5.0)[:2] == pytest.approx(0.0, abs=1e-5)


def steady_bench(kind: str) -> tuple[Bench, float, float]:
    """A tyre, its load and a slip at which the friction counts."""
    if kind == "tmeasy":
        bench, tyre = tmeasy()
        return bench, tyre.nominal_load, tyre.lateral.sm[0]
    return Bench("linear", corner_parameters(vehicle("reference_vehicle"), "fl")), 3000.0, 0.06


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize(
    ("c", "mu"), [(0.7, 1.0), (1.3, 1.0), (1.0, 0.8), (1.0, 1.2), (0.8, 0.7), (1.4, 1.1)]
)
def test_factors_on_stiffness_and_friction_scale_the_lateral_curve(kind, c, mu):
    """F(s) becomes μ F(c s/μ): c on the slope at the origin, μ on the greatest force, at any slip."""
    bench, load, peak = steady_bench(kind)

    def force(slip: float, **factors: float) -> float:
        return bench.steady(load, v_l=-20.0 * slip, **factors)[1]

    for share in (1e-3, 0.3, 0.8, 1.1, 1.6, 3.0, -0.5):
        slip = share * peak
        expected = mu * force(c / mu * slip)
        assert force(slip, stiffness=c, friction=mu) == pytest.approx(expected, rel=1e-3)
    assert force(1e-4 * peak, stiffness=c, friction=mu) == pytest.approx(c * force(1e-4 * peak), rel=2e-3)


@pytest.mark.parametrize("kind", LAWS)
def test_friction_scales_the_longitudinal_curve_and_stiffness_does_not(kind):
    bench, load, peak = steady_bench(kind)

    def force(slip: float, **factors: float) -> float:
        # The linear law refers slip to the speed of the hub, TMeasy to that of rolling.
        rolling = 20.0 * (1.0 + slip) if kind == "linear" else 20.0
        return bench.steady(load, v_t=-20.0 * slip, rolling=rolling, **factors)[0]

    for share in (1e-3, 0.5, 1.5):
        slip = share * peak
        assert force(slip, stiffness=1.4) == pytest.approx(force(slip), rel=1e-9)
        assert force(slip, friction=0.8) == pytest.approx(0.8 * force(slip / 0.8), rel=1e-3)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("used", [-0.3, 0.4, 0.6])
def test_an_external_longitudinal_force_reduces_the_lateral_force_as_combined_slip_does(kind, used):
    """The share of friction that remains gives the same lateral force, within 6 % of the greatest force."""
    bench, load, peak = steady_bench(kind)
    greatest = 0.9 * load if kind == "linear" else tmeasy()[1].longitudinal.fm[0]
    g = Graph()
    left = calc_left(g, calc_used(g, g.constant(used * greatest), g.constant(greatest)))
    (friction,) = evaluate([left], {}, FLOAT)
    assert friction == pytest.approx(np.sqrt(1 - used * used))
    for slip in np.array([0.1, 0.3, 0.5, 0.7]) * peak:
        low, high = 0.0, 4.0
        for _ in range(30):
            middle = 0.5 * (low + high)
            v_t = -np.sign(used) * middle
            rolling = 20.0 - v_t if kind == "linear" else 20.0
            fx, fy = bench.steady(load, v_t=v_t, v_l=-20.0 * slip, rolling=rolling)[:2]
            low, high = (low, middle) if abs(fx) > abs(used) * greatest else (middle, high)
        assert fx == pytest.approx(used * greatest, rel=1e-3)
        assert bench.steady(load, v_l=-20.0 * slip, friction=friction)[1] == pytest.approx(
            fy, abs=0.06 * greatest
        )


@pytest.mark.parametrize(("kind", "rel"), [("linear", 0.1), ("tmeasy", 1e-3)])
@pytest.mark.parametrize("used", [0.2, 0.5, 0.8])
def test_the_excess_of_slip_is_that_of_the_curve_over_slip_in_proportion(kind, rel, used):
    bench, load, _ = steady_bench(kind)
    greatest = 0.9 * load if kind == "linear" else tmeasy()[1].longitudinal.fm[0]
    g, known = Graph(), {}

    def parameter(name: str) -> Atom:
        return g.constant(known[name])

    known |= corner_parameters(vehicle("prototype" if kind == "tmeasy" else "reference_vehicle"), WHEELS[0])
    excess = LAWS[kind].calc_excess(g, calc_used(g, g.constant(used), g.one), g.constant(load), parameter)
    (found,) = evaluate([excess], {}, FLOAT)

    def force(slip: float) -> float:
        rolling = 20.0 * (1.0 + slip) if kind == "linear" else 20.0
        return bench.steady(load, v_t=-20.0 * slip, rolling=rolling)[0]

    low, high = 0.0, 0.2
    for _ in range(30):
        slip = 0.5 * (low + high)
        low, high = (low, slip) if force(slip) > used * greatest else (slip, high)
    assert found * used * greatest / (force(1e-5) / 1e-5) == pytest.approx(slip, rel=rel + 2e-3)
