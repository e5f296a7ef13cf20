"""Other kinds of suspension compared with Exudyn: the same car on the same road, with another program's joints."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from car_mechanism_rig import vehicle_of
from vehicle_rig import Rig, sine

from vehicled.messages import LOAD_COLUMNS, WHEELS
from vehicled.vehicle.arrays import BRAKE_PRESSURE, FRONT, ROAD, ROAD_RATE, RODS
from vehicled.vehicle.loads import JointLoads
from vehicled.vehicle.parameters import Vehicle

SPEED, DURATION, STEP = 15.0, 1.0, 1e-3
GAIN, BRAKE = 1e-4, 250.0
"""N·m/Pa; N·m on each wheel at the end."""
WAVE = 6.0
"""rad/s, of the road under each wheel, which differs by a quarter of a period from one to the next."""


def road_at(t: float) -> tuple[np.ndarray, np.ndarray]:
    """(4,) m and m/s: no step at the start."""
    size, phase = 0.01, WAVE * t + np.arange(4) * np.pi / 2
    rise, slope = min(2.0 * t, 1.0), 2.0 if t < 0.5 else 0.0
    return size * rise * np.sin(phase), size * (slope * np.sin(phase) + rise * WAVE * np.cos(phase))


def brake_at(t: float) -> float:
    return BRAKE * t**2


def swing_axle() -> Vehicle:
    """The compact car with pendulum axles: hinges along the car near its middle."""
    v = vehicle_of("compact")
    x, _, z = v.rear.hard_points.wheel_center
    points = replace(v.rear.hard_points, hinge=(x, 0.15, z), hinge_axis=(1.0, 0.0, 0.0))
    return replace(v, rear=replace(v.rear, hard_points=points))


CARS = {
    "struts and semi-trailing arms": lambda: vehicle_of("compact"),
    "swing axle": swing_axle,
    "live axle": lambda: vehicle_of("live axle"),
}
FORCES = {
    "struts and semi-trailing arms": {"tie_rod_fl": (0, "tie_rod"), "lower_hinge_rl": (2, "lower_hinge")},
    "swing axle": {"lower_ball_joint_fr": (1, "lower_ball_joint"), "lower_hinge_rr": (3, "lower_hinge")},
    "live axle": {
        "panhard_rod": (2, "tie_rod"),
        "upper_link": (3, "tie_rod"),
        "trailing_link_rl": (2, "lower_ball_joint"),
        "trailing_link_rr": (3, "lower_ball_joint"),
        "upper_hinge_fl": (0, "upper_hinge"),
    },
}
"""By joint of the mechanism: corner and name of the force in the car."""


def _find_columns(corner: int, joint: str) -> list[int]:
    """Columns of the components of a force."""
    start = f"{joint}.{WHEELS[corner]}.f"
    return [k for k, name in enumerate(LOAD_COLUMNS) if name.startswith(start)]


@pytest.mark.parametrize(
    "name", [pytest.param(c, marks=pytest.mark.slow) if c == "live axle" else c for c in CARS]
)
def test_path_travel_and_joint_forces_are_those_of_exudyn(name):
    pytest.importorskip("exudyn")
    from exudyn_rig import ExudynCar, simplify

    v = simplify(CARS[name]())
    car = Rig(v).car
    sign = -1.0 if v.front.hard_points.tie_rod_inner[0] < v.front.hard_points.wheel_center[0] else 1.0
    course, steps = sine(0.012 * sign, 0.8), round(DURATION / STEP)
    theirs = ExudynCar(car, SPEED)
    axes = {w: np.array(theirs.axis(w)) for w in WHEELS}
    carriers = {w: theirs.carrier(w) for w in WHEELS}
    places, travels, forces = [], [], []

    def between(t: float) -> None:
        places.append(theirs.read_chassis())
        travels.append(theirs.read_travels())
        forces.append([*theirs.read_forces(FORCES[name]).values()])
        theirs.steer(*course(t)[:2])
        theirs.roads[:] = np.column_stack(road_at(t))
        torques: dict[str, np.ndarray] = {}
        for w in WHEELS:
            for body, size in ((f"wheel_{w}", -brake_at(t)), (carriers[w], brake_at(t))):
                torques[body] = torques.get(body, np.zeros(3)) + size * axes[w]
        theirs.turn(torques)

    theirs.simulate(steps, STEP, between)

    car.restart()
    change, wheels = np.zeros(12), np.zeros((2, 4))
    change[6] = SPEED
    wheels[1] = [SPEED / v.axle(w).tyre.radius for w in WHEELS]
    car.correct(change, wheels)
    car.set_parameters({}, {w: {"brake.gain": GAIN} for w in WHEELS})
    loads = JointLoads(car)
    listed = [_find_columns(*joint) for joint in FORCES[name].values()]
    columns, ends = np.concatenate(listed), np.cumsum([len(c) for c in listed])[:-1]
    center = np.array(v.chassis.center_of_mass) - v.center_of_mass()
    own_places, own_travels, own_forces = [], [], []
    at_rest = car.get_corner_parameter("rest.travel")
    for k in range(steps):
        car.report()
        own_places.append(car.locate(center))
        own_travels.append(car.corner_output("suspension.deflection") + at_rest)
        own_forces.append([np.linalg.norm(x) for x in np.split(loads.calc()[columns], ends)])
        t = (k + 1) * STEP
        car.inputs[:] = course(t)
        car.corner_inputs[RODS, FRONT] = car.inputs[:, None]
        car.corner_inputs[[ROAD, ROAD_RATE]] = road_at(t)
        car.corner_inputs[BRAKE_PRESSURE] = brake_at(t) / GAIN
        assert car.step(STEP) > 0
    away = np.linalg.norm(np.array(places) - own_places, axis=1)
    assert (np.ptp(own_places, axis=0)[:2] > (12.0, 1.0)).all()
    assert away.max() < 3e-4
    off = np.abs(np.array(travels) - own_travels)
    assert (np.ptp(own_travels, axis=0) > 0.01).all()
    assert off.max() < 5e-5
    # After the wheels' oscillations from the start have decayed.
    ours, others = (np.abs(f[steps // 4 :]) for f in (np.array(own_forces), np.array(forces)))
    error = np.sqrt(((ours - others) ** 2).mean(axis=0))
    assert (ours.max(axis=0) > 400.0).all()
    assert (error < 2e-3 * ours.max(axis=0)).all()
    print(
        f"{name}: path {1e3 * away.max():.2f} mm, travel {1e3 * off.max():.3f} mm, forces",
        error,
        ours.max(axis=0),
    )
