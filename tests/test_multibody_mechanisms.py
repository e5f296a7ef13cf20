"""Natural coordinates and the integrator on mechanisms whose motion is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from vehicled.multibody import ali3p
from vehicled.multibody.natural import Frame, Inertia, mass_terms
from vehicled.multibody.system import System
from vehicled.symbolic import python
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector

G = 9.81


class Mechanism:
    """A compiled system of rank-0 coordinates."""

    def __init__(self, describe):
        g = Graph()
        self.program = Program(g)
        self.system = System(g)
        h, alpha = self.program.array("integration", 2)
        self.vectors = describe(g, self.system)
        ali3p.declare_state(self.program, self.system)
        step = ali3p.build(self.program, self.system, h, alpha)
        self.program.finish([])
        self._step = compile_program(self.program, (step.routine,)).functions.routine(step.routine.handle)
        self.w = self.program.layout.allocate()
        self.view("integration")[1] = 1e9

    def view(self, name: str) -> np.ndarray:
        return self.program.layout.view(self.w, name)

    def step(self, h: float) -> None:
        self.view("integration")[0] = h
        assert self._step(self.w.ctypes.data, 20, 1e-22, 1e-8, 2) > 0


def pendulum(g: Graph, system: System) -> list:
    """A point on a massless rod, in three dimensions."""
    point = system.vector("p", Vector(g.one, g.zero, g.zero), point=True)
    (basic,) = point.terms
    system.add_mass(basic, basic, g.constant(2.0))
    p = point.position
    system.constraint("length", p.dot(p) - 1.0)
    system.gravity(Vector(g.zero, g.zero, g.constant(-G)))
    return [point]


@pytest.mark.parametrize("amplitude", [0.1, 1.5, 2.8])
def test_pendulum_has_the_period_of_the_elliptic_integral(amplitude):
    m = Mechanism(pendulum)
    m.view("q")[:] = (np.sin(amplitude), 0.0, -np.cos(amplitude))
    tangent = np.array([-np.cos(amplitude), 0.0, -np.sin(amplitude)])
    m.view("qdd")[:] = tangent * G * np.sin(amplitude)
    k = np.sin(amplitude / 2)
    quarter, _ = quad(lambda u: 1 / np.sqrt(1 - (k * np.sin(u)) ** 2), 0, np.pi / 2)
    h, x, t = 1e-3, [], []
    for n in range(round(2.2 * 4 * quarter / np.sqrt(G) / h)):
        m.step(h)
        x.append(m.view("q")[0])
        t.append((n + 1) * h)
        assert abs(m.view("q") @ m.view("q") - 1.0) < 1e-10
        assert abs(m.view("q") @ m.view("qd")) < 1e-9
    x, t = np.array(x), np.array(t)
    rising = np.flatnonzero((x[:-1] < 0) & (x[1:] >= 0))
    crossings = t[rising] - x[rising] * h / (x[rising + 1] - x[rising])
    assert crossings[1] - crossings[0] == pytest.approx(4 * quarter / np.sqrt(G), rel=1e-4)


def test_error_falls_with_the_square_of_the_step():
    ends = []
    for h in (20e-3, 10e-3, 5e-3):
        m = Mechanism(pendulum)
        m.view("q")[:] = (1.0, 0.0, 0.0)
        m.view("qdd")[2] = -G
        for _ in range(round(1.0 / h)):
            m.step(h)
        ends.append(m.view("q")[:3].copy())
    assert np.linalg.norm(ends[0] - ends[1]) / np.linalg.norm(ends[1] - ends[2]) == pytest.approx(
        4.0, rel=0.1
    )


def test_multiplier_is_the_force_in_the_rod():
    """At the lowest point, with speed v: tension m (g + v²/l); the constraint's gradient is twice the rod vector."""
    m = Mechanism(pendulum)
    m.view("q")[:] = (0.0, 0.0, -1.0)
    m.view("qd")[:] = (1.5, 0.0, 0.0)
    m.view("qdd")[:] = (0.0, 0.0, 1.5**2)
    m.step(1e-3)
    assert 2 * m.view("lambda")[0] == pytest.approx(2.0 * (G + 1.5**2), rel=1e-3)


MOMENTS = (0.4, 0.7, 0.9)


def rigid(g: Graph, system: System) -> list:
    """A free body without gravity, with its centre of mass away from the frame's origin."""
    e = [[g.one if i == j else g.zero for j in range(3)] for i in range(3)]
    origin = system.vector("r", Vector(g.zero, g.zero, g.zero), point=True)
    axes = [system.vector(f"v{i}", Vector.of(e[i]), point=False) for i in range(3)]
    frame = Frame(origin, axes)
    at = Vector.of([g.constant(x) for x in (0.2, -0.1, 0.3)])
    system.body("body", frame, Inertia(g.constant(3.0), at, Vector.of([g.constant(x) for x in MOMENTS])))
    p = [a.position for a in axes]
    for i in range(3):
        system.constraint(f"unit {i}", p[i].dot(p[i]) - 1.0)
        system.constraint(f"square {i}", p[i].dot(p[(i + 1) % 3]))
    return [origin, *axes]


def test_free_body_follows_eulers_equations():
    m = Mechanism(rigid)
    w0, com = np.array([0.3, 4.0, 0.2]), np.array([0.2, -0.1, 0.3])
    q, qd, qdd = m.view("q").reshape(4, 3), m.view("qd").reshape(4, 3), m.view("qdd").reshape(4, 3)
    q[1:] = np.eye(3)
    inertia = np.array(MOMENTS)
    alpha = np.cross(inertia * w0, w0) / inertia
    for i in range(3):
        qd[1 + i] = np.cross(w0, q[1 + i])
        qdd[1 + i] = np.cross(alpha, q[1 + i]) + np.cross(w0, qd[1 + i])
    q[0], qd[0] = -com, -np.cross(w0, com)
    qdd[0] = -(np.cross(alpha, com) + np.cross(w0, np.cross(w0, com)))
    # Euler's equations by Runge–Kutta, in body axes.
    rate = lambda w: np.cross(inertia * w, w) / inertia  # noqa: E731
    h, w = 5e-4, w0.copy()
    for _ in range(4000):
        m.step(h)
        k1 = rate(w)
        k2 = rate(w + h / 2 * k1)
        k3 = rate(w + h / 2 * k2)
        w = w + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(w + h * k3))
    axes, rates = q[1:], qd[1:]
    body = np.array([rates[1] @ axes[2], rates[2] @ axes[0], rates[0] @ axes[1]])
    assert body == pytest.approx(w, abs=2e-4 * np.linalg.norm(w0))
    # The centre of mass and the angular momentum in world axes are constant.
    assert q[0] + com @ axes == pytest.approx(0.0, abs=1e-6)
    assert (inertia * body) @ axes == pytest.approx(inertia * w0, rel=1e-4, abs=1e-4)


def test_mass_matrix_gives_the_kinetic_energy_of_a_rigid_body():
    """For a skew frame and an inertia with products, ½ q̇ᵀ M q̇ = ½ m v² + ½ ωᵀ I ω."""
    rng = np.random.default_rng(4)
    spread = rng.normal(size=(3, 3))
    inertia = spread @ spread.T
    inertia = np.trace(inertia) * np.eye(3) - inertia
    com, place, frame_axes = rng.normal(size=3), rng.normal(size=3), rng.normal(size=(3, 3))
    g = Graph()
    system = System(g)

    def constant(v):
        return Vector.of([g.constant(x) for x in v])

    origin = system.vector("r", constant(place), point=True)
    axes = [system.vector(f"v{i}", constant(frame_axes[i]), point=False) for i in range(3)]
    moments = constant(np.diag(inertia))
    products = constant((inertia[0, 1], inertia[1, 2], inertia[2, 0]))
    terms = mass_terms(Frame(origin, axes), Inertia(g.constant(2.5), constant(com), moments, products))
    order = [next(iter(c.terms)) for c in (origin, *axes)]
    mass = np.array([[terms[a, b].value for b in order] for a in order])
    assert mass == pytest.approx(mass.T)
    for _ in range(5):
        w, v = rng.normal(size=3), rng.normal(size=3)
        rates = np.array([v, *(np.cross(w, a) for a in frame_axes)])
        at_com = v + np.cross(w, com - place)
        expected = 0.5 * 2.5 * at_com @ at_com + 0.5 * w @ inertia @ w
        assert 0.5 * np.einsum("ij,ik,jk", mass, rates, rates) == pytest.approx(expected, rel=1e-12)


def test_constraint_rates_against_finite_differences():
    g = Graph()
    program = Program(g)
    system = System(g)
    rigid(g, system)
    ali3p.declare_state(program, system)
    velocity, acceleration = system.constraint_rates()
    rows = system.constraint_jacobian()
    n = len(system.constraints)
    values = [phi for _, phi in system.constraints]
    products = [sum((j * c.qd for c, j in row.items()), g.zero) for row in rows]
    out = program.array("out", 4 * n)
    kernel = program.kernel("run", zip(out, [*values, *velocity, *acceleration, *products], strict=True))
    program.finish([])
    run = python.function(program.kernels[kernel], program.layout)
    rng = np.random.default_rng(0)
    q, qd, qdd = rng.normal(size=(3, 12))
    w = program.layout.allocate()

    def at(t: float) -> np.ndarray:
        program.layout.view(w, "q")[:] = q + qd * t + 0.5 * qdd * t * t
        program.layout.view(w, "qd")[:] = qd + qdd * t
        program.layout.view(w, "qdd")[:] = qdd
        run(w)
        return program.layout.view(w, "out").reshape(4, n).copy()

    e = 1e-5
    up, now, down = at(e), at(0.0), at(-e)
    assert now[1] == pytest.approx((up[0] - down[0]) / (2 * e), rel=1e-7, abs=1e-7)
    assert now[2] == pytest.approx((up[1] - down[1]) / (2 * e), rel=1e-7, abs=1e-7)
    assert now[3] == pytest.approx(now[1], rel=1e-12, abs=1e-12)
