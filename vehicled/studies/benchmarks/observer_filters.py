"""The observers that are compared on linkages, by name, in this program's form and in a published toolbox's form."""

from __future__ import annotations

from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks import literal
from vehicled.studies.benchmarks.literal_continuous import LiteralContinuousEKF
from vehicled.studies.benchmarks.literal_dependent import (
    LiteralPerfectMeasurementEKF,
    LiteralSmoothlyConstrainedKF,
)
from vehicled.studies.benchmarks.observer_cases import START_SIGMA, H, InstrumentedLinkage
from vehicled.studies.observers.factory import FORCE_KINDS, KINDS, Noise, make_observer
from vehicled.studies.observers.interface import Observer
from vehicled.studies.observers.noise import PlantNoise, StepNoise, calc_free_slope, discretise

_EULER_DENSITY = 4e-5
"""Spectral density of the error of Euler's rule in the positions, ½ h² z̈ a step: for 36 rad/s²."""
NO_FILTER = "none"
"""The wrong model without any filter."""
_UNSCENTED = ("UKF-TR", "UKF-FE")
_BY_ALI3P = ("errorEKF", "errorEKF_EJ", *FORCE_KINDS)
"""Filters that simulate by forward Euler."""


def make_filter(name: str, m: Mechanism, linkage: InstrumentedLinkage, literally: bool) -> Observer:
    """One of the observers' `KINDS` on a mechanism; `literally`: with the published toolbox's details."""
    case = linkage.case
    density = case.force_variance / H if name in FORCE_KINDS else case.density
    if not literally:
        return make_observer(
            name,
            m,
            linkage.sensors,
            H,
            start_sigma=START_SIGMA,
            density=density,
            euler_density=_EULER_DENSITY,
            # Unobservable set-ups are a result of the comparison.
            allow_unobservable=True,
        )
    if name in ("DIEKFpm", "SCKF", "CEKF"):
        return _make_literal(name, m, linkage)
    kind, options = KINDS[name], {}
    noise = Noise(len(case.angles), START_SIGMA, density, _EULER_DENSITY)
    start, plant_noise = kind.assume(noise)
    if name != "errorEKF_SFE":
        plant_noise = _make_literal_noise(name, noise, case.force_variance)
    if name in _BY_ALI3P:
        options = {"stepper": literal.ALI3P, "from_rest": True}
    elif name in _UNSCENTED:
        options = {"redraw": False}
    return kind.build(m, linkage.sensors, H, start, plant_noise, **options)


def _make_literal(name: str, m: Mechanism, linkage: InstrumentedLinkage) -> Observer:
    """Filters whose literal form is a separate class."""
    noise = literal.NOISE[linkage.name]
    if name == "CEKF":
        encoders = linkage.sensor_set == "encoders"
        return LiteralContinuousEKF(
            m,
            linkage.sensors,
            H,
            start_variances=noise.continuous_start,
            density=noise.encoder_density if encoders else noise.gyroscope_density,
        )
    perfect = name == "DIEKFpm"
    return (LiteralPerfectMeasurementEKF if perfect else LiteralSmoothlyConstrainedKF)(
        m,
        linkage.sensors,
        H,
        start_variance=START_SIGMA**2,
        density=linkage.case.density if perfect else noise.constrained_density,
        wrong_branch=noise.wrong_branch,
    )


def _make_literal_noise(name: str, noise: Noise, force_variance: float) -> PlantNoise:
    """Noise that is the same in every step; as published, noise acts on a force's own state only."""
    if name in FORCE_KINDS:
        return StepNoise(force_variance * noise.units(3, 2).sum(axis=0))
    rates = noise.units(2, 1).sum(axis=0)
    return StepNoise(noise.density * discretise(calc_free_slope(noise.freedom), rates, H))
