"""Forces in the joints of a simulated car, for comparison with those of an estimate."""

from __future__ import annotations

import numpy as np
from estimator_rig import SECOND, Run, prototype

from vehicled.messages import LOAD_COLUMNS, WHEELS
from vehicled.simulation.drive import STEP_NS, drive_plant
from vehicled.simulation.plant import MultibodyPlant
from vehicled.simulation.scenario import STANDARD_ERRORS, Scenario
from vehicled.vehicle.loads import JointLoads


class _Witness(MultibodyPlant):
    """Keeps the loads in its joints at each of its steps."""

    def __init__(self) -> None:
        super().__init__(prototype(), STANDARD_ERRORS)
        self._loads = JointLoads(self._car)
        self.rows: list[np.ndarray] = []

    def truth(self) -> np.ndarray:
        row = super().truth()
        self.rows.append(self._loads.calc())
        return row


class TrueLoads:
    """True loads of a drive of the prototype, whose plant has the standard errors."""

    def __init__(self, scenario: Scenario) -> None:
        plant = _Witness()
        drive_plant(scenario, plant, None)
        self._rows = np.array(plant.rows[-round(scenario.duration * SECOND / STEP_NS) - 1 :])

    def compare(self, run: Run, name: str, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(estimates, 4) estimated and true loads of the wheels in a part of the drive; `name`: {} for the wheel."""
        columns = [LOAD_COLUMNS.index(name.format(w)) for w in WHEELS]
        found = np.array([e.loads for e in run.estimates])[part][:, columns]
        return found, self._rows[np.rint(run.t[part] / STEP_NS).astype(int)][:, columns]
