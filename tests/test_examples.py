"""The examples run unchanged, and print the expected results."""

import re
import runpy
import shutil
import warnings
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "examples"
PRINTS = {
    "build_a_mechanism": r"energy lost -?\d\.\d\de-0[3-9] J",
    "compile_a_model": r"yaw rate 0\.1092 rad/s",
    "estimate_a_log": r"sideslip   RMSE 0\.00\d\d rad",
    "observe_a_mechanism": r"1\.5 s: crank angle off by [+-]0\.\d\d\d°, σ 0\.\d\d\d°",
    "pandas_frame": r"\n2\.5 +\d\.\d{4}",
    "simulate_and_plot": r"sideslip RMSE 0\.\d\d\d°",
    "step_an_estimator": r"gnss\.position +fused +\d+",
}
"""Expected output of each example; names without `.py`."""


def test_every_example_is_run():
    assert {path.stem for path in FOLDER.glob("*.py")} == PRINTS.keys()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The examples, with only the first quarter of the sample: a whole minute takes a while to estimate."""
    root = tmp_path_factory.mktemp("tree")
    sample = root / "samples" / "ferrari_250lm"
    sample.mkdir(parents=True)
    for path in (FOLDER.parent / "samples" / "ferrari_250lm").glob("*.csv"):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (sample / path.name).write_text("".join(lines[: len(lines) // 4]), encoding="utf-8")
    return shutil.copytree(FOLDER, root / "examples")


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_prints_the_expected_result(name, folder, tmp_path, monkeypatch, capsys):
    if name == "pandas_frame":
        pytest.importorskip("pandas")
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", category=UserWarning, module="vehicled")
        runpy.run_path(str(folder / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert re.search(PRINTS[name], printed), printed
    assert (name == "simulate_and_plot") == (tmp_path / "sideslip.png").is_file()


@pytest.mark.parametrize("name", PRINTS)
def test_an_example_is_short(name):
    """At most 16 lines without imports and docstrings."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    code = re.sub(r'"""[\s\S]*?"""', "", text).splitlines()
    assert sum(bool(line) and not line.startswith(("import", "from")) for line in code) <= 16
