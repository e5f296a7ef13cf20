"""The IFToMM library of multibody benchmarks: processor time at the accuracy that it requires.

González, Dopico, Lugrís and Cuadrado, "A benchmarking system for MBS simulation software: problem standardization
and performance measurement", Multibody System Dynamics 16 (2006) 179–190; problems A01 to A05. Its measure of
error is relative, with a threshold, in the mean square over outputs and samples; 1e-3 counts as high precision.
Durations and limits on the change of energy are those of the library as IFToMM keeps it, except for A02 with 40
loops, which has the original's. The library's tables of reference motions do not come with the program: errors are
taken against `mechanism_references`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.elements import Bar, GroundBody
from vehicled.multibody.formulations import Stepper, calc_penalty, make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks import mechanism_references as references

FORMULATION, INTEGRATOR = "ali3p", "trapezoidal"
"""The least processor time on all problems. With Runge–Kutta 4 and steps up to a sample, Lagrange and penalty
were accurate enough on A01 to A04 in 1.4 to 25 times the time, and matrix R in 4 to 40 times; matrix R fails
on A02 at its singular position. A05 is too stiff for explicit rules."""
HIGH_PRECISION = 1e-3
_THRESHOLD = 1e-3
"""Threshold of the error measure, SI: if the reference is smaller, errors are relative to this. Published for
A01, A02."""
_TOLERANCE, _LIMIT = 5e-11, 300
"""Tolerance and limit of ALI3-P's iterations. A step that ends near a singular position needs many of them."""
_MOST_PARTS = 1024
"""Largest number of steps between two samples."""
_REPEATS = 3


@dataclass(frozen=True)
class Benchmark:
    """A problem of the library and its solution here."""

    name: str
    describe: Callable[[], Description]
    duration: float
    """s"""
    sample: float
    """Time between the compared samples, s."""
    outputs: tuple[str, ...]
    """Coordinates that are compared; with a dot at the end, their rates."""
    reference: Callable[[np.ndarray], np.ndarray]
    """(outputs, n) at times (n,)."""
    drift_limit: float | None = None
    """Largest permitted change of energy, J, where the library states one."""
    conservative: bool = True
    """Whether energy is constant except for the work of `drive`."""
    drive: tuple[str, str] | None = None
    """A coordinate, and the parameter that is the constant force on it."""
    penalty_factor: float = 1.0
    """Factor on ALI3-P's usual penalty."""

    def make_stepper(self, mechanism: Mechanism, h: float) -> Stepper:
        """Stepper for a step of h (s), with the penalty for this problem."""
        penalty = self.penalty_factor * calc_penalty(mechanism, h)
        return make_stepper(FORMULATION, INTEGRATOR, penalty=penalty, tolerance=_TOLERANCE, limit=_LIMIT)


def describe_n_four_bar(loops: int) -> Description:
    """A02: parallel cranks of 1 m and 1 kg, one more than loops, and couplers between their ends.

    The couplers have the same size; upright at the start, B0 at 1 m/s. If all bars lie on one line, every
    loop gains a degree of freedom.
    """
    names = range(loops + 1)
    ends = {f"crank{k}": (f"A{k}", f"B{k}") for k in names}
    ends |= {f"coupler{k}": (f"B{k}", f"B{k + 1}") for k in range(loops)}
    return Description(
        space="planar",
        gravity=(0.0, -9.81),
        ground=GroundBody(points={f"A{k}": (float(k), 0.0) for k in names}),
        points={f"B{k}": (float(k), 1.0) for k in names},
        velocities={"B0": (1.0, 0.0)},
        bodies={name: Bar(kind="bar", points=p, length=1.0, mass=1.0) for name, p in ends.items()},
        independent=["B0.x"],
    )


def _n_four_bar(
    name: str, loops: int, duration: float, sample: float, drift_limit: float | None
) -> Benchmark:
    return Benchmark(
        name,
        partial(describe_n_four_bar, loops),
        duration,
        sample,
        ("B0.x", "B0.y", "B0.x.", "B0.y."),
        partial(references.n_four_bar, loops=loops),
        drift_limit,
        # Near the singular position constraints are nearly dependent: only a large penalty meets all of them
        # within a few iterations.
        penalty_factor=1e4,
    )


BENCHMARKS: dict[str, Benchmark] = {
    "A01": Benchmark(
        "simple pendulum",
        partial(load_description, "simple_pendulum"),
        10.0,
        0.01,
        ("P.x", "P.y"),
        references.simple_pendulum,
        drift_limit=5e-5,
    ),
    "A02": _n_four_bar("2-four-bar mechanism", 2, 10.0, 0.01, drift_limit=0.1),
    "A02-40": _n_four_bar("40-four-bar mechanism", 40, 20.0, 0.05, drift_limit=None),
    "A03": Benchmark(
        "Andrews' squeezing mechanism",
        partial(load_description, "squeezer"),
        0.05,
        5e-4,
        ("F.x", "F.y"),
        references.squeezer,
        drive=("beta", "motor"),
    ),
    "A04": Benchmark(
        "Bricard's mechanism",
        partial(load_description, "bricard"),
        10.0,
        0.01,
        ("P3.x", "P3.y", "P3.z"),
        references.bricard,
        drift_limit=1e-3,
    ),
    "A05": Benchmark(
        "flyball governor",
        partial(load_description, "flyball_governor"),
        10.0,
        0.01,
        ("s",),
        references.flyball_governor,
        conservative=False,
    ),
}
"""Problems by the library's number; A02 in two sizes, the larger as in its original version."""


@dataclass(frozen=True)
class ProblemRun:
    """A simulation with one step length."""

    samples: np.ndarray
    """(outputs, n)"""
    drift: float
    """Largest change of energy less the work put in, at any sample, J."""
    cpu: float
    """Processor time, s, of the steps only."""
    converged: bool
    """Whether all steps converged; a run ends at the first that did not."""


def sample_times(benchmark: Benchmark) -> np.ndarray:
    """(n,) s, from 0."""
    return benchmark.sample * np.arange(round(benchmark.duration / benchmark.sample) + 1)


def simulate(benchmark: Benchmark, compiled: CompiledMechanism, parts: int) -> ProblemRun:
    """A run with `parts` steps from one sample to the next."""
    mechanism = Mechanism(compiled)
    h = benchmark.sample / parts
    stepper = benchmark.make_stepper(mechanism, h)
    read = _reader(benchmark, mechanism)
    samples, energies = [read()], [_calc_energy(benchmark, mechanism)]
    cpu, converged = 0.0, True
    for _ in range(round(benchmark.duration / benchmark.sample)):
        begin = time.process_time()
        for _ in range(parts):
            converged = stepper.step(mechanism, h).converged
            if not converged:
                break
        cpu += time.process_time() - begin
        if not converged:
            break
        samples.append(read())
        energies.append(_calc_energy(benchmark, mechanism))
    drift = float(np.abs(np.array(energies) - energies[0]).max())
    return ProblemRun(np.array(samples).T, drift, cpu, converged)


def _reader(benchmark: Benchmark, mechanism: Mechanism) -> Callable[[], np.ndarray]:
    places = [
        (mechanism.qd if name.endswith(".") else mechanism.q, mechanism.index(name.removesuffix(".")))
        for name in benchmark.outputs
    ]
    return lambda: np.array([array[k] for array, k in places])


def _calc_energy(benchmark: Benchmark, mechanism: Mechanism) -> float:
    """Energy, J, less the work of the drive up to a constant."""
    energy = mechanism.calc_kinetic_energy() + mechanism.calc_potential_energy()
    if benchmark.drive is not None:
        coordinate, force = benchmark.drive
        energy -= mechanism.get_parameter(force) * float(mechanism.q[mechanism.index(coordinate)])
    return energy


def calc_error(samples: np.ndarray, reference: np.ndarray) -> float:
    """The library's measure of samples (outputs, n): √ of the mean of (difference / max(|reference|, threshold))²."""
    relative = (samples - reference) / np.maximum(np.abs(reference), _THRESHOLD)
    return float(np.sqrt(np.mean(relative**2)))


def bench_mechanisms(
    progress: Callable[[float, str], None],
    numbers: Sequence[str] = tuple(BENCHMARKS),
    most_parts: int = _MOST_PARTS,
) -> dict[str, Any]:
    """The contents of `vehicled bench mechanisms --json`: each problem with the longest step that is accurate enough.

    `progress` receives the number of completed problems, and the present problem and step. `most_parts`:
    largest number of steps between two samples.
    """
    rows = []
    for done, number in enumerate(numbers):

        def trying(h: float, done: int = done, number: str = number) -> None:
            progress(done, f"{number}, step {1e3 * h:.3g} ms")

        rows.append(_bench(number, trying, most_parts))
        progress(done + 1, "")
    return {"mechanisms": rows}


def _bench(number: str, trying: Callable[[float], None], most_parts: int) -> dict[str, Any]:
    benchmark = BENCHMARKS[number]
    compiled = CompiledMechanism(benchmark.describe())
    reference = benchmark.reference(sample_times(benchmark))
    for parts in _divisions(most_parts):
        trying(benchmark.sample / parts)
        run = simulate(benchmark, compiled, parts)
        error = calc_error(run.samples, reference) if run.converged else np.inf
        if error <= HIGH_PRECISION and (benchmark.drift_limit is None or run.drift <= benchmark.drift_limit):
            again = (simulate(benchmark, compiled, parts).cpu for _ in range(_REPEATS - 1))
            met, cpu = True, min([run.cpu, *again])
            break
    else:
        met, cpu = False, run.cpu
    return {
        "number": number,
        "mechanism": benchmark.name,
        "coordinates": len(compiled.coordinates),
        "constraints": len(compiled.constraints),
        "formulation": FORMULATION,
        "integrator": INTEGRATOR,
        "duration_s": benchmark.duration,
        "step_s": benchmark.sample / parts,
        "error": error if run.converged else None,
        "error_limit": HIGH_PRECISION,
        "energy_drift_J": run.drift if benchmark.conservative else None,
        "energy_drift_limit_J": benchmark.drift_limit,
        "met": met,
        "cpu_s": cpu,
    }


def _divisions(most: int) -> Iterator[int]:
    """Numbers of parts of a sample interval, in turn: 1, 2, 3, 4, 6, 8, 12 and so on."""
    both = itertools.chain.from_iterable((2**n, 3 * 2 ** (n - 1)) for n in itertools.count(1))
    return itertools.takewhile(lambda n: n <= most, itertools.chain([1], both))
