"""`vehicled bench identify`: counts and trends as in the publication, and output."""

import json

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.jobs.local import LocalProcesses
from vehicled.studies.benchmarks import identify, identify_plots, identify_study
from vehicled.studies.benchmarks.identify_motions import find_motions
from vehicled.studies.benchmarks.identify_study import Effort, Study

pytestmark = pytest.mark.slow

SMALL = Effort(
    counts=(3, 25, 83), prior_errors=(0.0, 0.2, 1.0), tries=3, samples=60, iterations=1, harmonics=3
)


@pytest.fixture(scope="module")
def study():
    return Study(SMALL)


@pytest.fixture(scope="module")
def found(study):
    reported: list[float] = []
    found = identify.bench_identify(study, lambda share, _: reported.append(share))
    assert reported == sorted(reported)
    assert reported[0] == 0.0
    assert reported[-1] == 1.0
    return json.loads(json.dumps(found))


def rows(found, **wanted):
    return [row for row in found["studies"] if all(row[k] == v for k, v in wanted.items())]


def errors(row):
    return {m["count"]: m["validation_error"] for m in row["models"]}


def test_counts_and_ranks_agree_with_the_published_suspension(found):
    assert (found["parameters"], found["with_springs"], found["null"]) == (150, 154, 35)
    assert (found["remaining"], found["base"]) == (115, 83)
    ranks = found["ranks"]
    assert ranks["extended"] == 83
    assert ranks["distance"] < 1e-10
    assert ranks["pivots"][82] > 1e10 * ranks["pivots"][83]
    assert ranks["double"]["loose kinematics"] > 83 > ranks["double"]["any states"]


def test_only_sets_of_full_rank_are_valid_base_sets(found):
    *valid, rejected = found["sets"]
    assert len(valid) == 4
    for row in valid:
        assert row["valid"]
        assert row["rank"] == 83
        assert row["distance"] < 1e-10
        assert row["residual"] < 1e-10
    assert not rejected["valid"]
    assert rejected["rank"] == 74
    assert "rank 74, 83 is needed" in rejected["reason"]


def test_without_noise_every_set_predicts_the_forces(found):
    for row in rows(found, force_noise=0.0):
        assert errors(row)[83] < 1e-3


def test_with_noise_few_essential_parameters_predict_better_than_all(found):
    noisy = rows(found, force_noise=0.05, motion="drawn", weighted=False)
    assert len(noisy) == 12
    for row in noisy:
        error = errors(row)
        assert error[3] > 1.0
        # A prediction of zero has an error of 1. Single runs scatter, so only the medians below have tight limits.
        assert error[25] < 0.5
        assert error[83] > 1.5 * error[25]
    means = {k: np.median([errors(row)[k] for row in noisy]) for k in (3, 25, 83)}
    assert means[3] > 1.5
    assert means[25] < 0.25
    assert means[83] > 4 * means[25]


def test_wrong_priors_hardly_change_the_order_of_parameters(found):
    for row in found["studies"]:
        assert row["overlap"] >= (1.0 if row["prior_error"] == 0.0 else 0.75)


def test_motions_are_optimised_bodies_feasible_and_springs_accurate(found):
    condition = found["excitation"]["condition"]
    assert condition["optimised"] < condition["drawn"]
    for row in found["feasible"]:
        assert row["infeasible"] == 0
        assert row["validation_error"] < 0.3
    assert found["feasible"][-1]["prior_infeasible"] > 0
    for row in found["springs"]:
        assert abs(row["estimate"] - row["value"]) < 4.0 * row["deviation"]


def test_essential_parameters_are_identified_better_than_all_at_once(found):
    """As published, all parameters identified at once (table 5.9) are far from the truth. The essential ones alone
    (table 5.11) are closer by orders of magnitude; springs are the most accurate."""
    ten = found["table_5_9"]
    assert len(ten) == 10
    assert np.median([abs(row["estimate"] - row["true"]) / abs(row["true"]) for row in ten]) > 100.0
    rows = {row["parameter"]: row for row in found["table_5_11"]}
    assert len(rows) == 20 + 4 + 6
    for name, row in rows.items():
        assert row["deviation"] > 0.0, name
    relevant = found["table_5_11"][:20]
    assert np.median([abs(row["estimate"] - row["true"]) / abs(row["true"]) for row in relevant]) < 5.0
    for row in relevant[:2]:
        assert abs(row["estimate"] - row["true"]) < 4.0 * row["deviation"]
    for side in ("left", "right"):
        spring = rows[f"strut_{side}.stiffness"]
        assert abs(spring["estimate"] - spring["true"]) < 4.0 * spring["deviation"]
        assert spring["deviation"] < 0.8 * spring["deviation_without_load_steps"]
    rack = rows["rack_place.coulomb_friction"]
    assert rack["estimate"] == pytest.approx(rack["true"], rel=0.2)


def test_three_parameters_do_not_predict_the_forces(found):
    """With three parameters, errors are 197 to 314 %. As published, for another suspension, they exceed 300 % below
    ten; here, eight already predict the forces for two of the four sets."""
    cases = [row for row in found["studies"] if row["force_noise"] and row["prior_error"] == 0.2]
    assert {row["set"][:2] for row in cases} == {"T1", "T2", "T3", "T4"}
    for row in cases:
        assert errors(row)[3] > 1.5
        assert errors(row)[3] > 4.0 * errors(row)[25]


def test_all_plots_are_drawn(study, found, tmp_path):
    identify_plots.draw(study, found, tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {"ranks.png", "errors.png", "priors.png", "forces.png"}
    assert all(p.stat().st_size > 10_000 for p in tmp_path.iterdir())


def test_motions_are_searched_in_processes():
    """One short search per set improves the condition number, which is in the published range."""
    with LocalProcesses(2) as executor:
        done: list[float] = []
        motions = find_motions(1, 30, executor, done.append)
    assert done == [1, 2, 3, 4]
    *valid, rejected = motions
    for row in valid:
        assert row["condition"] < row["drawn"][0]
        assert row["condition"] < 1e14
    assert rejected["condition"] > 1e16


def test_the_command_prints_one_object_or_a_table(study, found, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(identify_study, "Study", lambda: study)
    monkeypatch.setattr(identify, "bench_identify", lambda *_: found)
    assert main(["bench", "identify", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert json.loads(out) == found
    assert main(["bench", "identify", "--plots", str(tmp_path / "plots")]) == 0
    out, _ = capsys.readouterr()
    assert "base parameters                    83" in out
    assert "rejected" in out
    assert "drawn, T1, 5 % noise" in out
    assert "strut_left.stiffness" in out
    assert "table 5.9" in out
    assert (tmp_path / "plots" / "errors.png").exists()
