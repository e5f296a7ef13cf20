"""The filter whose model is integrated by forward Euler."""

from __future__ import annotations

from vehicled.filter.vehicle_filter import VehicleFilter


class ForwardEulerFilter(VehicleFilter):
    """DEKF: the model is integrated by forward Euler (Sanjurjo).

    Position, velocity and acceleration problems are solved in each step: the integrator has no memory of
    accelerations, which a correction could not update.
    """

    def _advance(self, h: float) -> None:
        assert self._kernels.euler is not None
        self._adjust()
        self.car.step_euler(h, self._kernels.euler)
        self._propagate()
