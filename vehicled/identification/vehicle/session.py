"""Common part of identification and tuning: from logs to a fit, its validation, and a new configuration.

Parameters must hold on other drives: if a drive that was not used is predicted worse with them, the parameter
that contributes most to this keeps its prior value, and the others are estimated again. Usually this is
friction: its value from a slow lap does not hold on a fast one.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from vehicled.configuration import Configuration, File, configure
from vehicled.errors import RunError, UsageError
from vehicled.identification.vehicle.adapted import DriveMotion, find_start, find_unexcited, observe
from vehicled.identification.vehicle.estimate import FitResult, FoundParameter, ParameterCombination, fit
from vehicled.identification.vehicle.estimate import Progress as FitProgress
from vehicled.identification.vehicle.filter_form import calc_filter_form
from vehicled.identification.vehicle.names import PARAMETERS, USUAL, Parameter, choose, with_defaults
from vehicled.identification.vehicle.noise import NOISE, OF_SENSORS
from vehicled.identification.vehicle.passes import Passes
from vehicled.identification.vehicle.plausibility import Channels, find_faults
from vehicled.identification.vehicle.prediction_error import (
    AT_LIMIT,
    PredictionError,
    ScoredDrive,
    Survey,
    measure,
    survey,
)
from vehicled.identification.vehicle.recorded_inputs import (
    interpolate_inputs,
    with_smoothing,
    without_smoothing,
)
from vehicled.identification.vehicle.tuning import describe_bounds, tune
from vehicled.identification.vehicle.yaml_text import edit, find_edits
from vehicled.jobs.interface import SharingExecutor
from vehicled.messages import Step
from vehicled.reading import settings
from vehicled.terminal.progress import Progress

HELD_OUT = 1 / 3
"""Share of the last log that is kept for validation if no other log is given."""
_LIMIT = 0.8
"""Share of the file's friction from which on a car corners at the limit of grip."""
_NOT_VALIDATED = "its estimate does not hold on the drive that was not used"


@dataclass(frozen=True)
class Recording:
    """A drive that was read from a log."""

    name: str
    steps: Sequence[Step]
    """Steps at the car's own rate."""


@dataclass(frozen=True)
class Session:
    """The results of a session."""

    estimate: FitResult
    validation_before: PredictionError
    validation_after: PredictionError
    validation: str
    """Name of the drive for validation."""
    choices: int
    """Number of parameters left at their priors because of the validation: above 0, it used the drive for a
    choice."""
    held_out: ScoredDrive
    before: Configuration
    after: Configuration
    text: str
    """Text of the new configuration."""
    notes: list[str]


def run(
    logs: Sequence[Recording],
    config: str,
    names: str | None,
    tuning: bool,
    validate: Recording | None,
    anyway: bool,
    quiet: bool,
    executor: SharingExecutor | None = None,
) -> Session:
    """Fit parameters of a configuration to logs, or its noise if `tuning`; in parallel on an executor if given.

    `names`: of the parameters, between commas; None: those that drives usually show. Raises UsageError for wrong
    names and unsuitable logs, RunError on failure.
    """
    path = settings.config_path(config)
    text = settings.read(path)
    given = settings.loads(text, File, str(path), path.parent)
    in_form, notes = calc_filter_form(given, tuning)
    file = with_defaults(in_form)
    parameters = choose(names or USUAL, file, NOISE if tuning else PARAMETERS)
    configuration = configure(file, text)
    every = [*logs, *([] if validate is None else [validate])]
    for log in every:
        faults = list(find_faults(Channels(log.steps), file, parameters))
        if faults and not anyway:
            raise UsageError(f"{log.name}: {'; '.join(faults)} (--anyway uses the log nevertheless)")
    unscored = [ScoredDrive(log.steps, frozenset()) for log in every]
    motions: list[DriveMotion] = []
    with Progress("finding motion", sum(d.length for d in unscored), "s", quiet) as progress:
        passes = Passes(unscored, executor)
        if tuning:
            motions = passes.run(partial(observe, _as_it_runs(given, file, text)), progress.update)
            counting = [motion.counting for motion in motions]
        else:
            surveys: list[Survey] = passes.run(partial(survey, configuration), progress.update)
            counting = [found.counting for found in surveys]
            if names is None and (friction := _find_friction(file, max(s.cornering for s in surveys))):
                parameters = choose(f"{USUAL},*.friction", file)
                notes = [*notes, friction]
    drives = [ScoredDrive(log.steps, c) for log, c in zip(every, counting, strict=True)]
    if validate is None:
        held_out, name = drives[-1].after(1 - HELD_OUT), f"the last third of {logs[-1].name}"
        drives[-1] = drives[-1].before(1 - HELD_OUT)
    else:
        held_out, name = drives.pop(), validate.name
    for log, drive in zip(logs, drives, strict=True):
        if not drive.counting:
            raise UsageError(
                f"{log.name}: the car never moves in what may be used of it, or its filter never starts"
            )
    if not held_out.counting:
        raise UsageError(
            f"{name}: the car never moves in it, expected a drive to compare on (--validate LOG)"
        )
    total = sum(d.length for d in drives)
    fits = 0
    with Progress("fitting", total, "s", quiet, passes=True) as progress:

        def report(number: int, seconds: float, best: float) -> None:
            known_yet = f", criterion {best:.6g}" if math.isfinite(best) else ""
            again = f"fit {fits}, " if fits > 1 else ""
            progress.update(seconds, f"{again}pass {number}{known_yet}")

        def find(some: Sequence[Parameter]) -> FitResult:
            nonlocal fits
            fits += 1
            return identify(file, text, some, drives, report, executor)

        # With inputs and noise as in the car, which may differ from those of the fit.
        def validate_on(found: File) -> PredictionError | None:
            try:
                return measure(configure(found, text), held_out)
            except RunError:
                if found is file:
                    raise
                return None  # the filter diverges

        if tuning:
            shown = [motion.within(drive) for motion, drive in zip(motions, drives, strict=False)]
            start = find_start(parameters, file, drives, shown)
            unexcited = find_unexcited(parameters, shown)
            found = tune(file, text, parameters, drives, report, start, unexcited, executor)
            estimate, before, after, choices = keep_validated(file, found, validate_on)
            notes = [*notes, *describe_bounds(estimate.found)]
        else:
            estimate, before, after, choices = find_validated(file, parameters, find, validate_on)
        progress.update(total, f"{estimate.passes} passes")
    if any(f.identified for f in estimate.found):
        notes = [*notes, *after.describe_rejected()]
    new_text = write(text, file, estimate.file)
    old, new = configure(file, text), configure(estimate.file, text)
    return Session(estimate, before, after, name, choices, held_out, old, new, new_text, notes)


def _find_friction(file: File, cornering: float) -> str | None:
    """Why friction is found as well: wrong friction would be taken for softer tyres; None below the limit of grip."""
    limit = _LIMIT * max(p.get(file) or 0.0 for p in choose("*.friction", file)) * file.vehicle.gravity
    if cornering < limit:
        return None
    return (
        f"friction is found as well: speed times yaw rate exceeds {cornering:.3g} m/s² for {AT_LIMIT:g} s, and the "
        f"limit of grip begins at {limit:.3g} by the file (--parameters chooses)"
    )


def _as_it_runs(given: File, form: File, text: str) -> Configuration:
    """The configuration with gates and adaptation as in the car, and the kind of filter that is tuned."""
    of_filter = dataclasses.replace(given.filter, kind=form.filter.kind, suspension=form.filter.suspension)
    return configure(dataclasses.replace(given, filter=of_filter), text)


def write(text: str, file: File, found: File) -> str:
    """The text of `file`, which has its defaults written out, with the numbers that differ in `found`."""
    new_text = edit(text, list(find_edits(file, found)))
    # Defaults of a handbook depend on its other numbers: they must also get the values of the fit.
    loaded = with_defaults(settings.loads(new_text, File, "the configuration that was found"))
    return edit(new_text, list(find_edits(loaded.vehicle, found.vehicle, ("vehicle",))))


def find_validated(
    file: File,
    parameters: Sequence[Parameter],
    find: Callable[[Sequence[Parameter]], FitResult],
    validate: Callable[[File], PredictionError | None],
) -> tuple[FitResult, PredictionError, PredictionError, int]:
    """An estimate that predicts the held-out drive better than before.

    Returned with the prediction errors before and after, and the number of parameters left at their priors
    for this.
    """
    before = validate(file)
    assert before is not None
    estimate = find(parameters)
    left: dict[str, FoundParameter] = {}
    combinations: list[ParameterCombination] = []
    passes, choices = estimate.passes, 0
    while True:
        left |= {f.parameter.name: f for f in estimate.found}
        combinations += [c for c in estimate.combinations if c not in combinations]
        free = [f for f in estimate.found if f.identified]
        after = validate(estimate.file) if free else before
        if not free or (after is not None and after.mean < before.mean):
            break
        without = [validate(f.parameter.set(estimate.file, f.prior)) for f in free]
        # If the filter diverges whichever parameter is left, leave the one that changed most.
        changes = [
            abs(f.value - f.prior) / f.parameter.calc_deviation(f.prior, f.parameter.sigma) for f in free
        ]
        order = [(np.inf if e is None else e.mean, -c) for e, c in zip(without, changes, strict=True)]
        worst = free.pop(order.index(min(order)))
        combinations = [c for c in combinations if worst.parameter.name not in c.weights]
        left[worst.parameter.name] = _leave(worst)
        choices += 1
        if free:
            estimate = find([f.parameter for f in free])
            passes += estimate.passes
        else:
            estimate = dataclasses.replace(estimate, found=[], file=file)
    assert after is not None
    found = [left[p.name] for p in parameters]
    whole = dataclasses.replace(estimate, found=found, combinations=combinations, passes=passes)
    return whole, before, after, choices


def keep_validated(
    file: File, estimate: FitResult, validate: Callable[[File], PredictionError | None]
) -> tuple[FitResult, PredictionError, PredictionError, int]:
    """The tuned noise that holds on the held-out drive: all of it, that of the sensors alone, or nothing.

    Returned with the prediction errors before and after, and the number of parameters left at their priors
    for this. Noise of the model depends on how the car was driven, noise of its sensors does not.
    """
    before = validate(file)
    assert before is not None
    identified = {f.parameter.name for f in estimate.found if f.identified}
    for kept in dict.fromkeys((frozenset(identified), OF_SENSORS & identified)):
        tried = file
        for f in estimate.found:
            if f.parameter.name in kept:
                tried = f.parameter.set(tried, f.value)
        after = validate(tried) if kept else None
        if after is not None and after.is_better_than(before):
            break
    else:
        kept, tried, after = frozenset(), file, before
    left = identified - kept
    found = [_leave(f) if f.parameter.name in left else f for f in estimate.found]
    combinations = [c for c in estimate.combinations if left.isdisjoint(c.weights)]
    whole = dataclasses.replace(estimate, found=found, combinations=combinations, file=tried)
    return whole, before, after, len(left)


def _leave(f: FoundParameter) -> FoundParameter:
    """A parameter that keeps its prior because of the validation."""
    sigma = f.parameter.calc_deviation(f.prior, f.parameter.sigma)
    return dataclasses.replace(f, value=f.prior, sigma=sigma, identified=False, reason=_NOT_VALIDATED)


def identify(
    file: File,
    text: str,
    parameters: Sequence[Parameter],
    drives: Sequence[ScoredDrive],
    progress: FitProgress,
    executor: SharingExecutor | None = None,
) -> FitResult:
    """`fit` with inputs interpolated between their samples, and the torque gain as a consider parameter.

    The pressure is without the noise and the error of zero of its sensor while nobody brakes.
    """
    smoothing, released = file.sensors.steering.smoothing, file.sensors.brake_pressure.offset
    exact = [dataclasses.replace(d, steps=interpolate_inputs(d.steps, smoothing, released)) for d in drives]
    considered = choose("torque_gain", file)
    estimate = fit(without_smoothing(file), text, parameters, exact, progress, considered, executor=executor)
    return dataclasses.replace(estimate, file=with_smoothing(estimate.file, smoothing))


def as_json(session: Session) -> dict[str, Any]:
    """Contents of `--json`."""
    estimate = session.estimate
    return {
        "parameters": [
            {
                "name": f.parameter.name,
                "key": f.parameter.key or None,
                "unit": f.parameter.unit,
                "prior": f.prior,
                "value": f.value,
                "sigma": f.sigma,
                "identified": f.identified,
                "reason": f.reason or None,
            }
            for f in estimate.found
        ],
        "combinations": [c.weights for c in estimate.combinations],
        "passes": estimate.passes,
        "redundancy": estimate.redundancy,
        "plant_noise": estimate.plant_noise,
        "validation": {
            "drive": session.validation,
            "before": _error_as_json(session.validation_before),
            "after": _error_as_json(session.validation_after),
            "left_because_of_it": session.choices,
        },
        "notes": session.notes,
    }


def _error_as_json(error: PredictionError) -> dict[str, Any]:
    sensors = {
        name: {"nis": None if math.isnan(s.mean_nis) else s.mean_nis, "count": s.count, "refused": s.rejected}
        for name, s in error.sensors.items()
    }
    return {"criterion": error.criterion, "observations": error.count, "sensors": sensors}


def format_session(session: Session) -> list[str]:
    """Tables as text lines."""
    lines = [f"{'parameter':<42} {'prior':>11} {'estimate':>11} {'± 1 σ':>9}  {'unit':<10}"]
    for f in session.estimate.found:
        new = f"{f.value:>11.5g} {f.sigma:>9.2g}" if f.identified else f"{'left':>11} {'':>9}"
        lines.append(
            f"{f.parameter.full_name:<42} {f.prior:>11.5g} {new}  {f.parameter.unit:<10} {f.reason}".rstrip()
        )
    for c in session.estimate.combinations:
        lines.append(f"not determined by the drives: {c}   (in standard deviations of the priors)")
    before, after = session.validation_before, session.validation_after
    used = ", which chose what is left" if session.choices else ", which was not used"
    lines += ["", f"prediction of {session.validation}{used}:"]
    lines.append(
        f"{'sensor':<18} {'NIS before':>11} {'after':>8} {'rejected before':>15} {'after':>6} {'of':>8}"
    )
    for name, old in before.sensors.items():
        new_error = after.sensors.get(name)
        if new_error is not None:
            lines.append(
                f"{name:<18} {old.mean_nis:>11.3f} {new_error.mean_nis:>8.3f} {old.rejected:>15} "
                f"{new_error.rejected:>6} {old.count:>8}"
            )
    if session.estimate.plant_noise != 1.0:
        lines.append(
            f"found with {session.estimate.plant_noise:.2g} of the file's plant noise, which stays (`vehicled tune`)"
        )
    result = "better" if after.mean < before.mean else "no improvement found, the values of the file stay"
    lines.append(f"mean of ½ (ν²/S + ln S): {before.mean:.4f} before, {after.mean:.4f} after: {result}")
    return [*lines, *session.notes]
