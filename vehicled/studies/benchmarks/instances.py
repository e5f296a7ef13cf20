"""Time of a step of one car if several are stepped together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from vehicled.garbage import collector_off
from vehicled.studies.benchmarks.timing import summary
from vehicled.vehicle.arrays import AHEAD, CHART_SIZE, FRONT, RODS
from vehicled.vehicle.batch import CarBatch
from vehicled.vehicle.car import Car
from vehicled.vehicle.parameters import Vehicle

WIDTHS = (1, 4, 8, 16)
DURATION = 8.0
"""s"""
_STEP = 4e-3
_SPEED = 20.0
_AMPLITUDE, _FREQUENCY = 0.008, 2 * np.pi * 0.4
_SIGMAS = np.array([0.5, 0.5, 0.02, 0.05, 0.01, 0.01, 0.5, 0.3, 0.1, 0.1, 0.05, 0.05])
"""Standard deviations of the chart and its rates: about those of a filter before its first fixes."""
_SEED = 1


def bench_instances(
    vehicle: Vehicle, progress: Callable[[float], None], duration: float = DURATION
) -> list[dict[str, Any]]:
    """`instances` of `vehicled bench step --json`: batches of each width take turns on a slalom.

    The cars of a batch differ as sigma points do, so that they need different numbers of iterations.
    `progress` receives the simulated time, s.
    """
    car = Car(vehicle)
    random = np.random.default_rng(_SEED)
    change = np.zeros(CHART_SIZE)
    change[AHEAD] = _SPEED
    wheels = np.zeros((2, 4))
    wheels[1] = _SPEED / car.rolling_radius
    car.correct(change, wheels)
    cars: dict[int, Car | CarBatch] = {1: car}
    for width in WIDTHS[1:]:
        batch = cars[width] = CarBatch(car, width)
        batch.correct(_SIGMAS[:, None] * random.standard_normal((CHART_SIZE, width)), carry=True)
    times: dict[int, list[int]] = {width: [] for width in WIDTHS}
    clock = time.perf_counter_ns
    with collector_off():
        for n in range(round(duration / _STEP)):
            phase = _FREQUENCY * (n + 1) * _STEP
            rack = _AMPLITUDE * np.array(
                [np.sin(phase), _FREQUENCY * np.cos(phase), -(_FREQUENCY**2) * np.sin(phase)]
            )
            for width, several in cars.items():
                several.inputs.T[...] = rack
                several.corner_inputs.T[..., FRONT, RODS] = rack
                begin = clock()
                several.step(_STEP)
                times[width].append(clock() - begin)
            progress((n + 1) * _STEP)
    steps = {width: summary(taken) for width, taken in times.items()}
    return [
        {"width": width, "step_us": step, "us_per_instance": step["median"] / width}
        for width, step in steps.items()
    ]
