"""Base parameters: numerically, symbolically by transfers, and in extended precision."""

from decimal import Decimal, localcontext
from math import comb

import numpy as np
import pytest
from identification_rig import SUSPENSION_REACH, draw_motion
from mechanism_rig import mechanism, shipped

from vehicled.errors import UsageError
from vehicled.identification import base, extended, transfers
from vehicled.identification.motions import observe
from vehicled.identification.regressors import Regressor
from vehicled.identification.symbolic_base import find_symbolic_base
from vehicled.multibody.mechanism import Mechanism
from vehicled.symbolic.evaluate import DECIMAL

KNUCKLES = ["knuckle_left", "knuckle_right"]
LOWER = ["lower_wishbone_left", "lower_wishbone_right"]


def observations(m: Mechanism, samples: int, reach: float | np.ndarray = 0.05) -> np.ndarray:
    """(samples · f, p)"""
    return observe(Regressor(m), draw_motion(m, samples, reach)).stacked


def extended_equations(m: Mechanism, samples: int, reach: float | np.ndarray, digits: int) -> np.ndarray:
    """(samples · f, p) decimals."""
    home, motion, blocks = m.q.copy(), draw_motion(m, samples, reach), []
    for k in range(samples):
        motion.put(m, k)
        blocks.append(extended.calc_extended_equations(m, digits))
    m.q[:] = home
    return np.concatenate(blocks)


# -- numerically --------------------------------------------------------------------------------------------------


def known_dependence(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """W (60, 9) with columns 2 and 7 null, 4 = 2·0 − 3·1 and 6 = 5; and a parameter vector."""
    random = np.random.default_rng(seed)
    w = random.normal(size=(60, 9))
    w[:, [2, 7]] = 0.0
    w[:, 4] = 2.0 * w[:, 0] - 3.0 * w[:, 1]
    w[:, 6] = w[:, 5]
    return w * [1.0, 100.0, 1.0, 1e-3, 1.0, 1.0, 1.0, 1.0, 10.0], random.normal(size=9)


@pytest.mark.parametrize("find", [base.find_base_by_svd, base.find_base_by_qr])
def test_known_dependences_are_found(find):
    w, values = known_dependence()
    found = find(w)
    assert found.null.tolist() == [2, 7]
    assert (len(found.independent), len(found.dependent)) == (5, 2)
    assert found.reduce(w) @ found.combine(values) == pytest.approx(w @ values, rel=1e-10)
    assert w @ found.calc_null_space() == pytest.approx(np.zeros((60, 4)), abs=1e-10)
    assert found.matrix @ values == pytest.approx(found.combine(values))
    assert found.matrix @ found.calc_null_space() == pytest.approx(np.zeros((5, 4)), abs=1e-12)


def test_svd_and_qr_find_the_same_space():
    w, _ = known_dependence()
    assert base.calc_space_distance(base.find_base_by_svd(w), base.find_base_by_qr(w)) < 1e-12
    w[:, 6] += 1e-3 * w[:, 3]
    other = base.find_base_by_svd(w)
    assert base.calc_space_distance(base.find_base_by_svd(known_dependence()[0]), other) > 1e-7


def test_independent_columns_have_no_dependences():
    w = np.random.default_rng(0).normal(size=(10, 4))
    for find in (base.find_base_by_svd, base.find_base_by_qr):
        found = find(w)
        assert found.independent.tolist() == [0, 1, 2, 3]
        assert found.beta.shape == (4, 0)
        assert found.calc_null_space().shape == (4, 0)


def test_a_base_set_can_be_changed():
    w, values = known_dependence()
    found = base.find_base_by_svd(w)
    other = found.change([1, 3, 4, 6, 8])
    assert other.dependent.tolist() == [0, 5]
    assert other.null.tolist() == [2, 7]
    assert other.reduce(w) @ other.combine(values) == pytest.approx(w @ values, rel=1e-9)
    assert base.calc_space_distance(found, other) < 1e-12
    again = other.change(found.independent)
    assert again.beta == pytest.approx(found.beta, abs=1e-9)


def test_choices_that_are_no_set_are_rejected():
    found = base.find_base_by_svd(known_dependence()[0])
    with pytest.raises(UsageError, match="the choice has rank 4, 5 is needed"):
        found.change([0, 3, 5, 6, 8])  # 5 and 6 are equal
    with pytest.raises(UsageError, match="expected 5 parameters"):
        found.change([0, 1, 3, 8])
    with pytest.raises(UsageError, match="not null"):
        found.change([0, 1, 2, 3, 5])


def test_distributed_parameters_have_the_given_base_values():
    w, values = known_dependence()
    found = base.find_base_by_qr(w)
    prior = np.random.default_rng(1).normal(size=9)
    distributed = found.distribute(found.combine(values), prior)
    assert w @ distributed == pytest.approx(w @ values, rel=1e-9)
    assert distributed[found.dependent] == pytest.approx(prior[found.dependent])


def test_base_parameters_are_described_as_text():
    # The second depends on the others: W₁ = W₀ · 0.5 + W₂ · (−1).
    found = base.BaseSet(np.array([0, 2]), np.array([1]), np.array([], dtype=int), np.array([[0.5], [-1.0]]))
    assert found.describe(["a", "b", "c"]) == ["a + 0.5 b", "c - b"]


# -- by transfers ---------------------------------------------------------------------------------------------------


def two_bodies(points: str, vectors: str, joints: str) -> Mechanism:
    """Two bodies in space without weight, joined only to each other."""
    return mechanism(
        f"""
space: spatial
points: {{A: 0 0 0 m, B: 1 0 0 m, C: 0.3 0.7 0.2 m, D: -0.1 0.8 -0.1 m, {points}}}
vectors: {{{vectors}}}
bodies:
  first:
    {{kind: rigid, points: {{A: 0.1 0.2 0.3 m, B: 1.1 0.2 0.3 m, C: 0.4 0.9 0.5 m, J: 0.3 0.5 0.4 m}},
     vectors: {{u: 0 0 1, v: 1 0 0}}, mass: 1 kg, center_of_mass: 0.2 0.3 0.1 m, inertia: 1 1.2 0.9 kg·m²}}
  second:
    {{kind: rigid, points: {{D: 0.4 0.1 0.2 m, K: 0.6 0.4 -0.3 m}}, vectors: {{p: 1 0 0, r: 0 1 0}},
     mass: 2 kg, center_of_mass: -0.1 0.2 0.4 m, inertia: 2 1.7 1.5 kg·m²}}
joints: {{{joints}}}
"""
    )


POINTS = "J: 0.2 0.3 0.1 m, K: 0.2 0.3 0.1 m"
VECTORS = "u: 0 0 1, v: 1 0 0, p: 0 0 1, r: 1 0 0"
RULES = {
    "spherical": ("kind: spherical, points: [J, K]", (1, 0, 0)),
    "universal": ("kind: universal, points: [J, K], axes: [u, r]", (1, 0, 0)),
    "revolute": ("kind: revolute, points: [J, K], axes: [u, p]", (1, 1, 1)),
    "cylindrical": ("kind: cylindrical, points: [J, K], axes: [u, p]", (0, 0, 1)),
    "prismatic": ("kind: prismatic, points: [J, K], axes: [u, p], normals: [v, r]", (0, 0, 6)),
    "rigid": ("kind: rigid, points: [J, K], axes: [u, p], normals: [v, r]", (1, 3, 6)),
}
"""Joints, and numbers of monopoles, dipoles and quadrupoles between bodies (Mejía Calderón 2016, table 4.1)."""


@pytest.mark.parametrize("kind", RULES)
def test_transfers_between_bodies_have_the_known_numbers(kind):
    joint, counts = RULES[kind]
    m = two_bodies(POINTS, VECTORS, f"j: {{{joint}}}")
    found = transfers.find_transfers(m)
    kinds = [t.kind for t in found]
    assert tuple(kinds.count(k) for k in ("monopole", "dipole", "quadrupole")) == counts
    symbolic = find_symbolic_base(m).base
    assert len(symbolic.dependent) == sum(counts)
    assert len(symbolic.null) == 0
    # Transfers have no effect on any motion, and there are no others: the numerical rank agrees.
    w = observations(m, 20, 0.3)
    assert w @ symbolic.calc_null_space() == pytest.approx(np.zeros((len(w), sum(counts))), abs=1e-9)
    numeric = base.find_base_by_svd(w)
    assert len(numeric.independent) == 20 - sum(counts)
    assert base.calc_space_distance(symbolic, numeric) < 1e-8


GROUND_RULES = {
    "revolute": ("kind: revolute, points: [O, K], axes: [z, p]", 3),
    "upright": ("kind: revolute, points: [O, K], axes: [y, p]", 1),
    "universal": ("kind: universal, points: [O, K], axes: [x, p]", 9),
    "spherical": ("kind: spherical, points: [O, K]", 9),
    "prismatic": ("kind: prismatic, points: [O, K], axes: [z, p], normals: [x, r]", 1),
    "cylindrical": ("kind: cylindrical, points: [O, K], axes: [z, p]", 4),
    "upright cylindrical": ("kind: cylindrical, points: [O, K], axes: [y, p]", 2),
}
"""Joints, and numbers of base parameters of a body on the ground, with weight along −y. At a fixed point: all but the
monopole. About an axis: m x, m y and Izz, or Izz alone if gravity is along the axis. Without rotation: the mass. With
sliding along the axis: the mass as well as those about the axis."""


@pytest.mark.parametrize("kind", GROUND_RULES)
def test_a_body_on_the_ground_has_the_known_number_of_base_parameters(kind):
    joint, count = GROUND_RULES[kind]
    axis = "0 1 0" if "upright" in kind else "0 0 1"
    m = mechanism(
        f"""
space: spatial
gravity: 0 -9.81 0 m/s²
ground: {{points: {{O: 0 0 0 m}}}}
points: {{K: 0 0 0 m}}
vectors: {{p: {axis}, r: 1 0 0}}
bodies:
  body:
    {{kind: rigid, points: {{K: 0.6 0.4 -0.3 m}}, vectors: {{p: 2 0 0, r: 0 1 0}},
     mass: 2 kg, center_of_mass: -0.1 0.2 0.4 m, inertia: 2 1.7 1.5 kg·m²}}
joints: {{j: {{{joint}}}}}
"""
    )
    symbolic = find_symbolic_base(m).base
    w = observations(m, 20, 0.5)
    assert len(symbolic.independent) == count
    assert w @ symbolic.calc_null_space() == pytest.approx(np.zeros((len(w), 10 - count)), abs=1e-9)
    assert len(base.find_base_by_svd(w).independent) == count


def test_an_upright_hinge_of_two_points_has_one_base_parameter():
    """With gravity along the axis through two fixed points, only the moment of inertia about it has an effect."""
    m = mechanism(
        """
space: spatial
gravity: 0 0 -9.81 m/s²
ground: {points: {O: 0 0 0 m, T: 0 0 1 m}}
points: {P: 1 0 0.3 m}
bodies:
  door:
    {kind: rigid, points: {O: 0.1 0 0 m, T: 0.1 1 0 m, P: 0.1 0.3 1 m}, mass: 2 kg, center_of_mass: 0.3 0.2 0.4 m,
     inertia: 2 1.7 1.5 kg·m²}
"""
    )
    symbolic = find_symbolic_base(m).base
    w = observations(m, 8, 0.2)
    assert len(symbolic.independent) == 1
    singular = base.calc_singular_values(w)
    assert singular[1] < 1e-12 * singular[0]
    assert w @ symbolic.calc_null_space() == pytest.approx(np.zeros((len(w), 9)), abs=1e-9)


def test_opposite_axes_count_as_parallel():
    """A dipole along such an axis changes its sign."""
    m = two_bodies(POINTS, VECTORS.replace("p: 0 0 1", "p: 0 0 -1"), "j: {" + RULES["revolute"][0] + "}")
    symbolic = find_symbolic_base(m).base
    w = observations(m, 20, 0.3)
    assert w @ symbolic.calc_null_space() == pytest.approx(np.zeros((len(w), 3)), abs=1e-9)


@pytest.mark.parametrize(
    "name", ["pendulum", "four_bar", "five_bar", "slider_crank", "squeezer", "flyball_governor"]
)
def test_symbolic_and_numerical_bases_agree_on_shipped_mechanisms(name):
    m = shipped(name)
    symbolic = find_symbolic_base(m).base
    samples = -(-symbolic.size // len(m.independent)) + 3
    reach = 1.0 if name == "squeezer" else 0.1
    numeric = extended.find_extended_base(extended_equations(m, samples, reach, 40), 40).base
    assert numeric.null.tolist() == symbolic.null.tolist()
    assert base.calc_space_distance(symbolic, numeric) < 1e-10


@pytest.mark.parametrize("name", ["pendulum", "four_bar", "five_bar", "slider_crank"])
@pytest.mark.parametrize("find", [base.find_base_by_svd, base.find_base_by_qr])
def test_double_precision_suffices_for_simple_mechanisms(name, find):
    m = shipped(name)
    symbolic = find_symbolic_base(m).base
    numeric = find(observations(m, 60, 0.2))
    assert numeric.null.tolist() == symbolic.null.tolist()
    assert base.calc_space_distance(symbolic, numeric) < 1e-8


def test_a_pendulum_has_the_base_parameters_of_textbooks():
    m = shipped("pendulum")
    symbolic = find_symbolic_base(m)
    assert symbolic.describe(Regressor(m).names) == ["bar.mx", "bar.my", "bar.Izz"]


HINGED = """
space: planar
ground: {points: {A: 0 0 m}}
points: {P: 1 0 m, Q: 1.2 0.9 m}
bodies:
  upper: {kind: bar, points: [A, P], length: 1.1 m, mass: 1 kg}
  lower: {kind: bar, points: [P, Q], length: 0.8 m, mass: 2 kg}
"""


def test_a_double_pendulum_has_the_base_parameters_of_textbooks():
    """The lower bar's mass acts at the joint only, in the upper bar's moment of inertia (Craig, *Introduction to
    Robotics*, and others). Without weight, first moments of the upper bar have no effect."""
    m = mechanism(HINGED)
    symbolic = find_symbolic_base(m, ["upper"])
    length = "upper.length"
    assert symbolic.describe(Regressor(m).names) == [
        f"upper.Izz + {length} * {length} * lower.m",
        "lower.mx",
        "lower.my",
        "lower.Izz",
    ]
    assert symbolic.base.beta[0] == pytest.approx([1.21])


def test_symbolic_expressions_follow_the_geometry():
    m = mechanism(HINGED)
    symbolic = find_symbolic_base(m, ["upper"])
    m.set_parameters({"upper.length": 2.0})
    assert symbolic.calc_beta()[0] == pytest.approx([4.0])
    assert symbolic.calc_beta(DECIMAL)[0] == [Decimal(4)]


def test_unknown_convergence_bodies_are_named():
    with pytest.raises(UsageError, match="unknown body 'nobody'"):
        find_symbolic_base(shipped("pendulum"), ["nobody"])


# -- the suspension -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suspension():
    return shipped("front_suspension")


@pytest.fixture(scope="module")
def by_transfers(suspension):
    return find_symbolic_base(suspension, KNUCKLES)


@pytest.fixture(scope="module")
def equations(suspension):
    """(125, 150) decimals of 50 digits: more rows than base parameters."""
    return extended_equations(suspension, 25, SUSPENSION_REACH, 50)


@pytest.fixture(scope="module")
def by_elimination(equations):
    return extended.find_extended_base(equations, 50)


def test_the_suspension_has_the_counts_of_the_source(suspension, by_transfers):
    found = by_transfers.base
    assert (found.size, len(found.null), len(found.dependent), len(found.independent)) == (150, 35, 32, 83)
    assert f"{comb(115, 83):.1e}" == "2.8e+28"
    names = Regressor(suspension).names
    null = {names[k] for k in found.null}
    for side in ("left", "right"):
        for body in ("lower_wishbone", "upper_wishbone"):
            assert {f"{body}_{side}.{k}" for k in ("mx", "Ixy", "Ixz", "Iyy", "Iyz", "Izz")} <= null
        assert f"upper_rod_{side}.m" in null
    assert {n for n in names if n.startswith("rack.") and n != "rack.m"} <= null
    motion = draw_motion(suspension, 34, SUSPENSION_REACH)
    assert base.find_null(observe(Regressor(suspension), motion).stacked).tolist() == found.null.tolist()


@pytest.mark.slow
def test_extended_precision_finds_the_rank_that_double_precision_misses(suspension, by_elimination):
    found = by_elimination
    assert found.rank == 83
    # The pivots drop abruptly, while those in double precision decrease gradually.
    assert found.pivots[82] > 1e-18
    assert found.pivots[83] < 1e-35
    doubles = base.calc_double_rank(
        observe(Regressor(suspension), draw_motion(suspension, 34, SUSPENSION_REACH)).stacked
    )
    assert doubles < 83


def test_symbolic_and_numeric_sets_span_the_same_space(by_transfers, by_elimination):
    numeric = by_elimination.base
    symbolic = by_transfers.base
    assert numeric.null.tolist() == symbolic.null.tolist()
    assert base.calc_space_distance(symbolic, numeric) < 1e-10
    assert symbolic.change(numeric.independent).beta == pytest.approx(numeric.beta, abs=1e-10)
    assert numeric.change(symbolic.independent).beta == pytest.approx(symbolic.beta, abs=1e-10)


def test_dependences_by_expressions_are_exact(by_transfers, equations):
    """W₂ = W₁ β holds to 1e-35, with β by expressions of the geometry."""
    found = by_transfers.base
    with localcontext() as context:
        context.prec = 50
        beta = np.array(by_transfers.calc_beta(DECIMAL), dtype=object)
        left = equations[:, found.dependent] - equations[:, found.independent] @ beta
    assert max(abs(x) for x in left.ravel()) < Decimal("1e-35")
    assert max(abs(x) for x in equations[:, found.null].ravel()) < Decimal("1e-35")


def test_extended_equations_agree_with_those_in_double_precision():
    m = shipped("front_suspension")
    exact = extended_equations(m, 1, SUSPENSION_REACH, 30).astype(float)
    w, _ = observe(Regressor(m), draw_motion(m, 1, SUSPENSION_REACH)).on_coordinates()
    assert w[0] == pytest.approx(exact, abs=1e-9)


def test_other_base_sets_of_the_suspension_span_the_same_space(suspension, by_transfers):
    first = by_transfers.base
    other = find_symbolic_base(suspension, LOWER).base
    assert other.independent.tolist() != first.independent.tolist()
    assert base.calc_space_distance(first, other) < 1e-12
    assert first.change(other.independent).beta == pytest.approx(other.beta, abs=1e-10)
    # A random choice, like T5 of the source, has too small a rank.
    pool = np.concatenate([first.independent, first.dependent])
    chosen = np.random.default_rng(0).choice(pool, 83, replace=False)
    with pytest.raises(UsageError, match=r"the choice has rank \d\d, 83 is needed"):
        first.change(chosen)


def test_expressions_of_the_suspension_are_those_of_the_source(suspension, by_transfers):
    """Table 5.3 of the source: the knuckle has the sum of masses, and a damper rod the sum of second moments. A wheel
    has the difference of two second moments; its mass and axial moments are added to the knuckle's."""
    lines = by_transfers.describe(Regressor(suspension).names)
    assert len(lines) == 83
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["lower_rod_left.Ixx"] == "lower_rod_left.Ixx + upper_rod_left.Ixx"
    assert by_name["wheel_left.Izz"] == "wheel_left.Izz - wheel_left.Ixx"
    assert by_name["tie_rod_left.mx"] == "tie_rod_left.mx"
    mass = by_name["knuckle_left.m"]
    for body in ("lower_wishbone", "upper_wishbone", "wheel"):
        assert f" + {body}_left.m " in mass
    assert "right" not in mass
    assert (
        "knuckle_left.wheel_center_left.x * knuckle_left.wheel_center_left.z * wheel_left.m"
        in by_name["knuckle_left.Ixz"]
    )


def test_transfers_hold_for_a_mechanism_with_redundant_constraints():
    m = shipped("bricard")
    w = extended_equations(m, 54, 0.3, 40)
    found = extended.find_extended_base(w, 40)
    generic = find_symbolic_base(m).base
    # The special geometry causes more dependences than the transfers do, but all of the transfers hold.
    assert found.rank < len(generic.independent)
    with localcontext() as context:
        context.prec = 40
        null = np.vectorize(Decimal, otypes=[object])(generic.calc_null_space())
        assert max(abs(x) for x in (w @ null).ravel()) < Decimal("1e-12")
