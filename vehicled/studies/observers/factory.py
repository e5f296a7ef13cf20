"""Observers on mechanisms by name, with the plant noise that each needs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from vehicled.errors import UsageError
from vehicled.multibody.checks import require_freedom
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import NOT_COMPILED, SensorSet
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
from vehicled.studies.observers.noise import PlantNoise, WhiteNoise, make_units
from vehicled.studies.observers.observability import find_hidden
from vehicled.studies.observers.shaping import ShapedForceObserver, ShapedNoise
from vehicled.studies.observers.unscented import UnscentedKF

Build = Callable[..., Observer]
"""A function that makes an observer from (mechanism, sensors, h, covariance at the start, plant noise) and
own options."""


@dataclass(frozen=True)
class Noise:
    """Noise assumptions of an observer on f independent coordinates."""

    freedom: int
    """f"""
    start_sigma: float
    """Standard deviation of every state at the start: of z, ż (and z̈), in SI."""
    density: float
    """Spectral density of the white noise that drives the model's error: of the accelerations z̈, rad²/s³ or
    m²/s³; if that error is a state, of its rate, rad²/s⁵ or m²/s⁵."""
    euler_density: float
    """Spectral density of the error of forward Euler in the positions, rad²/s or m²/s."""

    def start(self, per_coordinate: int) -> np.ndarray:
        """(states, states) covariance at the start."""
        return self.start_sigma**2 * np.eye(per_coordinate * self.freedom)

    def units(self, per_coordinate: int, *driven: int) -> np.ndarray:
        """(m, states, states) unit density on each state of the driven orders (0: z, 1: ż, …)."""
        f = self.freedom
        places = [k for order in driven for k in range(order * f, (order + 1) * f)]
        return make_units(per_coordinate * f, places)


def accelerations(noise: Noise) -> tuple[np.ndarray, PlantNoise]:
    """White noise on the accelerations, with a density adapted to the innovations."""
    units = noise.units(2, 1).sum(axis=0)[None]
    return noise.start(2), AdaptedNoise(units, np.array([noise.density]))


def euler_accelerations(noise: Noise) -> tuple[np.ndarray, PlantNoise]:
    """Same as `accelerations`, and a constant density on the positions."""
    units = noise.units(2, 1).sum(axis=0)[None]
    base = noise.euler_density * noise.units(2, 0).sum(axis=0)
    return noise.start(2), AdaptedNoise(units, np.array([noise.density]), base)


def _forces(kind: type[WhiteNoise], noise: Noise) -> tuple[np.ndarray, PlantNoise]:
    return noise.start(3), kind(noise.units(3, 2), np.full(noise.freedom, noise.density))


def _shaped_forces(noise: Noise) -> tuple[np.ndarray, PlantNoise]:
    """White noise as without a shaping filter, and coloured noise of the same density at low frequencies."""
    density = np.full(noise.freedom, noise.density)
    # Variance of the rate, for noise of the density d/τ² with the memory τ.
    rate = noise.density / (2.0 * MEMORY)
    start = np.diag([noise.start_sigma**2] * 3 * noise.freedom + [rate] * noise.freedom)
    return start, ShapedNoise(density, density, MEMORY)


def _of_shaped_forces(
    mechanism: Mechanism,
    sensors: SensorSet,
    h: float,
    covariance: np.ndarray,
    noise: ShapedNoise,
    **options: object,
) -> Observer:
    """Make errorEKF_SFE; `options` are those of its model."""
    model = ShapedForceLinkageErrors(mechanism, sensors, noise, **options)  # type: ignore[arg-type]
    return ShapedForceObserver(model, noise, h, covariance)


def of_errors(model: type[LinkageErrors]) -> Build:
    """Function that makes an errorEKF by a model of the errors; its options are the model's."""

    def build(
        mechanism: Mechanism,
        sensors: SensorSet,
        h: float,
        covariance: np.ndarray,
        noise: PlantNoise,
        **options: object,
    ) -> Observer:
        return ErrorStateObserver(model(mechanism, sensors, noise, **options), h, covariance)  # type: ignore[arg-type]

    return build


@dataclass(frozen=True)
class Kind:
    """A kind of observer."""

    build: Build
    assume: Callable[[Noise], tuple[np.ndarray, PlantNoise]] = accelerations
    """Covariance at the start and plant noise."""
    free_masses: bool = False
    """Whether errors are propagated as those of free masses: then forces that depend on the state give no
    information."""


KINDS: dict[str, Kind] = {
    "errorEKF": Kind(of_errors(LinkageErrors), free_masses=True),
    "errorEKF_EJ": Kind(of_errors(ExactLinkageErrors)),
    "errorEKF_FE": Kind(of_errors(ForceLinkageErrors), partial(_forces, WhiteNoise)),
    "errorEKF_AFE": Kind(of_errors(ForceLinkageErrors), partial(_forces, AdaptedNoise)),
    "errorEKF_SFE": Kind(_of_shaped_forces, _shaped_forces),
    "DEKF": Kind(of_errors(EulerLinkageErrors), euler_accelerations, free_masses=True),
    "CEKF": Kind(ContinuousEKF),
    "DIEKFpm": Kind(PerfectMeasurementEKF),
    "SCKF": Kind(SmoothlyConstrainedKF),
    "UKF-TR": Kind(partial(UnscentedKF, integrator="trapezoidal")),
    "UKF-FE": Kind(partial(UnscentedKF, integrator="forward_euler"), euler_accelerations),
}
FORCE_KINDS = ("errorEKF_FE", "errorEKF_AFE", "errorEKF_SFE")
"""Kinds that have the error of the accelerations as a state."""
_EXACT = "errorEKF_EJ"
"""The cheapest kind that does not treat masses as free."""


def make_observer(
    kind: str,
    mechanism: Mechanism,
    sensors: SensorSet,
    h: float,
    *,
    start_sigma: float,
    density: float,
    euler_density: float = 0.0,
    allow_unobservable: bool = False,
) -> Observer:
    """An observer of z, ż of `mechanism`, which becomes its model and has to be compiled with `sensors`.

    `kind`: errorEKF, errorEKF_EJ, errorEKF_FE, errorEKF_AFE, errorEKF_SFE, DEKF, CEKF, DIEKFpm, SCKF, UKF-TR or
    UKF-FE; `h`: its step, s; `start_sigma`: standard deviation of each state at the start, in SI; `density`: spectral
    density of the white noise on the accelerations of z, rad²/s³ or m²/s³, or, for errorEKF_FE, _AFE and _SFE, on the
    rate of their error, rad²/s⁵ or m²/s⁵; `euler_density`: for DEKF and UKF-FE, of the error of forward Euler in
    the positions, rad²/s or m²/s. The densities follow the innovations, except with errorEKF_FE; so
    does the memory of errorEKF_SFE.

    Raises UsageError for another kind, for numbers that are not above zero, for a mechanism that was not compiled
    with the sensors or has no degree of freedom, and, unless `allow_unobservable`, where this kind cannot determine a
    coordinate or its rate by them.
    """
    if kind not in KINDS:
        raise UsageError(f"observer: expected one of {', '.join(KINDS)}, got '{kind}'")
    for name, value in (("h", h), ("start_sigma", start_sigma), ("density", density)):
        if not 0.0 < value < math.inf:
            raise UsageError(f"{name}: expected a number above 0, got {value:g}")
    if not 0.0 <= euler_density < math.inf:
        raise UsageError(f"euler_density: expected a number of at least 0, got {euler_density:g}")
    if not any(extension is sensors for extension in mechanism.compiled.extensions):
        raise UsageError(f"{sensors.name}: {NOT_COMPILED}")
    require_freedom(mechanism)
    chosen = KINDS[kind]
    if not allow_unobservable:
        _check_observable(kind, mechanism, sensors, h)
    noise = Noise(len(mechanism.independent), start_sigma, density, euler_density)
    return chosen.build(mechanism, sensors, h, *chosen.assume(noise))


def _check_observable(kind: str, mechanism: Mechanism, sensors: SensorSet, h: float) -> None:
    free_masses = KINDS[kind].free_masses
    hidden = find_hidden(mechanism, sensors, h, free_masses=free_masses)
    if not hidden:
        return
    wanted = "further sensors"
    if free_masses and not find_hidden(mechanism, sensors, h):
        wanted = f"a kind that knows how forces depend on it, such as {_EXACT}"
    raise UsageError(
        f"{kind}: {', '.join(sensors.reading_names)} cannot determine {', '.join(hidden)}: expected {wanted}, or "
        "allow_unobservable=True"
    )
