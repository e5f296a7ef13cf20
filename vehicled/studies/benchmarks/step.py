"""Times of a step: of the model, of the filter, and of a dense solver for comparison."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import scipy.linalg

from replay.problems import Problems
from replay.steps import make_steps
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.estimator import Estimator
from vehicled.filter.boundary import InitialPose
from vehicled.garbage import collector_off
from vehicled.messages import Measurement
from vehicled.sources.inputs.inputs import Inputs
from vehicled.studies.benchmarks.timing import summary
from vehicled.vehicle.car import Car
from vehicled.vehicle.model import build

SIZE = 169
"""Unknowns of the dense system: natural coordinates of the published model of such a car (Sanjurjo)."""
_DENSE_EVERY = 5
"""Number of steps per solution of the dense system, which takes longer than they do."""
_SEED = 1


def bench_step(
    configuration: DaemonConfiguration,
    measurements: Iterable[Measurement],
    speed: float,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """Parts of `vehicled bench step --json`: times of model, filter and dense solver over a drive.

    `measurements` of the drive from t = 0 in order of arrival; `speed` at its start, m/s. `progress` receives
    the simulated time, s.
    """
    rate = configuration.daemon.loop.rate
    h = 1.0 / rate
    estimator = Estimator(configuration)
    model = estimator.make_filter()
    # The same car on the same drive with the same inputs, without a filter.
    car = model.car
    inputs = Inputs(car, configuration.sensors)
    model.place(InitialPose(np.array([0.0, 0.0, car.design_height]), 0.0, speed))
    random = np.random.default_rng(_SEED)
    matrix, right = random.standard_normal((SIZE, SIZE)), random.standard_normal(SIZE)

    model_ns: list[int] = []
    filter_ns: list[int] = []
    with_fix_ns: list[int] = []
    dense_ns: list[int] = []
    iterations: Counter[int] = Counter()
    clock = time.perf_counter_ns
    with collector_off():
        for n, step in enumerate(make_steps(measurements, round(1e9 * h), Problems("drive"))):
            for m in step.measurements:
                inputs.take(m.t, m.values)
            inputs.apply(step.t * 1e-9)
            begin = clock()
            taken = car.step(h)
            model_ns.append(clock() - begin)
            iterations[abs(taken)] += 1

            begin = clock()
            estimate = estimator.step(step.t, step.measurements)
            took = clock() - begin
            if estimate is not None:
                filter_ns.append(took)
                if any("gnss.lat" in m.values for m in step.measurements):
                    with_fix_ns.append(took)
            if n % _DENSE_EVERY == 0:
                begin = clock()
                scipy.linalg.lu_solve(scipy.linalg.lu_factor(matrix), right)
                dense_ns.append(clock() - begin)
                progress(step.t * 1e-9)
    return {
        "model_step_us": summary(model_ns),
        "filter_step_us": summary(filter_ns),
        "filter_step_with_fix_us": summary(with_fix_ns),
        "lu169_us": summary(dense_ns),
        "operations": _operations(car, iterations.most_common(1)[0][0]),
    }


def _operations(car: Car, iterations: int) -> dict[str, Any]:
    """Operations of a step whose tangent is factorised once, by kernel and in total."""
    step, program = car.kernels.step, build(car.vehicle.tyre, car.vehicle.suspensions).program
    calls = {
        step.predict: 1,
        step.factor: 1,
        step.iterate: iterations,
        step.recover: 1,
        step.project_velocity: car.projection_passes,
        step.project_acceleration: car.projection_passes,
        step.finish: 1,
    }
    kernels = {kernel.name: sum(program.kernels[kernel].operations().values()) for kernel in calls}
    total = sum(count * kernels[kernel.name] for kernel, count in calls.items())
    return {"step": total, "iterations": iterations, "kernels": kernels}
