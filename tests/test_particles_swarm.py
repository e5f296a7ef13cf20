"""Particles have the motion, energy and constraints of their mechanism, whatever its class and their number."""

import numpy as np
import pytest

from vehicled.errors import UsageError
from vehicled.maths.angles import wrap
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.particles.swarm import Swarm
from vehicled.studies.benchmarks import four_bar

LENGTHS = (2.0, 4.0, 3.0, 4.0)
MASSES = (1.0, 2.0, 3.0)
CLASSES = {
    "0-rocker 0-rocker": (2.6, 3.2, 2.5, 2.4),
    "crank-crank": LENGTHS,
    "rocker-rocker": (3.0, 3.5, 2.0, 4.0),
    "π-rocker π-rocker": (2.5, 2.6, 2.4, 3.2),
    "rocker-crank": (4.0, 3.0, 4.0, 2.0),
    "π-rocker 0-rocker": (2.5, 2.4, 3.2, 2.6),
    "0-rocker π-rocker": (3.2, 2.5, 2.4, 2.6),
    "crank-rocker": (4.0, 2.0, 3.0, 4.0),
}


def swarm_of(lengths, count, seed=1, noisy=(), speeds=0.0):
    random = np.random.default_rng(seed)
    swarm = Swarm(four_bar.describe(lengths, MASSES), count, noisy)
    angles = four_bar.random_angles(lengths, count, random)
    swarm.set_states(*four_bar.assemble(lengths, angles, four_bar.random_branches(count, random), speeds))
    return swarm


def violation(swarm, lengths):
    """Violation of the bars' lengths and of the rates of these, (N,) each."""
    ground, *bars = lengths
    px, py, qx, qy = swarm.get_q()
    vx, vy, wx, wy = swarm.get_qd()
    zero = np.zeros_like(px)
    spans = [(px, py, vx, vy), (qx - px, qy - py, wx - vx, wy - vy), (qx - ground, qy, wx, wy)]
    off = [np.hypot(x, y) - length for (x, y, _, _), length in zip(spans, bars, strict=True)]
    along = [(x * u + y * v) for x, y, u, v in spans]
    return np.max(np.abs([zero, *off]), axis=0), np.max(np.abs([zero, *along]), axis=0)


def energy(swarm):
    """(N,) kinetic energy of uniform rods, m/6 (a² + a·b + b²) by their ends' velocities, and potential energy."""
    _, py, _, qy = swarm.get_q()
    p, q = (swarm.get_qd()[:2], swarm.get_qd()[2:])
    zero = np.zeros_like(p)
    total = 0.0
    for mass, a, b, height in zip(
        MASSES, (zero, p, q), (p, q, zero), (py / 2, (py + qy) / 2, qy / 2), strict=True
    ):
        total = total + mass / 6 * np.sum(a * a + a * b + b * b, axis=0) + mass * four_bar.GRAVITY * height
    return total


@pytest.mark.parametrize("lengths", CLASSES.values(), ids=CLASSES)
def test_energy_and_constraints_hold_in_every_class(lengths):
    swarm = swarm_of(lengths, 41)
    before = energy(swarm)
    for _ in range(500):
        swarm.advance(2e-3)
    off, sliding = violation(swarm, lengths)
    assert off.max() < 1e-9
    assert sliding.max() < 1e-9
    change = np.abs(energy(swarm) - before)
    # Some particles pass close to dead centres, where light bodies turn fast.
    assert np.median(change) < 1e-7
    assert np.quantile(change, 0.9) < 1e-3


def test_particles_move_as_the_mechanism_to_integration_order():
    """The mechanism uses another formulation. With half the step the error falls by about 2⁴."""
    description = four_bar.describe(LENGTHS, MASSES)
    swarm = swarm_of(LENGTHS, 3, seed=5, speeds=0.7)
    q, qd = swarm.get_q(), swarm.get_qd()
    reference = Mechanism(CompiledMechanism(description))
    stepper = make_stepper("matrix_r", "runge_kutta_4")
    swarm_ends = {}
    for h in (1.2e-2, 6e-3, 1e-3):
        swarm.set_states(q, qd)
        for _ in range(round(0.6 / h)):
            swarm.advance(h)
        swarm_ends[h] = swarm.get_q()
    for k in range(swarm.count):
        reference.t = 0.0
        reference.q[:4] = q[:, k]
        reference.q[4] = np.arctan2(q[1, k], q[0, k])
        assert reference.set_independent_state(reference.z, np.array([0.7])).converged
        for _ in range(600):
            stepper.step(reference, 1e-3).require("step")
        assert swarm_ends[1e-3][:, k] == pytest.approx(reference.q[:4], abs=1e-8)
    coarse, fine = (np.abs(swarm_ends[h] - swarm_ends[1e-3]).max() for h in (1.2e-2, 6e-3))
    assert coarse < 1e-4
    assert coarse / fine > 10.0


def test_angles_and_rates_follow_the_state():
    swarm = swarm_of(LENGTHS, 9, speeds=0.5)
    assert swarm.get_rates("crank") == pytest.approx(0.5)
    before = swarm.get_angles("crank")
    for _ in range(10):
        swarm.advance(1e-3)
    px, py, *_ = swarm.get_q()
    assert swarm.get_angles("crank") == pytest.approx(np.arctan2(py, px), abs=1e-12)
    # The mean rate is nearly the average of the rates at start and end.
    turned = wrap(swarm.get_angles("crank") - before)
    assert turned == pytest.approx(0.01 * 0.5 * (0.5 + swarm.get_rates("crank")), abs=2e-5)
    assert swarm.t == pytest.approx(0.01)


@pytest.mark.parametrize("count", [1, 8, 13])
def test_a_particle_is_independent_of_the_others(count):
    several = swarm_of(LENGTHS, count)
    alone = Swarm(several.description, 1)
    alone.set_states(several.get_q()[:, -1:], several.get_qd()[:, -1:])
    for _ in range(20):
        several.advance(6e-3)
        alone.advance(6e-3)
    assert several.get_q()[:, -1:] == pytest.approx(alone.get_q(), abs=1e-12)


def test_noise_moves_the_crank_by_the_given_angle_and_keeps_the_constraints():
    swarm = swarm_of(LENGTHS, 200, noisy=["crank"], speeds=1.0)
    before, rates = swarm.get_angles("crank"), swarm.get_rates("crank")
    moves = 0.02 * np.random.default_rng(7).standard_normal((1, 200))
    kicks = 0.1 * np.random.default_rng(8).standard_normal((1, 200))
    swarm.shift(None, kicks)
    assert swarm.get_angles("crank") == pytest.approx(before, abs=1e-12)
    assert swarm.get_rates("crank") - rates == pytest.approx(kicks[0], abs=1e-9)
    swarm.shift(moves)
    moved = wrap(swarm.get_angles("crank") - before)
    # To second order: the move is straight, and then projected.
    assert np.abs(moved - moves[0]).max() < 5.0 * np.abs(moves).max() ** 2
    off, sliding = violation(swarm, LENGTHS)
    assert off.max() < 1e-9
    assert sliding.max() < 1e-9


def test_noise_at_the_end_of_a_rocker_s_travel_is_bounded():
    lengths = CLASSES["rocker-rocker"]
    low, high = four_bar.input_ranges(lengths)[0]
    angles = np.array([low, low + 1e-9, low + 1e-4, 0.5 * (low + high), high - 1e-4, high])
    swarm = Swarm(four_bar.describe(lengths, MASSES), len(angles), ["crank"])
    swarm.set_states(*four_bar.assemble(lengths, angles, np.ones(len(angles))))
    before = swarm.get_q()
    for sign in (1.0, -1.0):
        swarm.shift(np.full((1, len(angles)), 0.03 * sign), np.full((1, len(angles)), 0.03))
        off, _ = violation(swarm, lengths)
        assert off.max() < 1e-3
        assert np.abs(swarm.get_q() - before).max() < 0.7
        swarm.shift(None)  # nothing but another projection
        off, sliding = violation(swarm, lengths)
        assert off.max() < 1e-9
        assert sliding.max() < 1e-9


def test_two_coordinates_of_a_five_bar_are_disturbed_independently():
    description = load_description("five_bar")
    names = list(description.angles)
    mechanism = Mechanism(CompiledMechanism(description))
    swarm = Swarm(description, 4, names)
    points = [mechanism.index(c) for c in swarm.coordinates]
    swarm.set_states(*(np.repeat(x[points, None], 4, axis=1) for x in (mechanism.q, mechanism.qd)))
    before = np.array([swarm.get_angles(n) for n in names])
    moves = np.array([[1e-4, 0.0, 1e-4, 0.0], [0.0, 1e-4, 1e-4, 0.0]])
    swarm.shift(moves)
    moved = wrap(np.array([swarm.get_angles(n) for n in names]) - before)
    assert moved == pytest.approx(moves, abs=1e-7)


def test_selection_copies_whole_states():
    swarm = swarm_of(LENGTHS, 21, speeds=0.3)
    for count in (21, 70, 21, 3, 3):
        q, rates = swarm.get_q(), swarm.get_rates("crank")
        indices = np.sort(np.random.default_rng(4).integers(0, swarm.count, count))
        swarm.select(indices)
        assert swarm.count == count
        assert swarm.get_q().tolist() == q[:, indices].tolist()
        assert swarm.get_rates("crank").tolist() == rates[indices].tolist()
        swarm.advance(1e-3)


@pytest.mark.parametrize(("kind", "lengths"), CLASSES.items(), ids=CLASSES)
def test_linkages_are_classified_as_by_brute_force(kind, lengths):
    found = four_bar.classify(lengths)
    assert found.kind == kind
    assert not found.folds
    assert found.turns_fully == kind.startswith("crank")
    # By brute force: a bar turns fully, or swings through the ground's direction or the opposite one. The output is
    # the input of the same linkage seen from the other side, with its angle counted from there.
    ground, link, floating, output = lengths

    def swing(first, last, opposite):
        def possible(angle):
            apart = np.hypot(first * np.cos(angle) - ground, first * np.sin(angle))
            return abs(floating - last) <= apart <= floating + last

        if all(possible(a) for a in np.linspace(0.0, 2 * np.pi, 720)):
            return "crank"
        toward, away = ("π-", "0-") if opposite else ("0-", "π-")
        return (toward if possible(0.0) else away if possible(np.pi) else "") + "rocker"

    words = kind.split() if " " in kind else kind.split("-")
    assert [swing(link, output, False), swing(output, link, True)] == words


@pytest.mark.parametrize("lengths", CLASSES.values(), ids=CLASSES)
def test_ranges_contain_exactly_the_angles_that_can_be_assembled(lengths):
    ground, link, floating, output = lengths
    around = np.radians(np.arange(-180.0, 180.0, 0.5) + 0.1)
    apart = np.hypot(link * np.cos(around) - ground, link * np.sin(around))
    possible = (apart <= floating + output) & (apart >= abs(floating - output))
    ranges = four_bar.input_ranges(lengths)
    inside = [any((a - low) % (2 * np.pi) <= high - low for low, high in ranges) for a in around]
    assert inside == possible.tolist()
    random = np.random.default_rng(1)
    angles = four_bar.random_angles(lengths, 2000, random)
    four_bar.assemble(lengths, angles, four_bar.random_branches(2000, random))
    # Random angles are uniform over all ranges: each half of a range has a share proportional to its width.
    total = sum(high - low for low, high in ranges)
    for low, high in ranges:
        for a, b in ((low, 0.5 * (low + high)), (0.5 * (low + high), high)):
            share = np.mean((angles >= a) & (angles < b))
            assert share == pytest.approx((b - a) / total, abs=0.05)


def test_velocities_of_the_assembly_meet_the_constraints():
    swarm = Swarm(four_bar.describe(LENGTHS), 30)
    random = np.random.default_rng(2)
    angles = four_bar.random_angles(LENGTHS, 30, random)
    q, qd = four_bar.assemble(LENGTHS, angles, four_bar.random_branches(30, random), 1.3)
    swarm.set_states(q, qd)
    assert swarm.get_q() == pytest.approx(q, abs=1e-12)
    assert swarm.get_qd() == pytest.approx(qd, abs=1e-11)


def test_a_folding_linkage_is_in_none_of_the_eight_classes():
    assert four_bar.classify((3.0, 2.0, 2.0, 3.0)) == four_bar.Grashof("", True, True)


@pytest.mark.parametrize("lengths", [(1.0, 2.0, 3.0), (1.0, -2.0, 3.0, 4.0), (10.0, 2.0, 3.0, 4.0)])
def test_lengths_that_make_no_linkage_are_refused(lengths):
    with pytest.raises(UsageError, match=r"^lengths "):
        four_bar.classify(lengths)


def test_an_angle_out_of_reach_is_named():
    lengths = CLASSES["rocker-rocker"]
    with pytest.raises(UsageError, match=r"cannot be assembled with the input at 0\.0°"):
        four_bar.assemble(lengths, np.zeros(1), np.ones(1))


def test_mechanisms_without_mass_or_with_unknown_noise_are_refused():
    with pytest.raises(MechanismError, match="mass"):
        Swarm(four_bar.describe(LENGTHS, (1.0, 0.0, 0.0)), 8)
    with pytest.raises(MechanismError, match="noise on 'theta': expected one of crank"):
        Swarm(four_bar.describe(LENGTHS), 8, ["theta"])
