"""The page of `vehicled view` in a real browser: a running daemon, a recording, a telephone."""

import contextlib
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="needs the extra `view`")

from browser_rig import browser, needs_browser
from publisher_rig import COUNTERS, circling, publishing, status

from replay.mcap_log import McapLog
from vehicled.daemon.daemon import Daemon, DaemonOptions
from vehicled.daemon.recorder import Recorder
from vehicled.messages import Condition
from vehicled.reading import settings

pytestmark = needs_browser

CONFIGURATION = """\
devices: {}
loop: {realtime_priority: 0}
publish: {endpoint: "ipc://FOLDER/results", command_endpoint: "ipc://FOLDER/commands"}
record: {directory: "RUNS"}
"""


class CirclingEstimator:
    """On a circle of 30 m radius at 10 m/s, whatever is measured."""

    condition = Condition("running", 0)

    def step(self, t_ns, measurements):
        return circling((t_ns % 10**15) * 1e-9, t_ns - t_ns % 10**15)

    def innovations(self):
        return []

    def parameters(self):
        return {}

    def status(self):
        return COUNTERS["estimator"]

    def command(self, name, arguments):
        raise AssertionError(name)


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browser(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture
def page(tab):
    """The tab, large and with the light theme; errors in its console fail the test."""
    tab.resize(1440, 900)
    tab.choose_theme("light")
    tab.errors.clear()
    yield tab
    assert tab.errors == []
    tab.open("about:blank")


@contextlib.contextmanager
def viewing(*arguments):
    """Address of a `vehicled view` in a process of its own."""
    command = [sys.executable, "-m", "vehicled", "view", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        url = process.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:"), url
        yield url
    finally:
        process.terminate()
        process.communicate(timeout=10)


@pytest.fixture(scope="module")
def recording(tmp_path_factory) -> Path:
    """Ten seconds, with a mark and a receiver that falls silent."""
    path = tmp_path_factory.mktemp("recording") / "run.mcap"
    with Recorder(path, "", 0, 0) as recorder:
        for k in range(2500):
            t = k * 4_000_000
            if k == 1000:
                recorder.record_command(t, "mark", {"text": "<b>kerb</b>"})
            recorder.record_step(t, [], circling(k * 0.004), [], 400_000)
            if k % 250 == 0:
                recorder.record_status(status(t, "degraded" if k >= 1250 else "running"))
    return path


@pytest.fixture(scope="module")
def recorded_url(recording):
    """Address of a page that shows the recording."""
    with viewing(recording) as url:
        yield url


@pytest.fixture
def daemon(tmp_path, socket_folder):
    text = CONFIGURATION.replace("FOLDER", str(socket_folder)).replace("RUNS", str(tmp_path / "runs"))
    with Daemon(settings.loads(text, DaemonOptions), CirclingEstimator(), text, dict) as daemon:
        yield daemon


def seconds(page) -> float:
    minutes, rest = page.text("time").split(":")
    return 60 * int(minutes) + float(rest)


def scrub_to(page, t) -> None:
    page.run(
        "(() => { const scrub = document.getElementById('scrub');"
        f"scrub.value = {t}; scrub.dispatchEvent(new Event('input')); }})()"
    )
    page.wait_for(f"document.getElementById('time').textContent === '0:{t:04.1f}'")


def drawn(page, element) -> str:
    """The present picture of a canvas, for comparison."""
    return page.run(f"document.querySelector('#{element} canvas').toDataURL()")


def test_a_page_of_a_running_daemon_moves_pauses_goes_back_and_sends_marks(page, daemon, tmp_path):
    with viewing("--endpoint", daemon.endpoint) as url:
        page.open(url)
        page.wait_for("document.getElementById('state').textContent === 'running'")
        page.wait_for("document.getElementById('speed').textContent === '36.0'")
        assert page.text("sideslip") == "1.1"
        assert page.text("sideslip-sigma") == "± 0.6"
        assert float(page.text("position-sigma")) == pytest.approx(10.0)
        assert page.text("position-unit") == "cm"
        before, picture = seconds(page), drawn(page, "map")
        page.wait_for(f"document.getElementById('scrub').value > {before + 0.5}")
        assert drawn(page, "map") != picture

        page.click("play")
        page.wait_for("document.getElementById('play').textContent === '▶'")
        paused, picture = seconds(page), drawn(page, "map")
        end = "Number(document.getElementById('scrub').max)"
        page.wait_for(f"{end} > {page.run(end) + 0.3}")  # the drive goes on, the moment stays
        assert seconds(page) == paused
        scrub_to(page, round(page.run("Number(document.getElementById('scrub').min)") + 0.5, 1))
        assert drawn(page, "map") != picture
        page.click("follow")
        page.wait_for(f"document.getElementById('scrub').value > {paused + 0.3}")

        page.run("document.getElementById('mark-text').value = 'kerb at turn 3'")
        page.run("document.getElementById('mark-form').requestSubmit()")
        page.wait_for("document.getElementById('marks').textContent.includes('kerb at turn 3')")
        page.wait_for("document.getElementById('mark-reply').textContent === 'marked'")
    daemon.stop()
    (file,) = (tmp_path / "runs").iterdir()
    steps = list(McapLog(file).recorded_steps())
    assert [(c.name, c.arguments) for s in steps for c in s.commands] == [
        ("mark", {"text": "kerb at turn 3"})
    ]


def test_the_end_of_the_daemon_is_shown_and_a_later_daemon_is_found(page, daemon):
    with viewing("--endpoint", daemon.endpoint) as url:
        page.open(url)
        page.wait_for("document.getElementById('state').textContent === 'running'")
        daemon.stop()
        page.wait_for("document.getElementById('reason').textContent === 'no data from the daemon'")
        with daemon:
            page.wait_for("document.getElementById('state').textContent === 'running'")


def test_a_page_shows_the_end_of_its_server_and_reconnects(page, recording):
    with viewing(recording) as url:
        page.open(url)
        page.wait_for("document.getElementById('state').textContent === 'running'")
    page.wait_for("document.getElementById('state').textContent === 'disconnected'")
    with viewing(recording, "--port", url.rstrip("/").rpartition(":")[2]):
        page.wait_for("document.getElementById('state').textContent === 'running'")
    # Errors that the browser itself reports about the missing server.
    page.errors[:] = [e for e in page.errors if "ERR_CONNECTION" not in e and "WebSocket" not in e]


def test_a_recording_is_scrubbed_and_played(page, recorded_url):
    page.open(recorded_url)
    page.wait_for("document.getElementById('scrub').max > 9.9")
    assert page.run("document.getElementById('mark-form').hidden")
    for t, state, sources in ((2.0, "running", ""), (8.0, "degraded", "silent for 2.1 s")):
        scrub_to(page, t)
        page.wait_for(f"document.getElementById('state').textContent === '{state}'")
        assert page.text("time") == f"0:0{t}"
        assert (sources in page.text("sources")) is True
    assert "99.9 %0.90 ms" in page.text("step")
    assert "2 of 500" in page.text("step")
    scrub_to(page, 9.2)
    picture = drawn(page, "map")
    page.click("play")
    page.wait_for("document.getElementById('scrub').value > 9.4")
    assert drawn(page, "map") != picture
    page.wait_for("document.getElementById('play').textContent === '▶'")  # at the end
    assert seconds(page) == pytest.approx(10.0, abs=0.1)
    # A mark is shown as plain text, and a click on it goes to its moment.
    assert "<b>kerb</b>" in page.text("marks")
    page.run("document.querySelector('#marks button').click()")
    page.wait_for("document.getElementById('time').textContent === '0:04.0'")


def test_a_press_on_a_chart_chooses_a_moment_after_changes_of_theme(page, recorded_url):
    page.open(recorded_url)
    page.wait_for("document.getElementById('scrub').max > 9.9")
    for theme, text, t in (("dark", "rgb(232, 235, 240)", 5.0), ("light", "rgb(20, 23, 28)", 2.5)):
        page.choose_theme(theme)
        page.wait_for(f"getComputedStyle(document.querySelector('#speed-chart')).color === '{text}'")
        assert page.run("document.querySelectorAll('#speed-chart .u-over').length") == 1
        box = page.run(
            "(({left, top, width, height}) => [left, top, width, height])"
            "(document.querySelector('#speed-chart .u-over').getBoundingClientRect())"
        )
        x, y = box[0] + box[2] * t / 10.0, box[1] + box[3] / 2
        for kind in ("mousePressed", "mouseReleased"):
            page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        page.wait_for(f"Math.abs(document.getElementById('scrub').value - {t}) < 0.1")


def test_the_newest_drive_replaces_the_last_one(page, socket_folder):
    endpoint = f"ipc://{socket_folder}/results"
    with viewing("--endpoint", endpoint) as url, publishing(endpoint) as publisher:
        page.open(url)
        page.wait_for("document.getElementById('reason').textContent === 'no daemon publishes yet'")
        for begin in (1000, 10):
            give_up, t = time.monotonic() + 60, 0.0
            while page.run("Number(document.getElementById('scrub').value)") < 1.0 or t < 1.2:
                assert time.monotonic() < give_up
                for _ in range(5):  # a busy browser may take seconds for each answer
                    publisher.publish_step(circling(t, begin * 10**9), [])
                    publisher.publish_status(status(round((begin + t) * 1e9)))
                    t += 0.1
                    time.sleep(0.02)
        assert page.run("Number(document.getElementById('scrub').max)") < 30


@pytest.mark.parametrize(
    ("size", "theme"),
    [((320, 568), "light"), ((390, 844), "dark"), ((820, 1180), "light"), ((1440, 900), "dark")],
)
def test_no_size_scrolls_sideways_and_both_themes_are_legible(page, recorded_url, size, theme):
    page.resize(*size, scale=2, mobile=size[0] < 1000)
    page.choose_theme(theme)
    page.open(recorded_url)
    page.wait_for("document.getElementById('scrub').max > 9.9")
    scrub_to(page, 8)
    assert page.run("document.documentElement.scrollWidth <= window.innerWidth")
    wide = page.run(
        "[...document.querySelectorAll('main *, footer *')].filter((e) => "
        "e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.id || e.className.baseVal || e.className)"
    )
    assert wide == []
    text, ground = (
        page.run(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor")
    )
    assert contrast(text, ground) > 7
    # Touch screens need buttons of this size.
    small = page.run(
        "[...document.querySelectorAll('footer button:not([hidden])' + "
        "(matchMedia('(pointer: coarse)').matches ? ', .tools button' : ''))]"
        ".filter((e) => e.offsetHeight < 40 || e.offsetWidth < 40).length"
    )
    assert small == 0
    assert page.run("matchMedia('(pointer: coarse)').matches") == (size[0] < 1000)


def contrast(one: str, other: str) -> float:
    """Contrast of two colours, by WCAG."""

    def luminance(colour: str) -> float:
        channels = [int(c) / 255 for c in re.findall(r"\d+", colour)[:3]]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def test_nothing_is_loaded_from_elsewhere(page, recorded_url):
    page.open(recorded_url)
    page.wait_for("document.getElementById('scrub').max > 9.9")
    loaded = page.run("JSON.stringify(performance.getEntriesByType('resource').map((e) => e.name))")
    names = json.loads(loaded)
    assert len(names) > 10
    assert all(name.startswith((recorded_url, recorded_url.replace("http", "ws"))) for name in names)
