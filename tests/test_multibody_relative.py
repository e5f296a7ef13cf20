"""Trees of points and bases: operators against explicit matrices, dynamics against energies."""

from __future__ import annotations

import numpy as np
import pytest
from relative_rig import EXTENDED, Numbers, Real, rate, spin

from vehicled.multibody.relative import AXES, Base, Point, RelativeSpring, RelativeSystem
from vehicled.multibody.relative_dynamics import Dynamics
from vehicled.symbolic import python
from vehicled.symbolic.graph import Atom, Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.vector import Vector

pytestmark = pytest.mark.skipif(not EXTENDED, reason="differences need extended precision")


class Tree:
    """A tree with every kind of element: branches, sliding along several axes, a fixed turn, bodies and points
    that share a base, massless points, loads in foreign axes, springs between branches and to the ground."""

    def __init__(self) -> None:
        self.system = system = RelativeSystem(Graph())
        self.parameters: list[Atom] = []
        c = {n: system.coordinate(n) for n in ("px", "pz", "yaw", "pitch", "roll", "slide", "arm")}
        b1 = system.base("b1", system.world, "z", c["yaw"])
        tilt = system.base("tilt", b1, "x", self.parameter("tilt"))
        b3 = system.base("b3", tilt, "y", c["pitch"])
        b4 = system.base("b4", b1, "x", c["roll"])
        b5 = system.base("b5", b3, "z", c["arm"])
        p1 = system.point("p1", system.ground, system.world, self.vector("o1"), {"x": c["px"], "z": c["pz"]})
        p2 = system.point("p2", p1, b1, self.vector("o2"))
        p3 = system.point("p3", p2, b3, self.vector("o3"), {"y": c["slide"]})
        p4 = system.point("p4", p1, b1, self.vector("o4"))
        p5 = system.point("p5", p4, b4, self.vector("o5"))
        p6 = system.point("p6", p3, b5, self.vector("o6"))
        for name, at, base in (
            ("first", p1, b1),
            ("second", p2, b3),
            ("third", p3, b3),
            ("fellow", p4, b3),
            ("other", p5, b4),
            ("tip", p3, b5),
        ):
            v = {k: self.vector(f"{name}.{k}") for k in "IcJ"}
            system.body(name, at, base, self.parameter(f"{name}.m"), v["I"], v["c"], v["J"])
        for n, (at, base) in enumerate([(p3, b4), (p6, b5), (p1, system.world), (p5, b1)]):
            system.forces.append((at, base, self.vector(f"F{n}")))
        for n, base in enumerate([b3, b4, system.world]):
            system.moments.append((base, self.vector(f"M{n}")))
        system.generalised.append((c["slide"], self.parameter("k") * c["slide"].q - c["slide"].qd))
        for n, ends in enumerate([(p5, p6), (system.ground, p2)]):
            system.springs.append(
                RelativeSpring(ends, *(self.parameter(f"spring{n}.{x}") for x in ("k", "c", "l")))
            )
        self.gravity = self.vector("g")
        random = np.random.default_rng(3)
        self.values = dict(zip(self.parameters, random.uniform(0.5, 2.0, len(self.parameters)), strict=True))
        for body in system.bodies:  # large enough for any products of inertia
            self.values |= {x: self.values[x] + 20.0 for x in body.moments}
        self.numbers = Numbers(system, self.values)
        self.q, self.qd, self.qdd = random.uniform(-1.0, 1.0, (3, self.numbers.n))

    def parameter(self, name: str) -> Atom:
        self.parameters.append(self.system.graph.symbol(name))
        return self.parameters[-1]

    def vector(self, name: str) -> Vector:
        return Vector.of([self.parameter(f"{name}.{a}") for a in AXES])

    def evaluate(self, outputs: list[Atom]) -> np.ndarray:
        """Values of `outputs` at the parameters, q, q̇ and q̈ of the tree, by the Python back end."""
        given = dict(self.values)
        for c in self.system.coordinates:
            given |= {c.q: self.q[c.index], c.qd: self.qd[c.index], c.qdd: self.qdd[c.index]}
        program = Program(self.system.graph)
        program.store("given", list(given))
        name = f"outputs of {len(self.system.graph.atoms)} atoms"
        kernel = program.kernel("run", zip(program.array(name, len(outputs)), outputs, strict=True))
        program.finish([])
        w = program.layout.allocate()
        program.layout.view(w, "given")[:] = list(given.values())
        python.function(program.kernels[kernel], program.layout)(w)
        return program.layout.view(w, name).copy()

    def motion(self, s: np.ndarray) -> np.ndarray:
        """q at times s, (…, n)."""
        s = s[..., None]
        return self.q + s * self.qd + s * s * self.qdd / 2

    def position(self, point: Point, s: np.ndarray) -> np.ndarray:
        return self.numbers.at(self.motion(s)).position(point)

    def rotation(self, base: Base, s: np.ndarray) -> np.ndarray:
        return self.numbers.at(self.motion(s)).rotation(base)


@pytest.fixture(scope="module")
def tree() -> Tree:
    return Tree()


NOW = np.zeros((), Real)


def test_rotations_are_products_of_elementary_ones(tree):
    for given in tree.system.bases:
        for wanted in tree.system.bases:
            matrix = tree.system.rotation(given, wanted)
            found = tree.evaluate([x for row in matrix for x in row]).reshape(3, 3)
            expected = tree.rotation(wanted, NOW).T @ tree.rotation(given, NOW)
            assert found == pytest.approx(expected.astype(float), abs=1e-14)


def test_positions_between_any_two_points(tree):
    for origin in tree.system.points:
        for point in tree.system.points:
            found = tree.evaluate(list(tree.system.position(point, origin)))
            ends = (tree.position(p, NOW) for p in (point, origin))
            expected = tree.rotation(point.base, NOW).T @ np.subtract(*ends)
            assert found == pytest.approx(expected.astype(float), abs=1e-13)


def test_velocities_between_any_two_points_as_seen_from_any_base(tree):
    for observer in tree.system.bases:
        for origin in tree.system.points:
            for point in tree.system.points:

                def seen(s, observer=observer, origin=origin, point=point):
                    ends = (tree.position(p, s) for p in (point, origin))
                    return (np.swapaxes(tree.rotation(observer, s), -1, -2) @ np.subtract(*ends)[..., None])[
                        ..., 0
                    ]

                found = tree.evaluate(list(tree.system.velocity(point, origin, observer=observer)))
                expected = tree.rotation(point.base, NOW).T @ tree.rotation(observer, NOW) @ rate(seen)
                assert found == pytest.approx(expected.astype(float), abs=1e-13)


def test_absolute_velocities_and_accelerations_are_derivatives_of_positions(tree):
    ground = tree.vector("ground")
    tree.values |= dict(zip(ground, (0.3, -0.8, 1.1), strict=True))
    for point in tree.system.points:

        def velocity(s, point=point):
            return np.array([rate(lambda u, t=t: tree.position(point, t + u)) for t in s])

        turned = tree.rotation(point.base, NOW).T.astype(float)
        found = tree.evaluate(list(tree.system.velocity(point)))
        assert found == pytest.approx(turned @ velocity(np.zeros(1, Real))[0].astype(float), abs=1e-13)
        found = tree.evaluate(list(tree.system.acceleration(point)))
        expected = rate(velocity).astype(float)
        assert found == pytest.approx(turned @ expected, abs=1e-12)
        found = tree.evaluate(list(tree.system.acceleration(point, ground)))
        assert found == pytest.approx(turned @ (expected + np.array([0.3, -0.8, 1.1])), abs=1e-12)


def test_angular_velocities_and_accelerations(tree):
    for base in tree.system.bases:
        for observer in tree.system.bases:

            def turned(s, base=base, observer=observer):
                return np.swapaxes(tree.rotation(observer, s), -1, -2) @ tree.rotation(base, s)

            found = tree.evaluate(list(tree.system.angular_velocity(base, observer)))
            assert found == pytest.approx(spin(turned(NOW), rate(turned)).astype(float), abs=1e-13)

        def omega(s, base=base):
            return np.array(
                [spin(tree.rotation(base, t), rate(lambda u, t=t: tree.rotation(base, t + u))) for t in s]
            )

        found = tree.evaluate(list(tree.system.angular_acceleration(base)))
        assert found == pytest.approx(rate(omega).astype(float), abs=1e-12)


def test_mass_matrix_is_the_hessian_of_the_kinetic_energy(tree):
    matrix = Dynamics(tree.system, tree.gravity).mass_matrix()
    found = tree.evaluate([x for row in matrix for x in row]).reshape(tree.numbers.n, -1)
    expected = tree.numbers.mass_matrix(tree.q.astype(Real)).astype(float)
    assert found == pytest.approx(expected, abs=1e-12 * np.abs(expected).max())
    assert (found == found.T).all()
    assert np.linalg.eigvalsh(found).min() > 0


def test_generalised_forces_are_those_of_lagranges_equations(tree):
    found = tree.evaluate(Dynamics(tree.system, tree.gravity).generalised_forces())
    at = (tree.q.astype(Real), tree.qd.astype(Real))
    expected = tree.numbers.generalised_forces(*at, tree.gravity).astype(float)
    assert found == pytest.approx(expected, abs=1e-12 * np.abs(expected).max())


def test_inverse_dynamics_balances_any_acceleration(tree):
    dynamics = Dynamics(tree.system, tree.gravity)
    matrix = tree.evaluate([x for row in dynamics.mass_matrix() for x in row]).reshape(tree.numbers.n, -1)
    forces = tree.evaluate(dynamics.generalised_forces())
    found = tree.evaluate(dynamics.inverse_dynamics())
    assert found == pytest.approx(matrix @ tree.qdd - forces, abs=1e-11)


def test_a_point_on_a_base_of_another_branch_is_refused():
    system = RelativeSystem(Graph())
    one = system.base("one", system.world, "x", system.coordinate("a"))
    other = system.base("other", system.world, "x", system.coordinate("b"))
    at = system.point("at", system.ground, one)
    with pytest.raises(ValueError, match=r"'beyond'.*'other'.*'one'"):
        system.point("beyond", at, other)
    with pytest.raises(ValueError, match=r"'block'.*'other'.*'one'"):
        system.body("block", at, other, system.graph.one, system.none)


def test_a_coordinate_cannot_be_used_twice():
    system = RelativeSystem(Graph())
    c = system.coordinate("c")
    base = system.base("base", system.world, "x", c)
    with pytest.raises(ValueError, match="'c' is in use"):
        system.base("again", base, "y", c)
    with pytest.raises(ValueError, match="'c' is in use"):
        system.point("at", system.ground, base, None, {"x": c})


def test_a_coordinate_that_moves_nothing_is_refused():
    system = RelativeSystem(Graph())
    base = system.base("base", system.world, "x", system.coordinate("idle"))
    system.point("at", system.ground, base, Vector.of([system.graph.one] * 3))
    with pytest.raises(ValueError, match="'idle' moves no mass"):
        Dynamics(system, system.none).mass_matrix()
