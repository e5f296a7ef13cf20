"""`vehicled identify --mechanism`: logs that do not fit the mechanism, and values that logs do not determine."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mechanism_log_rig import ARM, make_unknowns, record, write_log
from mechanism_rig import shipped

from vehicled.cli import main
from vehicled.identification.mechanism.estimate import Recorded, calc_equations, estimate
from vehicled.identification.mechanism.findings import PRIOR_DEVIATION
from vehicled.multibody.files import mechanism_path
from vehicled.multibody.mechanism import Mechanism


@pytest.fixture(scope="module")
def arm() -> Mechanism:
    return Mechanism.parse(ARM)


@pytest.fixture(scope="module")
def swing(arm) -> Recorded:
    return record(arm, 3, reach=0.8, stiffness=100.0)


@pytest.fixture
def arm_file(tmp_path) -> Path:
    path = tmp_path / "arm.yaml"
    path.write_text(ARM, encoding="utf-8")
    return path


def identify(*arguments) -> int:
    return main(["identify", *map(str, arguments)])


# -- logs in other units ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("time", "angle", "force", "seems"),
    [
        (1.0, 180.0 / np.pi, 1.0, "theta seems to be in degrees: "),
        (1e3, 1.0, 1.0, "t seems to be in ms: "),
        (1.0, 1.0, -1.0, "theta.force seems to have the opposite sign: "),
        (1.0, 1.0, 1e3, "theta.force seems to be in N·mm: "),
        (1.0, 1.0, 1e-3, "theta.force seems to be in kN·m: "),
        (1e3, 180.0 / np.pi, 1.0, "t seems to be in ms and theta seems to be in degrees: "),
    ],
)
def test_a_log_in_other_units_is_refused(arm, arm_file, swing, tmp_path, capsys, time, angle, force, seems):
    """Read in the right units, its forces are predicted by the file's values to a few per cent."""
    log = tmp_path / "log.csv"
    write_log(log, arm, replace(swing, t=time * swing.t, z=angle * swing.z, forces=force * swing.forces))
    out = tmp_path / "out.yaml"
    assert identify(log, "--mechanism", arm_file, "--output", out) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith(f"vehicled: {log}: {seems}the file's values miss the force by ")
    assert re.search(r" %, read so by [1-4] % \(--anyway uses such logs nevertheless\)$", line)
    assert not out.exists()


@pytest.mark.parametrize(
    ("angle", "force", "seems"),
    [
        (180.0 / np.pi, 1.0, "theta seems to be in degrees: "),
        (1.0, 1e-3, "theta.force seems to be in kN·m: "),
        (1.0, 1.0, None),
    ],
)
def test_a_unit_is_named_though_the_file_is_wrong(arm, swing, tmp_path, capsys, angle, force, seems):
    """The file misses the forces by more than half also in the right unit, which it does not blame on units."""
    file, log = tmp_path / "wrong.yaml", tmp_path / "log.csv"
    text = ARM.replace("mass: 0.3 kg", "mass: 0.08 kg").replace("mass: 1 kg ", "mass: 0.25 kg ")
    text = text.replace("stiffness: 8 N", "stiffness: 2 N").replace("0.05 kg", "0.0125 kg")
    file.write_text(text, encoding="utf-8")
    write_log(log, arm, replace(swing, z=angle * swing.z, forces=force * swing.forces))
    assert identify(log, "--mechanism", file) == (2 if seems else 0)
    *_, line = capsys.readouterr().err.splitlines()
    if seems:
        assert line.startswith(f"vehicled: {log}: {seems}the file's values miss the force by ")
        assert re.search(r" %, read so by [6-8]\d % \(--anyway", line)


def test_an_angle_that_begins_anew_after_a_turn_is_named(arm, arm_file, swing, tmp_path, capsys):
    log = tmp_path / "log.csv"
    middle = np.median(swing.z)
    write_log(log, arm, replace(swing, z=np.where(swing.z > middle, swing.z - 2.0 * np.pi, swing.z)))
    assert identify(log, "--mechanism", arm_file) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.match(rf"vehicled: {log}: theta jumps by 2π at t = \S+ s and \d+ more times; expected", line)


def test_the_log_in_other_units_is_named_among_several(arm, arm_file, swing, tmp_path, capsys):
    good, wrong = tmp_path / "good.csv", tmp_path / "wrong.csv"
    write_log(good, arm, swing)
    write_log(wrong, arm, replace(swing, z=np.degrees(swing.z)))
    for logs in ([good, wrong], [good, "--validate", wrong]):
        assert identify(*logs, "--mechanism", arm_file) == 2
        *_, line = capsys.readouterr().err.splitlines()
        assert line.startswith(f"vehicled: {wrong}: theta seems to be in degrees")
        assert str(good) not in line


def test_one_coordinate_in_another_unit_is_named(tmp_path, capsys):
    mechanism, log = shipped("five_bar"), tmp_path / "log.csv"
    run = record(mechanism, 1)
    write_log(log, mechanism, replace(run, z=run.z * [180.0 / np.pi, 1.0]))
    assert identify(log, "--mechanism", "five_bar") == 2
    assert f"{log}: theta1 seems to be in degrees: " in capsys.readouterr().err


def test_times_in_another_unit_are_found_though_forces_do_not_show_it(arm, arm_file, swing, tmp_path, capsys):
    """The forces of a slow motion depend on its positions only."""
    log = tmp_path / "log.csv"
    slow = record(arm, 0, reach=0.1, stiffness=100.0)
    write_log(log, arm, replace(slow, t=1e3 * slow.t))
    assert identify(log, "--mechanism", arm_file) == 2
    assert "t seems to be in another unit than s: samples are 4 s apart" in capsys.readouterr().err


@pytest.mark.slow
def test_doubtful_logs_are_used_with_the_option_anyway(arm, arm_file, swing, tmp_path, capsys):
    log, out = tmp_path / "log.csv", tmp_path / "out.yaml"
    write_log(log, arm, replace(swing, z=np.degrees(swing.z)))
    assert identify(log, "--mechanism", arm_file, "--output", out, "--anyway", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes[0].startswith(f"{log}: theta seems to be in degrees")
    assert re.match(rf"{log}: theta: \d+ % of its force is not explained, expected 30 % at most", notes[1])
    assert out.exists()


# -- forces that the mechanism does not explain -------------------------------------------------------------------


def test_forces_that_are_not_explained_are_refused(tmp_path, capsys):
    """The log has friction as large as the other forces, and the file has none."""
    mechanism, log, out = shipped("five_bar"), tmp_path / "log.csv", tmp_path / "out.yaml"
    run = record(mechanism, 1)
    size = np.sqrt(np.mean(run.forces**2, axis=0))
    friction = size * np.tanh(np.gradient(run.z, run.t, axis=0) / 0.05)
    write_log(log, mechanism, replace(run, forces=run.forces + friction))
    arguments = [log, "--mechanism", "five_bar", "--output", out]
    assert identify(*arguments) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert re.match(
        rf"vehicled: {log}: theta1: 7\d % of its force is not explained, expected 30 % at most", line
    )
    assert not out.exists()
    assert identify(*arguments, "--anyway") == 0
    assert re.search(r"theta1: 7\d % of its force is not explained", capsys.readouterr().out)


def test_noise_of_forces_does_not_count_as_unexplained_force():
    """The noise is as large as the forces, and masses are off by 20 %: the one that is estimated gets closer."""
    mechanism = shipped("five_bar")
    unknowns = make_unknowns(mechanism)
    truth = unknowns.prior * [0.8, 1.2, 0.8, 1.2]
    mechanism.set_parameters(dict(zip(unknowns.names, truth, strict=True)))
    run = record(mechanism, 0, force_noise=1.0)
    mechanism.set_parameters(dict(zip(unknowns.names, unknowns.prior, strict=True)))
    found = estimate(unknowns, [calc_equations(unknowns, run)])
    assert found.after > 1.3
    assert found.unexplained.max() < 0.1
    *_, estimated = found.quantities
    assert [row.changes for row in found.quantities] == [False, False, False, True]
    assert estimated.sigma < 0.7 * PRIOR_DEVIATION * unknowns.prior[-1]
    assert abs(estimated.value - truth[-1]) < min(
        2.0 * estimated.sigma, 0.5 * abs(unknowns.prior[-1] - truth[-1])
    )


# -- parameters that are not determined ---------------------------------------------------------------------------


def test_a_log_that_determines_nothing_leaves_the_file_unchanged(arm, arm_file, swing, tmp_path, capsys):
    log, out = tmp_path / "log.csv", tmp_path / "out.yaml"
    write_log(log, arm, replace(swing, z=np.full_like(swing.z, 0.3), forces=np.ones_like(swing.forces)))
    assert identify(log, "--mechanism", arm_file, "--output", out) == 0
    printed = capsys.readouterr().out
    assert "nothing was found: the values of the file stay" in printed
    assert re.search(
        r"^return\.stiffness +8 +left +N·m/rad +the motion does not determine it", printed, re.MULTILINE
    )
    assert out.read_text(encoding="utf-8") == ARM


@pytest.mark.slow
def test_a_mass_that_is_not_determined_keeps_its_value_and_adds_to_sigma_of_others():
    """True masses differ from the file by up to 1.7 σ. The uncertain mass of the crank makes the others uncertain."""
    mechanism = shipped("four_bar")
    unknowns, random = make_unknowns(mechanism), np.random.default_rng(5)
    errors = []
    for seed in range(6):
        truth = unknowns.prior * (1.0 + PRIOR_DEVIATION * random.uniform(-1.7, 1.7, 3))
        mechanism.set_parameters(dict(zip(unknowns.names, truth, strict=True)))
        run = record(mechanism, seed, force_noise=0.05)
        mechanism.set_parameters(dict(zip(unknowns.names, unknowns.prior, strict=True)))
        found = estimate(unknowns, [calc_equations(unknowns, run)])
        crank, *others = found.quantities
        assert not crank.changes
        assert crank.value == 2.0
        assert crank.sigma == pytest.approx(PRIOR_DEVIATION * 2.0, rel=0.01)
        assert crank.reason == "the motion does not determine it better than the file"
        errors += [(row.value - value) / row.sigma for row, value in zip(others, truth[1:], strict=True)]
    assert 0.6 < np.sqrt(np.mean(np.square(errors))) < 1.6


# -- validation ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def four_bars(tmp_path_factory) -> tuple[Path, Path, Path]:
    """Two logs of a four-bar linkage that is lighter than in its file, and one of a linkage as in its file."""
    folder, mechanism = tmp_path_factory.mktemp("logs"), shipped("four_bar")
    own = write_log(folder / "own.csv", mechanism, record(mechanism, 2))
    mechanism.set_parameters({"coupler.mass": 6.0, "rocker.mass": 4.0})
    lights = [write_log(folder / f"light{k}.csv", mechanism, record(mechanism, k)) for k in (1, 3)]
    mechanism.set_parameters({"coupler.mass": 8.0, "rocker.mass": 5.0})
    return *lights, own


def test_estimates_that_do_not_hold_on_another_log_are_not_used(four_bars, tmp_path, capsys):
    light, another, own = four_bars
    out = tmp_path / "out.yaml"
    arguments = [light, "--mechanism", "four_bar", "--output", out]
    assert identify(*arguments, "--validate", own, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["validation"]["after"] == found["validation"]["before"]
    assert found["validation"]["left_because_of_it"] >= 1
    assert all(p["value"] == p["prior"] and not p["identified"] for p in found["parameters"])
    assert "its estimate does not hold on the log that was not used" in {
        p["reason"] for p in found["parameters"]
    }
    assert out.read_bytes() == mechanism_path("four_bar").read_bytes()
    # On another log of the same linkage they hold.
    assert identify(*arguments, "--validate", another, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["validation"]["after"] < 0.3 * found["validation"]["before"]
    assert found["validation"]["left_because_of_it"] == 0
    assert out.read_bytes() != mechanism_path("four_bar").read_bytes()


def test_a_missing_log_is_an_error(tmp_path, capsys):
    assert identify(tmp_path / "none.csv", "--mechanism", "four_bar") == 2
    assert f"{tmp_path / 'none.csv'}: No such file or directory" in capsys.readouterr().err
