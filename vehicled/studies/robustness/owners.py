"""Configurations as an owner of the third-party plants would write them, and the measurements of their cars.

CommonRoad's cars are described by a handbook with the package's figures of mass, wheelbase, load per axle,
tracks, height of the centre of mass and cornering stiffness; springs, inertia and the rest have the
handbook's defaults, and the rolling radius is wrong by a share. The car in MuJoCo and Exudyn is described by
its published hard points. Neither torque nor brake pressure is measured.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from vehicled.configuration import Configuration, parse_configuration
from vehicled.messages import Measurement
from vehicled.reading.settings import config_path
from vehicled.simulation.commonroad import GRAVITY, load_parameters
from vehicled.simulation.sensor_settings import (
    RTK,
    Errors,
    SimulatedGnss,
    SimulatedImu,
    SimulatedSensors,
    SimulatedSignal,
    SimulatedSteering,
    SimulatedWheelAngles,
)
from vehicled.simulation.sensors import Track, measure
from vehicled.studies.robustness.plants import PLACES, load_or_drive

_WHITE, _WANDER = 0.5, 0.3
"""White and slow error of a fix per axis, m."""
_WHOLE = math.hypot(_WHITE, _WANDER)
_WITH_SPEEDS = ("commonroad 3",)
"""Cars that report speeds of their wheels; for the others teeth are counted."""
_SPEED = SimulatedSignal(rate=50.0, noise=0.03)
_ROLLING_SHARE, _TYRE_STIFFNESS = 0.33, 2e5
"""Defaults of the handbook's tyre, which give the undeformed radius from the rolling radius."""


def measure_drive(
    plant: str, drive: str, is_precise: bool, seed: int, has_speed: bool = False
) -> tuple[Track, list[Measurement]]:
    """Motion of the car, and its sensors' measurements in order of arrival.

    `is_precise`: with an RTK receiver; `has_speed`: with the car's own speed.
    """
    track, sensors = load_or_drive(plant, drive), make_sensors(plant)
    if is_precise:
        sensors = replace(sensors, gnss=RTK)
    if has_speed:
        sensors = replace(sensors, speed=_SPEED)
    return track, measure(track, sensors, PLACES, seed)


def configure(plant: str, radius_error: float, has_speed: bool = False) -> Configuration:
    """Configuration of an owner whose wheel radius is wrong by a share; `has_speed`: with the car's own speed."""
    return parse_configuration(write_configuration(plant, radius_error, has_speed))


def make_sensors(plant: str) -> SimulatedSensors:
    """Sensors of a production car with a conventional receiver."""
    speeds = plant in _WITH_SPEEDS
    return SimulatedSensors(
        imu=SimulatedImu(rate=100.0),
        gnss=SimulatedGnss(
            rate=5.0,
            latency=0.08,
            horizontal=_WHOLE,
            vertical=2 * _WHOLE,
            wander=_WANDER / _WHOLE,
            velocity=0.05,
            quality=1,
        ),
        wheel_angles=None if speeds else SimulatedWheelAngles(),
        wheel_speeds=SimulatedSignal(rate=50.0, noise=0.05, quantisation=0.02) if speeds else None,
        steering=SimulatedSteering(rack=None, road_wheels=Errors(noise=5e-4, bias=1e-3, quantisation=1e-4)),
        brake_pressure=None,
        wheel_torques=None,
        speed=None,
    )


def write_configuration(plant: str, radius_error: float, has_speed: bool = False) -> str:
    """The YAML of that configuration."""
    kind, _, car = plant.partition(" ")
    if kind == "commonroad":
        vehicle = _write_handbook(load_parameters(int(car)), radius_error)
    else:
        vehicle = config_path("reference_vehicle").read_text(encoding="utf-8")
    imu, antenna = (" ".join(f"{v:g}" for v in place) for place in (PLACES.imu_position, PLACES.antenna))
    speeds = "wheel_angles: null\n  wheel_speeds: {noise: 0.05 rad/s}"
    return f"""\
{vehicle}
sensors:
  imu: {{position: {imu} m}}
  gnss:
    antenna: {antenna} m
    single: {{horizontal: {_WHOLE:.2f} m, vertical: {2 * _WHOLE:.2f} m, wander: {_WANDER:g} m, velocity: 0.05 m/s}}
  {speeds if plant in _WITH_SPEEDS else "wheel_speeds: null"}
  vehicle_speed: {"{}" if has_speed else "null"}
  steering: {{source: road_wheels}}
world: {{latitude: 43.33 deg, longitude: -8.41 deg, height: 100 m}}
"""


def _write_handbook(p: Any, radius_error: float) -> str:
    """YAML of one of CommonRoad's cars, from the package's parameters."""
    wheelbase = p.a + p.b
    front = (p.m_s * p.b / wheelbase + p.m_uf) * GRAVITY
    rear = p.m * GRAVITY - front
    radius = p.R_w * (1 + radius_error)

    def axle(track: float, load: float) -> str:
        undeformed = radius + _ROLLING_SHARE * load / 2 / _TYRE_STIFFNESS
        return (
            f"{{track: {track:.3f} m, wheel_radius: {undeformed:.4f} m, "
            f"cornering_stiffness: {-p.tire.p_ky1 * load / 1000:.0f} kN/rad}}"
        )

    return f"""\
vehicle:
  kind: handbook
  mass: {p.m:.0f} kg
  wheelbase: {wheelbase:.3f} m
  front_to_center_of_mass: {rear / (front + rear) * wheelbase:.3f} m
  center_of_mass_height: {p.h_cg:.3f} m
  driven: {"front" if p.T_se > 0.5 else "rear"}
  front: {axle(p.T_f, front)}
  rear: {axle(p.T_r, rear)}
"""
