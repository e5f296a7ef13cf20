"""A simulated drive: a driver or open-loop inputs, a plant, its truth, and its measurements."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pymap3d

from vehicled.errors import RunError
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS, Estimate, Measurement
from vehicled.points import ORIGIN, move
from vehicled.simulation.driver import Controls, Handling, State
from vehicled.simulation.equipment import Equipment
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import Ground, Scenario
from vehicled.simulation.sensors import SensorPlaces, Track, measure
from vehicled.units import Vector

STEP_NS = 1_000_000
"""Time step of the plant, ns."""
TRUTH_EVERY = 4
"""Steps of the plant per row of truth."""


class Plant(Protocol):
    """The vehicle that is driven; its parameters may differ from the estimator's."""

    handling: Handling
    mounting: SensorPlaces
    gravity: float
    """m/s²."""

    def reset(self, initial: InitialMotion, ground: Ground) -> None:
        """Go back to the beginning of a drive on a plane.

        The car is in its design position plus `height_offset`, wheels rolling; if it stands and has no such
        offset, it is settled on its springs.
        """

    def step(self, t: float, dt: float, controls: Controls) -> None:
        """Advance from `t` to `t + dt` (s). `controls` are those at `t + dt`."""

    def truth(self) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) present motion, NaN where not known; latitude to height and σ are not used."""

    def road_wheel_angles(self) -> tuple[float, float]:
        """Present angles of the front left and right road wheels, rad, positive to the left."""

    def wheel_torques(self, controls: Controls) -> np.ndarray:
        """(4,) present torques of the drive on the wheels, N·m, under these controls."""


@dataclass(frozen=True)
class Truth:
    """The true motion of a drive."""

    t: np.ndarray
    """(n,) int64 ns."""
    values: np.ndarray
    """(n, len(ESTIMATE_COLUMNS)) in the order of `ESTIMATE_COLUMNS`; NaN where not known."""

    def at(self, point: Vector) -> "Truth":
        """The motion of another point of the car, m in vehicle axes, instead of the vehicle origin."""
        if point == ORIGIN:
            return self
        w = self.values[:, [ESTIMATE_INDEX[c] for c in ("wx", "wy", "wz")]]
        moved = move(
            dict(zip(ESTIMATE_COLUMNS, self.values.T, strict=True)),
            point,
            np.gradient(w, self.t * 1e-9, axis=0),
        )
        return Truth(self.t, np.column_stack([moved[c] for c in ESTIMATE_COLUMNS]))

    def rows(self) -> list[Estimate]:
        """One estimate per instant, as files of estimates have them."""
        return [Estimate(int(t), row) for t, row in zip(self.t, self.values, strict=True)]


def simulate(
    scenario: Scenario,
    plant: Plant,
    seed: int,
    progress: Callable[[float], None] | None = None,
    equipment: Equipment | None = None,
) -> tuple[list[Measurement], Truth]:
    """Drive `scenario` with `plant`: (measurements in order of arrival, truth every 4 ms from t = 0).

    `progress` receives the time driven, s; `equipment`: of the car, None: that of the prototype. Raises
    RunError if the state of the plant is no longer finite.
    """
    equipment = equipment or Equipment()
    track, values = drive_plant(scenario, plant, progress)
    measurements = measure(track, scenario.sensors, plant.mounting, seed, equipment)
    t = np.arange(len(values), dtype=np.int64) * STEP_NS
    keep = slice(None, None, TRUTH_EVERY)
    values = values[keep].copy()
    latitude, longitude, height = scenario.sensors.find_origin(equipment)
    where = (ESTIMATE_INDEX["lat"], ESTIMATE_INDEX["lon"], ESTIMATE_INDEX["alt"])
    east, north, up = (values[:, ESTIMATE_INDEX[c]] for c in ("x", "y", "z"))
    geodetic = pymap3d.enu2geodetic(east, north, up, math.degrees(latitude), math.degrees(longitude), height)
    values[:, where] = np.stack(geodetic, axis=1)
    return measurements, Truth(t[keep], values)


def drive_plant(
    scenario: Scenario, plant: Plant, progress: Callable[[float], None] | None
) -> tuple[Track, np.ndarray]:
    """The track at every step of the plant, and the truth (steps + 1, len(ESTIMATE_COLUMNS)).

    Raises RunError if the state of the plant is no longer finite.
    """
    steps = round(scenario.length * 1e9 / STEP_NS)
    dt = STEP_NS * 1e-9
    plant.reset(scenario.begin, scenario.ground)
    controller = scenario.make_controller(plant.handling)
    values = np.empty((steps + 1, len(ESTIMATE_COLUMNS)))
    given = np.empty((steps + 1, len(Controls._fields)))
    road_wheels, torques = np.empty((steps + 1, 2)), np.empty((steps + 1, len(WHEELS)))
    state = _read_state(plant.truth())
    for k in range(steps + 1):
        # The driver knows the state one step ago and gives the inputs at the end of this step.
        controls = controller.inputs(k * dt, state)
        if k > 0:
            plant.step((k - 1) * dt, dt, controls)
        values[k], given[k] = plant.truth(), controls
        road_wheels[k], torques[k] = plant.road_wheel_angles(), plant.wheel_torques(controls)
        state = _read_state(values[k])
        if not all(map(math.isfinite, state)):
            raise RunError(f"the plant's state is no longer finite at t = {k * dt:.3f} s")
        if progress is not None:
            progress(k * dt)
    columns = dict(zip(ESTIMATE_COLUMNS, values.T, strict=True))
    # The channel is positive to the left, whichever direction of the rack that is.
    steers_left = math.copysign(1.0, plant.handling.rack_per_steer)
    columns |= {"steer.rack": steers_left * given[:, 0], "brake.pressure": given[:, 2]}
    columns |= {"steer.fl": road_wheels[:, 0], "steer.fr": road_wheels[:, 1]}
    # Only wheels that can be driven have torque sensors.
    front = plant.handling.front_share
    driven = {"f": front > 0.0, "r": front < 1.0}
    columns |= {f"torque.{w}": torques[:, k] for k, w in enumerate(WHEELS) if driven[w[0]]}
    return Track(np.arange(steps + 1) * dt, columns, plant.gravity), values


_SEEN = [ESTIMATE_INDEX[column] for column in ("x", "y", "yaw", "vx", "sideslip", "wz")]


def _read_state(row: np.ndarray) -> State:
    return State(*row[_SEEN].tolist())
