"""The published reference vehicle in MuJoCo, stepped from outside; see `engine_plant.DrivenEngine`."""

from __future__ import annotations

import mujoco
import numpy as np

from vehicled.messages import WHEELS
from vehicled.studies.benchmarks.peers.mujoco_vehicle import MujocoVehicle
from vehicled.studies.robustness.engine_plant import STEP, Motion
from vehicled.vehicle.parameters import Vehicle

_SUBSTEPS = 2
"""In a step: the tyres are explicit."""


class DrivenMujoco:
    """In MuJoCo."""

    def __init__(self, vehicle: Vehicle, speed: float) -> None:
        self._engine = MujocoVehicle(vehicle, STEP / _SUBSTEPS, speed)
        model = self._engine.model
        self._spins = np.array([model.joint(f"{w}.spin").dofadr[0] for w in WHEELS])
        self._R = np.zeros(9)
        self._rack = 0.0

    def advance(self, rack: float, rack_rate: float, torques: np.ndarray) -> None:
        """One step."""
        engine, before = self._engine, self._rack
        engine.data.qfrc_applied[self._spins] = torques
        for k in range(1, _SUBSTEPS + 1):
            engine.set_rack(before + (rack - before) * k / _SUBSTEPS, rack_rate, 0.0)
            engine.step()
        self._rack = rack
        engine.alone_ns.clear()

    def read(self) -> Motion:
        """The motion now."""
        data = self._engine.data
        mujoco.mju_quat2Mat(self._R, data.qpos[3:7])
        velocity, rates, spins = data.qvel[:3].copy(), data.qvel[3:6].copy(), data.qvel[self._spins].copy()
        return self._engine.place, self._R.reshape(3, 3).copy(), velocity, rates, spins

    def close(self) -> None:
        """Nothing is left over."""
