"""The observers that are compared on linkages, by name, with the plant noise that each needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vehicled.multibody.formulations import Ali3p
from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks import literal
from vehicled.studies.benchmarks.observer_cases import START_SIGMA, H, InstrumentedLinkage
from vehicled.studies.observers.continuous import ContinuousEKF
from vehicled.studies.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.studies.observers.error_state import ErrorStateObserver
from vehicled.studies.observers.interface import Observer
from vehicled.studies.observers.likelihood import AdaptedNoise
from vehicled.studies.observers.linkage_errors import (
    MEMORY,
    EulerLinkageErrors,
    ExactLinkageErrors,
    ForceLinkageErrors,
    LinkageErrors,
    ShapedForceLinkageErrors,
)
from vehicled.studies.observers.noise import (
    PlantNoise,
    StepNoise,
    WhiteNoise,
    calc_free_slope,
    discretise,
    make_units,
)
from vehicled.studies.observers.unscented import UnscentedKF

_EULER_DENSITY = 4e-5
"""Spectral density of what Euler's rule leaves out of the positions, ½ h² z̈ a step: at 36 rad/s²."""

Make = Callable[[Mechanism, InstrumentedLinkage, bool], Observer]
"""An observer on a mechanism, in the published toolbox's details or not."""


def error_state(kind: type[LinkageErrors]) -> Make:
    """errorEKF by the errors δz, δż."""

    def make(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
        noise = _make_noise(linkage, literally)
        model = kind(m, linkage.sensors, noise, _stepper(literally), from_rest=literally)
        return ErrorStateObserver(model, H, _start(2 * len(linkage.case.angles)))

    return make


def _force(noise: type[WhiteNoise]) -> Make:
    def make(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
        f, variance = len(linkage.case.angles), linkage.case.force_variance
        units = make_units(3 * f, range(2 * f, 3 * f))
        # As published, noise goes to a force's own state alone.
        literal_noise = StepNoise(variance * units.sum(axis=0))
        plant_noise = literal_noise if literally else noise(units, np.full(f, variance / H))
        model = ForceLinkageErrors(m, linkage.sensors, plant_noise, _stepper(literally), from_rest=literally)
        return ErrorStateObserver(model, H, _start(3 * f))

    return make


def _shaped_force(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
    f = len(linkage.case.angles)
    # White noise as without a shaping filter, and coloured noise that comes to as much in the long run.
    white = linkage.case.force_variance / H
    coloured = white / MEMORY**2
    densities = np.repeat([white, coloured], f)
    noise = AdaptedNoise(make_units(4 * f, range(2 * f, 4 * f)), densities)
    start = np.diag([START_SIGMA**2] * 3 * f + [coloured * MEMORY / 2] * f)
    model = ShapedForceLinkageErrors(m, linkage.sensors, noise, _stepper(literally), from_rest=literally)
    return ErrorStateObserver(model, H, start)


def _euler(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
    model = EulerLinkageErrors(m, linkage.sensors, _make_noise(linkage, literally, euler=True))
    return ErrorStateObserver(model, H, _start(2 * len(linkage.case.angles)))


def of_state(kind: Callable[..., Observer], *, euler: bool = False, **options: Any) -> Make:
    """A filter of z, ż with a covariance of its own."""

    def make(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
        noise = _make_noise(linkage, literally, euler)
        return kind(m, linkage.sensors, H, _start(2 * len(linkage.case.angles)), noise, **options)

    return make


def _unscented(integrator: str) -> Make:
    def make(m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
        euler = integrator == "forward_euler"
        # Euler's rule errs by more than points drawn anew would mend.
        redraw = not literally
        filter_of = of_state(UnscentedKF, euler=euler, integrator=integrator, redraw=redraw)
        return filter_of(m, linkage, literally)

    return make


def _start(states: int) -> np.ndarray:
    return START_SIGMA**2 * np.eye(states)


def _stepper(literally: bool) -> Ali3p | None:
    return literal.ALI3P if literally else None


def _make_noise(linkage: InstrumentedLinkage, literally: bool, euler: bool = False) -> PlantNoise:
    """White accelerations; their density follows the innovations unless literally as published.

    What Euler's rule leaves out of the positions is noise on these.
    """
    f, density = len(linkage.case.angles), linkage.case.density
    positions, rates = (make_units(2 * f, of).sum(axis=0) for of in (range(f), range(f, 2 * f)))
    if literally:
        return StepNoise(density * discretise(calc_free_slope(f), rates, H))
    return AdaptedNoise(rates[None], np.array([density]), _EULER_DENSITY * positions if euler else None)


FILTERS: dict[str, Make] = {
    "errorEKF": error_state(LinkageErrors),
    "errorEKF_EJ": error_state(ExactLinkageErrors),
    "errorEKF_FE": _force(WhiteNoise),
    "errorEKF_AFE": _force(AdaptedNoise),
    "errorEKF_SFE": _shaped_force,
    "DEKF": _euler,
    "CEKF": of_state(ContinuousEKF),
    "DIEKFpm": of_state(PerfectMeasurementEKF),
    "SCKF": of_state(SmoothlyConstrainedKF),
    "UKF-TR": _unscented("trapezoidal"),
    "UKF-FE": _unscented("forward_euler"),
}
NO_FILTER = "none"
"""The wrong model on its own."""
