"""Observers on linkages: a true mechanism, one that is modelled wrongly, and a filter on the wrong one.

Set-up and noise are those of a published toolbox (Sanjurjo et al.), so that a run of the same algorithm gives the
same figures: steps of 5 ms over 10 s, first output after the first step. The true mechanism falls from rest;
the wrong one has less gravity and starts elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.benchmarks import literal
from vehicled.errors import RunError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import Ali3p, make_stepper
from vehicled.multibody.joints import add_angle
from vehicled.multibody.mechanism import Mechanism, State
from vehicled.observers.continuous import ContinuousEKF
from vehicled.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.observers.discrete import DiscreteEKF
from vehicled.observers.error_state import (
    MEMORY,
    ErrorEKF,
    ExactErrorEKF,
    ForceErrorEKF,
    ShapedForceErrorEKF,
)
from vehicled.observers.interface import Observer
from vehicled.observers.likelihood import AdaptedNoise
from vehicled.observers.noise import (
    PlantNoise,
    StepNoise,
    WhiteNoise,
    calc_free_slope,
    discretise,
    make_units,
)
from vehicled.observers.unscented import UnscentedKF
from vehicled.sensors.mechanisms import Encoder, Gyroscope, Sensor, SensorSet

H = 5e-3
"""s"""
STEPS = 2000
RATES = (200, 100, 50, 20, 10)
"""Readings per second."""
LEVELS = {"L1": 0.5, "L2": 1.0}
"""Size of the modelling errors."""
GRAVITY = -9.81
"""m/s², of the true mechanism."""
PUBLISHED_SEED = 10
"""The seed whose noise is the toolbox's own."""
_ENCODER, _GYROSCOPE = math.radians(1.0), 9.839439e-4
_START = math.radians(5.0)
"""Standard deviation of each state at the start, in SI."""
_EULER_DENSITY = 4e-5
"""Spectral density of what Euler's rule leaves out of the positions, ½ h² z̈ a step: at 36 rad/s²."""


@dataclass(frozen=True)
class Case:
    """A linkage of the benchmark."""

    angles: tuple[str, ...]
    cranks: tuple[tuple[str, str], ...]
    couplers: tuple[tuple[str, str], ...]
    density: float
    """Spectral density of the accelerations that the model gets wrong, rad²/s³."""
    force_variance: float
    """Of what a step adds to the error of the accelerations, rad²/s⁴."""


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
class Run:
    """One filter on one linkage."""

    mechanism: str
    sensors: str
    rate_hz: int
    level: str
    filter: str
    seed: int
    literal: bool = False
    """Whether in all details as published."""


@cache
def calc_truth(mechanism: str) -> list[State]:
    """After each step: matrix R, trapezoidal rule."""
    m, stepper = Mechanism.load(mechanism), make_stepper("matrix_r", "trapezoidal")
    states = []
    for _ in range(STEPS):
        stepper.step(m, H).require(mechanism)
        states.append(m.get_state())
    return states


@dataclass(frozen=True)
class Linkage:
    """One linkage with one set of sensors, and what truly happens to it."""

    case: Case
    compiled: CompiledMechanism
    sensors: SensorSet
    z: np.ndarray
    """(steps, f)"""
    zd: np.ndarray
    readings: np.ndarray
    """(steps, k) without noise."""


@cache
def get_linkage(mechanism: str, sensors: str, literally: bool) -> Linkage:
    """Computed once for all runs that need it."""
    case = CASES[mechanism]
    instruments = SensorSet(SENSORS[sensors](case))
    form = literal.add_angle if literally else add_angle
    compiled = CompiledMechanism(load_description(mechanism), (instruments,), angle_form=form)
    m, truth = Mechanism(compiled), calc_truth(mechanism)
    readings = []
    for state in truth:
        m.set_state(state)
        readings.append(instruments.calc_readings(m))
    z, zd = (np.array([getattr(state, of)[m.independent] for state in truth]) for of in ("q", "qd"))
    return Linkage(case, compiled, instruments, z, zd, np.array(readings))


def make_wrong(linkage: Linkage, level: float) -> Mechanism:
    """The mechanism with modelling errors: `level` m/s² less gravity, every angle `level`·π/16 off at the start."""
    m = Mechanism(linkage.compiled)
    m.set_parameters({"gravity.y": GRAVITY + level})
    m.set_independent_state(m.z + level * math.pi / 16, m.zd).require("start of the wrong model")
    return m


Make = Callable[[Mechanism, Linkage, bool], Observer]
"""An observer on a mechanism, literally as published or not."""


def _error_state(kind: type[ErrorEKF]) -> Make:
    def make(m: Mechanism, linkage: Linkage, literally: bool) -> Observer:
        noise = _make_noise(linkage, literally)
        start = _START**2 * np.eye(2 * len(linkage.case.angles))
        return kind(m, linkage.sensors, H, start, noise, _stepper(literally), from_rest=literally)

    return make


def _force(noise: type[WhiteNoise]) -> Make:
    def make(m: Mechanism, linkage: Linkage, literally: bool) -> Observer:
        f, variance = len(linkage.case.angles), linkage.case.force_variance
        units = make_units(3 * f, range(2 * f, 3 * f))
        start = _START**2 * np.eye(3 * f)
        # As published, noise goes to a force's own state alone.
        literal_noise = StepNoise(variance * units.sum(axis=0))
        plant_noise = literal_noise if literally else noise(units, np.full(f, variance / H))
        return ForceErrorEKF(
            m, linkage.sensors, H, start, plant_noise, _stepper(literally), from_rest=literally
        )

    return make


def _shaped_force(m: Mechanism, linkage: Linkage, literally: bool) -> Observer:
    f = len(linkage.case.angles)
    # White noise as without a shaping filter, and coloured noise that comes to as much in the long run.
    white = linkage.case.force_variance / H
    coloured = white / MEMORY**2
    densities = np.repeat([white, coloured], f)
    noise = AdaptedNoise(make_units(4 * f, range(2 * f, 4 * f)), densities)
    start = np.diag([_START**2] * 3 * f + [coloured * MEMORY / 2] * f)
    return ShapedForceErrorEKF(m, linkage.sensors, H, start, noise, _stepper(literally), from_rest=literally)


def _of_state(kind: Callable[..., Observer], *, euler: bool = False, **options: Any) -> Make:
    def make(m: Mechanism, linkage: Linkage, literally: bool) -> Observer:
        noise = _make_noise(linkage, literally, euler)
        start = _START**2 * np.eye(2 * len(linkage.case.angles))
        return kind(m, linkage.sensors, H, start, noise, **options)

    return make


def _unscented(integrator: str) -> Make:
    def make(m: Mechanism, linkage: Linkage, literally: bool) -> Observer:
        euler = integrator == "forward_euler"
        # Euler's rule errs by more than points drawn anew would mend.
        redraw = not literally
        filter_of = _of_state(UnscentedKF, euler=euler, integrator=integrator, redraw=redraw)
        return filter_of(m, linkage, literally)

    return make


def _stepper(literally: bool) -> Ali3p | None:
    return literal.ALI3P if literally else None


def _make_noise(linkage: Linkage, literally: bool, euler: bool = False) -> PlantNoise:
    """White accelerations; their density follows the innovations unless literally as published. What Euler's rule
    leaves out of the positions is noise on these."""
    f, density = len(linkage.case.angles), linkage.case.density
    positions, rates = (make_units(2 * f, of).sum(axis=0) for of in (range(f), range(f, 2 * f)))
    if literally:
        return StepNoise(density * discretise(calc_free_slope(f), rates, H))
    return AdaptedNoise(rates[None], np.array([density]), _EULER_DENSITY * positions if euler else None)


FILTERS: dict[str, Make] = {
    "errorEKF": _error_state(ErrorEKF),
    "errorEKF_EJ": _error_state(ExactErrorEKF),
    "errorEKF_FE": _force(WhiteNoise),
    "errorEKF_AFE": _force(AdaptedNoise),
    "errorEKF_SFE": _shaped_force,
    "DEKF": _of_state(DiscreteEKF, euler=True),
    "CEKF": _of_state(ContinuousEKF),
    "DIEKFpm": _of_state(PerfectMeasurementEKF),
    "SCKF": _of_state(SmoothlyConstrainedKF),
    "UKF_TR": _unscented("trapezoidal"),
    "UKF_FE": _unscented("forward_euler"),
}
NO_FILTER = "none"
"""The wrong model on its own."""


def make_noise(seed: int, sensors: int) -> np.ndarray:
    """(steps, sensors) standard normal numbers, one per sensor and step, also of steps without a reading."""
    if seed == PUBLISHED_SEED:
        drawn = np.loadtxt(Path(__file__).with_name("linkage_noise.csv"))
        return drawn[: STEPS * sensors].reshape(STEPS, sensors)
    return np.random.default_rng(seed).standard_normal((STEPS, sensors))


def bench_observers(
    runs: Iterable[Run], workers: int, progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """`vehicled bench observers --json`: a row for each run, in their order. `progress` is told how many are done."""
    ordered = list(runs)
    rows: dict[Run, dict[str, Any]] = {}
    # Processes that share nothing: a fork would copy the threads of the numerical libraries in any state.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(run_case, run): run for run in ordered}
        for job in as_completed(jobs):
            rows[jobs[job]] = job.result()
            progress(len(rows))
    return [rows[run] for run in ordered]


def run_case(run: Run) -> dict[str, Any]:
    """One row: the run, errors against the truth, consistency and cost.

    Errors are root mean squares over all steps, or those after 5 s, of each coordinate, averaged over
    coordinates (rad, rad/s); `nis` is the mean over steps with readings. Of a filter that breaks down they are None,
    with the time (s), the reason and what had been read last. `repairs`: how often the covariance had lost its
    definiteness.
    """
    linkage = get_linkage(run.mechanism, run.sensors, run.literal)
    wrong = make_wrong(linkage, LEVELS[run.level])
    alone = run.filter == NO_FILTER
    observer = FILTERS["errorEKF" if alone else run.filter](wrong, linkage, run.literal)
    count = linkage.readings.shape[1]
    readings = linkage.readings + linkage.sensors.sigma * make_noise(run.seed, count)
    every = round(1.0 / (run.rate_hz * H))
    z, zd = np.empty_like(linkage.z), np.empty_like(linkage.zd)
    nis: list[float] = []
    failed_at = reason = last = None
    begin = time.perf_counter()
    for k in range(STEPS):
        read = None if alone or (k + 1) % every else readings[k]
        last = last if read is None else read.tolist()
        try:
            innovation = observer.step(read)
        except (RunError, np.linalg.LinAlgError) as error:
            failed_at, reason = (k + 1) * H, str(error)
            break
        if innovation is not None:
            nis.append(innovation.nis)
        z[k], zd[k] = observer.z, observer.zd
    row: dict[str, Any] = asdict(run)
    half = STEPS // 2
    for what, off in (("position", z - linkage.z), ("velocity", zd - linkage.zd)):
        row[f"{what}_rmse"] = None if failed_at else calc_rmse(off)
        row[f"{what}_rmse_second_half"] = None if failed_at else calc_rmse(off[half:])
    row["nis"] = float(np.mean(nis)) if nis and not failed_at else None
    row["repairs"] = observer.repairs
    row["us_per_step"] = 1e6 * (time.perf_counter() - begin) / (k + 1)
    row |= {"failed_at": failed_at, "reason": reason, "last_readings": last if failed_at else None}
    return row


def calc_rmse(error: np.ndarray) -> float:
    """Of (steps, f), averaged over the coordinates."""
    return float(np.sqrt(np.mean(error**2, axis=0)).mean())


def make_runs(
    mechanisms: Iterable[str],
    sensors: Iterable[str],
    rates: Iterable[int],
    levels: Iterable[str],
    filters: Iterable[str],
    seeds: Iterable[int],
    literally: bool,
) -> Iterator[Run]:
    """All combinations."""
    for choice in product(mechanisms, sensors, rates, levels, filters, seeds):
        yield Run(*choice, literal=literally)
