"""The estimator as it runs in the car, with what the filter made of each observation laid open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vehicled.configuration import Configuration
from vehicled.estimator import Estimator
from vehicled.filter.covariance import UNSEEN
from vehicled.filter.settings import Filter
from vehicled.filter.vehicle_filter import VehicleFilter
from vehicled.messages import Estimate, Innovation, Measurement
from vehicled.vehicle.chart import CHART
from vehicled.vehicle.parameters import Vehicle


def _nothing() -> np.ndarray:
    return np.zeros((0, 0))


@dataclass(frozen=True)
class Judged:
    """An observation in components that are not correlated, those that were measured."""

    innovation: np.ndarray
    """(m,)"""
    precision: np.ndarray
    """(m,) inverse of the variance that the filter expects."""
    d_innovation: np.ndarray = field(default_factory=_nothing)
    """(m, directions)"""
    d_precision: np.ndarray = field(default_factory=_nothing)
    """(m, directions)"""


class WatchedFilter(VehicleFilter):
    """Keeps what it judged in a step."""

    def __init__(self, vehicle: Vehicle, settings: Filter):
        super().__init__(vehicle, settings)
        self.judged: dict[tuple[str, int], Judged] = {}
        """By sensor and time of measurement."""
        self._parts = [self.car.view("left"), self.car.view("precision")]

    def judge(self, sensor: str, t_ns: int, value: Sequence[float], noise: Sequence[float]) -> float | None:
        nis = super().judge(sensor, t_ns, value, noise)
        if nis is not None:
            m = len(value)
            parts = [part[:m].copy() for part in self._parts]
            if max(noise) >= UNSEEN:
                measured = parts[1] > 1e3 / UNSEEN
                parts = [part[measured] for part in parts]
            self.judged[sensor, t_ns] = Judged(*parts)
        return nis

    def tell(self) -> None:
        """Nobody listens."""


class WatchedEstimator(Estimator):
    """Gives no estimates, but `judged`."""

    _filter: WatchedFilter

    def _make_filter(self, configuration: Configuration) -> VehicleFilter:
        return WatchedFilter(configuration.vehicle, configuration.filter)

    def step(self, t_ns: int, measurements: list[Measurement]) -> Estimate | None:
        self._filter.judged.clear()
        return super().step(t_ns, measurements)

    def _estimate(self, t_ns: int) -> Estimate | None:
        return None

    @property
    def speed(self) -> float:
        """Along the car, m/s."""
        return float(self._filter.now[len(CHART)])

    def judged(self) -> list[tuple[Innovation, Judged]]:
        """Of the last step: what was judged, and fused or refused by its gate."""
        judged, records = self._filter.judged, self._fusion.records
        return [(r, judged[r.sensor, r.t]) for r in records if r.innovation and (r.sensor, r.t) in judged]
