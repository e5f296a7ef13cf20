"""The car that is driven in a simulation: the same kind of model, with other parameters and a finer step."""

from __future__ import annotations

import numpy as np

from vehicled.configuration import Configuration
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS
from vehicled.simulation.driver import Controls, Handling
from vehicled.simulation.hills import HillyRoad
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.road import Road
from vehicled.simulation.scenario import Ground, PlantErrors
from vehicled.simulation.sensors import SensorPlaces
from vehicled.sources.gnss.fixes import Baseline
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.gnss.gnss2 import Gnss2
from vehicled.sources.imu.imu import Imu
from vehicled.sources.sensors import Sensors
from vehicled.sources.speeds.body_velocity import BodyVelocity
from vehicled.vehicle.arrays import (
    BRAKE_PRESSURE,
    CHART_SIZE,
    CORNER_CORRECTIONS,
    CORNER_OUTPUTS,
    DRIVE_TORQUE,
    FRONT,
    PLACE,
    REAR,
    ROAD,
    ROAD_RATE,
    RODS,
    ROOT_OUTPUTS,
    SPEEDS,
    TRANSFER_LIMIT,
    V1Z,
    V2Z,
    YAW,
)
from vehicled.vehicle.car import Car
from vehicled.vehicle.parameters import LinearTyre, Vehicle
from vehicled.vehicle.steering import SteeringGeometry

_ROOT_PLACES = [ESTIMATE_INDEX[n] for n in ROOT_OUTPUTS]
_CORNER_PLACES = np.array(
    [[ESTIMATE_INDEX[f"{n.split('.')[0]}.{w}.{n.split('.')[1]}"] for w in WHEELS] for n in CORNER_OUTPUTS]
)


def find_places(sensors: Sensors) -> SensorPlaces:
    """Places of the configured sensors; a sensor that is absent is at the vehicle origin."""
    imu, gnss, gnss2 = sensors.imu or Imu(), sensors.gnss or Gnss(), sensors.gnss2 or Gnss2()
    velocity = sensors.velocity or BodyVelocity()
    baseline, baseline2 = ((g.heading or Baseline()).angle for g in (gnss, gnss2))
    return SensorPlaces(
        imu_position=imu.position,
        imu_rotation=imu.rotation,
        antenna=gnss.antenna,
        baseline=baseline,
        antenna2=gnss2.antenna,
        baseline2=baseline2,
        velocity=velocity.position,
        velocity_angle=velocity.angle,
    )


class MultibodyPlant:
    """A car whose parameters deviate from its vehicle file; see `drive.Plant`."""

    def __init__(self, configuration: Configuration, errors: PlantErrors) -> None:
        vehicle = configuration.vehicle
        self._car = Car(vehicle)
        _spoil(self._car, errors)
        self._geometry = SteeringGeometry(vehicle)
        self.gravity = vehicle.gravity * (1 + errors.gravity)
        self.handling = _handling(vehicle, self._geometry, vehicle.calc_front_share(self._car.slip_stiffness))
        self.mounting = find_places(configuration.sensors)
        origin = vehicle.center_of_mass()
        centres = [axle.hard_points.wheel_center for axle in (vehicle.front, vehicle.rear)]
        self._wheels = np.array([(x - origin[0], side * y) for x, y, _ in centres for side in (1, -1)]).T
        """(2, 4) m, ahead and to the left of the vehicle origin."""

    def reset(self, initial: InitialMotion, ground: Ground) -> None:
        """Place the car on the plane, wheels rolling at the initial speed, or settled if it stands."""
        car = self._car
        up = np.array([-ground.slope, -ground.bank, 1.0])
        up /= np.linalg.norm(up)
        car.ground[:] = (*up, ground.height * up[2])
        car.restart()
        if initial.speed == 0.0 and initial.height_offset == 0.0:
            car.rest()  # a car that stands has long since settled
        car.report()
        height = car.output("z") + initial.height_offset
        c, s = np.cos(initial.yaw), np.sin(initial.yaw)
        ahead = np.array([c, s, ground.slope * c + ground.bank * s])
        ahead /= np.linalg.norm(ahead)
        left = np.cross(up, ahead)
        foot = np.array(
            [initial.x, initial.y, ground.height + ground.slope * initial.x + ground.bank * initial.y]
        )
        change = np.zeros(CHART_SIZE)
        change[PLACE] = foot + up * height - [car.output(a) for a in "xyz"]
        change[YAW] = initial.yaw - car.output("yaw")
        change[V1Z], change[V2Z] = ahead[2], left[2]
        change[SPEEDS] = initial.speed * ahead
        wheels = np.zeros((len(CORNER_CORRECTIONS), len(WHEELS)))
        wheels[1] = initial.speed / car.get_corner_parameter("tyre.radius")
        car.correct(change, wheels)
        self._rack = self._rate = 0.0
        self._started = False
        rough = ground.roughness is not None or ground.edges
        start = initial.x, initial.y
        car.corner_inputs[[ROAD, ROAD_RATE]] = 0.0
        self._road = Road(ground.roughness, ground.edges, ground.seed, start) if rough else None
        self._hills, self._way = None if ground.hills is None else HillyRoad(ground.hills), 0.0
        self._plane = ground.slope, ground.bank

    def step(self, t: float, dt: float, controls: Controls) -> None:
        """Integrate from t to t + dt (s); rack rate and acceleration follow from the last two steps."""
        car, rack = self._car, controls.rack
        rate = (rack - self._rack) / dt if self._started else 0.0
        acceleration = (rate - self._rate) / dt if self._started else 0.0
        self._rack, self._rate, self._started = rack, rate, True
        car.inputs[:] = rack, rate, acceleration
        car.corner_inputs[RODS, FRONT] = car.inputs[:, None]
        front, rear = controls.front_torque, controls.rear_torque
        car.corner_inputs[DRIVE_TORQUE, FRONT] = 0.5 * front
        car.corner_inputs[DRIVE_TORQUE, REAR] = 0.5 * rear
        car.corner_inputs[BRAKE_PRESSURE] = controls.brake_pressure
        vehicle = car.vehicle
        car.corner_inputs[TRANSFER_LIMIT, FRONT] = vehicle.front.differential.calc_limit(front)
        car.corner_inputs[TRANSFER_LIMIT, REAR] = vehicle.rear.differential.calc_limit(rear)
        if self._road is not None:
            self._raise_wheels(self._road, dt)
        if self._hills is not None:
            self._turn_ground(self._hills, dt)
        car.step(dt)

    def _turn_ground(self, hills: HillyRoad, dt: float) -> None:
        """Replace the ground plane by the one tangent to the road under the vehicle origin."""
        car = self._car
        car.report()
        x, y, z, yaw, ahead = (car.output(n) for n in ("x", "y", "z", "yaw", "vx"))
        self._way += ahead * dt
        rises, (east, north) = complex(*hills.find_rises(self._way)), self._plane
        along = rises * complex(np.cos(yaw), np.sin(yaw))
        up = np.array([-east - along.real, -north - along.imag, 1.0])
        up /= np.linalg.norm(up)
        height = car.ground[:3] @ (x, y, z) - car.ground[3]
        car.ground[:] = (*up, up @ (x, y, z) - height)

    def _raise_wheels(self, road: Road, dt: float) -> None:
        """Raise the ground under the wheels to the height of the road at their places at the end of the step."""
        car = self._car
        car.report()
        x, y, yaw, ahead, left = (car.output(n) for n in ("x", "y", "yaw", "vx", "vy"))
        c, s = np.cos(yaw), np.sin(yaw)
        R = np.array([[c, -s], [s, c]])
        places = np.array([x, y])[:, None] + R @ (self._wheels + dt * np.array([ahead, left])[:, None])
        before = car.corner_inputs[ROAD].copy()
        car.corner_inputs[ROAD] = road.heights(places[0], places[1], car.get_corner_parameter("tyre.radius"))
        car.corner_inputs[ROAD_RATE] = (car.corner_inputs[ROAD] - before) / dt

    def truth(self) -> np.ndarray:
        """(len(ESTIMATE_COLUMNS),) outputs of the model now; NaN in columns that it does not have."""
        car = self._car
        car.report()
        row = np.full(len(ESTIMATE_COLUMNS), np.nan)
        row[_ROOT_PLACES] = car.outputs
        row[_CORNER_PLACES] = car.corner_outputs
        return row

    def road_wheel_angles(self) -> tuple[float, float]:
        """Front left and right, rad, positive to the left, from the steering geometry without compliance."""
        return self._geometry.angle(0, self._rack), self._geometry.angle(1, self._rack)

    def wheel_torques(self, controls: Controls) -> np.ndarray:
        """(4,) N·m of the drive: half of the axle's, plus what its differential transferred in the last step."""
        front, rear = 0.5 * controls.front_torque, 0.5 * controls.rear_torque
        torques: np.ndarray = np.array([front, front, rear, rear]) + self._car.get_state(
            "differential.torque"
        )
        return torques


def make_plant(configuration: Configuration, errors: PlantErrors) -> MultibodyPlant:
    """The configured car with parameter errors unknown to the estimator."""
    return MultibodyPlant(configuration, errors)


def _spoil(car: Car, errors: PlantErrors) -> None:
    """Multiply parameters by the errors. The springs keep the preload of the file, so a heavier car sits lower.

    The tyre characteristics keep their shape.
    """
    mass, inertia = 1 + errors.mass, 1 + errors.inertia
    stiffness, friction = 1 + errors.tyre_stiffness, 1 + errors.friction

    def factor(name: str) -> float:
        part, _, quantity = name.rpartition(".")
        if quantity == "mass":
            return mass
        if quantity in ("ixx", "iyy", "izz", "axial", "transverse"):
            return inertia
        if part in ("tyre.x", "tyre.y"):
            kind = quantity[:-1]
            return {"df0": stiffness, "fm": friction, "fs": friction}.get(
                kind, friction / stiffness if kind in ("sm", "ss") else 1.0
            )
        if quantity in ("slip_stiffness_x", "slip_stiffness_y"):
            return stiffness
        if name == "tyre.friction":
            return friction
        if name == "spring.stiffness":
            return 1 + errors.springs
        if part == "gravity":
            return 1 + errors.gravity
        return 1.0

    names = car.compiled.names
    car.parameters *= [factor(n) for n in names.parameters]
    car.corner_parameters *= np.array([[factor(n)] for n in names.corner_parameters])
    car.settle(find_preload=False, part="plant")


def _handling(vehicle: Vehicle, geometry: SteeringGeometry, front_share: float) -> Handling:
    front, rear = vehicle.front, vehicle.rear
    return Handling(
        wheelbase=vehicle.wheelbase,
        width=2 * front.hard_points.wheel_center[1] + 0.2,
        mass=vehicle.mass,
        wheel_radius=front.tyre.radius,
        rack_per_steer=geometry.rack_per_angle,
        brake_torque_per_pressure=2 * (front.brake.gain + rear.brake.gain),
        front_share=front_share,
        understeer=_understeer(vehicle),
    )


def _understeer(vehicle: Vehicle) -> float:
    """Understeer gradient from axle loads and cornering stiffnesses, rad/(m/s²)."""
    origin = vehicle.center_of_mass()
    to_front = vehicle.front.hard_points.wheel_center[0] - origin[0]
    shares = {"front": 1 - to_front / vehicle.wheelbase, "rear": to_front / vehicle.wheelbase}
    slips: dict[str, float] = {}
    for name, axle in (("front", vehicle.front), ("rear", vehicle.rear)):
        load = vehicle.mass * shares[name]
        tyre = axle.tyre
        if isinstance(tyre, LinearTyre):
            stiffness = tyre.slip_stiffness_y
        else:
            ratio = load * vehicle.gravity / 2 / tyre.nominal_load
            one, two = tyre.lateral.df0
            stiffness = ratio * ((2 * one - two / 2) - (one - two / 2) * ratio)
        slips[name] = load / (2 * stiffness)
    return slips["front"] - slips["rear"]
