"""Linkages on which observers are compared: a true mechanism, its sensors, and a model with errors.

Set-up and noise are those of a published toolbox (Sanjurjo et al.), so that a run of the same algorithm gives the
same figures: steps of 5 ms over 10 s, first output after the first step. The true mechanism falls from rest;
the wrong one has less gravity and starts elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.instance import MechanismState
from vehicled.multibody.joints import add_angle
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Encoder, Gyroscope, Sensor, SensorSet
from vehicled.studies.benchmarks import literal
from vehicled.studies.observers.observability import Observability, calc_observability

H = 5e-3
"""s"""
STEPS = 2000
RATES = (200, 100, 50, 20, 10)
"""Readings per second."""
LEVELS = {"L1": 0.5, "L2": 1.0}
"""Magnitudes of the modelling errors."""
GRAVITY = -9.81
"""m/s², for the true mechanism."""
PUBLISHED_SEED = 10
"""The seed whose noise is the toolbox's own."""
START_SIGMA = math.radians(5.0)
"""Standard deviation of each state at the start, in SI."""
_ENCODER, _GYROSCOPE = math.radians(1.0), 9.839439e-4
_OBSERVED_FOR = 200
"""Number of steps over which observability is calculated."""


@dataclass(frozen=True)
class Case:
    """A linkage of the benchmark."""

    angles: tuple[str, ...]
    cranks: tuple[tuple[str, str], ...]
    couplers: tuple[tuple[str, str], ...]
    density: float
    """Spectral density of the error of the model's accelerations, rad²/s³."""
    force_variance: float
    """Variance of the increase of that error in a step, rad²/s⁴."""


CASES = {
    "four_bar": Case(("theta",), (("A", "P"),), (("P", "Q"),), 0.0916298, 0.00229074),
    "five_bar": Case(
        ("theta1", "theta2"), (("A", "P"), ("B", "R")), (("P", "Q"), ("Q", "R")), 0.549779, 0.109956
    ),
}
SENSORS: dict[str, Callable[[Case], list[Sensor]]] = {
    "encoders": lambda case: [Encoder(a, _ENCODER) for a in case.angles],
    "crank_gyros": lambda case: [Gyroscope(p, _GYROSCOPE) for p in case.cranks],
    "coupler_gyros": lambda case: [Gyroscope(p, _GYROSCOPE) for p in case.couplers],
}


@dataclass(frozen=True)
class ObserverRun:
    """One filter on one linkage."""

    mechanism: str
    sensors: str
    rate_hz: int
    level: str
    filter: str
    seed: int
    literal: bool = False
    """Whether to use the published toolbox's details, if there is such a form: `literal`."""

    @property
    def setup(self) -> Setup:
        """The set-up, which is the same for runs of other filters and seeds."""
        return Setup(self.mechanism, self.sensors, self.rate_hz, self.level)


@dataclass(frozen=True)
class Setup:
    """A set-up in which filters are compared."""

    mechanism: str
    sensors: str
    rate_hz: int
    level: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setup:
        """The set-up of a row."""
        return cls(*(row[f.name] for f in fields(cls)))

    @property
    def every(self) -> int:
        """Steps from one reading to the next."""
        return round(1.0 / (self.rate_hz * H))

    def __str__(self) -> str:
        return f"{self.mechanism}, {self.sensors}, {self.rate_hz} Hz, {self.level}"


def make_runs(
    mechanisms: Iterable[str],
    sensors: Iterable[str],
    rates: Iterable[int],
    levels: Iterable[str],
    filters: Iterable[str],
    seeds: Iterable[int],
    literally: bool,
) -> Iterator[ObserverRun]:
    """All combinations of these."""
    for choice in product(mechanisms, sensors, rates, levels, filters, seeds):
        yield ObserverRun(*choice, literal=literally)


@cache
def calc_truth(mechanism: str) -> list[MechanismState]:
    """State after each step, by matrix R and the trapezoidal rule."""
    m, stepper = Mechanism.load(mechanism), make_stepper("matrix_r", "trapezoidal")
    states = []
    for _ in range(STEPS):
        stepper.step(m, H).require(mechanism)
        states.append(m.get_state())
    return states


@dataclass(frozen=True)
class InstrumentedLinkage:
    """One linkage with one set of sensors, and its true motion."""

    name: str
    sensor_set: str
    """One of `SENSORS`."""
    case: Case
    compiled: CompiledMechanism
    sensors: SensorSet
    z: np.ndarray
    """(steps, f)"""
    zd: np.ndarray
    zdd: np.ndarray
    readings: np.ndarray
    """(steps, k) without noise."""


@cache
def get_linkage(mechanism: str, sensors: str, literally: bool) -> InstrumentedLinkage:
    """A linkage with its true motion, computed once for all runs that need it."""
    case = CASES[mechanism]
    instruments = SensorSet(SENSORS[sensors](case))
    form = literal.add_angle if literally else add_angle
    compiled = CompiledMechanism(load_description(mechanism), (instruments,), angle_form=form)
    m, truth = Mechanism(compiled), calc_truth(mechanism)
    readings = []
    for state in truth:
        m.set_state(state)
        readings.append(instruments.calc_readings(m))
    z, zd, zdd = (
        np.array([getattr(state, of)[m.independent] for state in truth]) for of in ("q", "qd", "qdd")
    )
    return InstrumentedLinkage(
        mechanism, sensors, case, compiled, instruments, z, zd, zdd, np.array(readings)
    )


def make_wrong(linkage: InstrumentedLinkage, level: float) -> Mechanism:
    """The mechanism with modelling errors: `level` m/s² less gravity, every angle `level`·π/16 off at the start."""
    m = Mechanism(linkage.compiled)
    m.set_parameters({"gravity.y": GRAVITY + level})
    m.set_independent_state(m.z + level * math.pi / 16, m.zd).require("start of the wrong model")
    return m


def make_noise(seed: int, sensors: int) -> np.ndarray:
    """(steps, sensors) standard normal numbers, one per sensor and step, also of steps without a reading."""
    if seed == PUBLISHED_SEED:
        drawn = np.loadtxt(Path(__file__).with_name("linkage_noise.csv"))
        return drawn[: STEPS * sensors].reshape(STEPS, sensors)
    return np.random.default_rng(seed).standard_normal((STEPS, sensors))


@dataclass(frozen=True)
class SetupObservability:
    """Observability of the wrong model's state in its first second, with the sensors of a set-up."""

    exact: Observability
    """Observability by the exact dynamics."""
    free_masses: Observability
    """Observability for filters that propagate errors as those of free masses."""


@cache
def calc_setup_observability(setup: Setup) -> SetupObservability:
    """Observability in a set-up. Raises RunError where the wrong model cannot be simulated."""
    linkage = get_linkage(setup.mechanism, setup.sensors, False)
    start = START_SIGMA**2 * np.eye(2 * len(linkage.case.angles))

    def calc(free_masses: bool) -> Observability:
        wrong = make_wrong(linkage, LEVELS[setup.level])
        return calc_observability(
            wrong, linkage.sensors, H, start, _OBSERVED_FOR, setup.every, free_masses=free_masses
        )

    return SetupObservability(calc(False), calc(True))
