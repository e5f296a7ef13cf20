"""Observers on linkages: a true mechanism, one that is modelled wrongly, and a filter on the wrong one.

Set-up and noise are those of a published toolbox (Sanjurjo et al.), so that a run of the same algorithm gives the
same figures: steps of 5 ms over 10 s, first output after the first step. The true mechanism falls from rest;
the wrong one has less gravity and starts elsewhere.

What a step costs is told beside an errorEKF of the same set-up, a stretch of which runs in turns with the filter in
the same process: on a machine that does other things too, both are slowed alike.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.errors import RunError
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import load_description
from vehicled.multibody.formulations import Ali3p, make_stepper
from vehicled.multibody.instance import MechanismState
from vehicled.multibody.joints import add_angle
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.sensors import Encoder, Gyroscope, Sensor, SensorSet
from vehicled.studies.benchmarks import literal
from vehicled.studies.benchmarks.ledger import Ledger
from vehicled.studies.observers.continuous import ContinuousEKF
from vehicled.studies.observers.dependent import PerfectMeasurementEKF, SmoothlyConstrainedKF
from vehicled.studies.observers.discrete import DiscreteEKF
from vehicled.studies.observers.error_state import (
    MEMORY,
    ErrorEKF,
    ExactErrorEKF,
    ForceErrorEKF,
    ShapedForceErrorEKF,
)
from vehicled.studies.observers.interface import Innovation, Observer
from vehicled.studies.observers.likelihood import AdaptedNoise
from vehicled.studies.observers.noise import (
    PlantNoise,
    StepNoise,
    WhiteNoise,
    calc_free_slope,
    discretise,
    make_units,
)
from vehicled.studies.observers.observability import Observability, calc_observability
from vehicled.studies.observers.unscented import UnscentedKF

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
_LOOKED_AT = 200
"""Steps over which it is judged what the sensors see."""
_TURN, _REFERENCE_TURN = 100, 20
"""Steps of the filter, and of the errorEKF that its cost is told by, in turns."""


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

    @property
    def setup(self) -> Setup:
        return Setup(self.mechanism, self.sensors, self.rate_hz, self.level)


@dataclass(frozen=True)
class Setup:
    """What filters are compared in."""

    mechanism: str
    sensors: str
    rate_hz: int
    level: str

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Setup:
        """That of a row."""
        return cls(*(row[f.name] for f in fields(cls)))

    @property
    def every(self) -> int:
        """Steps from one reading to the next."""
        return round(1.0 / (self.rate_hz * H))

    def __str__(self) -> str:
        return f"{self.mechanism}, {self.sensors}, {self.rate_hz} Hz, {self.level}"


@cache
def calc_truth(mechanism: str) -> list[MechanismState]:
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
    zdd: np.ndarray
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
    z, zd, zdd = (
        np.array([getattr(state, of)[m.independent] for state in truth]) for of in ("q", "qd", "qdd")
    )
    return Linkage(case, compiled, instruments, z, zd, zdd, np.array(readings))


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
    "UKF-TR": _unscented("trapezoidal"),
    "UKF-FE": _unscented("forward_euler"),
}
NO_FILTER = "none"
"""The wrong model on its own."""


def make_noise(seed: int, sensors: int) -> np.ndarray:
    """(steps, sensors) standard normal numbers, one per sensor and step, also of steps without a reading."""
    if seed == PUBLISHED_SEED:
        drawn = np.loadtxt(Path(__file__).with_name("linkage_noise.csv"))
        return drawn[: STEPS * sensors].reshape(STEPS, sensors)
    return np.random.default_rng(seed).standard_normal((STEPS, sensors))


@dataclass(frozen=True)
class Sight:
    """What the sensors of a set-up see of the wrong model's state in its first second."""

    exact: Observability
    """By the exact dynamics."""
    free_masses: Observability
    """By filters that let errors spread as those of free masses."""


@cache
def calc_sight(setup: Setup) -> Sight:
    """Raises RunError where the wrong model cannot be followed."""
    linkage = get_linkage(setup.mechanism, setup.sensors, False)
    start = _START**2 * np.eye(2 * len(linkage.case.angles))

    def look(free_masses: bool) -> Observability:
        wrong = make_wrong(linkage, LEVELS[setup.level])
        return calc_observability(
            wrong, linkage.sensors, H, start, _LOOKED_AT, setup.every, free_masses=free_masses
        )

    return Sight(look(False), look(True))


@dataclass
class _Timed:
    """An observer, and the processor time of its steps, by turns."""

    observer: Observer
    turns: list[list[tuple[bool, int]]] = field(default_factory=list)
    """Of each step whether it had readings, and ns."""

    def step(self, readings: np.ndarray | None) -> Innovation | None:
        begin = time.process_time_ns()
        try:
            return self.observer.step(readings)
        finally:
            self.turns[-1].append((readings is not None, time.process_time_ns() - begin))

    def calc_us_per_step(self) -> float:
        return _calc_us(list(chain.from_iterable(self.turns)))

    def calc_cost(self, reference: _Timed) -> float:
        """Over that of the reference: the median of what it is in each turn, which both had close in time."""
        pairs = zip(self.turns, reference.turns, strict=True)
        return float(np.median([_calc_us(own) / _calc_us(other) for own, other in pairs]))


def _calc_us(steps: Sequence[tuple[bool, int]]) -> float:
    """Mean, µs, of steps with and without readings that take their median: what disturbs some of them does not
    count, and how many there are of each kind does."""
    kinds = [[ns for had, ns in steps if had is kind] for kind in (True, False)]
    known = [ns for ns in kinds if ns]
    return 1e-3 * float(np.average([np.median(ns) for ns in known], weights=[len(ns) for ns in known]))


@dataclass(frozen=True)
class Trace:
    """What a filter did in a run, up to where it broke down."""

    position: np.ndarray
    """(n, f) errors of z after each step."""
    velocity: np.ndarray
    acceleration: np.ndarray
    deviation: np.ndarray
    """(n, f) standard deviations that the filter gave its z."""
    innovations: dict[int, Innovation]
    """By the number of the step, from 0."""
    us_per_step: float
    cost: float
    """Over that of an errorEKF of the same set-up."""
    repairs: int
    failed_at: float | None
    """s"""
    reason: str | None
    last_readings: list[float] | None
    """Before it broke down."""


def run_filter(run: Run) -> Trace:
    """The three simulations of a run: the truth, the wrong model, the observer on it."""
    linkage = get_linkage(run.mechanism, run.sensors, run.literal)
    alone = run.filter == NO_FILTER
    readings = linkage.readings + linkage.sensors.sigma * make_noise(run.seed, linkage.readings.shape[1])

    def make(name: str) -> _Timed:
        return _Timed(FILTERS[name](make_wrong(linkage, LEVELS[run.level]), linkage, run.literal))

    def get_readings(k: int) -> np.ndarray | None:
        return None if (k + 1) % run.setup.every else readings[k]

    def time_reference(turn: int) -> None:
        try:
            for k in range(turn * _REFERENCE_TURN, (turn + 1) * _REFERENCE_TURN):
                reference.step(get_readings(k))
        except (RunError, np.linalg.LinAlgError):
            pass  # what it cost until then stands

    timed, reference = make("errorEKF" if alone else run.filter), make("errorEKF")
    observer = timed.observer
    states: list[tuple[np.ndarray, ...]] = []
    innovations: dict[int, Innovation] = {}
    failed_at = reason = last = None
    for k in range(STEPS):
        if k % _TURN == 0:
            timed.turns.append([])
            reference.turns.append([])
            time_reference(k // _TURN)
        read = None if alone else get_readings(k)
        last = last if read is None else read.tolist()
        try:
            innovation = timed.step(read)
        except (RunError, np.linalg.LinAlgError) as error:
            failed_at, reason = (k + 1) * H, str(error)
            break
        if innovation is not None:
            innovations[k] = innovation
        states.append((observer.z, observer.zd, observer.zdd, observer.z_deviation))
    shape = (len(states), len(linkage.case.angles))
    z, zd, zdd, deviation = (np.array([s[i] for s in states]).reshape(shape) for i in range(4))
    return Trace(
        position=z - linkage.z[: len(z)],
        velocity=zd - linkage.zd[: len(z)],
        acceleration=zdd - linkage.zdd[: len(z)],
        deviation=deviation,
        innovations=innovations,
        us_per_step=timed.calc_us_per_step(),
        cost=timed.calc_cost(reference),
        repairs=observer.repairs,
        failed_at=failed_at,
        reason=reason,
        last_readings=last if failed_at else None,
    )


MOTIONS = ("position", "velocity", "acceleration")
"""Of which there are errors."""


@cache
def calc_wrong_rmse(mechanism: str, level: str) -> dict[str, float]:
    """Of the wrong model alone, by `MOTIONS`."""
    trace = run_filter(Run(mechanism, "encoders", RATES[-1], level, NO_FILTER, PUBLISHED_SEED))
    return {what: calc_rmse(getattr(trace, what)) for what in MOTIONS}


def run_case(run: Run) -> dict[str, Any]:
    """One row: the run, what its sensors see, errors against the truth, consistency and cost.

    Errors are root mean squares over all steps, or those after 5 s, of each coordinate, averaged over
    coordinates (rad, rad/s, rad/s²); `…_relative` are over those of the wrong model alone. `nis` is the mean over
    steps with readings. Of a filter that breaks down they are None, with the time (s), the reason and what had been
    read last. `cost`: over that of an errorEKF of the same set-up. `readings`: how many at a time, which is what the
    nis of a consistent filter is in the mean. `rank` of the `states` by the exact dynamics, `rank_free_masses` by
    filters that take errors for those of free masses.
    """
    sight, trace = calc_sight(run.setup), run_filter(run)
    failed = trace.failed_at is not None
    row: dict[str, Any] = asdict(run)
    wrong = calc_wrong_rmse(run.mechanism, run.level)
    for what in MOTIONS:
        off = getattr(trace, what)
        rmse = None if failed else calc_rmse(off)
        row[f"{what}_rmse"] = rmse
        row[f"{what}_rmse_second_half"] = None if failed else calc_rmse(off[STEPS // 2 :])
        row[f"{what}_relative"] = None if rmse is None else rmse / wrong[what]
    nis = [innovation.nis for innovation in trace.innovations.values()]
    row["nis"] = float(np.mean(nis)) if nis and not failed else None
    row |= {name: getattr(trace, name) for name in ("us_per_step", "cost", "repairs")}
    row |= {name: getattr(trace, name) for name in ("failed_at", "reason", "last_readings")}
    row |= {
        "readings": get_linkage(run.mechanism, run.sensors, run.literal).readings.shape[1],
        "observable": sight.exact.complete,
        "rank": sight.exact.rank,
        "rank_free_masses": sight.free_masses.rank,
        "states": len(sight.exact.values),
        "unseen": sight.exact.unseen,
    }
    return row


def get_run(row: Mapping[str, Any]) -> Run:
    """Of which this is the row. Raises KeyError for a row of something else."""
    return Run(**{f.name: row[f.name] for f in fields(Run)})


def bench_observers(
    runs: Iterable[Run], workers: int, ledger: Ledger[Run], progress: Callable[[float], None]
) -> list[dict[str, Any]]:
    """`vehicled bench observers --json`: a row for each run, in their order, from the ledger or made now. `progress`
    is told how many have been made. Raises RunError when a process is killed from outside."""
    ordered = list(runs)
    missing = ledger.missing(ordered)
    # Processes that share nothing: a fork would copy the threads of the numerical libraries in any state.
    with ProcessPoolExecutor(workers, get_context("spawn"), initializer=_end_silently) as pool:
        jobs = {pool.submit(run_case, run): run for run in missing}
        try:
            for n, job in enumerate(as_completed(jobs), 1):
                ledger.enter(job.result())
                progress(n)
        except BrokenProcessPool:
            raise RunError("a process of the benchmark was killed; is there enough memory?") from None
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [ledger[run] for run in ordered]


def _end_silently() -> None:
    """Ctrl-C reaches all processes of a terminal; only the first one is to say something."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


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
