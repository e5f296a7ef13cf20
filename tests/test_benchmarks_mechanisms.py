"""The IFToMM library of multibody benchmarks, A01 to A05, compared with published figures and reference solutions.

Published end values: angles of Andrews' mechanism (Bari test set for IVP solvers), B0 of the 2-four-bar mechanism
(Exudyn's own test). Tables of the other reference motions are not available: `mechanism_references` computes these
motions by other methods in few coordinates, and is tested here as well.
"""

import dataclasses
import json

import numpy as np
import pytest
from mechanism_rig import G, advance, energy, shipped
from scipy.special import ellipk

from vehicled.cli import main
from vehicled.multibody.checks import calc_topology
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks import mechanism_references as references
from vehicled.studies.benchmarks import mechanisms as benchmarks
from vehicled.studies.benchmarks.mechanisms import BENCHMARKS, HIGH_PRECISION, calc_error, describe_n_four_bar

# -- error at the steps, of every problem -------------------------------------------------------------------


# Forty loops take as long as all other problems together.
LARGE = "A02-40"


@pytest.fixture(
    scope="module",
    params=[pytest.param(n, marks=pytest.mark.slow if n == LARGE else ()) for n in BENCHMARKS],
)
def runs(request):
    """A problem, its reference, and its runs with two step sizes, the second half of the first."""
    benchmark = BENCHMARKS[request.param]
    parts = {"A01": 16, "A02": 16, "A02-40": 96, "A03": 64, "A04": 4, "A05": 4}[request.param]
    compiled = CompiledMechanism(benchmark.describe())
    reference = benchmark.reference(benchmarks.sample_times(benchmark))
    pair = [benchmarks.simulate(benchmark, compiled, k) for k in (parts, 2 * parts)]
    return benchmark, reference, pair


def test_high_precision_is_reached_and_energy_kept(runs):
    benchmark, reference, pair = runs
    assert all(run.converged for run in pair)
    assert calc_error(pair[1].samples, reference) <= HIGH_PRECISION
    if benchmark.drift_limit is not None:
        assert pair[1].drift <= benchmark.drift_limit


def test_errors_decrease_with_the_square_of_the_step(runs):
    """Second-order convergence shows that the remaining error is the integrator's and not the model's."""
    benchmark, reference, pair = runs
    coarse, fine = (np.abs(run.samples - reference).max() for run in pair)
    # Near singular positions, the termination of the iteration adds errors.
    slack = 0.5 if benchmark.name.endswith("four-bar mechanism") else 0.1
    assert np.log2(coarse / fine) == pytest.approx(2.0, abs=slack)
    if benchmark.conservative:
        assert np.log2(pair[0].drift / pair[1].drift) == pytest.approx(2.0, abs=0.1)


def test_error_is_relative_to_the_value_but_at_least_to_the_threshold():
    reference = np.array([[2.0, -4.0], [1e-4, 0.0]])
    samples = reference + np.array([[0.2, 0.0], [3e-4, -1e-3]])
    assert calc_error(samples, reference) == pytest.approx(np.sqrt((0.1**2 + 0.3**2 + 1.0**2) / 4))


# -- A01 ----------------------------------------------------------------------------------------------------


def test_reference_pendulum_returns_after_the_period_of_the_elliptic_integral():
    period = 4 * ellipk(0.5) / np.sqrt(G)
    x, y = references.simple_pendulum(np.array([0.0, period / 4, period / 2, period]))
    assert x == pytest.approx([-1, 0, 1, -1], abs=1e-10)
    assert y == pytest.approx([0, -1, 0, 0], abs=1e-10)


# -- A02 ----------------------------------------------------------------------------------------------------

EXUDYN_A02 = np.array(
    [
        # Position and velocity of B0 at 10 s by steps of 0.25 and 0.125 ms, as recorded in Exudyn's test model.
        [0.3284552113, 0.9445195467, 1.423045728, -0.4948619021],
        [0.3284573768, 0.9445187937, 1.423050003, -0.4948670827],
    ]
)


def test_two_four_bars_agree_with_exudyn():
    coarse, fine = EXUDYN_A02
    extrapolated = fine + (fine - coarse) / 3
    there = references.n_four_bar(np.array([0.0, 10.0]), 2)[:, -1]
    assert there == pytest.approx(extrapolated, abs=1e-7)
    m = Mechanism(CompiledMechanism(describe_n_four_bar(2)))
    advance(m, 5e-3, 10.0, "lagrange", "runge_kutta_4")
    k = [m.index(name) for name in ("B0.x", "B0.y")]
    assert [*m.q[k], *m.qd[k]] == pytest.approx(extrapolated, abs=3e-5)


@pytest.mark.parametrize("loops", [2, 7])
def test_aligned_bars_give_every_loop_a_degree_of_freedom(loops):
    m = Mechanism(CompiledMechanism(describe_n_four_bar(loops)))
    assert calc_topology(m).degrees_of_freedom == 1
    ends = m.q.reshape(-1, 2)
    ends[:] = [[k + 1.0, 0.0] for k in range(loops + 1)]
    assert np.abs(m.calc_constraints()).max() == 0.0
    rank = np.linalg.matrix_rank(m.calc_jacobian())
    assert len(m.q) - rank == loops + 1


def test_cranks_stay_parallel_through_the_singular_position():
    """Where all bars are aligned, each crank could turn the other way, which would make an antiparallelogram."""
    benchmark = BENCHMARKS["A02"]
    m = Mechanism(CompiledMechanism(benchmark.describe()))
    h = 1.25e-3
    stepper = benchmark.make_stepper(m, h)
    passed, side = 0, 1.0
    for _ in range(4000):
        stepper.step(m, h).require("step")
        cranks = m.q.reshape(-1, 2) - [[0, 0], [1, 0], [2, 0]]
        assert cranks == pytest.approx(np.tile(cranks[0], (3, 1)), abs=1e-4)
        passed += bool(side * cranks[0, 1] < 0.0)
        side = np.sign(cranks[0, 1])
    heights = references.n_four_bar(np.linspace(0.0, 5.0, 4001), 2)[1]
    assert passed == np.count_nonzero(np.diff(np.sign(heights))) > 4


# -- A03 ----------------------------------------------------------------------------------------------------

ANDREWS_START = {
    "beta": -0.0617138900142764496,
    "Theta": 0.0,
    "gamma": 0.455279819163070380,
    "Phi": 0.222668390165885885,
    "delta": 0.487364979543842550,
    "Omega": -0.222668390165885885,
    "epsilon": 1.23054744454982119,
}
ANDREWS_END = {
    "beta": 15.81077119629904,
    "Theta": -15.75637105984298,
    "gamma": 0.04082224013073101,
    "Phi": -0.5347301163226948,
    "delta": 0.5244099658805304,
    "Omega": 0.5347301163226948,
    "epsilon": 1.048080741042263,
}
"""rad, at 0.03 s."""


def angles(m: Mechanism, of: np.ndarray) -> dict[str, float]:
    return {name: float(of[m.index(name)]) for name in ANDREWS_START}


def test_andrews_mechanism_starts_as_published():
    m = shipped("squeezer")
    assert angles(m, m.q) == pytest.approx(ANDREWS_START, abs=1e-11)
    assert angles(m, m.qd) == pytest.approx(dict.fromkeys(ANDREWS_START, 0.0))
    accelerations = dict.fromkeys(ANDREWS_START, 0.0) | {
        "beta": 14222.4439199541138705911625887,
        "Theta": -10666.8329399655854029433719415,
    }
    assert angles(m, m.qdd) == pytest.approx(accelerations, rel=1e-10, abs=1e-7)


@pytest.mark.parametrize(
    ("rule", "h", "close"),
    [(("matrix_r", "runge_kutta_4"), 6e-5, 1e-6), (("ali3p", "trapezoidal"), 1e-6, 4e-6)],
)
def test_andrews_mechanism_ends_as_published(rule, h, close):
    m = shipped("squeezer")
    at_start, beta = energy(m), m.q[m.index("beta")]
    advance(m, h, 0.03, *rule)
    assert angles(m, m.q) == pytest.approx(ANDREWS_END, abs=close)
    # All work of the motor (½ J) remains in the mechanism as energy.
    work = 0.033 * (m.q[m.index("beta")] - beta)
    assert energy(m) - at_start == pytest.approx(work, abs=1e-6)


def test_reference_crank_of_andrews_mechanism_ends_as_published():
    assert references.squeezer_crank(np.array([0.0, 0.03]))[-1] == pytest.approx(
        ANDREWS_END["beta"], abs=1e-8
    )


# -- A04 ----------------------------------------------------------------------------------------------------


def test_bricards_mechanism_moves_with_one_redundant_constraint():
    m = shipped("bricard")
    for h in (1e-3, 0.1):
        topology = calc_topology(m)
        assert len(m.coordinate_names) == len(m.constraint_names) == 24
        assert (topology.rank, len(topology.redundant), topology.degrees_of_freedom) == (23, 1, 1)
        advance(m, h / 50, h)
    assert np.abs(m.qd).max() > 0.1


def test_reference_chain_of_bricards_mechanism_closes_in_every_position():
    p = np.linspace(0.0, 4 * np.pi, 101)
    ends, along, across = references.bricard_chain(p)
    assert np.abs(ends[5] - [0, 0, 1]).max() < 1e-12
    assert np.abs(np.cross(along[4], across[4]) - [1, 0, 0]).max() < 1e-12
    # A smooth path, without jumps between branches.
    assert np.abs(np.diff(ends, axis=1)).max() < 0.3


def test_bricards_mechanism_agrees_with_the_reference_by_runge_kutta():
    """The penalty formulation with Runge–Kutta has only the model in common with ALI3-P."""
    m = shipped("bricard")
    at_start = energy(m)
    advance(m, 10e-3, 10.0, "penalty", "runge_kutta_4")
    k = m.index("P3.x")
    assert m.q[k : k + 3] == pytest.approx(references.bricard(np.array([0.0, 10.0]))[:, -1], abs=1e-6)
    assert energy(m) == pytest.approx(at_start, abs=1e-5)


# -- A05 ----------------------------------------------------------------------------------------------------


def test_governor_keeps_momentum_and_symmetry_and_loses_energy():
    m = shipped("flyball_governor")
    basics = slice(0, m.index("psi"))
    mass = m.mass[basics, basics].reshape(9, 3, 9, 3)[:, 0, :, 0]

    def momentum():
        """Angular momentum about the shaft, on which all fixed points lie."""
        q, qd = m.q[basics].reshape(-1, 3), m.qd[basics].reshape(-1, 3)
        return np.cross(q, mass @ qd)[:, 2].sum()

    balls, rods = 5.0 * 0.9160254**2, 0.3 * (0.05 + 0.25 * np.sqrt(3)) ** 2 + 0.025 * 0.75
    assert momentum() == pytest.approx(2 * np.pi * (2 * (balls + rods) + 0.005), rel=1e-4)
    begin, energies = momentum(), [energy(m)]
    for _ in range(10):
        advance(m, 1e-3, 0.1)
        energies.append(energy(m))
        assert m.q[m.index("alpha")] == pytest.approx(m.q[m.index("alpha2")], abs=1e-8)
    assert momentum() == pytest.approx(begin, rel=1e-5)
    assert -0.1 < energies[-1] - energies[0] < 0.0


def test_governor_follows_its_reference_closely():
    """The springs deflect by some 1e-5 m: errors of some per cent in stiffness or a fifth in damping would show."""
    benchmark = dataclasses.replace(BENCHMARKS["A05"], duration=2.0)
    reference = benchmark.reference(benchmarks.sample_times(benchmark))
    run = benchmarks.simulate(benchmark, CompiledMechanism(benchmark.describe()), 50)
    assert run.samples == pytest.approx(reference, abs=2e-6)


# -- the command --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found():
    reported = []
    result = benchmarks.bench_mechanisms(lambda done, note: reported.append((done, note)), ("A04", "A05"))
    return result, reported


def test_the_longest_step_that_is_accurate_enough_is_found(found):
    result, reported = found
    assert [row["number"] for row in result["mechanisms"]] == ["A04", "A05"]
    for row in result["mechanisms"]:
        assert row["met"]
        assert row["error"] <= row["error_limit"] == 1e-3
        assert row["cpu_s"] > 0.0
        tried = [note for _, note in reported if note.startswith(row["number"])]
        assert tried[-1].endswith(f"{1e3 * row['step_s']:.3g} ms")
        assert len(tried) > 1
    assert [done for done, _ in reported] == sorted(done for done, _ in reported)
    assert reported[-1][0] == 2


def test_a_problem_that_no_step_solves_is_marked_as_not_met():
    (row,) = benchmarks.bench_mechanisms(lambda *_: None, ["A01"], most_parts=1)["mechanisms"]
    assert not row["met"]
    assert row["error"] > HIGH_PRECISION


def test_the_command_prints_one_object_or_a_table(found, monkeypatch, capsys):
    monkeypatch.setattr(benchmarks, "bench_mechanisms", lambda *_: found[0])
    assert main(["bench", "mechanisms", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == found[0]
    assert err == ""
    found[0]["mechanisms"][1]["met"] = False
    assert main(["bench", "mechanisms"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("A04    Bricard's mechanism")
    assert "not accurate" not in lines[1]
    assert lines[2].endswith("not accurate enough")
