"""Compares joint forces with Exudyn's reactions and times them: `python tests/loads_figures.py`.

The reference vehicle makes its published drive, braked in addition, with two step sizes. Times are the best of five.
"""

import timeit
from collections.abc import Callable

import numpy as np
from loads_rig import loads_of
from vehicle_rig import vehicle

from vehicled import schemas
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS, WHEELS, Estimate
from vehicled.studies.benchmarks.peers.exudyn_vehicle import ExudynVehicle
from vehicled.studies.benchmarks.published import SPEED, STEP, rack
from vehicled.vehicle.arrays import BRAKE_PRESSURE, FRONT, RODS
from vehicled.vehicle.car import Car
from vehicled.vehicle.loads import JointLoads

JOINTS = ("lower_ball_joint", "upper_ball_joint", "lower_hinge", "upper_hinge", "tie_rod")
DURATION, SETTLED = 1.0, 0.5
"""s: end, and start of the comparison. Wheels oscillate at first: the design position is not the equilibrium."""
TORQUE = 400.0
"""Brake torque on each wheel at the end, N·m."""
GAIN = 2e-4
"""Brake gain, N·m/Pa."""


def braked(t: float) -> float:
    return TORQUE * min(t / SETTLED, 1.0) ** 2


def ours(h: float) -> np.ndarray:
    """(steps, 4, columns) joint forces of our car; for hinges, force and magnitude of the moment."""
    v = vehicle("reference_vehicle")
    car = Car(v)
    car.restart()
    change, wheels = np.zeros(12), np.zeros((2, 4))
    change[0], change[6] = v.center_of_mass()[0], SPEED
    wheels[1] = SPEED / v.front.tyre.radius
    car.correct(change, wheels)
    # The published vehicle has no brakes.
    car.set_parameters({}, {w: {"brake.gain": GAIN} for w in WHEELS})
    rows = []
    for k in range(round(DURATION / h)):
        t = (k + 1) * h
        car.inputs[:] = rack(t)
        car.corner_inputs[RODS, FRONT] = car.inputs[:, None]
        car.corner_inputs[BRAKE_PRESSURE] = braked(t) / GAIN
        assert car.step(h) > 0
        found = loads_of(car)
        for c in found:
            for side in ("lower_hinge", "upper_hinge"):
                c[side] = np.append(c[side][:3], np.linalg.norm(c[side][3:]))
        rows.append([np.concatenate([c[j] for j in JOINTS]) for c in found])
    return np.array(rows)


def exudyns(h: float) -> np.ndarray:
    """(steps, 4, columns) the same joint forces in Exudyn."""
    car, rows = ExudynVehicle(vehicle("reference_vehicle"), driven=True), []

    def read() -> None:
        rows.append([np.concatenate([c[j] for j in JOINTS]) for c in car.read_reactions()])

    def between(t: float) -> bool:
        read()
        car.set_rack(*rack(t)[:2])
        car.set_torques([-braked(t)] * 4)
        return True

    car.simulate(round(DURATION / h), h, between, radius=0.5)
    read()
    return np.array(rows[1:])


def calc_rms(h: float) -> tuple[np.ndarray, np.ndarray]:
    """RMS over time and wheels of each column, once settled: of the differences, and of our forces."""
    a, b = (run[round(SETTLED / h) :] for run in (ours(h), exudyns(h)))
    difference, forces = (np.sqrt((x**2).mean((0, 1))) for x in (a - b, a))
    return difference, forces


def calc_time(function: Callable[[], object]) -> float:
    """Time of a call, µs."""
    return min(timeit.repeat(function, number=5000, repeat=5)) / 5000 * 1e6


def main() -> None:
    for h in (STEP, STEP / 2):
        differences, forces = calc_rms(h)
        print(
            f"{h * 1e3:g} ms: RMS difference up to {differences.max():.2f} N, of up to {forces.max():.0f} N"
        )
    loads = JointLoads(Car(vehicle("prototype")))
    # Random numbers have full digits, like the forces of a moving car.
    values = np.random.default_rng(1).normal(0.0, 1e3, len(LOAD_COLUMNS))
    estimate = Estimate(0, np.zeros(len(ESTIMATE_COLUMNS)), None, values)
    print(f"{calc_time(loads.calc):.1f} µs a step")
    print(f"{calc_time(lambda: schemas.encode_loads(estimate)):.1f} µs to encode")


if __name__ == "__main__":
    main()
