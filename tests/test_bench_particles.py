"""`vehicled bench particles`: its figures, its resumption after an interruption, its output."""

import json
from dataclasses import replace

import numpy as np
import pytest

from vehicled.benchmarks import particle_plots, particles
from vehicled.cli import main
from vehicled.errors import UsageError

SMALL = particles.Experiment(count=20, steps=10)


def test_costs():
    told: list[float] = []
    rows = particles.bench_costs(told.append, counts=(8, 64), effort=100)
    assert [row["count"] for row in rows] == [8, 64] and told == [1, 2]
    assert all(0.0 < row["advance"] < row["step"] for row in rows)


def test_a_try_is_reproduced_by_its_seed():
    first, again, other = (particles.Try(SMALL, seed).run() for seed in (1, 1, 2))
    assert (first.error, first.start) == (again.error, again.start)
    assert first.start != other.start


def test_more_particles_converge_more_often():
    found = particles.sweep(
        [("count", particles.Experiment(count=n, motion=0.005)) for n in (5, 500)],
        15,
        particles.Ledger(None),
        lambda _: None,
    )
    few, many = found["count"]
    assert many["converged"] >= 12 and few["converged"] < many["converged"]
    assert len(few["missed"]) == 15 - few["converged"]
    assert all(abs(miss["error"]) > np.radians(5.0) for miss in few["missed"])


def test_what_is_missed_is_not_for_want_of_particles():
    """Released at −11°, with a rival at 65°: as many particles as one likes follow the rival, unless the noise of
    motion that they are given is small enough for the readings to tell the two apart."""
    few, many, quiet = (
        particles.Try(replace(particles.SETTLED, **change), seed=161).run()
        for change in ({}, {"count": 5000}, {"motion": 0.001, "count": 5000})
    )
    assert few.error > 1.0 and abs(few.error - many.error) < 0.1
    assert quiet.converged


def test_an_interrupted_sweep_goes_on_where_it_was(tmp_path, monkeypatch):
    path = tmp_path / "tries.jsonl"
    whole = particles.sweep([("count", SMALL)], 4, particles.Ledger(path), lambda _: None)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 4
    path.write_text("".join(lines[:2]) + lines[2][:30])  # cut off in the third
    run, made = particles.Try.run, []
    monkeypatch.setattr(particles.Try, "run", lambda self: made.append(1) or run(self))
    resumed = particles.sweep([("count", SMALL)], 4, particles.Ledger(path), lambda _: None)
    assert len(made) == 2
    for row in (*whole["count"], *resumed["count"]):
        row.pop("seconds")
    assert resumed == whole
    assert len(path.read_text().splitlines()) == 4


def test_a_file_of_something_else_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    with pytest.raises(UsageError, match=r"notes.txt:1: expected a try"):
        particles.Ledger(path)
    assert path.read_text() == "hello\n"


def test_rivals_are_alike_and_end_elsewhere():
    x = particles.Experiment(lengths=(4.0, 2.0, 3.0, 4.0), both_branches=True, steps=60)
    rivals = particles.find_rivals(x, per_turn=90)
    assert rivals.rates.shape == (60, 180)
    apart = rivals.rates - rivals.rates[:, rivals.rival]
    assert rivals.distance == pytest.approx(np.sqrt(np.sum(apart**2, axis=0)) / x.gyroscope)
    # Nobody among those that end elsewhere is nearer, by a search of its own.
    ends = rivals.start + particles.STEP * rivals.rates.sum(axis=0)  # about
    for k in range(0, 180, 7):
        elsewhere = np.abs(particles.wrapped(ends - ends[k])) > np.radians(7.0)
        others = np.linalg.norm(rivals.rates[:, elsewhere] - rivals.rates[:, k, None], axis=0) / x.gyroscope
        assert rivals.distance[k] <= others.min() + 1e-9
    assert rivals.share_below(0.0) == 0.0 and rivals.share_below(np.inf) == 1.0


def test_plots(tmp_path):
    sweeps = particles.sweep(
        [(k, particles.Experiment(count=200, steps=4)) for k in ("count", "motion", "settled")],
        2,
        particles.Ledger(None),
        lambda _: None,
    )
    particle_plots.draw(
        {"costs": particles.bench_costs(lambda _: None, (8, 16), 50), "sweeps": sweeps}, tmp_path
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert {"costs.png", "sweeps.png", "rivals.png"} <= names
    assert any(name.startswith("missed") for name in names)


def test_the_command_prints_one_object_or_a_table(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(particles, "TIMED", (16, 32))
    costs = [{"count": n, "advance": 0.01, "step": 0.0234, "drawing": 0.05} for n in (16, particles.USUAL)]
    monkeypatch.setattr(particles, "bench_costs", lambda *_: costs)
    monkeypatch.setattr(particles, "experiments", lambda: [("count", SMALL), ("motion", SMALL)])
    resume = str(tmp_path / "tries")
    assert main(["bench", "particles", "--json", "--tries", "2", "--resume", resume]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == "" and found["us_per_particle_step"] == 0.0234 and found["costs"] == costs
    assert set(found["sweeps"]) == {"count", "motion"}
    (row,) = found["sweeps"]["count"]
    assert len(found["rivals"]) == 6
    assert row["tries"] == 2 and row["converged"] + len(row["missed"]) == 2
    assert main(["bench", "particles", "--tries", "2", "--resume", resume]) == 0
    out, _ = capsys.readouterr()
    assert "0.0234" in out and f"{row['converged']}/2" in out
    assert main(["bench", "particles", "--tries", "0"]) == 2
