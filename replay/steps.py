"""From a stream of measurements to filter steps, and their play-back in real time."""

import heapq
import time
from collections.abc import Iterable, Iterator

from replay.problems import Problems
from replay.times import format_seconds
from vehicled.messages import Command, Measurement, Step

LOOK_AHEAD_NS = 1_000_000_000
"""How far a log may be out of order and still be put in order: more than any receiver's latency."""

MAX_GAP_NS = 10_000_000_000
"""A longer silence is not filled with steps: the log was paused, or a time stamp is wrong."""


def sort_by_arrival(
    measurements: Iterable[Measurement], problems: Problems, look_ahead_ns: int = LOOK_AHEAD_NS
) -> Iterator[Measurement]:
    """The measurements in order of arrival; those that arrived together keep the order of the log.

    Holds back no more than `look_ahead_ns` worth of samples. One that comes later than that arrives at its place in
    the log, which is latency for the estimator.
    """
    held: list[tuple[int, int, Measurement]] = []
    newest: int | None = None
    last: int | None = None
    for order, m in enumerate(measurements):
        earliest = last
        if last is None and newest is not None and held and m.arrival < newest - look_ahead_ns:
            earliest = held[0][0]  # a wrong time among the first samples must not begin the log
        if earliest is not None and m.arrival < earliest:
            problems.add(
                "out of order",
                f"t = {format_seconds(m.t)} s",
                f"{m.source} is {(earliest - m.arrival) / 1e9:.3g} s late",
            )
            m = Measurement(m.source, m.t, earliest, m.values)
        heapq.heappush(held, (m.arrival, order, m))
        # The largest time of measurement so far, as arrivals run ahead of the log.
        newest = m.t if newest is None or m.t > newest else newest
        while held and held[0][0] <= newest - look_ahead_ns:
            last, _, ready = heapq.heappop(held)
            yield ready
    while held:
        yield heapq.heappop(held)[2]


def make_steps(measurements: Iterable[Measurement], period_ns: int, problems: Problems) -> Iterator[Step]:
    """Steps at a fixed period from the first arrival on, each with all that has arrived by then.

    `measurements` in order of arrival. After more than `MAX_GAP_NS` without any, steps resume at the next,
    on the same grid; this counts as a problem. What arrived at one instant long before all else is left out: its time
    is wrong, or nothing follows from it.
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
    """The measurements as if each had arrived when it was measured, in the order given."""
    for m in measurements:
        yield Measurement(m.source, m.t, m.t, m.values)


def with_commands(
    steps: Iterable[Step], commands: Iterable[tuple[int, tuple[Command, ...]]]
) -> Iterator[Step]:
    """The steps with commands, each before the first step that is not before its time (ns)."""
    waiting = list(commands)
    for step in steps:
        due = sum(t <= step.t for t, _ in waiting)
        found = [c for _, several in waiting[:due] for c in several]
        del waiting[:due]
        yield step._replace(commands=(*step.commands, *found))


def play(steps: Iterable[Step], rate: float) -> Iterator[Step]:
    """The same steps, each when its turn comes at `rate` times real time, on absolute deadlines.

    A step whose time has passed comes at once; the deadlines of the others stay where they were.
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
