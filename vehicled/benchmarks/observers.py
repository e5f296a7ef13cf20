"""Observers on linkages: a true mechanism, one that is modelled wrongly, and a filter on the wrong one.

Set-up and noise are those of a published toolbox (Sanjurjo et al.), so that a run of the same algorithm gives the
same figures: steps of 5 ms over 10 s, first output after the first step. The true mechanism falls from rest;
the wrong one has less gravity and starts elsewhere.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from vehicled.errors import RunError
from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Angle, load_description
from vehicled.multibody.formulations import Ali3p, make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import Model
from vehicled.observers.discrete import DiscreteEKF
from vehicled.observers.error_state import ErrorEKF, ExactErrorEKF, ForceErrorEKF
from vehicled.observers.interface import Observer, integrated_noise
from vehicled.observers.unscented import UnscentedKF
from vehicled.sensors.mechanisms import Encoder, Gyroscope, Sensor, SensorSet

H = 5e-3
"""s"""
STEPS = 2000
RATES = (200, 100, 50, 20, 10)
"""Readings per second."""
GRAVITY = -9.81
"""m/s², of the true mechanism."""
PUBLISHED_SEED = 10
"""The seed whose noise is the toolbox's own."""
_ENCODER, _GYROSCOPE = math.radians(1.0), 9.839439e-4
_START = math.radians(5.0)
"""Standard deviation of each state at the start, in SI."""


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


def add_published_angle(model: Model, name: str, angle: Angle) -> None:
    """The angle of a crank by whichever of x = L cos θ and y = L sin θ is steeper in θ.

    On the constraints it makes no difference. Off them, where a correction along the tangent leaves the mechanism, the
    Jacobian is another one, and some of the published figures show it in their first two digits.
    """
    graph = model.graph
    (x_axis, _), (crank, _) = (model.segment(s) for s in angle.between)
    assert angle.start is not None and not isinstance(angle.between[1], str)
    points = set(angle.between[1])
    (body,) = (n for n, b in model.description.bodies.items() if set(getattr(b, "points", ())) == points)
    length = model.symbols[f"{body}.length"]
    theta = model.scalar(name, angle.start).q
    model.sines[name] = (
        model.cross(x_axis.position, crank.position),
        x_axis.position.dot(crank.position),
    )
    sine, cosine = graph.sin(theta), graph.cos(theta)
    by_x, by_y = crank.position.x - length * cosine, crank.position.y - length * sine
    model.constraint(f"angle {name}", graph.where_less(graph.abs(cosine), math.sqrt(0.5), by_x, by_y))


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
def get_linkage(mechanism: str, sensors: str) -> Linkage:
    """The true motion is computed once: matrix R, trapezoidal rule."""
    case = CASES[mechanism]
    instruments = SensorSet(SENSORS[sensors](case))
    compiled = CompiledMechanism(load_description(mechanism), (instruments,), angle_form=add_published_angle)
    m, stepper = Mechanism(compiled), make_stepper("matrix_r", "trapezoidal")
    angles = m.independent.copy()
    z, zd, readings = [], [], []
    for _ in range(STEPS):
        stepper.step(m, H).require(mechanism)
        z.append(m.q[angles])
        zd.append(m.qd[angles])
        readings.append(instruments.calc_readings(m))
    return Linkage(case, compiled, instruments, np.array(z), np.array(zd), np.array(readings))


def make_wrong(linkage: Linkage, level: float) -> Mechanism:
    """The mechanism with modelling errors: `level` m/s² less gravity, every angle `level`·π/16 off at the start."""
    m = Mechanism(linkage.compiled)
    m.set_parameters({"gravity.y": GRAVITY + level})
    m.set_independent_state(m.z + level * math.pi / 16, m.zd).require("start of the wrong model")
    return m


PUBLISHED_ALI3P = Ali3p(penalty=1e9, tolerance=1e-11, large=0.0, projections=1)
"""With a penalty so low, one projection leaves a thousandth of what was wrong, which position errors show that the
sensors hardly observe."""


def _error_state(kind: type[ErrorEKF]) -> Callable[[Mechanism, Linkage], Observer]:
    def make(m: Mechanism, linkage: Linkage) -> Observer:
        f = len(linkage.case.angles)
        if kind is ForceErrorEKF:
            noise = np.zeros((3 * f, 3 * f))
            noise[2 * f :, 2 * f :] = linkage.case.force_variance * np.eye(f)
        else:
            noise = integrated_noise(linkage.case.density, H, f)
        start = _START**2 * np.eye(len(noise))
        return kind(m, linkage.sensors, H, start, noise, PUBLISHED_ALI3P, from_rest=True)

    return make


def _discrete(m: Mechanism, linkage: Linkage) -> Observer:
    noise = integrated_noise(linkage.case.density, H, len(linkage.case.angles))
    return DiscreteEKF(m, linkage.sensors, H, _START**2 * np.eye(len(noise)), noise)


def _unscented(integrator: str) -> Callable[[Mechanism, Linkage], Observer]:
    def make(m: Mechanism, linkage: Linkage) -> Observer:
        noise = integrated_noise(linkage.case.density, H, len(linkage.case.angles))
        start = _START**2 * np.eye(len(noise))
        return UnscentedKF(m, linkage.sensors, H, start, noise, integrator)

    return make


FILTERS: dict[str, Callable[[Mechanism, Linkage], Observer]] = {
    "errorEKF": _error_state(ErrorEKF),
    "errorEKF_EJ": _error_state(ExactErrorEKF),
    "errorEKF_FE": _error_state(ForceErrorEKF),
    "DEKF": _discrete,
    "UKF_TR": _unscented("trapezoidal"),
    "UKF_FE": _unscented("forward_euler"),
}


def make_noise(seed: int, sensors: int) -> np.ndarray:
    """(steps, sensors) standard normal numbers, one per sensor and step, also of steps without a reading."""
    if seed == PUBLISHED_SEED:
        drawn = np.loadtxt(Path(__file__).with_name("linkage_noise.csv"))
        return drawn[: STEPS * sensors].reshape(STEPS, sensors)
    return np.random.default_rng(seed).standard_normal((STEPS, sensors))


def run_case(mechanism: str, sensors: str, rate: int, level: float, name: str, seed: int) -> dict[str, object]:
    """One row of `vehicled bench observers --json`: filter `name` over the whole run.

    Errors are root mean squares over all steps (or those after 5 s) of each coordinate, averaged over
    coordinates; `nis` is the mean over steps with readings. A filter that breaks down leaves None for them, with the
    time and the reason.
    """
    linkage = get_linkage(mechanism, sensors)
    observer = FILTERS[name](make_wrong(linkage, level), linkage)
    readings = linkage.readings + linkage.sensors.sigma * make_noise(seed, linkage.readings.shape[1])
    every = round(1.0 / (rate * H))
    z, zd = np.empty_like(linkage.z), np.empty_like(linkage.zd)
    nis: list[float] = []
    failed_at = reason = None
    begin = time.perf_counter()
    for k in range(STEPS):
        try:
            innovation = observer.step(readings[k] if (k + 1) % every == 0 else None)
        except (RunError, np.linalg.LinAlgError) as error:
            failed_at, reason = (k + 1) * H, str(error)
            break
        if innovation is not None:
            nis.append(innovation.nis)
        z[k], zd[k] = observer.z, observer.zd
    took = time.perf_counter() - begin
    row: dict[str, object] = {
        "mechanism": mechanism,
        "sensors": sensors,
        "rate_hz": rate,
        "level": level,
        "filter": name,
        "seed": seed,
    }
    half = STEPS // 2
    errors = {
        "position_rmse": z - linkage.z,
        "velocity_rmse": zd - linkage.zd,
        "position_rmse_second_half": (z - linkage.z)[half:],
        "velocity_rmse_second_half": (zd - linkage.zd)[half:],
    }
    row |= {key: None if failed_at else calc_rmse(value) for key, value in errors.items()}
    row["nis"] = None if failed_at else float(np.mean(nis))
    row["us_per_step"] = 1e6 * took / (k + 1)
    row["failed_at"], row["reason"] = failed_at, reason
    return row


def calc_rmse(error: np.ndarray) -> float:
    """Of (steps, f), averaged over the coordinates."""
    return float(np.sqrt(np.mean(error**2, axis=0)).mean())
