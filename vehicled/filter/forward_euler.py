"""The filter whose model goes on by forward Euler."""

from __future__ import annotations

from vehicled.filter.vehicle_filter import VehicleFilter


class ForwardEulerFilter(VehicleFilter):
    """DEKF: the model goes on by forward Euler (Sanjurjo).

    Its position, velocity and acceleration problems are solved each step; no memory of accelerations is left that a
    correction would not know of.
    """

    def _advance(self, h: float) -> None:
        assert self._kernels.euler is not None
        self._adjust()
        self.car.step_euler(h, self._kernels.euler)
        self._propagate()
