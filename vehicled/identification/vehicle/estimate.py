"""Most probable parameters of a car from drives, their deviations, and those that the drives do not determine.

Gauss–Newton on the prediction error (`prediction_error.py`) plus the priors of the parameters, damped after
Levenberg and Marquardt if a step does not improve. Parameters that the drives determine less accurately than
their priors keep their values; they are taken out one after the other, the least determined first. If a
parameter is undetermined only in combination with others, the combination is named.

Innovations of an imperfect model are correlated in time and carry less information than the same number of
independent ones. The ratio of the two is estimated from the scatter of the gradients over the drive, which
would equal the information if innovations were independent; the criterion is divided by this ratio before the
priors are added (a composite likelihood, adjusted: Varin, Reid and Firth 2011). Standard deviations are those
of the remaining information, or those of the scatter of each parameter itself (White 1982, "sandwich"),
whichever is larger.

With too much plant noise the filter corrects its state where a parameter should change; the parameters then
compensate for too large covariances, with errors above their standard deviations. So one factor of the plant
noise is estimated as well, by maximum likelihood. The gain of the torque sensors, which scales all forces of
the car, is a consider parameter: it is not estimated, but its uncertainty is added to that of the others
(Schmidt 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from vehicled.configuration import Configuration, File, configure
from vehicled.errors import RunError
from vehicled.identification.vehicle.names import Parameter, apply
from vehicled.identification.vehicle.noise import scale_plant
from vehicled.identification.vehicle.observed import Change
from vehicled.identification.vehicle.passes import Passes
from vehicled.identification.vehicle.prediction_error import (
    Derivatives,
    PredictionError,
    ScoredDrive,
    differentiate,
    measure,
)
from vehicled.jobs.interface import SharingExecutor
from vehicled.reading.number_faults import find_fault

_KNOWN = 0.5
"""A parameter counts as identified when its standard deviation is below this share of its prior's."""
SETTLED = 0.1
"""Least expected decrease of the criterion, a negative log likelihood, for which there is another pass."""
_LARGEST_STEP = 0.3
"""Largest step of a logarithm; at least three standard deviations of the prior."""
_STEPS = 10
_STEPS_BEFORE = 2
"""Steps with the plant noise of the configuration, before its factor is estimated."""
_NOISE_RATIO = 10**0.5
_NOISE_RANGE = (0.009, 11.0)
"""Ratio of successive factors of the plant noise, and their range. Plant noise includes noise of the model's
inputs."""
_REJECTED = 2
"""Consecutive steps without improvement after which the best result is taken: observations that pass the gate at
one step and not at the next make the criterion irregular."""
_MEMORY = 2
"""Number of blocks of gradients that are added up before their scatter is calculated, for the redundancy."""
_STRETCHES = (1, 2, 4, 8)
"""Numbers of blocks of gradients that are added up before their scatter is calculated, for the standard deviations:
innovations may be correlated over that time."""


@dataclass(frozen=True)
class ParameterCombination:
    """A combination of changes of parameters that the drives do not determine."""

    weights: dict[str, float]
    """Weights of the parameters, each in units of its prior's standard deviation; the largest is 1."""

    def __str__(self) -> str:
        parts = [f"{w:+.2g}·{name}" for name, w in self.weights.items()]
        return " ".join(parts).lstrip("+")


@dataclass
class FoundParameter:
    """The result for one parameter."""

    parameter: Parameter
    prior: float
    value: float
    sigma: float
    """1 σ in its unit; that of the prior if it is not identified."""
    identified: bool
    reason: str = ""
    """Why it is not identified."""


@dataclass
class FitResult:
    """The result of a fit."""

    found: list[FoundParameter]
    combinations: list[ParameterCombination]
    file: File
    """The configuration with the new values."""
    plant_noise: float
    """Plant noise of the fit over that of the configuration (ratio of standard deviations)."""
    passes: int
    redundancy: float
    """Number of innovations that carry the information of one independent innovation."""


Drives = Sequence[ScoredDrive]
Progress = Callable[[int, float, float], None]
"""Receives the number of the pass, the seconds done of it, and the best criterion so far."""


class Search:
    """The state of a search."""

    def __init__(
        self,
        file: File,
        text: str,
        parameters: Sequence[Parameter],
        considered: Sequence[Parameter],
        drives: Drives,
        progress: Progress,
        executor: SharingExecutor | None,
    ) -> None:
        self.file, self.text, self.parameters = file, text, list(parameters)
        # A parameter to be estimated is considered only when the drives do not determine it.
        self._may_be_considered = {p.name: p for p in considered}
        asked = {p.name for p in parameters}
        self.considered = [p for p in considered if p.name not in asked]
        self._drives, self._progress = Passes(drives, executor), progress
        self.sigma = np.array([p.sigma for p in parameters])
        self.theta = np.zeros(len(parameters))
        self.passes = 0
        self.best = np.inf
        self.redundancy = 1.0
        """As in `FitResult`."""
        self.plant_noise = 1.0
        """Ratio to the plant noise of the configuration."""

    def configuration(self, theta: np.ndarray, plant_noise: float) -> Configuration:
        """Configuration with these values. Raises RunError if they describe an impossible car."""
        file = apply(self.file, [*self.parameters, *self.considered], theta)
        if fault := find_fault(file.vehicle, "vehicle"):
            raise RunError(fault)
        return configure(scale_plant(file, plant_noise), self.text)

    def evaluate(self, theta: np.ndarray, free: np.ndarray) -> tuple[PredictionError, Derivatives]:
        """Prediction error on all drives, with derivatives by the free, then by the considered parameters."""
        changes, full = [], np.append(theta, np.zeros(len(self.considered)))
        varied = [*np.flatnonzero(free), *range(len(theta), len(full))]
        for k in varied:
            step = [*self.parameters, *self.considered][k].step
            moved = full.copy()
            moved[k] += step
            changes.append(Change(self.configuration(moved, self.plant_noise), step))
        self.passes += 1
        configuration = self.configuration(full, self.plant_noise)
        parts = self._drives.run(partial(differentiate, configuration, changes), self._report)
        error, derivatives = parts[0]
        for other, more in parts[1:]:
            error, derivatives = error + other, derivatives + more
        return error, derivatives

    def find_noise(self, criterion: float, *ratios: float) -> float | None:
        """Multiply the plant noise by the first of several ratios that decreases the criterion.

        Repeated while the criterion decreases. Returns that ratio, or None.
        """
        for ratio in ratios:
            before = self.plant_noise
            while _NOISE_RANGE[0] <= self.plant_noise * ratio <= _NOISE_RANGE[1]:
                other = self.measure(self.theta, self.plant_noise * ratio)
                if other is None or other.criterion >= criterion:
                    break
                self.plant_noise, criterion = self.plant_noise * ratio, other.criterion
            if self.plant_noise != before:
                return ratio
        return None

    def raise_noise(self) -> None:
        """Raise the plant noise until the filter follows the car with the parameters of the configuration.

        A filter that rejects most measurements, as on drives at the limit of grip, shows nothing of the parameters.
        """
        error = self.measure(self.theta, self.plant_noise)
        while error is None and self.plant_noise * _NOISE_RATIO <= _NOISE_RANGE[1]:  # the filter diverges
            self.plant_noise *= _NOISE_RATIO
            error = self.measure(self.theta, self.plant_noise)
        if error is not None:
            self.find_noise(error.criterion, _NOISE_RATIO)

    def measure(self, theta: np.ndarray, plant_noise: float = 1.0) -> PredictionError | None:
        """Prediction error on all drives, without derivatives; None if the filter diverges."""
        configuration = self.configuration(np.append(theta, np.zeros(len(self.considered))), plant_noise)
        try:
            first, *others = self._drives.run(partial(measure, configuration), self._report)
        except RunError:
            return None
        return sum(others, first)

    def _report(self, seconds: float) -> None:
        self._progress(self.passes, seconds, self.best)

    def consider(self, name: str) -> None:
        """Treat a parameter that is not estimated as a consider parameter from now on, if possible."""
        if name in self._may_be_considered:
            self.considered.append(self._may_be_considered[name])

    def find_redundancy(self, derivatives: Derivatives) -> float:
        """Redundancy from the scatter of the gradients, at least 1."""
        derivatives = self.of_free(derivatives)
        count = len(derivatives.blocks) // _MEMORY
        if count < 4:
            return 1.0
        scores = derivatives.blocks[: count * _MEMORY].reshape(count, _MEMORY, -1).sum(axis=1)
        scatter = np.cov(scores.T, ddof=1).reshape(scores.shape[1], -1) * count
        # Without information there is no scatter either.
        known = np.diag(derivatives.information)
        information = derivatives.information + 1e-9 * np.diag(known + 1.0)
        informed = max(int(np.count_nonzero(known > 1e-6)), 1)
        return max(1.0, float(np.trace(np.linalg.solve(information, scatter))) / informed)

    def of_free(self, derivatives: Derivatives) -> Derivatives:
        """Derivatives without those by considered parameters."""
        return derivatives.of(range(len(derivatives.gradient) - len(self.considered)))

    def cost(self, theta: np.ndarray, error: PredictionError) -> float:
        """Negative logarithm of the posterior: the criterion over its redundancy, and the priors of (p,) theta."""
        return error.criterion / self.redundancy + 0.5 * float(np.sum((theta / self.sigma) ** 2))


def fit(
    file: File,
    text: str,
    parameters: Sequence[Parameter],
    drives: Drives,
    progress: Progress,
    considered: Sequence[Parameter] = (),
    executor: SharingExecutor | None = None,
) -> FitResult:
    """Estimate parameters of a configuration (with its defaults written out) from drives, on an executor if given.

    The plant noise is that of maximum likelihood. Raises RunError if the filter does not start on one of the
    drives.
    """
    f = Search(file, text, parameters, considered, drives, progress, executor)
    free = np.ones(len(parameters), bool)
    reasons: dict[str, str] = {}
    combinations: list[ParameterCombination] = []
    f.raise_noise()
    error, derivatives = f.evaluate(f.theta, free)
    f.redundancy = f.find_redundancy(derivatives)
    ratios: tuple[float, ...] = 1.0 / _NOISE_RATIO, _NOISE_RATIO
    steps = _STEPS_BEFORE
    while ratios:
        # Errors of the model can be distinguished from those of its parameters only when the parameters are about
        # right: hence a second pass.
        error, derivatives = _descend(f, error, derivatives, free, steps)
        ratio = f.find_noise(error.criterion, *ratios)
        if ratio is not None:
            error, derivatives = f.evaluate(f.theta, free)
            f.redundancy = f.find_redundancy(derivatives)
        ratios, steps = () if ratio is None else (ratio,), _STEPS
    while True:
        # Poorly determined parameters are held by their priors and do no harm in the meantime.
        error, derivatives = _descend(f, error, derivatives, free, _STEPS)
        count = int(free.sum())
        for name in leave_unknown(f, derivatives, free, reasons, combinations):
            f.consider(name)
        f.theta[~free] = 0.0
        if int(free.sum()) == count or not free.any():
            break
        # Restart with the undetermined parameters at their priors.
        try:
            error, derivatives = f.evaluate(f.theta, free)
        except RunError:  # the filter diverges at this combination
            f.theta[:] = 0.0
            error, derivatives = f.evaluate(f.theta, free)
        f.redundancy = f.find_redundancy(derivatives)
    return make_result(f, derivatives, free, reasons, combinations)


def make_result(
    f: Search,
    derivatives: Derivatives,
    free: np.ndarray,
    reasons: Mapping[str, str],
    combinations: list[ParameterCombination],
) -> FitResult:
    """The result of a search; the derivatives are by the free parameters."""
    covariance = np.zeros((0, 0))
    if free.any():
        own, passed_on = _covariance(f, derivatives, f.sigma[free])
        covariance = own + passed_on
    after_file = apply(f.file, f.parameters, f.theta)
    found, place = [], 0
    for k, p in enumerate(f.parameters):
        prior, value = p.get(f.file), p.get(after_file)
        assert prior is not None
        assert value is not None
        sigma = p.sigma
        if free[k]:
            sigma = float(np.sqrt(covariance[place, place]))
            place += 1
        found.append(
            FoundParameter(
                p, prior, value, p.calc_deviation(value, sigma), bool(free[k]), reasons.get(p.name, "")
            )
        )
    return FitResult(found, combinations, after_file, f.plant_noise, f.passes, f.redundancy)


def _descend(
    f: Search, error: PredictionError, derivatives: Derivatives, free: np.ndarray, steps: int
) -> tuple[PredictionError, Derivatives]:
    """At most `steps` steps of the free parameters, until the expected decrease is small."""
    f.best, damping = f.cost(f.theta, error), 0.0
    prior = 1.0 / f.sigma[free] ** 2
    largest = np.maximum(_LARGEST_STEP, 3.0 * f.sigma[free])
    for p, n in zip(f.parameters, range(len(free)), strict=True):
        if not p.positive and free[n]:
            largest[int(free[:n].sum())] = 3.0 * p.sigma
    rejected = 0
    for _ in range(steps):
        own = f.of_free(derivatives)
        matrix = own.information / f.redundancy + np.diag(prior)
        gradient = own.gradient / f.redundancy + f.theta[free] * prior
        step = -np.linalg.solve(matrix + damping * np.diag(np.diag(matrix)), gradient)
        if -0.5 * gradient @ step < SETTLED / (1.0 + damping):
            break
        step *= min(1.0, float((largest / np.maximum(np.abs(step), 1e-300)).min()))
        trial = f.theta.copy()
        trial[free] += step
        try:
            new_error, new_derivatives = f.evaluate(trial, free)
        except RunError:  # the filter diverges
            better = False
        else:
            better = f.cost(trial, new_error) < f.best
        if better:
            f.theta, error, derivatives = trial, new_error, new_derivatives
            # The better the fit, the less the innovations are correlated in time.
            f.redundancy = min(f.redundancy, f.find_redundancy(derivatives))
            f.best = f.cost(f.theta, error)
            damping, rejected = 0.1 * damping, 0
        else:
            damping, rejected = max(10.0 * damping, 1.0), rejected + 1
            if rejected == _REJECTED:
                break
    return error, derivatives


def leave_unknown(
    f: Search,
    derivatives: Derivatives,
    free: np.ndarray,
    reasons: dict[str, str],
    combinations: list[ParameterCombination],
) -> list[str]:
    """Leave free parameters at their priors until the drives determine the others better than their priors.

    The derivatives are by the free parameters. Returns the names of those that are left.
    """
    left = []
    of_free = np.flatnonzero(free)
    kept = list(range(len(of_free)))
    considered = range(len(of_free), len(of_free) + len(f.considered))
    while kept:
        places = of_free[kept]
        d, sigma = derivatives.of([*kept, *considered]), f.sigma[places]
        own, passed_on = _covariance(f, d, sigma)
        ratio = np.sqrt(np.diag(own + passed_on)) / sigma
        worst = int(np.argmax(ratio))
        if ratio[worst] <= _KNOWN:
            break
        # In units of the priors' standard deviations.
        matrix = f.of_free(d).information / f.redundancy * np.outer(sigma, sigma) + np.eye(len(kept))
        together = np.linalg.inv(matrix)[:, worst]
        name = f.parameters[places[worst]].name
        if 1.0 / np.sqrt(matrix[worst, worst]) > _KNOWN:
            reasons[name] = "the drives determine it less well than its prior"
        elif np.sqrt(together[worst]) > _KNOWN:
            combination = _combine(together, [f.parameters[k].name for k in places])
            combinations.append(combination)
            others = [n for n in combination.weights if n != name]
            reasons[name] = f"known only together with {', '.join(others)}" if others else "hardly known"
        elif np.sqrt(own[worst, worst]) / sigma[worst] > _KNOWN:
            reasons[name] = "parts of the drives give different values"
        else:
            reasons[name] = f"known no better than {', '.join(p.name for p in f.considered)}"
        left.append(name)
        free[places[worst]] = False
        kept.pop(worst)
    return left


def _combine(direction: np.ndarray, names: list[str]) -> ParameterCombination:
    """The change of an undetermined parameter with the accompanying changes of the others."""
    weights = direction / direction[np.argmax(np.abs(direction))]
    return ParameterCombination({n: float(w) for n, w in zip(names, weights, strict=True) if abs(w) > 0.2})


def _covariance(f: Search, derivatives: Derivatives, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Covariances of the estimated parameters, with priors of `sigma`: own, and due to considered ones."""
    prior, m = np.diag(1.0 / sigma**2), len(sigma)
    d = f.of_free(derivatives)
    expected = np.linalg.inv(d.information / f.redundancy + prior)
    response = expected @ derivatives.information[:m, m:] / f.redundancy
    passed_on = response @ np.diag([p.sigma**2 for p in f.considered]) @ response.T
    larger = np.diag(expected)
    for n in _STRETCHES:
        count = len(d.blocks) // n
        free = count - len(sigma)
        if free < 3:
            break
        scores = d.blocks[: count * n].reshape(count, n, -1).sum(axis=1)
        scores -= scores.mean(axis=0)
        # Each fitted parameter reduces the scatter (MacKinnon and White 1985).
        scatter = scores.T @ scores * (count / free) / f.redundancy**2
        larger = np.maximum(larger, np.diag(expected @ (scatter + prior) @ expected))
    scale = np.sqrt(larger / np.diag(expected))
    return expected * np.outer(scale, scale), passed_on
