"""`vehicled bench particles`: results, resumption after an interruption, output."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest
from jobs_rig import Here
from scipy.stats import kstest

from vehicled.cli import main
from vehicled.commands.benches import particles as command
from vehicled.errors import UsageError
from vehicled.maths.angles import wrap
from vehicled.studies.benchmarks import particle_ambiguity, particle_plots, particles
from vehicled.studies.benchmarks.particle_tries import CRANK, SETTLED, STEP, Experiment, Try, advance

SMALL = Experiment(count=20, steps=10)


def sweep(todo, tries, path=None):
    return particles.sweep(todo, tries, Here(), particles.open_ledger(path), lambda _: None)


def test_costs_are_positive_and_relative_to_the_least():
    reported: list[float] = []
    rows = particles.bench_costs(reported.append, counts=(8, 64), effort=100)
    assert [row["count"] for row in rows] == [8, 64]
    assert reported == [1, 2]
    least = min(row["step"] for row in rows)
    for row in rows:
        assert all(row[kind] > 0.0 for kind in ("advance", "step", "drawing", "keeping"))
        assert row["ratio"] == pytest.approx(row["step"] / least)


def test_counts_that_do_not_fit_into_memory_are_left_out():
    rows = particles.bench_costs(lambda _: None, counts=(8, 10**12), effort=10)
    assert [row["count"] for row in rows] == [8]


def test_a_try_is_reproduced_by_its_seed():
    first, again, other = (Try(SMALL, seed).run() for seed in (1, 1, 2))
    assert (first.error, first.start) == (again.error, again.start)
    assert first.start != other.start


def test_more_particles_converge_more_often():
    found = sweep({"count": [Experiment(count=n, motion=0.005) for n in (5, 500)]}, 15)
    few, many = found["count"]
    assert many["converged"] >= 12
    assert few["converged"] < many["converged"]
    assert len(few["missed"]) == 15 - few["converged"]
    assert all(abs(miss["error"]) > np.radians(5.0) for miss in few["missed"])


@pytest.mark.slow
def test_the_settled_filter_converges_where_the_readings_determine_the_state():
    """With the largest motion noise of the sweeps. One of some twenty tries may fail by chance."""
    settled, converged = replace(SETTLED, motion=0.02), []
    for seed in range(25):
        if particle_ambiguity.find_posterior(settled, seed, per_turn=720).near > 0.999:
            converged.append(Try(settled, seed).run().peak_converged)
    assert len(converged) >= 20
    assert sum(converged) >= len(converged) - 1


def test_the_posterior_is_calibrated():
    """Over tries, the posterior probability of starts below the true one is uniformly distributed."""
    x = Experiment(steps=12)
    shares = []
    for seed in range(25):
        found = particle_ambiguity.find_posterior(x, seed, per_turn=360, finer=4)
        assert found.probability.sum() == pytest.approx(1.0)
        start = Try(replace(x, count=1), seed).start
        shares.append(found.probability[found.start < start].sum())
    assert kstest(shares, "uniform").pvalue > 0.01


def test_misses_are_marked_where_the_readings_are_ambiguous():
    """If the linkage may be assembled either way, different starts have similar readings."""
    few = replace(SETTLED, both_branches=True, steps=60)
    (row,) = sweep({"either_way": [few]}, 12)["either_way"]
    assert row["missed"]
    assert row["unobservable"] == sum(not m["observable"] for m in row["missed"])
    for miss in row["missed"]:
        near = particle_ambiguity.find_posterior(few, miss["seed"]).near
        assert miss["posterior_near"] == near
        assert miss["observable"] == (near >= particle_ambiguity.SURE)


def test_an_interrupted_sweep_resumes_from_its_file(tmp_path, monkeypatch):
    path = tmp_path / "tries.jsonl"
    whole = sweep({"count": [SMALL]}, 4, path)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_text("".join(lines[:2]) + lines[2][:30])  # cut off in the third line
    run, made = Try.run, []
    monkeypatch.setattr(Try, "run", lambda self: made.append(1) or run(self))
    resumed = sweep({"count": [SMALL]}, 4, path)
    assert len(made) == 2
    for row in (*whole["count"], *resumed["count"]):
        row.pop("seconds")
        row.pop("of_real_time")
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 4


def test_a_file_without_tries_is_refused_and_kept(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(UsageError, match=r"notes.txt:1: expected a try"):
        particles.open_ledger(path)
    assert path.read_text() == "hello\n"


def test_similar_starts_are_the_nearest_ones_that_end_elsewhere():
    x = Experiment(lengths=(4.0, 2.0, 3.0, 4.0), both_branches=True, steps=60)
    similar = particle_ambiguity.find_similar_starts(x, per_turn=90)
    assert similar.rates.shape == (60, 180)
    apart = similar.rates - similar.rates[:, similar.nearest]
    assert similar.distance == pytest.approx(np.sqrt(np.sum(apart**2, axis=0)) / x.gyroscope)
    # An independent search finds no nearer start that ends elsewhere.
    ends = similar.start + STEP * similar.rates.sum(axis=0)  # approximately
    for k in range(0, 180, 7):
        elsewhere = np.abs(wrap(ends - ends[k])) > np.radians(7.0)
        others = np.linalg.norm(similar.rates[:, elsewhere] - similar.rates[:, k, None], axis=0) / x.gyroscope
        assert similar.distance[k] <= others.min() + 1e-9
    assert similar.share_below(0.0) == 0.0
    assert similar.share_below(np.inf) == 1.0


@pytest.mark.slow
def test_plots_of_costs_and_sweeps_are_drawn(tmp_path):
    few = [Experiment(count=200, steps=4)]
    both = [replace(x, steps=4, step=0.1) for x in (Experiment(), SETTLED)]
    compared = [
        replace(x, count=SETTLED.count, motion=SETTLED.motion, steps=4) for x in particles.SETTINGS.values()
    ]
    usual = dict.fromkeys(("count", "motion", "settled", "wandering"), few)
    sweeps = sweep({**usual, "step": both, "settings": compared}, 1)
    for name in ("count", "motion", "wandering"):
        # Each miss has its own plot; those of one sweep are enough.
        sweeps[name][0]["missed"] = []
    particle_plots.draw(
        {"costs": particles.bench_costs(lambda _: None, (8, 16), 50), "sweeps": sweeps}, tmp_path
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert {"costs.png", "sweeps.png", "steps.png", "settings.png"} <= names
    assert {"similar_starts.png", "effective.png"} <= names
    assert [name for name in names if name.startswith("missed")] == ["missed_settled_200_0.02_5000.png"]


def test_the_command_prints_one_object_or_a_table(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(particles, "TIMED", (16, 32))
    row = {"advance": 0.01, "step": 0.0234, "drawing": 0.05, "keeping": 0.06, "ratio": 1.0}
    costs = [{"count": n, **row} for n in (16, particles.USUAL)]
    monkeypatch.setattr(particles, "bench_costs", lambda *_: costs)
    monkeypatch.setattr(
        particles, "experiments", lambda: {"count": [SMALL], "motion": [SMALL], "step": [SMALL]}
    )
    usual = [
        "--tries",
        "2",
        "--resume",
        str(tmp_path / "tries"),
        "--workers",
        "1",
        "--sweep",
        "count",
        "motion",
    ]
    assert main(["bench", "particles", "--json", *usual]) == 0
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
    assert main(["bench", "particles", *usual]) == 0
    out, _ = capsys.readouterr()
    assert "0.0234" in out
    assert f"{row['converged']}/2" in out
    assert main(["bench", "particles", "--tries", "0"]) == 2


def test_longer_steps_keep_the_accuracy_and_get_motion_noise_once():
    """The linkage moves as with short steps, the row has the time between readings, and each step adds noise once."""
    short, long = (Try(replace(SMALL, step=h), 3) for h in (STEP, 10 * STEP))
    for _ in range(20):
        short.read()
    for _ in range(2):
        long.read()
    assert long.angle == pytest.approx(short.angle, abs=1e-12)
    assert long.truth.t == pytest.approx(20 * STEP)
    (row,) = sweep({"step": [replace(SMALL, step=0.25, steps=4)]}, 2)["step"]
    assert (row["step"], row["readings"]) == (0.25, 4)
    assert row["of_real_time"] == pytest.approx(row["seconds"] / 2.0)
    still = Try(replace(SMALL, count=4000, motion=0.01, resampling=0.0, step=0.1), 1)
    swarm, before = still.swarm, Try(replace(SMALL, count=4000, motion=0.0, resampling=0.0, step=0.1), 1)
    for trial in (still, before):
        trial.filter.threshold = 0.0
        trial.filter.step(advance(trial.swarm, 0.1, but=1), [None])
    moved = wrap(swarm.get_angles(CRANK) - before.swarm.get_angles(CRANK))
    assert np.std(moved) == pytest.approx(0.01, rel=0.05)


def test_the_settings_table_compares_convergence_of_mean_and_cluster(capsys):
    todo = particles.experiments()
    short = [replace(x, steps=2) for x in todo["settings"][:6]]
    settings = [particles.find_setting(row) for row in sweep({"settings": short}, 1)["settings"]]
    assert settings == 2 * ["as published", "wandering", "settled"]
    assert {(x.count, x.motion) for x in todo["settings"]} == set(particles.COMPARED)
    assert {x.step for x in todo["step"]} == set(particles.STEPS)
    assert min(particles.STEPS) == 0.006
    assert max(particles.STEPS) == 1.0
    row = {"tries": 9, "count": 50, "motion_sigma": 0.01, "step": 1.0, "readings": 3, "missed": []}
    row |= {"unobservable": 0, "of_real_time": 0.5}
    rows = [
        {
            **row,
            "multiplier": x.multiplier,
            "resampling_sigma": x.resampling,
            "keeps_spread": x.keeps_covariance,
            "converged_mean": k,
            "converged": k + 1,
        }
        for k, x in enumerate(particles.SETTINGS.values())
    ]
    *_, line = command._setting_lines(rows)
    assert line.split() == ["50", "0.01", "0/9", "1/9", "1/9", "2/9", "2/9", "3/9"]
    assert "1000 ms" in command._step_lines(rows)[1]


def test_logs_have_all_particles_before_resampling(tmp_path, monkeypatch):
    x = replace(SETTLED, count=20, steps=12)
    monkeypatch.setattr(particles, "SETTINGS", {"as published": x})
    assert main(["bench", "particles", "--logs", str(tmp_path), "--seed", "4"]) == 0
    tables = {}
    for path in (tmp_path / "as_published").iterdir():
        with path.open() as file:
            names, *rows = csv.reader(file)
        tables[path.stem] = names, np.array(rows, dtype=float)
    assert set(tables) == {"run", "angles", "weights", "speeds"}
    names, run = tables["run"]
    column = dict(zip(names, run.T, strict=True))
    weights, angles = tables["weights"][1][:, 1:], tables["angles"][1][:, 1:]
    assert weights.shape == angles.shape == tables["speeds"][1][:, 1:].shape == (12, 20)
    assert weights.sum(axis=1) == pytest.approx(1.0)
    assert column["effective"] == pytest.approx(1.0 / (20 * np.sum(weights**2, axis=1)), rel=1e-6)
    assert (column["effective"] < 0.5).tolist() == column["resampled"].astype(bool).tolist()
    mean = np.angle(np.sum(weights * np.exp(1j * angles), axis=1))
    assert column["mean"] == pytest.approx(mean, abs=1e-6)
    assert any(column["resampled"])
    # A sweep with this seed makes the same try.
    outcome = Try(x, 4).run()
    assert wrap(column["mean"][-1] - column["truth"][-1] - outcome.error) == pytest.approx(0.0, abs=1e-6)
