"""The particle filter fed by a thread, and its display."""

import io
import queue
import re
import threading
import time

import numpy as np
import pytest

from vehicled.particles.live import Follower, Sample
from vehicled.studies.benchmarks import particle_live
from vehicled.studies.benchmarks.particle_tries import CRANK, STEP, Experiment, Try
from vehicled.terminal.canvas import Canvas

STEP_NS = round(STEP * 1e9)
SMALL = Experiment(count=60, keeps_covariance=True, motion=0.01)


def test_the_filter_waits_for_the_readings_of_a_thread_and_is_never_ahead():
    trial, alone = Try(SMALL, 4), Try(SMALL, 4)
    # Samples at uneven times; one is older than the one before it.
    times = np.cumsum([0, 1, 1, 3, 0, 2, 1, 5]) * STEP_NS
    samples = [Sample(int(t), [None if n == 0 else 0.01 * n]) for n, t in enumerate(times)]
    samples.insert(5, Sample(samples[4].t - STEP_NS // 2, [9.0]))
    incoming: queue.SimpleQueue = queue.SimpleQueue()
    given, taken = [0], threading.Event()

    def feed():
        for n, sample in enumerate(samples):
            taken.wait(10.0)  # the next sample comes only after the last was processed
            taken.clear()
            if n == 3:
                trial.filter.instruments[0].multiplier = 30.0
            given[0] = max(given[0], sample.t)
            incoming.put(sample)
        taken.wait(10.0)
        incoming.put(None)

    feeder = threading.Thread(target=feed)
    feeder.start()
    follower = Follower(trial.filter, STEP)
    taken.set()
    for sample in iter(incoming.get, None):
        assert follower.take(sample) == (sample is not samples[5])
        assert trial.swarm.t <= given[0] * 1e-9 + 1e-12
        assert trial.swarm.t == pytest.approx(max(s.t for s in samples[: samples.index(sample) + 1]) * 1e-9)
        taken.set()
    feeder.join()
    assert (follower.taken, follower.late) == (8, 1)
    # The same as without threads.
    pf, before = alone.filter, 0
    for n, sample in enumerate(s for s in samples if s is not samples[5]):
        if n == 3:
            pf.instruments[0].multiplier = 30.0
        for _ in range(round((sample.t - before) / STEP_NS)):
            pf.predict(STEP)
        pf.update(sample.readings)
        before = sample.t
    assert alone.swarm.get_q() == pytest.approx(trial.swarm.get_q(), abs=1e-9)
    assert pf.weights == pytest.approx(trial.filter.weights, rel=1e-6)


def test_a_long_gap_is_divided_into_steps():
    trial = Try(SMALL, 1)
    steps = []
    predict = trial.filter.predict
    trial.filter.predict = lambda h, disturbed: (steps.append((h, disturbed)), predict(h, disturbed))[1]
    follower = Follower(trial.filter, STEP)
    for t in (0, STEP_NS, STEP_NS, round(3.5 * STEP_NS)):
        assert follower.take(Sample(t, [None]))
    assert [h for h, _ in steps] == pytest.approx([STEP] + [2.5 * STEP / 3] * 3)
    # Noise is added once per STEP of time.
    assert [disturbed for _, disturbed in steps] == [True, False, True, True]


def visible(line):
    return re.sub("\x1b\\[[0-9;]*m", "", line)


@pytest.mark.parametrize("size", [(100, 40), (80, 24), (50, 14), (250, 60), (20, 5)])
def test_a_page_fits_the_terminal(size):
    session = particle_live.LiveSession(SMALL, 2, pace=1.0)
    try:
        session.follow(time.monotonic() + 0.1)
        frame = session.frame()
    finally:
        session.close()
    lines = particle_live.compose(frame, *size)
    assert len(lines) <= size[1]
    assert all(len(visible(line)) <= size[0] for line in lines)
    if size[1] >= 24:
        assert any("n new" in line for line in lines)
        assert any("▲" in line for line in lines)
    assert frame.density.sum() == pytest.approx(1.0)


def test_keys_change_the_session_while_it_runs():
    session = particle_live.LiveSession(SMALL, 2, pace=1.0)
    try:
        first = session.frame().multiplier
        assert session.press("++")
        assert session.frame().multiplier == pytest.approx(2.0 * first)
        assert session.press("-")
        assert session.frame().multiplier == pytest.approx(2.0**0.5 * first)
        assert session.press(" ")  # the linkage is held: only readings already sent arrive
        session.follow(time.monotonic() + 0.2)
        held = session.frame().t
        session.follow(time.monotonic() + 0.3)
        assert session.frame().t == held
        assert session.press("n")
        assert session.seed == 3
        assert session.frame().t == 0.0
        assert session.frame().multiplier == pytest.approx(2.0**0.5 * first)
        assert not session.press("q")
    finally:
        session.close()


def test_without_a_terminal_single_lines_are_printed(monkeypatch):
    monkeypatch.setattr(particle_live, "_SPARSE_S", 0.05)
    now, later = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now() + later[0])
    written = []

    class Stream(io.StringIO):
        """Lets the time run out after a line of a swarm that has moved."""

        def write(self, text):
            written.append(text)
            later[0] = 100.0 * (float(text.split()[0]) > 0.0)

    frame = particle_live.watch(SMALL, 5, seconds=100.0, stream=Stream())
    assert all(re.fullmatch(r" +[\d.]+ s  truth .*°  estimate .*%.*\n", line) for line in written)
    assert frame.t == pytest.approx(float(written[-1].split()[0]), abs=0.0051)
    assert frame.t > 0.0
    assert frame.count == 60
    trial = Try(SMALL, 5)
    for _ in range(round(frame.t / STEP)):
        trial.step()
    assert frame.angle == pytest.approx(trial.filter.find_peak(CRANK), abs=1e-6)


def test_the_figure_of_the_window_shows_the_present_frame():
    from matplotlib.figure import Figure

    from vehicled.studies.benchmarks.particle_window import ParticleFigure

    session = particle_live.LiveSession(SMALL, 2, pace=1.0)
    session.close()
    frame, figure = session.frame(), Figure()
    window = ParticleFigure(figure)
    for _ in range(2):
        window.draw(frame)
    linkage, angles = figure.axes
    (truth,) = (line for line in linkage.lines if line.get_label() == "truth")
    assert truth.get_xdata()[1:3] == pytest.approx(frame.truth[::2])
    assert angles.lines[0].get_xdata()[0] == pytest.approx(np.degrees(frame.true_angle))


def test_dots_of_a_canvas():
    canvas = Canvas(2, 1, 0.0, 0.0, 3.0, 3.0)
    canvas.line((0.0, 0.0), (3.0, 3.0))
    canvas.dot(9.0, 9.0)  # outside
    assert canvas.lines() == [chr(0x2800 + 0x40 + 0x20) + chr(0x2800 + 0x02 + 0x08)]
