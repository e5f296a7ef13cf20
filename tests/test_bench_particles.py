"""`vehicled bench particles`: its figures, its resumption after an interruption, its output."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import kstest

from vehicled.angles import wrap
from vehicled.cli import main
from vehicled.errors import UsageError
from vehicled.studies.benchmarks import particle_ambiguity, particle_plots, particles
from vehicled.studies.benchmarks.particle_tries import SETTLED, STEP, Experiment, Try

SMALL = Experiment(count=20, steps=10)


def test_costs_are_positive_and_relative_to_the_least():
    reported: list[float] = []
    rows = particles.bench_costs(reported.append, counts=(8, 64), effort=100)
    assert [row["count"] for row in rows] == [8, 64]
    assert reported == [1, 2]
    least = min(row["step"] for row in rows)
    for row in rows:
        assert all(row[kind] > 0.0 for kind in ("advance", "step", "drawing", "keeping"))
        assert row["ratio"] == pytest.approx(row["step"] / least)


def test_counts_that_the_memory_does_not_hold_are_left_out():
    rows = particles.bench_costs(lambda _: None, counts=(8, 10**12), effort=10)
    assert [row["count"] for row in rows] == [8]


def test_a_try_is_reproduced_by_its_seed():
    first, again, other = (Try(SMALL, seed).run() for seed in (1, 1, 2))
    assert (first.error, first.start) == (again.error, again.start)
    assert first.start != other.start


def test_more_particles_converge_more_often():
    found = particles.sweep(
        [("count", Experiment(count=n, motion=0.005)) for n in (5, 500)],
        15,
        particles.open_ledger(None),
        lambda _: None,
    )
    few, many = found["count"]
    assert many["converged"] >= 12
    assert few["converged"] < many["converged"]
    assert len(few["missed"]) == 15 - few["converged"]
    assert all(abs(miss["error"]) > np.radians(5.0) for miss in few["missed"])


@pytest.mark.slow
def test_the_settled_filter_finds_what_the_readings_determine():
    """At the most noise of motion that it is given; one try in twenty may be missed by chance."""
    settled, converged = replace(SETTLED, motion=0.02), []
    for seed in range(25):
        if particle_ambiguity.find_posterior(settled, seed, per_turn=720).near > 0.999:
            converged.append(Try(settled, seed).run().peak_converged)
    assert len(converged) >= 20
    assert sum(converged) >= len(converged) - 1


def test_the_posterior_is_calibrated():
    """The share of starts below the true one is uniform over tries, as long as the readings leave some."""
    x = Experiment(steps=12)
    shares = []
    for seed in range(25):
        found = particle_ambiguity.find_posterior(x, seed, per_turn=360, finer=4)
        assert found.probability.sum() == pytest.approx(1.0)
        start = Try(replace(x, count=1), seed).start
        shares.append(found.probability[found.start < start].sum())
    assert kstest(shares, "uniform").pvalue > 0.01


def test_misses_are_marked_where_the_readings_are_ambiguous():
    """Assembled either way there are starts with similar readings."""
    few = replace(SETTLED, both_branches=True, steps=60)
    (row,) = particles.sweep([("either_way", few)], 12, particles.open_ledger(None), lambda _: None)[
        "either_way"
    ]
    assert row["missed"]
    assert row["unobservable"] == sum(not m["observable"] for m in row["missed"])
    for miss in row["missed"]:
        near = particle_ambiguity.find_posterior(few, miss["seed"]).near
        assert miss["posterior_near"] == near
        assert miss["observable"] == (near >= particle_ambiguity.SURE)


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path, monkeypatch):
    path = tmp_path / "tries.jsonl"
    whole = particles.sweep([("count", SMALL)], 4, particles.open_ledger(path), lambda _: None)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_text("".join(lines[:2]) + lines[2][:30])  # cut off in the third
    run, made = Try.run, []
    monkeypatch.setattr(Try, "run", lambda self: made.append(1) or run(self))
    resumed = particles.sweep([("count", SMALL)], 4, particles.open_ledger(path), lambda _: None)
    assert len(made) == 2
    for row in (*whole["count"], *resumed["count"]):
        row.pop("seconds")
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 4


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(UsageError, match=r"notes.txt:1: expected a try"):
        particles.open_ledger(path)
    assert path.read_text() == "hello\n"


def test_similar_starts_are_similar_and_end_elsewhere():
    x = Experiment(lengths=(4.0, 2.0, 3.0, 4.0), both_branches=True, steps=60)
    similar = particle_ambiguity.find_similar_starts(x, per_turn=90)
    assert similar.rates.shape == (60, 180)
    apart = similar.rates - similar.rates[:, similar.nearest]
    assert similar.distance == pytest.approx(np.sqrt(np.sum(apart**2, axis=0)) / x.gyroscope)
    # None of those that end elsewhere is nearer, by a search of its own.
    ends = similar.start + STEP * similar.rates.sum(axis=0)  # about
    for k in range(0, 180, 7):
        elsewhere = np.abs(wrap(ends - ends[k])) > np.radians(7.0)
        others = np.linalg.norm(similar.rates[:, elsewhere] - similar.rates[:, k, None], axis=0) / x.gyroscope
        assert similar.distance[k] <= others.min() + 1e-9
    assert similar.share_below(0.0) == 0.0
    assert similar.share_below(np.inf) == 1.0


def test_plots_of_costs_and_sweeps_are_drawn(tmp_path):
    sweeps = particles.sweep(
        [(k, Experiment(count=200, steps=4)) for k in ("count", "motion", "settled", "wandering")],
        1,
        particles.open_ledger(None),
        lambda _: None,
    )
    particle_plots.draw(
        {"costs": particles.bench_costs(lambda _: None, (8, 16), 50), "sweeps": sweeps}, tmp_path
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert {"costs.png", "sweeps.png", "similar_starts.png"} <= names
    assert any(name.startswith("missed") for name in names)


def test_the_command_prints_one_object_or_a_table(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(particles, "TIMED", (16, 32))
    row = {"advance": 0.01, "step": 0.0234, "drawing": 0.05, "keeping": 0.06, "ratio": 1.0}
    costs = [{"count": n, **row} for n in (16, particles.USUAL)]
    monkeypatch.setattr(particles, "bench_costs", lambda *_: costs)
    monkeypatch.setattr(particles, "experiments", lambda: [("count", SMALL), ("motion", SMALL)])
    resume = str(tmp_path / "tries")
    assert main(["bench", "particles", "--json", "--tries", "2", "--resume", resume]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["us_per_particle_step"] == 0.0234
    assert found["costs"] == costs
    assert set(found["sweeps"]) == {"count", "motion"}
    (row,) = found["sweeps"]["count"]
    assert len(found["rivals"]) == 6
    assert row["tries"] == 2
    assert row["converged"] + len(row["missed"]) == 2
    assert main(["bench", "particles", "--tries", "2", "--resume", resume]) == 0
    out, _ = capsys.readouterr()
    assert "0.0234" in out
    assert f"{row['converged']}/2" in out
    assert main(["bench", "particles", "--tries", "0"]) == 2
