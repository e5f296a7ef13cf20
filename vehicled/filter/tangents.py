"""Derivatives of all results of a filter with respect to parameters, computed with it as tangents in its workspace.

The compiler differentiates the kernels of car and filter (`symbolic/tangent.py`). This module provides the
derivatives of their inputs: settings, initial state, past poses. It works for any parameter: the inputs'
derivatives are found by a small change of the configuration, for which no drive has to be simulated.

A value that is set from a measurement (a heading, a wheel angle) has the derivatives of its innovation; a
value set from outside depends on no parameter.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from vehicled.filter.boundary import InitialPose
from vehicled.filter.structure import FilterKernels
from vehicled.symbolic.differentiation import Differentiation
from vehicled.symbolic.program import KernelHandle
from vehicled.vehicle.car import STATE, Car
from vehicled.vehicle.interface import CarKernels, SensorKernels

_PREPARED = ("constants", "lane_constants")
"""Arrays that the kernel `prepare` computes, and their tangents."""


def _find_handles(kernels: type[Any], *names: str) -> tuple[KernelHandle, ...]:
    """Handles of kernels that are called as the fields that hold them. Raises KeyError for other names."""
    fields = {f.name: f for f in dataclasses.fields(kernels)}
    return tuple(KernelHandle(fields[name].name) for name in names)


_PLAIN = (
    *_find_handles(CarKernels, "travel_jacobian", "design", "energy", "report"),
    *_find_handles(SensorKernels, "observe_pose", "gnss_speed", "gnss_course"),
    *_find_handles(SensorKernels, "imu_gyro", "imu_accelerometer", "body_velocity"),
    *_find_handles(FilterKernels, "sigmas", "sum_up"),
)
"""Kernels that no innovation depends on."""
_FIXED = (
    *("newton", "integration", "travel_jacobian"),
    *(
        "outputs",
        "corner_outputs",
        "sigmas",
        "correlation",
        "soundness",
        "limit",
        "energy",
        "sensitivity",
        "carry",
        "h",
        "age",
        "lead",
        "latency",
    ),
)
"""Arrays without tangents."""


class DifferentiatedFilter(Protocol):
    """The part of a filter that this module uses."""

    car: Car

    def place(self, pose: InitialPose) -> None:
        """Place the car, as `VehicleState.place` does."""


class Companion(NamedTuple):
    """A filter with one parameter of the configuration slightly changed; it never steps."""

    filter: DifferentiatedFilter
    step: float
    """Change of the parameter."""


def width(directions: int) -> int:
    """Number of directions, rounded up to one that code is made for."""
    widths: tuple[int, ...] = (8, 16, 24, 32, *range(64, directions + 64, 64))
    return next(w for w in widths if w >= directions)


class FilterTangents:
    """Derivatives of one filter; none, and nothing to do, without companions."""

    @staticmethod
    def differentiation(companions: Sequence[Companion]) -> Differentiation | None:
        """Differentiation of the car's program; None without companions."""
        return Differentiation(width(len(companions)), _FIXED, _PLAIN) if companions else None

    def __init__(self, filter: DifferentiatedFilter, companions: Sequence[Companion]) -> None:
        self._filter, self._companions = filter, companions
        self.directions = width(len(companions)) if companions else 0
        if not companions:
            return
        tangent = filter.car.tangent
        self._d_value, self._d_noise = tangent("value"), tangent("noise")
        self._values: dict[str, np.ndarray] = {}
        self._variances: dict[str, np.ndarray] = {}

    def seed(self, values: dict[str, np.ndarray], variances: dict[str, np.ndarray]) -> None:
        """Find the derivatives of all settings with the companions.

        `values` (3, directions) and `variances` (directions,): derivatives by kind of observation.
        """
        self._values, self._variances = values, variances
        car = self._filter.car
        tangents = car.compiled.tangents
        tangents.all(car.workspace)[:] = 0.0
        for name in tangents.layout.places:
            if name not in _PREPARED:
                self._take(name)
        car.call(car.kernels.prepare)

    def _take(self, array: str) -> None:
        """Find the tangents of an array with the companions."""
        for k, (f, step) in enumerate(self._companions):
            self._filter.car.differentiate(array, k, f.car, step)

    def place(self, pose: InitialPose) -> None:
        """Place the companions like the filter, each at its own height."""
        height = self._filter.car.design_height
        for f, _ in self._companions:
            higher = np.array([0.0, 0.0, f.car.design_height - height])
            f.place(dataclasses.replace(pose, position=pose.position + higher))
        if self._companions:
            for array in (*STATE, "ground"):
                self._take(array)

    def take_observation(self, kind: str) -> None:
        """Set the derivatives of the next observation."""
        self._d_value[...] = self._values.get(kind, 0.0)
        self._d_noise[...] = self._variances.get(kind, 0.0)
