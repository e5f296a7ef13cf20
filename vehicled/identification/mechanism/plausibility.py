"""Whether a log fits its mechanism: units and signs before an estimate, and afterwards the residual forces.

The file's values count as known to 30 % (`PRIOR_DEVIATION`), and so do the forces that they predict. All
bounds here follow from this:

- A log is in doubt if the file's prediction misses its forces by three such deviations. It is in another
unit, or has another sign, if the file predicts its forces within two deviations when the log is read that
way. The numbers of units differ far more than values of files do: if the prediction misses ten times less
when read in another unit, it is enough that the log is then not in doubt.
- An estimate that still misses a force by one deviation explains it no better than any file does. Noise of
the samples does not count as missed: it makes an estimate uncertain, not wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from vehicled.errors import RunError
from vehicled.identification.mechanism.estimate import Recorded, observe_motion
from vehicled.identification.mechanism.findings import FAR, PRIOR_DEVIATION
from vehicled.identification.mechanism.unknowns import MechanismUnknowns

_DOUBTFUL = FAR * PRIOR_DEVIATION
_FITS = 2.0 * PRIOR_DEVIATION
_FAR_BETTER = 10.0
"""Ratio of errors as of two units: the least factor between two is 57, from degrees to rad."""
_AS_GOOD = 2.0
"""Ratio to the least error up to which a simpler reading of a log is equally good."""
_SLOWEST = 1.0
"""s: median interval between samples above which the time may be in another unit, as no motion of a mechanism
is sampled so slowly."""
_STEADY = 0.5 * np.pi
"""Largest change of an angle between usual samples, rad, at which jumps by 2π show."""
_SAMPLES = 30
"""Number of samples of a log that are read in other units."""
_CLOCKS = (("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))
_OPPOSITE = "to have the opposite sign"


@dataclass(frozen=True)
class _Change:
    """Another way to read one kind of column."""

    text: str
    """What columns then seem to be; empty if they are read unchanged."""
    factors: np.ndarray
    """(1,) factor of time, or (f,) factors of coordinates or forces."""


def find_fault(unknowns: MechanismUnknowns, run: Recorded) -> str | None:
    """Columns that jump by turns, or seem to be in another unit or of another sign, in one line, if any do.

    Raises UsageError for samples that cannot be smoothed.
    """
    wrapped = _find_wrapped(unknowns, run)
    if wrapped is not None:
        return wrapped
    reading = _Reading(unknowns, run)
    (as_it_is,) = reading.calc_errors(np.ones(1), reading.same, [reading.same])
    better = reading.find_better(as_it_is) if as_it_is > _DOUBTFUL else None
    if better is not None:
        changes, error = better
        seems = " and ".join(c.text for c in changes)
        as_read = (
            f"the file's values miss the force by {_percent(as_it_is)}"
            if np.isfinite(as_it_is)
            else "the mechanism does not have its positions"
        )
        return f"{seems}: {as_read}, read so by {_percent(error)}"
    interval = float(np.median(np.diff(run.t)))
    if interval > _SLOWEST:
        return f"t seems to be in another unit than s: samples are {interval:.3g} s apart"
    return None


def _find_wrapped(unknowns: MechanismUnknowns, run: Recorded) -> str | None:
    """Angles that jump by 2π between successive samples and hardly change between others, in one line, if any do."""
    mechanism = unknowns.regressor.mechanism
    steps = np.diff(run.t)
    for k, coordinate in enumerate(mechanism.independent):
        changes = np.abs(np.diff(run.z[:, k]))
        if coordinate in mechanism.lengths or not len(changes) or np.median(changes) > _STEADY:
            continue
        jumps = np.flatnonzero((np.abs(changes - 2.0 * np.pi) < _STEADY) & (steps < 2.0 * np.median(steps)))
        if len(jumps):
            return (
                f"{mechanism.coordinate_names[coordinate]} jumps by 2π at t = {run.t[jumps[0] + 1]:.6g} s"
                f"{_count_more(len(jumps) - 1)}; expected an angle that is continuous beyond ±π: unwrap it"
            )
    return None


def _count_more(count: int) -> str:
    return f" and {count} more time{'s' * (count > 1)}" if count else ""


class _Reading:
    """A run whose columns can be read in other units."""

    def __init__(self, unknowns: MechanismUnknowns, run: Recorded) -> None:
        self._unknowns = unknowns
        smoothed = run.smoothed
        rows = np.unique(np.linspace(0, len(smoothed.used) - 1, _SAMPLES).astype(int))
        used = smoothed.used[rows]
        self._motion = [part[rows] for part in (smoothed.z, smoothed.zd, smoothed.zdd)]
        self._t, self._forces = run.t[used], run.forces[used]
        self.same = np.ones(run.z.shape[1])
        """(f,) factors of columns that are read unchanged."""

    def calc_errors(self, clock: np.ndarray, motion: np.ndarray, forces: Sequence[np.ndarray]) -> list[float]:
        """Share of a force by which the file's values miss it, for several factors (f,) of the forces.

        The largest one of all driven coordinates. `clock` (1,), `motion` (f,): factors of time and
        coordinates.
        """
        unknowns, given = self._unknowns, self._forces
        moved = np.stack([part * motion / clock**k for k, part in enumerate(self._motion)])
        try:
            w, known = observe_motion(unknowns, self._t * clock, moved, given)
        except RunError:
            return [np.inf] * len(forces)
        driven = np.any(given != 0.0, axis=0)
        excess, given = (w @ unknowns.prior - known + given)[:, driven], given[:, driven]
        errors = []
        for factor in forces:
            force = given * factor[driven]
            missed = np.linalg.norm(excess - force, axis=0) / np.linalg.norm(force, axis=0)
            errors.append(float(missed.max(initial=0.0)))
        return errors

    def find_better(self, as_it_is: float) -> tuple[tuple[_Change, ...], float] | None:
        """The simplest reading with which the file predicts the run's forces best, and its error; or None.

        `as_it_is`: the error of the run as it is.
        """
        enough = max(_FITS, min(_DOUBTFUL, as_it_is / _FAR_BETTER))
        mechanism = self._unknowns.regressor.mechanism
        names = [mechanism.coordinate_names[k] for k in mechanism.independent]
        angles = ~np.isin(mechanism.independent, mechanism.lengths)
        forces = list(_list_forces(names, angles))
        found = []
        for clock, motion in product(_list_clocks(), _list_motions(names, angles)):
            errors = self.calc_errors(clock.factors, motion.factors, [c.factors for c in forces])
            for force, error in zip(forces, errors, strict=True):
                if error < enough:
                    found.append((tuple(c for c in (clock, motion, force) if c.text), error))
        least = min((error for _, error in found), default=0.0)
        good = [row for row in found if row[1] <= _AS_GOOD * least]
        return min(good, key=lambda row: (len(row[0]), row[1]), default=None)


def _list_clocks() -> Iterator[_Change]:
    yield _Change("", np.ones(1))
    for unit, factor in _CLOCKS:
        yield _Change(f"t seems to be in {unit}", np.array([factor]))


def _list_motions(names: Sequence[str], angles: np.ndarray) -> Iterator[_Change]:
    """Changes of the coordinates, which are angles (f,) or lengths."""
    yield _Change("", np.ones(len(names)))
    for kind, unit, factor in ((angles, "degrees", np.pi / 180.0), (~angles, "mm", 1e-3)):
        yield from _list_changes(names, kind, f"to be in {unit}", factor)
    yield from _list_changes(names, np.ones(len(names), dtype=bool), _OPPOSITE, -1.0)


def _list_forces(names: Sequence[str], angles: np.ndarray) -> Iterator[_Change]:
    yield _Change("", np.ones(len(names)))
    columns = [f"{name}.force" for name in names]
    yield from _list_changes(columns, np.ones(len(names), dtype=bool), _OPPOSITE, -1.0)
    for kind, units in ((angles, ("kN·m", "N·mm")), (~angles, ("kN", "mN"))):
        for unit, factor in zip(units, (1e3, 1e-3), strict=True):
            yield from _list_changes(columns, kind, f"to be in {unit}", factor)


def _list_changes(names: Sequence[str], which: np.ndarray, what: str, factor: float) -> Iterator[_Change]:
    """Changes of all columns in `which` (f,) together, and of each alone."""
    alone = [np.arange(len(names)) == k for k in np.flatnonzero(which)]
    for chosen in [which, *alone] if len(alone) > 1 else alone:
        concerned = [name for name, here in zip(names, chosen, strict=True) if here]
        verb = "seems" if len(concerned) == 1 else "seem"
        yield _Change(f"{', '.join(concerned)} {verb} {what}", np.where(chosen, factor, 1.0))


def find_unexplained(names: Sequence[str], unexplained: np.ndarray) -> Iterator[str]:
    """One line for each coordinate (f,) if an estimate misses too large a share (f,) of its force."""
    for name, share in zip(names, unexplained, strict=True):
        if share > PRIOR_DEVIATION:
            yield (
                f"{name}: {_percent(share)} of its force is not explained, expected {_percent(PRIOR_DEVIATION)} "
                "at most; check signs, units and geometry"
            )


def _percent(share: float) -> str:
    return f"{100.0 * share:.0f} %"
