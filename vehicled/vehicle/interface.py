"""Handles of a compiled car's kernels, and the names of its arrays' elements."""

from __future__ import annotations

from dataclasses import dataclass

from vehicled.multibody.step import StepKernels
from vehicled.symbolic.program import KernelHandle


@dataclass(frozen=True)
class CarKernels:
    """The kernels that every car has."""

    prepare: KernelHandle
    step: StepKernels
    report: KernelHandle
    correct: KernelHandle
    travel_jacobian: KernelHandle
    design: KernelHandle
    energy: KernelHandle


@dataclass(frozen=True)
class SensorKernels:
    """The kernels that `add_sensor_models` adds."""

    observe_pose: KernelHandle
    observe_tyres: KernelHandle
    gnss_position: KernelHandle
    gnss_speed: KernelHandle
    gnss_course: KernelHandle
    imu_gyro: KernelHandle
    imu_accelerometer: KernelHandle
    body_velocity: KernelHandle


@dataclass(frozen=True)
class Names:
    """Names of the elements of the arrays of a car's program, in order."""

    parameters: list[str]
    corner_parameters: list[str]
    states: list[str]
    """Elements of `states`: internal states per corner (brake, wheel angle, tyre)."""
    bodies: list[str]
    constraints: list[str]
    coordinates: list[str]
