"""Position, velocity, acceleration, assembly and equilibrium problems; derivatives by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import SHIPPED, G, advance, disturb, energy, mechanism, shipped

from vehicled.errors import RunError, UsageError
from vehicled.multibody import equilibrium, problems
from vehicled.multibody.formulations import make_stepper

SLOPES = [
    # Differentiated quantity, variable, and derivative.
    ("constraints", "q", "jacobian"),
    ("forces", "q", "forces_by_q"),
    ("forces", "qd", "forces_by_qd"),
    ("pull", "q", "pull_by_q"),
    ("rate", "q", "jacobian_rate"),
    ("acceleration", "q", "acceleration_by_q"),
    ("acceleration", "qd", "acceleration_by_qd"),
]

LOADED = """
space: spatial
gravity: 0.3 -0.2 -9.81 m/s²
ground: {points: {O: 0 0 0 m}}
points: {P: 0.5 0.1 0.2 m, Q: 0.9 -0.3 0.1 m}
distances: {s: {points: [O, Q]}}
angles: {phi: {between: [x, [O, P]], about: z}}
parameters: {k: 40 N/m}
bodies:
  body:
    kind: rigid
    points: [P, Q]
    markers: {M: 0.6 0.5 0.4 m}
    mass: 2 kg
    center_of_mass: 0.8 0.1 0.4 m
    inertia: 0.2 0.3 0.4 kg·m²
  rod: {kind: bar, points: [O, P], mass: 0.7 kg}
forces:
  spring: {kind: spring, points: [O, M], stiffness: 100 N/m, damping: 7 N·s/m, free_length: 0.4 m}
  twist: {kind: torsion_spring, angle: phi, stiffness: 3 N·m/rad, damping: 0.2 N·m·s/rad, free_angle: 10 deg}
  push: {kind: actuator, points: [O, M], force: -k*(length - 0.3)**3 + tanh(rate(length))}
  wind: {kind: force, point: M, force: [exp(-M.z), "min(t, 2)*abs(rate(M.y))", "max(M.x, 0.1)/sqrt(1 + s**2)"]}
  motor: {kind: torque, body: body, torque: [sin(phi), cos(s)*rate(s), 3]}
  brake: {kind: on_coordinate, coordinate: s, force: -2*rate(s)}
"""


def loaded_mechanisms():
    return [*SHIPPED, "loaded"]


def make(name):
    return mechanism(LOADED) if name == "loaded" else shipped(name)


def value(m, what):
    if what == "pull":
        return m.calc_jacobian().T @ m.multipliers
    if what == "rate":
        return m.calc_jacobian() @ m.qd + m.calc_drift()
    if what == "acceleration":
        return m.calc_jacobian() @ m.qdd - m.calc_gamma()
    return getattr(m, f"calc_{what}")().copy()


@pytest.mark.parametrize("name", loaded_mechanisms())
@pytest.mark.parametrize(("what", "by", "result"), SLOPES)
def test_derivatives_are_those_of_central_differences(name, what, by, result):
    m = make(name)
    m.t = 0.3
    disturb(m, np.random.default_rng(3), 0.02)
    exact = getattr(m, f"calc_{result}")().copy()
    array, e = getattr(m, by), 1e-5
    for k in range(len(array)):
        middle = array[k]
        ends = []
        for end in (middle + e, middle - e):
            array[k] = end
            ends.append(value(m, what))
        array[k] = middle
        slope = (ends[0] - ends[1]) / (2 * e)
        assert exact[:, k] == pytest.approx(slope, rel=1e-5, abs=1e-6 * max(1.0, np.abs(slope).max()))


@pytest.mark.parametrize("name", loaded_mechanisms())
def test_rates_are_those_along_a_motion(name):
    """Φ̇ = Φ_q q̇ + Φ_t and Φ̈ = Φ_q q̈ − γ along q(t) of constant q̈, and the velocities of points."""
    m = make(name)
    disturb(m, np.random.default_rng(5), 0.02)
    q, qd, qdd, t0, e = m.q.copy(), m.qd.copy(), m.qdd.copy(), 0.4, 1e-5
    inputs = m.inputs.copy()

    def at(t):
        m.t = t0 + t
        m.q[:], m.qd[:] = q + t * qd + 0.5 * t * t * qdd, qd + t * qdd
        m.inputs[:, 0] = inputs[:, 0] + t * inputs[:, 1] + 0.5 * t * t * inputs[:, 2]
        m.inputs[:, 1] = inputs[:, 1] + t * inputs[:, 2]
        points = np.array([*m.calc_point_positions().values()])
        rates = np.array([*m.calc_point_velocities().values()])
        return m.calc_constraints().copy(), value(m, "rate"), points, rates

    up, down, now = at(e), at(-e), at(0.0)
    assert now[1] == pytest.approx((up[0] - down[0]) / (2 * e), rel=1e-6, abs=1e-6)
    assert value(m, "acceleration") == pytest.approx((up[1] - down[1]) / (2 * e), rel=1e-4, abs=1e-5)
    assert now[3] == pytest.approx((up[2] - down[2]) / (2 * e), abs=1e-6)
    accelerations = np.array([*m.calc_point_accelerations().values()])
    assert accelerations == pytest.approx((up[3] - down[3]) / (2 * e), rel=1e-6, abs=1e-5)


def test_forces_of_springs_and_gravity_are_the_slope_of_the_potential():
    text = LOADED[: LOADED.index("  push:")].replace("damping: 7 N·s/m", "damping: 0 N·s/m")
    m = mechanism(text)
    disturb(m, np.random.default_rng(1))
    m.qd[:] = 0.0
    forces, e = m.calc_forces().copy(), 1e-6
    for k in range(len(m.q)):
        middle, ends = m.q[k], []
        for end in (middle + e, middle - e):
            m.q[k] = end
            ends.append(m.calc_potential_energy())
        m.q[k] = middle
        assert forces[k] == pytest.approx(-(ends[0] - ends[1]) / (2 * e), rel=1e-6, abs=1e-6)


def test_power_of_expressions_is_that_of_force_times_velocity():
    """Actuator, force at a marker, torque on a body, force on a coordinate: Q·q̇ by hand."""
    m = mechanism(LOADED)
    m.t = 1.3
    rng = np.random.default_rng(2)
    m.qd[:] = problems.nullspace(m.calc_jacobian()) @ rng.normal(size=5)
    m.set_parameters({f"gravity.{a}": 0.0 for a in "xyz"})
    positions, velocities = m.calc_point_positions(), m.calc_point_velocities()
    at, v = positions["M"], velocities["M"]
    s, sd = m.q[m.index("s")], m.qd[m.index("s")]
    phi, phid = m.q[m.index("phi")], m.qd[m.index("phi")]
    length, rate = np.linalg.norm(at), v @ at / np.linalg.norm(at)
    wind = np.array([np.exp(-at[2]), 1.3 * abs(v[1]), at[0] / np.sqrt(1 + s * s)])
    torque = np.array([np.sin(phi), np.cos(s) * sd, 3.0])
    # The body's own angular velocity from three of its points.
    p, q = positions["P"], positions["Q"]
    rows = np.array([q - p, at - p, np.cross(q - p, at - p)])
    rates = np.array([velocities["Q"] - velocities["P"], v - velocities["P"], np.zeros(3)])
    rates[2] = np.cross(rates[0], rows[1]) + np.cross(rows[0], rates[1])
    spin = np.linalg.solve(rows, rates)
    omega = 0.5 * np.array([spin[1, 2] - spin[2, 1], spin[2, 0] - spin[0, 2], spin[0, 1] - spin[1, 0]])
    power = -(100.0 * (length - 0.4) + 7.0 * rate) * rate
    power -= (3.0 * (phi - np.radians(10)) + 0.2 * phid) * phid
    power += (-40.0 * (length - 0.3) ** 3 + np.tanh(rate)) * rate
    power += wind @ v + torque @ omega - 2.0 * sd * sd
    assert m.calc_forces() @ m.qd == pytest.approx(power, rel=1e-9)


def test_energy_changes_by_the_power_of_forces_without_potential():
    """d(T + V)/dt is the power of damper and tyre; the spring's energy is part of V."""
    m = shipped("suspension_corner")
    problems.solve_velocity(m, np.array([0.4]))
    problems.solve_dynamics(m)
    foot, top = (m.calc_point_positions()[n] for n in ("spring_foot", "spring_top"))
    along = (top - foot) / np.linalg.norm(top - foot)
    rate = -(m.calc_point_velocities()["spring_foot"] @ along)
    place, speed = m.calc_point_positions()["wheel_center"], m.calc_point_velocities()["wheel_center"]
    tyre = 205e3 * (0.3075 - place[2]) * speed[2]
    before, e = energy(m), 1e-6
    state = m.get_state()
    advance(m, e, e, "matrix_r", "runge_kutta_4")
    assert (energy(m) - before) / e == pytest.approx(-3800 * rate**2 + tyre, rel=1e-3)
    m.set_state(state)
    assert energy(m) == before


# -- kinematics in closed form ------------------------------------------------------------------------------


def test_slider_crank_in_closed_form():
    m = shipped("slider_crank")
    r, length = 0.06, 0.18
    for theta in np.linspace(-3.0, 3.0, 7):
        w, a = 40.0, -300.0
        problems.solve_position(m, np.array([theta])).require("position")
        problems.solve_velocity(m, np.array([w]))
        problems.solve_acceleration(m, np.array([a]))
        sin, cos = np.sin(theta), np.cos(theta)
        root = np.sqrt(length**2 - (r * sin) ** 2)
        k = m.index("stroke")
        assert m.q[k] == pytest.approx(r * cos + root, abs=1e-12)
        slope = -r * sin - r * r * sin * cos / root
        curvature = -r * cos - r * r * ((cos**2 - sin**2) / root + (r * sin * cos) ** 2 / root**3)
        assert m.qd[k] == pytest.approx(slope * w, abs=1e-10)
        assert m.qdd[k] == pytest.approx(slope * a + curvature * w * w, abs=1e-8)


def test_four_bar_meets_freudensteins_equation():
    """K1 cos θ4 − K2 cos θ2 + K3 = cos(θ2 − θ4), angles of crank and rocker from A–B."""
    m = shipped("four_bar")
    ground, crank, coupler, rocker = 10.0, 2.0, 8.0, 5.0
    k1, k2 = ground / crank, ground / rocker
    k3 = (crank**2 - coupler**2 + rocker**2 + ground**2) / (2 * crank * rocker)
    for theta in np.linspace(np.pi / 3, np.pi / 3 + 2 * np.pi, 25):
        problems.solve_position(m, np.array([theta])).require("position")
        q = m.calc_point_positions()["Q"]
        out = np.arctan2(q[1], q[0] - 10.0)
        assert k1 * np.cos(out) - k2 * np.cos(theta) + k3 == pytest.approx(np.cos(theta - out), abs=1e-11)


@pytest.mark.parametrize("name", SHIPPED)
def test_velocity_map_gives_all_rates_from_the_independent_ones(name):
    m = shipped(name)
    rng = np.random.default_rng(0)
    zd, zdd = rng.normal(size=(2, len(m.independent)))
    problems.solve_velocity(m, zd)
    r, s = problems.calc_velocity_map(m)
    assert m.qd == pytest.approx(r @ zd - s @ m.calc_drift(), abs=1e-12)
    assert m.calc_jacobian() @ m.qd + m.calc_drift() == pytest.approx(0.0, abs=1e-12)
    problems.solve_acceleration(m, zdd)
    assert m.qdd == pytest.approx(r @ zdd + s @ m.calc_gamma(), abs=1e-9)
    assert m.calc_jacobian() @ m.qdd == pytest.approx(m.calc_gamma(), abs=1e-9)


@pytest.mark.parametrize("name", [*SHIPPED, "loaded"])
def test_jacobians_of_accelerations_are_those_of_central_differences(name):
    m = make(name)
    z, zd, e = m.z, m.zd + 0.3, 1e-6

    def acceleration(z, zd):
        m.set_independent_state(z, zd).require("state")
        return m.zdd

    slopes = []
    for by_rate in (False, True):
        columns = []
        for k in range(len(z)):
            d = np.zeros(len(z))
            d[k] = e
            ends = [acceleration(z + s * d * (not by_rate), zd + s * d * by_rate).copy() for s in (1.0, -1.0)]
            columns.append((ends[0] - ends[1]) / (2 * e))
        slopes.append(np.array(columns).T)
    acceleration(z, zd)
    by_z, by_zd = problems.calc_acceleration_jacobians(m)
    for exact, slope in ((by_z, slopes[0]), (by_zd, slopes[1])):
        assert exact == pytest.approx(slope, rel=1e-5, abs=1e-5 * max(1.0, np.abs(slope).max()))


# -- assembly -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("least", [1.0, 1e-7, 1e-9, 0.0])
def test_least_squares_ignores_small_singular_values_of_square_matrices_too(least):
    random = np.random.default_rng(3)
    u, v = (np.linalg.qr(random.normal(size=(5, 5)))[0] for _ in range(2))
    matrix, right = u @ np.diag([1.0, 0.8, 0.6, 0.4, least]) @ v.T, random.normal(size=(5, 2))
    expected = np.linalg.pinv(matrix, rcond=problems.RANK_TOLERANCE) @ right
    assert problems.least_squares(matrix, right) == pytest.approx(expected, rel=1e-6)
    assert problems.least_squares(matrix, right[:, 0]) == pytest.approx(expected[:, 0], rel=1e-6)


def test_assembly_moves_coordinates_as_little_as_possible():
    """The point of a circle nearest to a guess lies on the radius through the guess."""
    text = """
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 3 4 m}
bodies: {bar: {kind: bar, points: [A, P], length: 2 m, mass: 1 kg}}
"""
    m = mechanism(text)
    assert m.q == pytest.approx([1.2, 1.6], abs=1e-10)
    # A larger weight means less motion: minimise 100 (x − 1.9)² + (y − 0.1)² on the circle, in polar form.
    weights = np.array([100.0, 1.0])
    problems.assemble(m, np.array([1.9, 0.1]), weights=weights).require("assembly")
    angles = np.linspace(-np.pi, np.pi, 2_000_001)
    cost = 100 * (2 * np.cos(angles) - 1.9) ** 2 + (2 * np.sin(angles) - 0.1) ** 2
    best = angles[np.argmin(cost)]
    # To first order in the curvature of the constraint.
    assert m.q == pytest.approx([2 * np.cos(best), 2 * np.sin(best)], abs=0.02)


def test_assembly_keeps_fixed_coordinates():
    m = shipped("four_bar")
    guess = m.q + 0.2
    held = {m.index("theta"): 1.4}
    assert problems.assemble(m, guess, held).converged
    assert m.q[m.index("theta")] == 1.4
    assert m.q[:2] == pytest.approx([2 * np.cos(1.4), 2 * np.sin(1.4)], abs=1e-12)


def test_far_positions_of_a_pendulum_are_reached_at_the_given_angle():
    m = shipped("pendulum")
    for theta in (3.0, -3.0, 40.0, 0.5):
        problems.solve_position(m, np.array([theta])).require("position")
        assert m.q[:2] == pytest.approx([np.cos(theta), np.sin(theta)], abs=1e-11)


def test_a_crank_that_is_turned_far_stays_in_the_same_assembly():
    m = shipped("four_bar")
    home, z = m.get_state(), m.z
    for move in np.linspace(-6.0, 6.0, 17):
        m.set_state(home)
        for part in np.linspace(0.0, 1.0, 301):
            problems.solve_position(m, z + part * move).require("a small step")
        expected = m.q.copy()
        m.set_state(home)
        problems.solve_position(m, z + move).require("a turn")
        assert m.q == pytest.approx(expected, abs=1e-9), move


def test_a_position_that_cannot_be_reached_is_reported():
    m = shipped("slider_crank")
    m.set_independent(np.array([m.index("stroke")]))
    solution = problems.solve_position(m, np.array([0.3]))
    assert not solution.converged
    assert solution.residual > 1e-4
    assert solution.iterations == 30
    with pytest.raises(
        RunError, match=r"^position did not converge in 30 iterations: residual .*, last step"
    ):
        solution.require("position")


# -- equilibrium --------------------------------------------------------------------------------------------


def test_equilibrium_of_a_bar_on_a_torsion_spring():
    """k θ + m g l/2 cos θ = 0 for the angle θ from the horizontal, by bisection."""
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [A, P]]}}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 2 kg}}
forces: {spring: {kind: torsion_spring, angle: theta, stiffness: 20 N·m/rad}}
"""
    m = mechanism(text)
    equilibrium.solve_equilibrium(m).require("equilibrium")
    low, high = -1.0, 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if 20 * middle + G * np.cos(middle) < 0 else (low, middle)
    assert m.q[m.index("theta")] == pytest.approx(low, abs=1e-10)
    assert equilibrium.is_stable(m)
    # The bar stays at rest there.
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(0.0, abs=1e-9)


def test_equilibrium_of_a_pendulum_is_stable_hanging_and_unstable_upright():
    m = shipped("pendulum")
    for start, end, stable in ((-1.3, -np.pi / 2, True), (1.3, np.pi / 2, False)):
        problems.solve_position(m, np.array([start])).require("position")
        equilibrium.solve_equilibrium(m).require("equilibrium")
        assert m.z[0] == pytest.approx(end, abs=1e-9)
        assert equilibrium.is_stable(m) is stable
    tension = m.multipliers[0] * 2.0 * 1.0  # the gradient of |AP|² is twice the vector AP
    assert abs(tension) == pytest.approx(0.5 * G, rel=1e-9)


def test_a_horizontal_pendulum_yields_to_its_weight():
    """The torque of the weight does not change there with a small motion, so that Newton finds no way."""
    m = shipped("pendulum")
    problems.solve_position(m, np.array([0.0])).require("position")
    equilibrium.solve_equilibrium(m).require("equilibrium")
    assert m.z[0] == pytest.approx(-np.pi / 2, abs=1e-9)
    assert equilibrium.is_stable(m)


def test_suspension_stands_at_design_height():
    """The virtual power of tyre, strut and weights is zero."""
    m = shipped("suspension_corner")
    equilibrium.solve_equilibrium(m).require("equilibrium")
    assert equilibrium.is_stable(m)
    assert m.calc_point_positions()["wheel_center"][2] == pytest.approx(0.294, abs=1e-5)
    problems.solve_velocity(m, np.array([1.0]))
    places, rates = m.calc_point_positions(), m.calc_point_velocities()
    strut = places["spring_top"] - places["spring_foot"]
    length = np.linalg.norm(strut)
    power = 205e3 * (0.3075 - places["wheel_center"][2]) * rates["wheel_center"][2]
    power += 52e3 * (0.49624 - length) * (strut @ rates["spring_foot"]) / length * -1.0
    weights = -G * sum(
        part_mass * rate
        for part_mass, rate in zip(
            (4.5, 3.0, 27.5), (centre_rate(m, b) for b in m.compiled.bodies[:3]), strict=True
        )
    )
    assert power + weights == pytest.approx(0.0, abs=1e-6)


def centre_rate(m, body):
    """Vertical velocity of a body's centre of mass, from the power of its weight for an additional 1 kg."""
    before = m.get_parameter(f"{body}.mass")
    power = m.calc_forces() @ m.qd
    m.set_parameters({f"{body}.mass": before + 1.0})
    more = m.calc_forces() @ m.qd
    m.set_parameters({f"{body}.mass": before})
    return -(more - power) / G


def test_a_missing_equilibrium_is_reported():
    text = """
space: planar
points: {P: 1 0 m}
bodies: {mass: {kind: point_mass, point: P, mass: 1 kg}}
forces: {push: {kind: force, point: P, force: [1 + P.x**2, 0]}}
"""
    solution = equilibrium.solve_equilibrium(mechanism(text))
    assert not solution.converged
    assert solution.residual > 0.1


def test_applied_forces_act_in_dynamics_and_steps():
    m = shipped("pendulum")
    m.applied[m.index("theta")] = 0.5 * G
    problems.solve_dynamics(m)
    assert m.qdd == pytest.approx(0.0, abs=1e-12)
    make_stepper("ali3p").step(m, 1e-3).require("step")
    assert m.z[0] == pytest.approx(0.0, abs=1e-12)


def test_parameters_change_the_compiled_mechanism():
    m = shipped("pendulum")
    m.set_parameters({"bar.length": 2.0})
    assert m.get_parameter("bar.length") == 2.0
    problems.assemble(m, m.q).require("assembly")
    problems.solve_dynamics(m)
    assert m.q[0] == pytest.approx(2.0)
    assert m.qdd[m.index("theta")] == pytest.approx(-0.75 * G)
    with pytest.raises(UsageError):
        m.set_parameters({"bar.size": 1.0})


@pytest.mark.parametrize(("z", "zd"), [([0.1], [0.0, 0.0]), ([0.1, 0.2], [0.0]), ([[0.1, 0.2]], [0.0, 0.0])])
def test_a_state_of_wrong_size_is_refused_and_changes_nothing(z, zd):
    m = shipped("five_bar")
    before = m.q.copy()
    with pytest.raises(UsageError, match=r"expected 2 \(theta1, theta2\), got shape"):
        m.set_independent_state(np.array(z), np.array(zd))
    assert np.array_equal(m.q, before)


SLIDER = """
space: planar
ground: {{points: {{A: 0 0 m}}}}
points: {{P: {x} {y} m, Q: {s} 0 m}}
distances: {{s: {{points: [A, Q]{along}}}}}
bodies:
  crank: {{kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}
  rod: {{kind: bar, points: [P, Q], length: {rod} m, mass: 1 kg}}
joints: {{guide: {{kind: point_on_line, points: [A, Q], axis: x}}}}
independent: [s]
coordinates: {form}
"""


@pytest.mark.parametrize("form", ["natural", "relative"])
@pytest.mark.parametrize("along", [", along: x", ""])
@pytest.mark.parametrize("rod", [0.6, 1.0, 1.7])
def test_a_slider_moved_far_stays_on_its_side_of_the_dead_centres(form, along, rod):
    """The crank stays above the line of the guide, which it can cross only at dead centres."""
    shortest, longest = abs(1.0 - rod) + 0.005, 1.0 + rod - 0.005
    for start in np.linspace(shortest, longest, 4):
        cosine = (1.0 + start**2 - rod**2) / (2.0 * start)
        place = {"x": float(cosine), "y": float(np.sqrt(1.0 - cosine**2)), "s": float(start)}
        m = mechanism(SLIDER.format(**place, along=along, rod=rod, form=form))
        there = m.get_state()
        for s in np.linspace(shortest, longest, 9):
            m.set_state(there)
            assert problems.solve_position(m, np.array([s])).converged
            height = np.sqrt(1.0 - ((1.0 + s**2 - rod**2) / (2.0 * s)) ** 2)
            assert m.calc_point_positions()["P"][1] == pytest.approx(height, abs=1e-9), (start, s)
