"""The reference vehicle on its published drive, in our model and in other multibody engines.

The installed engines take turns with our model, step by step. Times of an engine can be compared only if it
follows the published path: the deviation of each is part of the result.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from vehicled.configuration import load_configuration
from vehicled.garbage import collector_off
from vehicled.messages import WHEELS
from vehicled.studies.benchmarks.peers import PEERS
from vehicled.studies.benchmarks.peers.record import Record
from vehicled.studies.benchmarks.published import DURATION, SPEED, STEP, calc_deviation, rack
from vehicled.studies.benchmarks.timing import summary
from vehicled.vehicle.arrays import AHEAD, CHART_SIZE, CORNER_CORRECTIONS, FRONT, RODS, X
from vehicled.vehicle.car import Car
from vehicled.vehicle.parameters import Vehicle


def reference_vehicle() -> Vehicle:
    """The shipped configuration of the published vehicle."""
    return load_configuration("reference_vehicle").vehicle


class Engine(Protocol):
    """The reference vehicle in an engine that can be stepped from outside."""

    def steer(self, t: float) -> None:
        """Set the rack for the step that starts at t."""

    def step(self) -> None:
        """Advance by one step."""

    @property
    def place(self) -> np.ndarray:
        """(3,) position of the chassis' centre of mass."""


class OurVehicle:
    """The reference vehicle in our model."""

    def __init__(self, vehicle: Vehicle, h: float = STEP) -> None:
        self.car = car = Car(vehicle)
        self._h = h
        origin = vehicle.center_of_mass()
        self._arm = np.array(vehicle.chassis.center_of_mass) - origin
        car.restart()
        change, wheels = np.zeros(CHART_SIZE), np.zeros((len(CORNER_CORRECTIONS), len(WHEELS)))
        change[X], change[AHEAD] = origin[0], SPEED
        wheels[1] = SPEED / vehicle.front.tyre.radius
        car.correct(change, wheels)
        self.converged = True
        """Whether every step has converged."""

    def steer(self, t: float) -> None:
        """Set rack displacement, rate and acceleration at the end of the step that begins at t (s)."""
        self.car.inputs[:] = rack(t + self._h)
        self.car.corner_inputs[RODS, FRONT] = self.car.inputs[:, None]

    def step(self) -> None:
        """Advance by one step; `converged` stays True while all steps converge."""
        self.converged &= self.car.step(self._h) > 0

    @property
    def place(self) -> np.ndarray:
        """(3,) position of the chassis' centre of mass, m, world axes."""
        return self.car.locate(self._arm)


def _summarise(record: Record) -> dict[str, Any]:
    """As in the JSON of `vehicled bench step`: times and largest distance to the published path (m)."""
    return {**summary(record.times_ns), "error_m": calc_deviation(np.array(record.path))}


def bench_reference(progress: Callable[[float], None], duration: float = DURATION) -> dict[str, Any]:
    """Parts of `vehicled bench step --json`: `reference_step_us` and `peers`.

    `progress` receives the simulated time, s.
    """
    vehicle = reference_vehicle()
    installed = {name for name in PEERS if importlib.util.find_spec(name) is not None}
    ours = OurVehicle(vehicle)
    engines: dict[str, Engine] = {"vehicled": ours}
    peers: dict[str, dict[str, Any]] = {}
    if "mujoco" in installed:
        from vehicled.studies.benchmarks.peers.mujoco_vehicle import MujocoVehicle

        mujoco = engines["mujoco"] = MujocoVehicle(vehicle)
    records = {name: Record(path=[engine.place]) for name, engine in engines.items()}
    clock = time.perf_counter_ns
    steps = round(duration / STEP)

    def turn(n: int) -> None:
        """Make step n of all engines that are stepped from outside."""
        for name, engine in engines.items():
            engine.steer(n * STEP)
            begin = clock()
            engine.step()
            records[name].times_ns.append(clock() - begin)
            records[name].path.append(engine.place)
        progress((n + 1) * STEP)

    with collector_off():
        if "exudyn" in installed:
            from vehicled.studies.benchmarks.peers import exudyn_vehicle

            records["exudyn"] = exudyn_vehicle.drive(vehicle, steps, turn)
            peers["exudyn"] = {**_summarise(records["exudyn"]), "version": exudyn_vehicle.version()}
        else:
            for n in range(steps):
                turn(n)
    if "mujoco" in installed:
        alone = {"mj_step_us": summary(mujoco.alone_ns), "version": mujoco.version}
        peers["mujoco"] = {**_summarise(records["mujoco"]), **alone}
    return {"reference_step_us": _summarise(records["vehicled"]), "peers": peers}
