"""Makes filter steps from a stream of measurements, and plays them back in real time."""

import heapq
import time
from collections.abc import Iterable, Iterator

from replay.problems import Problems
from replay.times import format_seconds
from vehicled.messages import Command, Measurement, Step

LOOK_AHEAD_NS = 1_000_000_000
"""How far a log may be out of order and still be sorted: more than any receiver's latency."""

MAX_GAP_NS = 10_000_000_000
"""A longer silence is not filled with steps: the log was paused, or a time stamp is wrong."""


def sort_by_arrival(
    measurements: Iterable[Measurement], problems: Problems, look_ahead_ns: int = LOOK_AHEAD_NS
) -> Iterator[Measurement]:
    """Sort measurements by arrival; those with equal arrival keep the order of the log.

    At most `look_ahead_ns` of samples are held back. A sample that is later still keeps its place in the log,
    and its arrival is changed to fit: for the estimator this is latency.
    """
    held: list[tuple[int, int, Measurement]] = []
    newest: int | None = None
    last: int | None = None
    for order, m in enumerate(measurements):
        earliest = last
        if last is None and newest is not None and held and m.arrival < newest - look_ahead_ns:
            earliest = held[0][0]  # the log must not begin with a wrong time
        if earliest is not None and m.arrival < earliest:
            problems.add(
                "out of order",
                f"t = {format_seconds(m.t)} s",
                f"{m.source} is {(earliest - m.arrival) / 1e9:.3g} s late",
            )
            m = Measurement(m.source, m.t, earliest, m.values)
        heapq.heappush(held, (m.arrival, order, m))
        # Largest time of measurement so far, as arrivals run ahead of the log.
        newest = m.t if newest is None or m.t > newest else newest
        while held and held[0][0] <= newest - look_ahead_ns:
            last, _, ready = heapq.heappop(held)
            yield ready
    while held:
        yield heapq.heappop(held)[2]


def make_steps(measurements: Iterable[Measurement], period_ns: int, problems: Problems) -> Iterator[Step]:
    """Steps at a fixed period from the first arrival on, each with all that has arrived by then.

    `measurements` in order of arrival. After more than `MAX_GAP_NS` without any, steps resume at the next
    one, on the same grid; this counts as a problem. Measurements with one arrival long before all others are
    left out: their time is wrong, or they are of no use.
    """
    step: Step | None = None
    is_first = True
    for m in measurements:
        if step is None:
            step = Step(m.arrival, [])
        elif m.arrival > step.t + MAX_GAP_NS:
            silence = f"nothing for {(m.arrival - step.t) / 1e9:.6g} s"
            at = f"t = {format_seconds(step.t)} s"
            if is_first:
                problems.add("absurd time", at, f"{silence} after the first sample, which is left out")
                step = Step(m.arrival, [])
            else:
                problems.add("gap", at, silence)
                yield step
                step = Step(step.t - (step.t - m.arrival) // period_ns * period_ns, [])
            is_first = False
        while m.arrival > step.t:
            yield step
            is_first = False
            step = Step(step.t + period_ns, [])
        step.measurements.append(m)
    if step is not None:
        yield step


def as_measured(measurements: Iterable[Measurement]) -> Iterator[Measurement]:
    """Set the arrival of each measurement to its time of measurement, in the order given."""
    for m in measurements:
        yield Measurement(m.source, m.t, m.t, m.values)


def with_commands(
    steps: Iterable[Step], commands: Iterable[tuple[int, tuple[Command, ...]]]
) -> Iterator[Step]:
    """Add commands to steps: each to the first step that is not before its time (ns)."""
    waiting = list(commands)
    for step in steps:
        due = sum(t <= step.t for t, _ in waiting)
        found = [c for _, several in waiting[:due] for c in several]
        del waiting[:due]
        yield step._replace(commands=(*step.commands, *found))


def play(steps: Iterable[Step], rate: float) -> Iterator[Step]:
    """Yield the same steps at `rate` times real time, with absolute deadlines.

    A late step is yielded at once; the deadlines of the others do not change.
    """
    begun = time.monotonic_ns()
    first: int | None = None
    for step in steps:
        if first is None:
            first = step.t
        wait = begun + (step.t - first) / rate - time.monotonic_ns()
        if wait > 0:
            time.sleep(wait / 1e9)
        yield step
