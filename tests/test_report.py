"""The report: complete, self-contained, and with the data of the given runs."""

import base64
import json
import math
import os
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pymap3d
import pytest
from browser_rig import browser, needs_browser

from replay.csv_log import EstimatesWriter
from vehicled.cli import main
from vehicled.daemon.recorder import Recorder
from vehicled.daemon.recording_file import Contents, RecordRates
from vehicled.messages import (
    ESTIMATE_COLUMNS,
    ESTIMATE_INDEX,
    WHEELS,
    Estimate,
    Innovation,
    Measurement,
    Status,
)
from vehicled.report import write_report
from vehicled.report.data import load_run
from vehicled.report.style import thin

PERIOD = 4_000_000
ORIGIN = (36.83, -2.41, 100.0)


def true_state(s: float) -> dict[str, float]:
    """A slalom round a large circle after `s` seconds, with every column of the estimates table."""
    speed, turn = 20.0, 2 * math.pi / 60
    rate = turn + 0.25 * math.sin(0.9 * s)
    yaw = turn * s + 0.25 / 0.9 * (1 - math.cos(0.9 * s))
    ay = speed * rate
    state = {
        "x": speed / turn * math.sin(turn * s),
        "y": speed / turn * (1 - math.cos(turn * s)),
        "z": 0.55,
        "roll": 0.006 * ay,
        "pitch": 0.004 * math.sin(s),
        "yaw": math.remainder(yaw, 2 * math.pi),
        "vx": speed,
        "vy": -0.03 * ay,
        "vz": 0.0,
        "wx": 0.0,
        "wy": 0.0,
        "wz": rate,
        "ax": 0.4 * math.sin(s / 3),
        "ay": ay,
        "az": 0.0,
        "sideslip": math.atan2(-0.03 * ay, speed),
        "sigma.x": 0.02,
        "sigma.y": 0.02,
        "sigma.z": 0.05,
        "sigma.yaw": 0.002,
        "sigma.vx": 0.03,
        "sigma.vy": 0.05,
        "sigma.sideslip": 0.004,
    }
    for i, w in enumerate(WHEELS):
        side, front = (1 if w[1] == "l" else -1), w[0] == "f"
        load = 4000 - side * 120 * ay + (200 if front else -200)
        state |= {
            f"slip.{w}.angle": -0.008 * ay * (1.1 if front else 0.9),
            f"slip.{w}.ratio": 0.01 * math.sin(s / 2 + i),
            f"tyre.{w}.fx": 300 * math.sin(s / 2) * (not front),
            f"tyre.{w}.fy": load * ay / 9.81, f"tyre.{w}.fz": load,
            f"suspension.{w}.deflection": -side * 0.0025 * ay, f"suspension.{w}.force": load,
            f"suspension.{w}.rate": -side * 0.001 * math.cos(s),
            f"wheel.{w}.angle": speed / 0.3 * s, f"wheel.{w}.speed": speed / 0.3,
        }  # fmt: skip
    state["lat"], state["lon"], state["alt"] = pymap3d.enu2geodetic(
        state["x"], state["y"], state["z"], *ORIGIN
    )
    return state


def make_run(directory: Path, steps: int) -> tuple[Path, Path]:
    """A recording with noise, rejected fixes and a late GNSS; and its truth."""
    rng = np.random.default_rng(1)
    noise = np.zeros(len(ESTIMATE_COLUMNS))
    sigmas = {c[6:]: true_state(0)[c] for c in ESTIMATE_COLUMNS if c.startswith("sigma.")}
    run, truth = directory / "run.mcap", directory / "truth.csv"
    with Recorder(run, "", 0, 0) as recorder, EstimatesWriter(truth) as writer:
        for i in range(steps):
            t = i * PERIOD
            state = true_state(t / 1e9)
            values = np.array([state[c] for c in ESTIMATE_COLUMNS])
            known = values.copy()
            known[[ESTIMATE_INDEX[f"sigma.{c}"] for c in sigmas]] = np.nan
            writer.write(Estimate(t, known))
            for column, sigma in sigmas.items():
                j = ESTIMATE_INDEX[column]
                noise[j] = 0.99 * noise[j] + 0.14 * sigma * rng.standard_normal()
            measurements = [Measurement("imu", t, t, {"imu.wz": state["wz"]})]
            innovations = [observation(rng, t, "imu.gyro", 3), observation(rng, t, "imu.accelerometer", 3)]
            innovations += [observation(rng, t, f"wheel.{w}.angle", 1) for w in WHEELS] if i % 4 == 0 else []
            if i % 50 == 0:
                lat, lon, _ = pymap3d.enu2geodetic(
                    state["x"] + rng.standard_normal(), state["y"] + rng.standard_normal(), 0, *ORIGIN
                )
                fix = {"gnss.lat": float(lat), "gnss.lon": float(lon)}
                measurements.append(Measurement("receiver", t - 80_000_000, t, fix))
                innovations.append(observation(rng, t, "gnss.position", 3, outlier=i % 500 == 0))
            took = int(180_000 * rng.lognormal(0, 0.15)) + (900_000 if i % 700 == 699 else 0)
            recorder.record_step(t, measurements, Estimate(t, values + noise), innovations, took)
            if i % 250 == 249:
                counters = {
                    "loop": {"steps": i + 1, "missed": 0, "late_max_us": 120.5},
                    "queue": {"dropped": {}},
                }
                recorder.record_status(Status(t, "running", counters))
    return run, truth


def observation(
    rng: np.random.Generator, t: int, sensor: str, size: int, outlier: bool = False
) -> Innovation:
    normal = rng.standard_normal(size) + (8 if outlier else 0)
    nis = float(normal @ normal)
    zeros = [0.0] * size
    reason = "gate" if outlier else "fused"
    return Innovation(
        t,
        t,
        sensor,
        "device",
        zeros,
        zeros,
        (0.1 * normal).tolist(),
        [0.01] * size,
        nis,
        nis / 16,
        not outlier,
        reason,
    )


class Page(HTMLParser):
    """Contents of a page: headings, data of its plots, and anything that it would load from elsewhere."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts = ""
        self.data: dict[str, Any] = {}
        self.plots: list[int] = []
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)
        if values.get("src") or tag in ("link", "iframe"):
            self.loaded.append(values.get("src") or tag)
        if "data-panel" in values:
            self.plots.append(int(values["data-panel"] or -1))
        self._is_data = values.get("id") == "data"

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            if self._is_data:
                self.data = json.loads(data)
            self.scripts += data
        elif self.open and self.open[-1] != "style":
            if self.open[-1] == "h2":
                self.headings.append(data)
            self.text += data + " "

    def panel(self, title: str) -> dict[str, Any]:
        """The last panel of that title; panels of errors come first."""
        found: dict[str, Any] = [p for p in self.data["panels"] if p["title"] == title][-1]
        return found


def numbers(text: str, kind: str) -> np.ndarray:
    """Values of an array in a page."""
    return np.frombuffer(base64.b64decode(text), kind)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_run(tmp_path_factory.mktemp("run"), 1000)


def test_a_recording_with_truth_shows_everything(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "report.html"
    assert main(["report", str(recorded[0]), "--truth", str(recorded[1]), "-o", str(output)]) == 0
    assert capsys.readouterr().out.strip() == str(output)
    page = Page(output.read_text())
    assert page.headings == [
        "Track", "Errors", "Motion", "Slip", "Tyre forces", "Suspension", "Innovations", "Timing", "Summary"
    ]  # fmt: skip
    assert page.open == [], "not well-formed"
    assert page.loaded == [], "something comes from elsewhere"
    assert not re.search(r"url\(|@import", output.read_text())
    assert page.plots == list(range(len(page.data["panels"])))
    part = page.panel("sideslip, deg")["parts"][-1]
    t, y = numbers(part["t"], "<f8"), numbers(part["lines"][0]["y"], "<f4")
    expected = [math.degrees(true_state(s)["sideslip"]) for s in t]
    assert np.abs(y - expected).max() < 5 * math.degrees(0.004), "the estimates' noise"
    assert "gate 2" in page.text, "why fixes were not fused"
    assert output.stat().st_size < 3_000_000


def test_several_runs_are_drawn_over_each_other(recorded: tuple[Path, Path], tmp_path: Path) -> None:
    other, _ = make_run(tmp_path, 400)
    output = tmp_path / "report.html"
    runs = [str(recorded[0]), str(other)]
    assert main(["report", *runs, "--truth", str(recorded[1]), "-o", str(output)]) == 0
    page = Page(output.read_text())
    summaries = [h for h in page.headings if h.startswith("Summary of ")]
    assert len(set(summaries)) == 2, "files of one name are distinguished"
    labels = [line["label"] for part in page.panel("velocity, m/s")["parts"] for line in part["lines"]]
    assert [label.split(": ")[1] for label in labels] == ["forward", "to the left"] * 2
    assert [line["kind"] for line in page.data["track"]] == ["points", "line", "dashes", "line"]


def test_more_runs_than_can_be_seen_are_an_error(
    recorded: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *[str(recorded[0])] * 7]) == 2
    assert "expected 1 to 6" in capsys.readouterr().err


@needs_browser
def test_plots_zoom_together_and_the_track_follows_the_cursor(
    recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    assert main(["report", str(recorded[0]), "--truth", str(recorded[1]), "-o", str(output)]) == 0
    with browser(tmp_path / "profile") as tab:
        tab.resize(1200, 900)
        tab.open(output.as_uri())
        tab.wait_for("plots.length > 20")
        tab.run("plots[0].setScale('x', { min: 1, max: 2 })")
        tab.wait_for(
            "plots.every((p) => Math.abs(p.scales.x.min - 1) < 1e-9 && Math.abs(p.scales.x.max - 2) < 1e-9)"
        )
        # Every innovation of that second is where it should be, in the colour of its component.
        found, points = tab.run(POINTS_DRAWN)
        assert found == points > 200
        tab.run("mark(1.5)")
        x, y = map(
            float,
            tab.run("document.querySelector('#track svg').lastChild.getAttribute('d')")[1:-2].split(","),
        )
        truth = true_state(1.5)
        assert (x, -y) == pytest.approx((truth["x"], truth["y"]), abs=0.2)
        tab.wait_for("document.querySelector('#track .scale').textContent")
        assert tab.run(SCALE_DRAWN) == pytest.approx(1.0, abs=0.02)
        was = tab.run("document.querySelector('#track .scale').textContent")
        tab.run(
            "document.querySelector('#track svg').dispatchEvent(new WheelEvent('wheel', { deltaY: -2000 }))"
        )
        assert tab.run("document.querySelector('#track .scale').textContent") != was
        assert tab.run(SCALE_DRAWN) == pytest.approx(1.0, abs=0.02)
        tab.resize(380, 700, mobile=True)
        tab.wait_for("document.documentElement.scrollWidth <= 380")
        assert tab.errors == []


SCALE_DRAWN = """(() => {
  const scale = document.querySelector("#track .scale");
  const [length, unit] = scale.textContent.split(" ");
  const metres = Number(length) * (unit === "km" ? 1000 : 1);
  return scale.getBoundingClientRect().width / document.querySelector("#track svg").getScreenCTM().a / metres;
})()"""
"""Width of the scale, over the length that it states."""
POINTS_DRAWN = """(() => {
  const p = plots.find((p) => p.root.textContent.includes("imu.gyro"));
  let found = 0, points = 0;
  for (let k = 0; k < p.data[0].length; k++) {
    const t = p.data[0][k], value = p.data[1][k];
    if (value === null || t < 1.01 || t > 1.99 || Math.abs(value) > 4.5) continue;
    const at = [p.valToPos(t, "x", true), p.valToPos(value, "y", true)].map(Math.round);
    points++;
    found += p.ctx.getImageData(...at, 1, 1).data[3] === 255 && p.ctx.getImageData(...at, 1, 1).data[0] < 250;
  }
  return [found, points];
})()"""
"""Numbers of drawn and of all accepted innovations in view."""


def test_quantities_recorded_less_often_are_drawn_without_holes(tmp_path: Path) -> None:
    values = np.array([true_state(0.0)[c] for c in ESTIMATE_COLUMNS])
    with Recorder(tmp_path / "run.mcap", "", 0, 0, contents=Contents(RecordRates())) as recorder:
        for i in range(1000):
            if not 400 <= i < 600:
                recorder.record_step(i * PERIOD, [], Estimate(i * PERIOD, values), [], None)
    assert main(["report", str(tmp_path / "run.mcap"), "-o", str(tmp_path / "r.html")]) == 0
    (part,) = Page((tmp_path / "r.html").read_text()).panel("lateral force, kN")["parts"]
    y = numbers(part["lines"][0]["y"], "<f4")
    assert np.isfinite(y).sum() == 160


def test_restarts_and_wrong_units_are_highlighted(tmp_path: Path) -> None:
    units = {"steer.wheel": "values up to 412 seem to be in deg"}
    estimator = {"restarts": 84, "steps": 200, "without_steering": 50, "units": units}
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        values = np.array([true_state(0.0)[c] for c in ESTIMATE_COLUMNS])
        for i in range(3):
            recorder.record_step(i * PERIOD, [], Estimate(i * PERIOD, values), [], None)
        recorder.record_status(Status(2 * PERIOD, "running", {"estimator": estimator}))
    assert main(["report", str(tmp_path / "run.mcap"), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert '<b class="bad">84</b><span>restarts of the filter</span>' in page
    assert '<b class="bad">75 %</b><span>steps with measured steering</span>' in page
    assert "<p class=bad>steer.wheel: values up to 412 seem to be in deg</p>" in page


def test_a_table_of_few_columns_gives_a_report_of_these_that_is_reproducible(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("t,vx,sideslip\n0,20,0.01\n1,20,0.02\n2,,\n")
    assert main(["report", str(tmp_path / "e.csv"), "-o", str(tmp_path / "r.html")]) == 0
    page = Page((tmp_path / "r.html").read_text())
    assert [h for h in page.headings if h != "Summary"] == ["Motion", "Slip"]
    assert main(["report", str(tmp_path / "e.csv"), "-o", str(tmp_path / "again.html")]) == 0
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "r.html").read_bytes()


def test_slips_of_a_car_that_stands_are_not_drawn(tmp_path: Path) -> None:
    """At standstill slips are quotients of noise, up to ±180°; beside them, those of the drive would be invisible."""
    (tmp_path / "e.csv").write_text(
        "t,vx,vy,sideslip,slip.fl.angle\n0,-0.01,0.001,3.0,1.2\n1,20,0,0.01,0.02\n2,20,0,0.02,0.03\n3,0.001,0.01,1.5,1\n"
    )
    assert main(["report", str(tmp_path / "e.csv"), "-o", str(tmp_path / "r.html")]) == 0
    page = Page((tmp_path / "r.html").read_text())
    for name in ("sideslip, deg", "tyre slip angle, deg"):
        (part,) = page.panel(name)["parts"]
        y = numbers(part["lines"][0]["y"], "<f4")
        assert np.isfinite(y).sum() == 2
        assert np.nanmax(np.abs(y)) < 2.0


def test_names_cannot_inject_anything(tmp_path: Path) -> None:
    name = "<script>alert(1)</script>.csv"
    folder = tmp_path / "<script>alert(2)<"
    folder.mkdir()
    for at in (tmp_path, folder):
        (at / name.replace("/", "-")).write_text("t,vx,x,y\n0,20,0,0\n1,20,1,1\n")
    runs = [str(at / name.replace("/", "-")) for at in (tmp_path, folder)]
    assert main(["report", *runs, "-o", str(tmp_path / "r.html")]) == 0
    page = Page((tmp_path / "r.html").read_text())
    assert (tmp_path / "r.html").read_text().count("<script") == 3, "none but our own"
    assert "alert(1)" in page.text


def test_a_position_is_drawn_only_if_both_coordinates_are_known(tmp_path: Path) -> None:
    (tmp_path / "never.csv").write_text("t,vx,x,y\n0,20,1,\n1,20,,2\n")
    (tmp_path / "once.csv").write_text("t,vx,x,y\n0,20,1,\n1,20,3,2\n")
    for name, track in (("never", None), ("once", [3.0])):
        assert main(["report", str(tmp_path / f"{name}.csv"), "-o", str(tmp_path / "r.html")]) == 0
        drawn = Page((tmp_path / "r.html").read_text()).data["track"]
        assert (drawn and numbers(drawn[0]["x"], "<f8").tolist()) == track


@pytest.mark.parametrize(
    ("content", "status", "message"),
    [("t,vx\n", 1, "no estimates in it"), ("t,imu.ax\n0,1\n", 2, "unknown column 'imu.ax'")],
)
def test_a_table_without_estimates_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, status: int, message: str
) -> None:
    (tmp_path / "e.csv").write_text(content)
    assert main(["report", str(tmp_path / "e.csv"), "-o", str(tmp_path / "r.html")]) == status
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize(
    "command", ["report {} -o r.html", "report run.mcap --truth {} -o r.html", "score {} t.csv"]
)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing.csv", "No such file or directory"),
        ("folder", "Is a directory"),
        ("loop.mcap", "Too many levels of symbolic links"),
    ],
)
def test_a_file_that_cannot_be_read_is_bad_usage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    recorded: tuple[Path, Path],
    command: str,
    name: str,
    reason: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop.mcap").symlink_to("loop.mcap")
    (tmp_path / "run.mcap").symlink_to(recorded[0])
    assert main(command.format(name).split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"vehicled: {name}: {reason}; expected a ")


def test_bytes_of_a_file_name_that_are_no_text_are_shown_as_question_marks(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = os.fsdecode(b"drive\xff.mcap")
    (tmp_path / name).symlink_to(recorded[0])
    assert main(["report", str(tmp_path / name), "-o", str(tmp_path / "r.html")]) == 0
    assert "<h1>drive?.mcap</h1>" in (tmp_path / "r.html").read_text()


def test_impossible_values_are_left_out_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.csv").write_text("t,x,y,vx\n0,0,0,1\n0.1,1e308,0,inf\n0.2,1,-1e308,1\n0.3,2,0,1\n")
    assert main(["report", str(tmp_path / "e.csv"), "-o", str(tmp_path / "r.html")]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "e.csv: t = 0.1 s: absurd value: x = 1e+308"
    assert lines[-1] == "e.csv: 3 problems (3 absurd value)"
    assert len(lines) == 4


@pytest.mark.parametrize("command", ["report {run} -o {out}.html", "convert {run} {out}.csv --estimates"])
def test_a_full_disk_is_reported_with_the_name_of_the_file(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for suffix in ("html", "csv"):
        (tmp_path / f"full.{suffix}").symlink_to("/dev/full")
    assert main(command.format(run=recorded[0], out=tmp_path / "full").split()) == 1
    line = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(rf"vehicled: {tmp_path}/full\.\w+: No space left on device", line)


def test_fixes_lie_on_the_track(recorded: tuple[Path, Path]) -> None:
    run = load_run(recorded[0])
    expected = np.array([[true_state(i * 0.2)[c] for c in "xy"] for i in range(20)])
    assert run.fixes.shape == (20, 2)
    assert np.sqrt(np.mean((run.fixes - expected) ** 2)) == pytest.approx(1.0, abs=0.35), "their noise is 1 m"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["whole", "damaged"])
def test_a_recording_read_by_several_processes_is_shown_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Also a recording that is damaged in more places than are listed."""
    path, truth = make_run(tmp_path, 4000)
    if kind == "damaged":
        content = bytearray(path.read_bytes())
        starts = [m.start() for m in re.finditer(re.escape(bytes.fromhex("28b52ffd")), content)]
        assert len(starts) > 8, "chunks"
        for start in starts[1::2]:
            content[start + 40 : start + 60] = bytes(20)
        path.write_bytes(content[: len(content) * 9 // 10])
    (alone,) = write_report([path], tmp_path / "a.html", truth)
    monkeypatch.setattr("vehicled.report.recording._LEAST_PART", 1)
    (together,) = write_report([path], tmp_path / "b.html", truth, processes=3)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert [p.details for p in together.problems] == [p.details for p in alone.problems]
    assert alone.problems[0].counts.keys() == ({"damaged chunk", "truncated"} if kind == "damaged" else set())


def test_thinning_keeps_every_peak_and_hole() -> None:
    t = np.arange(100_000.0)
    y = np.sin(t / 1e4)
    y[54_321], y[77_777] = 9, -9
    y[20_000:40_000] = np.nan
    thin_t, thin_y = thin(t, y)
    assert len(thin_t) <= 3100
    assert np.nanmax(thin_y) == 9
    assert np.nanmin(thin_y) == -9
    assert np.all(np.diff(thin_t) >= 0)
    assert np.isnan(thin_y[(thin_t > 20_100) & (thin_t < 39_900)]).all()
    assert all(y[int(at)] == v or math.isnan(v) for at, v in zip(thin_t, thin_y, strict=True))
