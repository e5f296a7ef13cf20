"""A run of the estimator only: faults of sensors, without devices, faster than real time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
import numpy as np

from replay.faults import Fault, LineFault, Unplugged
from replay.problems import Problems
from replay.steps import make_steps, sort_by_arrival
from vehicled.configuration import Configuration
from vehicled.estimator import Estimator
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Innovation, Measurement
from vehicled.stepping import EstimatorStepper
from vehicled.studies.faults.scores import Observed

_PERIOD_NS = 4_000_000
_UNEVEN_NS = 100_000.0
"""Time stamps of devices are uneven by so much, 1 σ: in even logs, faults of the program that depend on it stay
hidden."""


def make_uneven(measurements: Iterable[Measurement], seed: int) -> Iterator[Measurement]:
    """Measurements with time stamps as of devices."""
    random = np.random.default_rng(seed)
    for m in measurements:
        t = m.t + round(_UNEVEN_NS * float(np.clip(random.standard_normal(), -3.0, 3.0)))
        yield msgspec.structs.replace(m, t=t, arrival=max(t, m.arrival))


def spoil(measurements: Sequence[Measurement], faults: Sequence[Fault]) -> Iterator[Measurement]:
    """Measurements that reach the estimator, in order of arrival."""
    begin = measurements[0].arrival
    for m in measurements:
        changed = [m]
        for fault in faults:
            assert not isinstance(fault, Unplugged | LineFault)
            changed = [n for c in changed for n in fault.apply(c, (c.arrival - begin) * 1e-9)]
        yield from changed


def run_offline(
    configuration: Configuration, measurements: Sequence[Measurement], faults: Sequence[Fault], seed: int = 0
) -> Observed:
    """Run the estimator over a drive with faults of sensors. `seed`: of the unevenness of time stamps."""
    problems = Problems("drive")
    spoilt: Iterable[Measurement] = sort_by_arrival(make_uneven(spoil(measurements, faults), seed), problems)
    stepper = EstimatorStepper(Estimator(configuration))
    estimates: list[Estimate] = []
    innovations: list[Innovation] = []
    conditions = [stepper.condition]
    died = None
    for t, given, _ in make_steps(spoilt, _PERIOD_NS, problems):
        if stepper.is_reset_due(t):
            stepper.execute("reset", {})
        result = stepper.step(t, given)
        if result.error is not None:
            died = f"{type(result.error).__name__}: {result.error}"
        innovations += result.innovations
        if result.estimate is not None:
            estimates.append(result.estimate)
        if stepper.condition is not conditions[-1]:
            conditions.append(stepper.condition)
    times = np.array([e.t for e in estimates], dtype=np.int64)
    values = np.array([e.values for e in estimates]).reshape(-1, len(ESTIMATE_COLUMNS))
    return Observed(times, values, conditions, innovations, died=died)
