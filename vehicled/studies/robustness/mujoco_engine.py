"""The published reference vehicle in MuJoCo, stepped from outside; see `engine_plant.DrivenEngine`."""

from __future__ import annotations

import mujoco
import numpy as np

from vehicled.messages import WHEELS
from vehicled.studies.benchmarks.peers.mujoco_vehicle import MujocoVehicle
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.studies.robustness.engine_plant import Motion
from vehicled.vehicle.parameters import Vehicle

_SUBSTEPS = 2
"""Substeps of a step: the tyres are explicit."""


class DrivenMujoco:
    """The car in MuJoCo, with the published tyres or with MuJoCo's own contacts."""

    def __init__(self, vehicle: Vehicle, speed: float, step: float, own_contact: bool = False) -> None:
        self._engine = MujocoVehicle(vehicle, step / _SUBSTEPS, speed, own_contact)
        self._substep = step / _SUBSTEPS
        model = self._engine.model
        self._spins = np.array([model.joint(f"{w}.spin").dofadr[0] for w in WHEELS])
        self._R = np.zeros(9)
        self._rack = 0.0

    def advance(self, rack: float, rack_rate: float, torques: np.ndarray, roads: np.ndarray) -> None:
        """Make one step."""
        engine, before = self._engine, self._rack
        heights, rates = roads
        engine.roads[1] = rates
        engine.data.qfrc_applied[self._spins] = torques
        for k in range(1, _SUBSTEPS + 1):
            engine.set_rack(before + (rack - before) * k / _SUBSTEPS, rack_rate, 0.0)
            # Forces are those at the start of a substep.
            engine.roads[0] = heights - (_SUBSTEPS - k + 1) * self._substep * rates
            engine.step()
        self._rack = rack
        engine.alone_ns.clear()

    def read(self) -> Motion:
        """The present motion."""
        data = self._engine.data
        mujoco.mju_quat2Mat(self._R, data.qpos[3:7])
        velocity, rates, spins = data.qvel[:3].copy(), data.qvel[3:6].copy(), data.qvel[self._spins].copy()
        return self._engine.place, self._R.reshape(3, 3).copy(), velocity, rates, spins

    def read_wheels(self) -> Wheels:
        """The present state of the wheels."""
        return self._engine.read_wheels()

    def close(self) -> None:
        """Nothing to release."""
