"""Motion of mechanisms in every formulation: against closed forms, published figures and each other."""

from __future__ import annotations

import numpy as np
import pytest
from mechanism_rig import FITTING, SHIPPED, G, advance, energy, mechanism, shipped
from scipy.integrate import quad, solve_ivp

from vehicled.errors import UsageError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.problems import solve_dynamics


@pytest.mark.parametrize(("formulation", "integrator", "order"), FITTING)
def test_error_falls_with_the_order_of_the_integrator(formulation, integrator, order):
    """Against the solution of θ̈ = −(3 g / 2 l) cos θ for a uniform bar."""
    duration = 0.5
    truth = solve_ivp(
        lambda t, y: [y[1], -1.5 * G * np.cos(y[0])], (0, duration), [0.0, 0.0], rtol=1e-12, atol=1e-13
    )
    errors = []
    for h in (10e-3, 5e-3):
        m = shipped("pendulum")
        errors.append(abs(advance(m, h, duration, formulation, integrator).z[0] - truth.y[0, -1]))
        assert np.abs(m.calc_constraints()).max() < (10 * h) ** order
    # The part of the error from stabilisation is not a pure power of h.
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.35)


@pytest.mark.parametrize("amplitude", [0.1, 1.5, 2.8])
def test_period_of_a_pendulum_is_the_elliptic_integral(amplitude):
    m = shipped("pendulum")
    m.set_independent_state(np.array([amplitude - np.pi / 2]), np.zeros(1))
    k = np.sin(amplitude / 2)
    quarter, _ = quad(lambda u: 1 / np.sqrt(1 - (k * np.sin(u)) ** 2), 0, np.pi / 2)
    period = 4 * quarter / np.sqrt(1.5 * G)
    steps = 500
    advance(m, period / steps, period, "matrix_r", "runge_kutta_4")
    assert m.z[0] == pytest.approx(amplitude - np.pi / 2, abs=1e-8)
    assert m.zd[0] == pytest.approx(0.0, abs=1e-6)


CHAIN = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m, P2: 1 0 m, Q: 2 0 m, Q2: 2 0 m, R: 3 0 m}
bodies:
  upper: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  middle: {kind: bar, points: [P2, Q2], length: 1 m, mass: %s}
  lower: {kind: bar, points: [Q, R], length: 1 m, mass: %s}
joints:
  one: {kind: revolute, points: [P, P2]}
  two: {kind: revolute, points: [Q2, Q]}
"""


@pytest.mark.parametrize("formulation", ["penalty", "lagrange"])
@pytest.mark.parametrize("masses", [("1 kg", "1e-8 kg"), ("1e-8 kg", "1 kg"), ("1e-10 kg", "1e-10 kg")])
def test_light_bodies_move_as_without_rounding(formulation, masses):
    """In M + α Φ_qᵀ Φ_q they would be lost. Independent coordinates need no such sum."""
    expected, m = (mechanism(CHAIN % masses) for _ in range(2))
    advance(expected, 1e-3, 0.3, "matrix_r")
    advance(m, 1e-3, 0.3, formulation)
    assert m.q == pytest.approx(expected.q, abs=3e-5)


DOUBLE_PENDULUM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 0.6 0 m, Q: 1.0 0.1 m}
bodies:
  upper: {kind: bar, points: [A, P], length: 0.6 m, mass: 2 kg}
  lower: {kind: bar, points: [P, Q], length: 0.4 m, mass: 1 kg}
"""


@pytest.mark.parametrize(("formulation", "integrator", "order"), FITTING)
def test_energy_of_a_double_pendulum_is_conserved(formulation, integrator, order):
    """The energy error falls with the step."""
    lost = []
    for h in (4e-3, 2e-3):
        m = mechanism(DOUBLE_PENDULUM)
        at_start = energy(m)
        advance(m, h, 0.4, formulation, integrator)
        lost.append(abs(energy(m) - at_start))
    assert lost[1] < 20.0 * (2e-3 * 15) ** order
    assert lost[1] < 0.62 * lost[0]


@pytest.mark.parametrize("name", [n for n in SHIPPED if n != "pendulum"])
def test_formulations_agree(name):
    """At small steps they give the same motion and the same constraint forces."""
    h, duration = 2.5e-4, 0.05

    def start():
        m = shipped(name)
        if name == "suspension_corner":  # at rest at its start
            m.set_independent_state(m.z + 0.02, np.array([0.5])).require("start")
        return m

    reference = advance(start(), h, duration, "matrix_r", "runge_kutta_4")
    scale = np.abs(reference.qd).max()
    for formulation in ("ali3p", "matrix_r", "penalty", "lagrange"):
        m = advance(start(), h, duration, formulation)
        assert m.t == pytest.approx(duration)
        assert m.q == pytest.approx(reference.q, abs=2e-5 * scale)
        assert m.qd == pytest.approx(reference.qd, abs=1e-3 * scale)
        pulls = [x.calc_jacobian().T @ x.multipliers for x in (m, reference)]
        assert pulls[0] == pytest.approx(pulls[1], abs=5e-3 * np.abs(pulls[1]).max())


PARALLELOGRAM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m, B: 1 0 m, C: 2 0 m}}
points: {P: 0.6 0.8 m, Q: 1.6 0.8 m, R: 2.6 0.8 m}
bodies:
  left: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}
  middle: {kind: bar, points: [B, Q], length: 1 m, mass: 1 kg}
  right: {kind: bar, points: [C, R], length: 1 m, mass: 1 kg}
  coupler:
    kind: rigid
    points: {P: 0 0 m, Q: 1 0 m, R: 2 0 m}
    mass: 2 kg
    center_of_mass: 1 0 m
    inertia: 0.5 kg·m²
"""


@pytest.mark.parametrize(("formulation", "integrator", "order"), FITTING)
def test_redundant_constraints_change_nothing(formulation, integrator, order):
    """One of three parallel cranks is redundant. φ̈ of the equivalent bar is known in closed form."""
    m = mechanism(PARALLELOGRAM)
    jacobian = m.calc_jacobian()
    assert np.linalg.matrix_rank(jacobian) == len(jacobian) - 1 == len(m.q) - 1
    # Three bars turn, the coupler only moves: (3·⅓ + 2) φ̈ = −(3·½ + 2) g cos φ.
    rate = -3.5 / 3.0 * G
    phi = np.arctan2(0.8, 0.6)
    assert m.qdd[m.index("P.x")] == pytest.approx(-0.8 * rate * 0.6, rel=1e-9)
    truth = solve_ivp(lambda t, y: [y[1], rate * np.cos(y[0])], (0, 0.3), [phi, 0.0], rtol=1e-11, atol=1e-12)
    h = 1e-3
    advance(m, h, 0.3, formulation, integrator)
    assert m.q[:2] == pytest.approx(
        [np.cos(truth.y[0, -1]), np.sin(truth.y[0, -1])], abs=3.0 * (5 * h) ** order + 1e-8
    )


def test_other_independent_coordinates_are_chosen_where_the_given_ones_fail():
    """At the turning points of x, x does not determine the position of a pendulum."""
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 0.6 -0.8 m}
velocities: {P: 4 0 m/s}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 1 kg}}
independent: [P.x]
"""
    m = mechanism(text)
    assert m.qd == pytest.approx([4.0, 3.0])
    at_start, chosen = energy(m), set()
    stepper = make_stepper("matrix_r", "runge_kutta_4")
    for _ in range(1000):
        stepper.step(m, 1e-3).require("step")
        chosen.add(m.coordinate_names[m.independent[0]])
    assert chosen == {"P.x", "P.y"}
    assert energy(m) == pytest.approx(at_start, abs=1e-5)


FREE_BODY = """
space: spatial
points: {P: 0.1 0.2 0.3 m}
bodies:
  body:
    kind: rigid
    points: {P: 0.2 -0.1 0.3 m}
    mass: 3 kg
    center_of_mass: 0 0 0 m
    inertia: 0.4 0.7 0.9 kg·m²
    products: 0.05 -0.02 0.03 kg·m²
"""


@pytest.mark.parametrize(
    ("formulation", "integrator"), [("ali3p", "trapezoidal"), ("lagrange", "runge_kutta_4")]
)
def test_torque_free_body_conserves_energy_and_momentum(formulation, integrator):
    """Against Euler's equations in the body's axes; momentum is compared in the ground's axes."""
    m = mechanism(FREE_BODY)
    inertia = np.array([[0.4, 0.05, 0.03], [0.05, 0.7, -0.02], [0.03, -0.02, 0.9]])
    w = np.array([0.3, 4.0, 0.2])
    q, qd = m.q.reshape(4, 3), m.qd.reshape(4, 3)
    assert q[1:] == pytest.approx(np.eye(3))
    qd[1:] = np.cross(w, q[1:])
    qd[0] = np.cross(w, [0.2, -0.1, 0.3]) + np.array([1.0, 0.0, -0.5])
    solve_dynamics(m)
    expected = 0.5 * w @ inertia @ w + 0.5 * 3.0 * 1.25
    assert m.calc_kinetic_energy() == pytest.approx(expected, rel=1e-12)

    def euler(t, w):
        return np.linalg.solve(inertia, np.cross(inertia @ w, w))

    truth = solve_ivp(euler, (0, 1.0), w, rtol=1e-11, atol=1e-12).y[:, -1]
    advance(m, 1e-3, 1.0, formulation, integrator)
    axes, rates = q[1:], qd[1:]
    body = np.array([rates[1] @ axes[2], rates[2] @ axes[0], rates[0] @ axes[1]])
    close = 3e-4 if integrator == "trapezoidal" else 1e-7
    assert body == pytest.approx(truth, abs=close * 4)
    assert (inertia @ body) @ axes == pytest.approx(inertia @ w, abs=close * 4)
    assert m.calc_kinetic_energy() == pytest.approx(expected, rel=close)
    centre = qd[0] - np.array([0.2, -0.1, 0.3]) @ rates
    assert centre == pytest.approx([1.0, 0.0, -0.5], abs=close)


def test_springs_between_bodies_conserve_momentum():
    text = """
space: planar
points: {P: 0 0 m, Q: 1 0 m, R: 2 0.5 m}
velocities: {P: 1 0 m/s, R: 0 2 m/s}
bodies:
  one: {kind: bar, points: [P, Q], length: 1 m, mass: 2 kg}
  two: {kind: point_mass, point: R, mass: 1.5 kg}
forces:
  spring: {kind: spring, points: [Q, R], stiffness: 300 N/m, free_length: 0.8 m}
  pusher: {kind: actuator, points: [P, R], force: 5*sin(3*t) + length}
"""
    m = mechanism(text)

    def momentum():
        at, rate = m.q.reshape(-1, 2), m.qd.reshape(-1, 2)
        mass = m.mass.reshape(3, 2, 3, 2)[:, 0, :, 0]
        linear = (mass @ rate).sum(axis=0)
        return [*linear, (at[:, 0] * (mass @ rate)[:, 1] - at[:, 1] * (mass @ rate)[:, 0]).sum()]

    before = momentum()
    assert np.abs(before).max() > 1.0
    advance(m, 1e-3, 1.0)
    assert momentum() == pytest.approx(before, abs=1e-5)


@pytest.mark.parametrize(
    ("formulation", "integrator", "says"),
    [
        ("ali3p", "runge_kutta_4", "integrator: ALI3-P is made with the trapezoidal rule"),
        ("ali3p", "forward_euler", "integrator: ALI3-P is made with the trapezoidal rule"),
        (
            "matrix_s",
            "trapezoidal",
            "formulation: expected ali3p, matrix_r, penalty, lagrange, got 'matrix_s'",
        ),
        ("matrix_r", "heun", "integrator: expected trapezoidal, forward_euler, runge_kutta_4, got 'heun'"),
    ],
)
def test_unknown_or_incompatible_formulations_and_integrators_are_refused(formulation, integrator, says):
    with pytest.raises(UsageError) as error:
        make_stepper(formulation, integrator)
    assert str(error.value).startswith(says)


@pytest.mark.parametrize("formulation", ["ali3p", "matrix_r", "penalty", "lagrange"])
def test_a_step_that_does_not_converge_is_reported(formulation):
    """The rates are so high that the step is far too long for the motion."""
    m = shipped("slider_crank")
    m.qd *= 1e4
    solution = make_stepper(formulation).step(m, 0.1)
    assert not solution.converged
    assert not solution.residual < 1e-9


@pytest.mark.parametrize(("formulation", "integrator", "order"), FITTING)
def test_mechanisms_without_constraints_and_without_freedom(formulation, integrator, order):
    """A thrown mass, and a bar whose motion is fully prescribed."""
    thrown = mechanism("""
space: planar
gravity: 0 -9.81 m/s²
points: {P: 1 0 m}
velocities: {P: 1 2 m/s}
bodies: {mass: {kind: point_mass, point: P, mass: 1 kg}}
""")
    advance(thrown, 1e-3, 0.5, formulation, integrator)
    assert thrown.q == pytest.approx([1.5, 1.0 - 0.125 * G], abs=3e-3 if order == 1 else 1e-11)
    driven = mechanism("""
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m}
angles: {theta: {between: [x, [A, P]]}}
bodies: {bar: {kind: bar, points: [A, P], length: 1 m, mass: 3 kg}}
drives: {theta: sin(2*t)}
""")
    advance(driven, 1e-3, 0.5, formulation, integrator)
    angle = np.sin(1.0)
    assert driven.q == pytest.approx([np.cos(angle), np.sin(angle), angle], abs=1e-3 if order == 1 else 1e-6)


def test_kernels_of_extensions_see_the_same_state():
    """The extension is a gyroscope on the coupler, with its symbolic row of the Jacobian."""
    description = load_description("four_bar")

    def gyroscope(program, model):
        bar = model.points["Q"] - model.points["P"]
        rate = model.cross(bar.position, bar.velocity) / bar.position.dot(bar.position)
        by_q = [model.graph.derivative(rate, c.q) for c in model.system.coordinates]
        return program.kernel("gyroscope", zip(program.array("gyroscope", 6), [rate, *by_q], strict=True))

    m = Mechanism(CompiledMechanism(description, (gyroscope,)))
    advance(m, 5e-3, 0.5)

    def read():
        m.call(m.compiled.result(gyroscope))
        return m.view("gyroscope").copy()

    rate, *row = read()
    points, rates = m.calc_point_positions(), m.calc_point_velocities()
    along = (points["Q"] - points["P"]) / 8.0
    assert rate == pytest.approx(np.cross(along, rates["Q"] - rates["P"])[2] / 8.0)
    for k in range(5):
        middle, ends = m.q[k], []
        for end in (middle + 1e-6, middle - 1e-6):
            m.q[k] = end
            ends.append(read()[0])
        m.q[k] = middle
        assert row[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-7)


@pytest.mark.parametrize("coordinates", [pytest.param("natural", marks=pytest.mark.slow), "relative"])
@pytest.mark.parametrize(
    "size", [100.0, *(pytest.param(size, marks=pytest.mark.slow) for size in (1.0, 0.01))]
)
def test_a_linkage_of_any_size_passes_dead_centres_by_changing_coordinates(size, coordinates):
    """Watt's linkage falls and swings between end positions, at which one of its bars is at rest for a moment.

    Gravity is proportional to the size, so that the motion takes the same time at any size.
    """
    lengths = {"A": (0.0, 0.0), "D": (0.5, 0.1), "B": (0.24, 0.01), "C": (0.26, 0.09)}
    a, d, b, c = (f"{size * x:.9g} {size * y:.9g} m" for x, y in lengths.values())
    m = mechanism(f"""
space: planar
coordinates: {coordinates}
gravity: 0 {-9.81 * size:.9g} m/s²
ground: {{points: {{A: {a}, D: {d}}}}}
points: {{B: {b}, C: {c}}}
angles: {{left: {{between: [x, [A, B]]}}}}
bodies:
  left_bar: {{kind: bar, points: [A, B], mass: 0.5 kg}}
  right_bar: {{kind: bar, points: [D, C], mass: 0.5 kg}}
  coupler: {{kind: bar, points: [B, C], mass: 0.2 kg}}
""")
    whole = 1.2 * 9.81 * size * 0.1 * size  # J, for a fall by the height difference of the ground hinges
    for integrator in ("runge_kutta_4", "trapezoidal"):
        start = m.get_state()
        before = energy(m)
        advance(m, 1e-3, 1.0, "matrix_r", integrator)
        assert energy(m) == pytest.approx(before, abs=5e-3 * whole)
        m.set_state(start)


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning", "ignore:invalid value:RuntimeWarning")
def test_diverging_steps_fail_without_output_on_standard_output(capfd):
    """The springs are too stiff for the explicit rule; LAPACK prints to standard output if values are not finite."""
    m, stepper = shipped("squeezer"), make_stepper("lagrange", "runge_kutta_4")
    assert not all(stepper.step(m, 0.01).converged for _ in range(10))
    assert capfd.readouterr().out == ""
