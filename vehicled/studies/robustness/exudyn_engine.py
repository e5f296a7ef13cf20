"""The published reference vehicle in Exudyn, stepped from outside; see `engine_plant.DrivenEngine`."""

from __future__ import annotations

import threading

import numpy as np

from vehicled.errors import RunError
from vehicled.studies.benchmarks.peers.exudyn_vehicle import ExudynVehicle
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.studies.robustness.engine_plant import Motion
from vehicled.vehicle.parameters import Vehicle

_LONGEST = 1000.0
"""s: after this time its loop would end."""


class DrivenExudyn:
    """The car in Exudyn.

    Exudyn's loop cannot be left and entered, so it runs in a thread and waits before each step.
    """

    def __init__(self, vehicle: Vehicle, speed: float, step: float, own_contact: bool = False) -> None:
        """Use the published tyres, or Exudyn's own contacts."""
        self._step = step
        self._engine = ExudynVehicle(vehicle, speed, driven=True, own_contact=own_contact)
        self._ready, self._go = threading.Semaphore(0), threading.Semaphore(0)
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.acquire()

    def _run(self) -> None:
        try:
            self._engine.simulate(round(_LONGEST / self._step), self._step, self._wait)
        finally:
            self._ended = True
            self._ready.release()

    def _wait(self, t: float) -> bool:
        self._ready.release()
        self._go.acquire()
        return not self._ended

    def advance(self, rack: float, rack_rate: float, torques: np.ndarray, roads: np.ndarray) -> None:
        """Make one step. RunError if Exudyn has given up."""
        self._engine.set_rack(rack, rack_rate)
        self._engine.set_torques(torques.tolist())
        self._engine.set_roads(*roads)
        self._go.release()
        self._ready.acquire()
        if self._ended:
            raise RunError("Exudyn ended before the drive did")

    def read(self) -> Motion:
        """The present motion."""
        return self._engine.read()

    def read_wheels(self) -> Wheels:
        """The present state of the wheels."""
        return self._engine.read_wheels()

    def close(self) -> None:
        """End the loop."""
        self._ended = True
        self._go.release()
        self._thread.join()
