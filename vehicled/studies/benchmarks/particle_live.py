"""A try of `vehicled bench particles` shown while it runs, in a terminal or a window.

A thread simulates the linkage in real time, or slower, and puts its gyroscope's readings into a queue, from which
the filter takes them.
"""

from __future__ import annotations

import queue
import sys
import threading
import time
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TextIO

import numpy as np

from vehicled.maths.angles import wrap
from vehicled.particles.instruments import RateInstrument
from vehicled.particles.live import Follower, Sample
from vehicled.particles.weights import circular_deviation
from vehicled.studies.benchmarks.particle_tries import CRANK, STEP, TOLERANCE, Experiment, Try
from vehicled.terminal.canvas import BLUE, BOLD, DIM, GREEN, PLAIN, RED, Canvas, Page, keys

_FRAME_S = 1 / 15
_SPARSE_S = 1.0
_PATIENCE_S = 0.5
"""Time without a reading, s, after which the view shows that it is waiting."""
_PACES = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
"""Factors on real time."""
_FACTOR = 2.0**0.5
"""Factor by which a key changes the multiplier."""
_RING = 120
"""Number of sectors of the ring of particles."""
_SHOWN = 200
HELP = "n new  + − multiplier  f s faster, slower  space hold  q quit"
_BLOCKS = " ▁▂▃▄▅▆▇█"


class LinkageThread(threading.Thread):
    """The true linkage with its gyroscope: a device with its own clock that puts readings into `samples`."""

    def __init__(self, trial: Try, pace: float) -> None:
        super().__init__(name="linkage", daemon=True)
        self._trial = trial
        self.pace = pace
        self.held = threading.Event()
        self._stopped = threading.Event()
        self.samples: queue.SimpleQueue[tuple[Sample, np.ndarray]] = queue.SimpleQueue()
        """Each sample with the (4,) true coordinates, which only the view uses."""

    def run(self) -> None:
        """Move the linkage step by step in real time, multiplied by `pace`, until `stop`."""
        due = time.monotonic()
        step_ns = round(STEP * 1e9)
        for n in range(1, 1 << 62):
            due = max(due + STEP / self.pace, time.monotonic() - 1.0)
            if self._stopped.wait(max(due - time.monotonic(), 0.0)):
                return
            while self.held.is_set() and not self._stopped.is_set():
                self._stopped.wait(0.05)
                due = time.monotonic()
            reading = self._trial.read()
            self.samples.put((Sample(n * step_ns, [reading]), self._trial.truth.get_q()[:, 0]))

    def stop(self) -> None:
        """Stop the thread and wait for its end."""
        self._stopped.set()
        self.join()


@dataclass
class LiveFrame:
    """State to be shown, for one time."""

    t: float
    """s"""
    lengths: tuple[float, ...]
    truth: np.ndarray
    """(4,) P.x, P.y, Q.x, Q.y"""
    estimate: np.ndarray
    """(4,) coordinates of the particle nearest to the estimated crank angle."""
    some: np.ndarray
    """(4, n) coordinates of particles, drawn by their weights."""
    angle: float
    """rad, estimated"""
    true_angle: float
    deviation: float
    """rad"""
    density: np.ndarray
    """(sectors,) weight from −π to π, of sum 1."""
    effective: float
    count: int
    multiplier: float
    resamplings: int
    cost: float
    """Recent processor time per step, s."""
    behind: int
    """Number of samples in the queue."""
    waiting: bool

    @property
    def error(self) -> float:
        """Estimated less true crank angle, rad in [−π, π]."""
        return float(wrap(self.angle - self.true_angle))


class LiveSession:
    """Repeated releases of the linkage, and the filter."""

    def __init__(self, experiment: Experiment, seed: int, pace: float = 0.2) -> None:
        self.experiment, self._seed = experiment, seed
        self._linkage: LinkageThread | None = None
        self._pace = pace
        self.release()

    def release(self) -> None:
        """Release the linkage again, with particles at random."""
        if self._linkage is not None:
            self._linkage.stop()
        self._trial = Try(self.experiment, self._seed)
        self.seed = self._seed
        self._seed += 1
        self.follower = Follower(self._trial.filter, longest=STEP)
        # The particles are at rest at the time of the release.
        self.follower.take(Sample(0, [None]))
        self._truth = self._trial.truth.get_q()[:, 0]
        self._cost = 0.0
        self._last_reading = time.monotonic()
        self._linkage = LinkageThread(self._trial, self._pace)
        self._linkage.start()

    def close(self) -> None:
        """Stop the present linkage."""
        assert self._linkage is not None
        self._linkage.stop()

    def follow(self, until: float) -> None:
        """Process readings until a time (monotonic, s)."""
        assert self._linkage is not None
        while (left := until - time.monotonic()) > 0.0:
            try:
                sample, self._truth = self._linkage.samples.get(timeout=left)
            except queue.Empty:
                return
            begin = time.thread_time()
            self.follower.take(sample)
            self._cost += 0.05 * (time.thread_time() - begin - self._cost)
            self._last_reading = time.monotonic()

    def press(self, pressed: str) -> bool:
        """Handle a key. Returns whether to continue."""
        assert self._linkage is not None
        for key in pressed:
            if key == "q":
                return False
            if key == "n":
                self.release()
            elif key in "+=-":
                factor = 1.0 / _FACTOR if key == "-" else _FACTOR
                self._gyroscope.multiplier = float(np.clip(self._gyroscope.multiplier * factor, 0.1, 1000.0))
                self.experiment = replace(self.experiment, multiplier=self._gyroscope.multiplier)
            elif key in "fs":
                k = _PACES.index(self._pace) + (1 if key == "s" else -1)
                self._pace = self._linkage.pace = _PACES[min(max(k, 0), len(_PACES) - 1)]
            elif key == " ":
                held = self._linkage.held
                held.clear() if held.is_set() else held.set()
        return True

    @property
    def _gyroscope(self) -> RateInstrument:
        (gyroscope,) = self._trial.filter.instruments
        assert isinstance(gyroscope, RateInstrument)
        return gyroscope

    def frame(self) -> LiveFrame:
        """The present state of linkage and particles, for drawing."""
        assert self._linkage is not None
        particles, swarm = self._trial.filter, self._trial.swarm
        angles, q = swarm.get_angles(CRANK), swarm.get_q()
        angle = particles.find_peak(CRANK)
        sectors = np.floor((angles + np.pi) * (0.5 * _RING / np.pi)).astype(int) % _RING
        ends = np.cumsum(particles.weights)
        some = np.searchsorted(ends / ends[-1], (np.arange(_SHOWN) + 0.5) / _SHOWN)
        px, py, *_ = self._truth
        return LiveFrame(
            t=swarm.t,
            lengths=self.experiment.lengths,
            truth=self._truth,
            estimate=q[:, np.argmin(np.abs(wrap(angles - angle)))],
            some=q[:, np.minimum(some, swarm.count - 1)],
            angle=angle,
            true_angle=float(np.arctan2(py, px)),
            deviation=circular_deviation(angles, particles.weights),
            density=np.bincount(sectors, particles.weights, _RING),
            effective=particles.effective,
            count=swarm.count,
            multiplier=self._gyroscope.multiplier,
            resamplings=particles.resamplings,
            cost=self._cost,
            behind=self._linkage.samples.qsize(),
            waiting=time.monotonic() - self._last_reading > _PATIENCE_S,
        )


def watch(
    experiment: Experiment, seed: int, seconds: float | None = None, stream: TextIO | None = None
) -> LiveFrame:
    """Show the try in a terminal until `q` is pressed or for `seconds`; returns the last state.

    If the stream (default: standard error) is no terminal, one line per second.
    """
    stream = sys.stderr if stream is None else stream
    end = np.inf if seconds is None else time.monotonic() + seconds
    session = LiveSession(experiment, seed)
    try:
        if not stream.isatty():
            while time.monotonic() < end:
                session.follow(min(time.monotonic() + _SPARSE_S, end))
                stream.write(_line(session.frame()) + "\n")
                stream.flush()
            return session.frame()
        with Page(stream) as page, keys() as pressed:
            while time.monotonic() < end:
                session.follow(time.monotonic() + _FRAME_S)
                if not session.press(pressed.take()):
                    break
                page.draw(compose(session.frame(), *page.size()))
        return session.frame()
    finally:
        session.close()


def compose(frame: LiveFrame, columns: int, rows: int) -> list[str]:
    """A page of at most this size: the linkage, the density of crank angles, numbers."""
    status = _status(frame)
    height = rows - len(status) - 6
    lines = [_clip(_title(frame), columns)]
    if height >= 5:
        lines += _picture(frame, columns, height)
    lines += _histogram(frame, min(columns, 2 * _RING))
    lines += [_clip(line, columns) for line in (*status, HELP)]
    return lines[:rows]


def _picture(frame: LiveFrame, columns: int, rows: int) -> list[str]:
    """The true linkage (red) and the estimated one (plain), particles' points Q, and a ring of crank angles.

    The distance of the ring from the crank's circle is proportional to the weight.
    """
    ground, link, _, output = frame.lengths
    ring = 0.35 * link
    west, east = min(-link - ring, ground - output), max(link + ring, ground + output)
    reach = max(link + ring, output)
    canvas = Canvas(columns, rows, west, -reach, east, reach)
    for qx, qy in frame.some[2:].T:
        canvas.dot(qx, qy, BLUE)
    highest = float(frame.density.max())
    for k, weight in enumerate(frame.density):
        angle = -np.pi + (k + 0.5) * 2.0 * np.pi / _RING
        way = np.array([np.cos(angle), np.sin(angle)])
        near, far = link * way, (link + ring * weight / highest) * way
        if weight > 0.0:
            canvas.line((near[0], near[1]), (far[0], far[1]), BLUE)
        else:
            canvas.dot(near[0], near[1], DIM)
    for q, style in ((frame.truth, RED), (frame.estimate, BOLD)):
        corners = [(0.0, 0.0), (q[0], q[1]), (q[2], q[3]), (ground, 0.0)]
        for start, end in pairwise(corners):
            canvas.line(start, end, style)
    return canvas.lines()


def _histogram(frame: LiveFrame, columns: int) -> list[str]:
    """Two rows of blocks from −180° to 180°, and below them the truth and the estimate."""
    cell = np.minimum(np.arange(_RING) * columns // _RING, columns - 1)
    weights = np.bincount(cell, frame.density, columns)
    if columns > _RING:
        weights = frame.density[np.arange(columns) * _RING // columns]
    levels = np.ceil(16.0 * weights / weights.max()).astype(int)
    upper = "".join(_BLOCKS[max(n - 8, 0)] for n in levels)
    lower = "".join(_BLOCKS[min(n, 8)] for n in levels)
    marks = [" "] * columns

    def place(angle: float) -> int:
        return min(int((angle + np.pi) / (2.0 * np.pi) * columns), columns - 1)

    here, there = place(frame.true_angle), place(frame.angle)
    marks[there] = f"{BOLD}│{PLAIN}"
    marks[here] = f"{RED}▲{PLAIN}"
    axis = f"{'−180°':<{columns // 2 - 1}}0°{'180°':>{columns - columns // 2 - 1}}"
    return [f"{BLUE}{upper}{PLAIN}", f"{BLUE}{lower}{PLAIN}", "".join(marks), f"{DIM}{axis}{PLAIN}"]


def _title(frame: LiveFrame) -> str:
    return f"{frame.count} particles estimate a four-bar linkage    {frame.t:6.2f} s"


def _status(frame: LiveFrame) -> list[str]:
    degrees = np.degrees
    found = abs(frame.error) <= TOLERANCE
    mark = f"{GREEN}within 5°{PLAIN}" if found else f"{RED}off{PLAIN}"
    state = "waiting for readings" if frame.waiting else f"{frame.behind} readings behind"
    deviation = "no direction" if frame.deviation > 3.0 else f"±{degrees(frame.deviation):.1f}°"
    return [
        f"truth     {degrees(frame.true_angle):7.1f}° {RED}▲{PLAIN}   estimate {degrees(frame.angle):7.1f}° "
        f"{BOLD}│{PLAIN}   {degrees(frame.error):+.2f}° {mark}",
        f"swarm     {deviation:>8}     effective {100 * frame.effective:4.0f} %   "
        f"resampled {frame.resamplings} times",
        f"gyroscope  × {frame.multiplier:<9.2f}{state}",
        f"cost      {1e6 * frame.cost:6.0f} µs a step, {1e6 * frame.cost / frame.count:.2f} µs a particle",
    ]


def _line(frame: LiveFrame) -> str:
    text = f"{frame.t:6.2f} s  truth {np.degrees(frame.true_angle):7.1f}°  "
    text += f"estimate {np.degrees(frame.angle):7.1f}°  effective {100 * frame.effective:3.0f} %"
    return text + ("  waiting for readings" if frame.waiting else "")


def _clip(line: str, columns: int) -> str:
    """Shorten to at most `columns` visible characters; styles do not count."""
    text, visible, inside = "", 0, False
    for character in line:
        inside = inside or character == "\x1b"
        if not inside:
            visible += 1
            if visible > columns:
                return text + PLAIN
        elif character == "m":
            inside = False
        text += character
    return text
