"""Hints of `vehicled score` for errors that no filter makes: another origin, or a truth in degrees."""

from pathlib import Path

import numpy as np
import pytest

from replay.csv_log import Table
from replay.problems import Problems
from vehicled.cli import main
from vehicled.scoring.scores import compare

T = np.arange(0.0, 60.0, 0.1)
YAW = np.mod(0.2 * T + np.pi, 2.0 * np.pi) - np.pi
NOISE = np.random.default_rng(0).normal(0.0, 0.02, (3, len(T)))
COLUMNS = {
    "x": 40.0 * np.sin(0.2 * T),
    "y": -40.0 * np.cos(0.2 * T),
    "yaw": YAW,
    "wz": 0.2 + 0.1 * np.sin(T),
    "sideslip": 0.05 * np.sin(T),
}


def table(name: str, **columns: np.ndarray) -> Table:
    return Table((T * 1e9).astype(np.int64), COLUMNS | columns, Problems(name))


def estimates(**columns: np.ndarray) -> Table:
    noisy = {"x": COLUMNS["x"] + NOISE[0], "y": COLUMNS["y"] + NOISE[1], "yaw": YAW + NOISE[2]}
    sigmas = dict.fromkeys(("sigma.x", "sigma.y"), np.full(len(T), 0.02))
    return table("estimates", **(noisy | sigmas | columns))


def find(truth: Table, run: Table | None = None) -> tuple[str, ...]:
    return compare(estimates() if run is None else run, truth).notes


def test_estimates_that_are_right_get_no_hint() -> None:
    assert find(table("truth")) == ()


def test_another_origin_is_named_also_after_a_bad_start() -> None:
    truth = table("truth", x=COLUMNS["x"] + 0.8, y=COLUMNS["y"] - 0.6)
    start = np.where(T < 5.0, 8.0, 0.0)
    for run in (estimates(), estimates(x=COLUMNS["x"] + start)):
        (hint,) = find(truth, run)
        size = float(hint.removeprefix("x and y are off by ").split(" m everywhere (± 0.0")[0])
        assert size == pytest.approx(1.0, abs=0.03)
        assert "`world` in the configuration" in hint


@pytest.mark.parametrize(
    ("x", "sigma"),
    [
        pytest.param(1.0, 0.5, id="as of a receiver, and within its standard deviations"),
        pytest.param(0.04, 0.001, id="centimetres"),
        pytest.param(1.0 * np.cos(YAW), 0.02, id="a point of the car that turns with it"),
    ],
)
def test_other_errors_of_position_are_not_taken_for_another_origin(
    x: np.ndarray | float, sigma: float
) -> None:
    run = estimates(**dict.fromkeys(("sigma.x", "sigma.y"), np.full(len(T), sigma)))
    assert find(table("truth", x=COLUMNS["x"] + x), run) == ()


@pytest.mark.parametrize("full_turn", [False, True])
def test_a_truth_in_degrees_is_reported(full_turn: bool) -> None:
    degrees = {c: np.degrees(COLUMNS[c]) for c in ("yaw", "wz", "sideslip")}
    if full_turn:
        degrees["yaw"] = degrees["yaw"] % 360.0
    (hint,) = find(table("truth.csv", **degrees))
    assert hint == "truth.csv: yaw, wz, sideslip seem to be in degrees: expected rad and rad/s"


def test_quantities_that_are_not_estimated_are_not_taken_for_degrees() -> None:
    """The ratio of a truth in rad to an estimate that stays at zero is large, as that of degrees would be."""
    assert find(table("truth"), estimates(sideslip=np.zeros(len(T)), wz=np.zeros(len(T)))) == ()


def test_the_command_prints_the_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, x in (("estimates", 5.0), ("truth", 6.0)):
        rows = "".join(f"{t},{x + t},0,0.01,0.01\n" for t in range(20))
        (tmp_path / f"{name}.csv").write_text(f"t,x,y,sigma.x,sigma.y\n{rows}")
    assert main(["score", str(tmp_path / "estimates.csv"), str(tmp_path / "truth.csv")]) == 0
    assert "warning: x and y are off by 1 m everywhere (± 0 m)" in capsys.readouterr().err
