"""Whether the car's UKF should have wheels among its sigma points: their modes, the cost, and what it would change.

A wheel with its tyre is an oscillator: the spin turns the contact patch against the rim, and the patch, which relaxes
along the way, turns it back. A sigma point is drawn from the filter's states, to which the deflection of tyres along
the car does not belong: a point's wheel that spins faster than the car's is braked by its tyre from the first step
on.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay.csv_log import Table
from vehicled.configuration import Configuration, load_configuration
from vehicled.messages import WHEELS, Estimate, Innovation, Step
from vehicled.scoring.scores import compare, score, tabulate
from vehicled.simulation.scenario import find_scenario
from vehicled.studies.benchmarks.timing import CallTimes
from vehicled.studies.benchmarks.vehicle_observers import (
    CONFIGURATION,
    DRIVE,
    RATE_HZ,
    Receiver,
    TimedEstimator,
    make_drive,
)
from vehicled.vehicle.arrays import AHEAD, BRAKE_PRESSURE, CHART_SIZE
from vehicled.vehicle.batch import CarBatch
from vehicled.vehicle.car import Car

SPEEDS = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0)
"""m/s."""
H = 1.0 / RATE_HZ
_AXLES = {"front": 0, "rear": 2}
"""One wheel of each axle."""
_SETTLING = 250
"""Number of steps after which a car that was placed rolls steadily."""
_FINE, _FIRST, _LAST = 5e-4, 10, 20
"""Length (s) of steps that are short relative to the modes, and first and last step to which the modes are
fitted: in earlier steps the integrator still uses accelerations from before the displacement."""
_SPIN, _DEFLECTION = 1e-3, 1e-6
"""Displacements with which the response is found, rad/s and m."""
_WIDE = 0.5
"""rad/s: about the filter's σ of a slip."""
_STATES = CHART_SIZE + 2 * len(WHEELS)
"""Number of states for which points are drawn: errors of the chassis, of suspensions, and of their rates."""
_PRESSURE, _BRAKED = 50e5, 25
"""Brake pressure, Pa, and number of braked steps."""
_VECTOR = 8
"""The number of cars in a batch is a multiple of this."""
_STEPS = 400
"""Number of steps that are timed."""


@dataclass(frozen=True)
class WheelMode:
    """Response of a wheel's spin with its tyre, at a speed of the car."""

    speed: float
    """m/s."""
    axle: str
    frequency: float
    """Hz."""
    decay: float
    """Time constant of the decay, s."""
    per_step: float
    """Magnitude of the eigenvalue times the filter's step: an integrator needs this well below 2."""
    kept: float
    """Share of a displacement of the spin that remains after a step of the filter, with unchanged deflection."""
    to_speed: float
    """Change of the car's speed meanwhile, m/s per rad/s."""
    curvature: float
    """Even part of the response to ±0.5 rad/s, relative to the response: all that points add to a Jacobian."""
    braked_curvature: float = math.nan
    """The same after a tenth of a second of braking by 50 bar, at about 6 m/s²."""


def find_modes(configuration: Configuration) -> list[WheelMode]:
    """Modes by speed, of a wheel of each axle, from differences of the simulated car rolling straight ahead."""
    car = Car(configuration.vehicle)
    modes: list[WheelMode] = []
    for speed in SPEEDS:
        _roll(car, speed)
        rolling = []
        for axle, wheel in _AXLES.items():
            spin, deflection = (_respond(car, wheel, what, _FINE, _LAST) for what in ("spin", "deflection"))
            both = np.stack([spin[:, :2], deflection[:, :2]], axis=-1)
            transition = np.mean(both[_FIRST + 1 :] @ np.linalg.inv(both[_FIRST:-1]), axis=0)
            eigenvalue = np.log(np.linalg.eigvals(transition).astype(complex)[0]) / _FINE
            kept, _, to_speed = _respond(car, wheel, "spin", H, 1)[0].tolist()
            rolling.append(
                WheelMode(
                    speed=speed,
                    axle=axle,
                    frequency=abs(eigenvalue.imag) / (2.0 * math.pi),
                    decay=-1.0 / eigenvalue.real,
                    per_step=abs(eigenvalue) * H,
                    kept=kept,
                    to_speed=to_speed,
                    curvature=_calc_curvature(car, wheel),
                )
            )
        car.corner_inputs[BRAKE_PRESSURE] = _PRESSURE
        for _ in range(_BRAKED):
            car.step(H)
        braked = {axle: _calc_curvature(car, wheel) for axle, wheel in _AXLES.items()}
        car.corner_inputs[BRAKE_PRESSURE] = 0.0
        modes += [dataclasses.replace(mode, braked_curvature=braked[mode.axle]) for mode in rolling]
    return modes


def _roll(car: Car, speed: float) -> None:
    """Let the car roll straight ahead at a speed (m/s), without drive, for a second."""
    car.rest()
    change, wheels = np.zeros(CHART_SIZE), np.zeros((2, len(WHEELS)))
    change[AHEAD] = speed
    wheels[1] = speed / car.rolling_radius
    car.correct(change, wheels, carry=True)
    for _ in range(_SETTLING):
        car.step(H)


def _respond(car: Car, wheel: int, what: str, h: float, steps: int) -> np.ndarray:
    """(steps, 3) a wheel's rate (rad/s), its patch's deflection (m), and the speed (m/s), per displacement."""
    size = _SPIN if what == "spin" else _DEFLECTION
    plus, minus = (_displace(car, wheel, what, way, h, steps) for way in (size, -size))
    response: np.ndarray = (plus - minus) / (2.0 * size)
    return response


def _calc_curvature(car: Car, wheel: int) -> float:
    plus, none, minus = (_displace(car, wheel, "spin", way, H, 1)[0, 0] for way in (_WIDE, 0.0, -_WIDE))
    return float(abs(0.5 * (plus + minus) - none) / _WIDE)


def _displace(car: Car, wheel: int, what: str, size: float, h: float, steps: int) -> np.ndarray:
    """(steps, 3) the same quantities after a displacement; the car's state is restored."""
    before = car.workspace.copy()
    if what == "spin":
        wheels = np.zeros((2, len(WHEELS)))
        wheels[1, wheel] = size
        car.correct(np.zeros(CHART_SIZE), wheels)
    else:
        car.get_state("deflection.x")[wheel] += size
    rows = []
    for _ in range(steps):
        car.step(h)
        car.report()
        states = (car.get_state(name)[wheel] for name in ("wheel.rate", "deflection.x"))
        rows.append([*states, car.output("vx")])
    car.workspace[:] = before
    return np.array(rows)


def measure_costs(configuration: Configuration) -> list[dict[str, Any]]:
    """Processor time, µs, of a step of all points: as they are, with slips, with slips and angles of the wheels."""
    car = Car(configuration.vehicle)
    _roll(car, 20.0)
    times, found = CallTimes(), []
    batches = []
    for more in (0, len(WHEELS), 2 * len(WHEELS)):
        points = 2 * (_STATES + more) + 1
        batches.append((points, CarBatch(car, -(-points // _VECTOR) * _VECTOR)))
    times.begin_turn()
    for _ in range(_STEPS):
        for points, batch in batches:
            batch.copy_state_from_car()
            times.call(points, batch.step, H)
    for points, _ in batches:
        us = float(np.median(times.get_us(points)))
        found.append({"points": points, "us": us, "us_per_point": us / points, "share": us * 1e-6 / H})
    return found


def measure_drive(receiver: Receiver, seed: int) -> tuple[list[Step], Table]:
    """`mixed_drive` as steps of the filter, and its truth."""
    scenario = find_scenario(DRIVE)
    sensors = dataclasses.replace(scenario.sensors, gnss=receiver)
    return make_drive(load_configuration(CONFIGURATION), dataclasses.replace(scenario, sensors=sensors), seed)


def run_drive(
    steps: Sequence[Step], truth: Table, kept: float | None, progress: Callable[[float], None]
) -> dict[str, Any]:
    """Run the UKF on given steps: RMSE (SI), NEES, NIS of the wheels, µs of a step.

    `kept`: share of a wheel's slip that remains after a step; None: as configured. `progress` receives the
    time, s.
    """
    configuration = load_configuration(CONFIGURATION)
    if kept is not None:
        chosen = dataclasses.replace(configuration.filter, slip_time=-H / math.log(kept))
        configuration = dataclasses.replace(configuration, filter=chosen)
    timed = TimedEstimator.of(configuration, "UKF")
    estimates: list[Estimate] = []
    innovations: list[Innovation] = []
    for estimate, records in timed.take(steps):
        innovations += records
        if estimate is not None:
            estimates.append(estimate)
            progress(estimate.t * 1e-9)
    scores = score(compare(tabulate(estimates), truth), innovations)
    wheels = [s.nis for name, s in scores.sensors.items() if name.startswith("wheel.") and s.fused]
    quantities = {name: scores.quantities[name] for name in ("horizontal", "yaw", "vx", "sideslip")}
    return {
        "slip_time": configuration.filter.slip_time,
        "rmse": {name: quantity.rmse for name, quantity in quantities.items()},
        "nees": {name: quantity.nees for name, quantity in quantities.items() if quantity.nees is not None},
        "wheels_nis": float(np.mean(wheels)),
        "us_per_step": float(np.median(timed.times.get_us("step"))),
    }
