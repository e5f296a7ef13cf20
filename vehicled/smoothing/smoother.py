"""The fixed-interval smoother of a car: all measurements of a drive for the estimate at each of its steps."""

from __future__ import annotations

import contextlib
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import numpy as np

from vehicled.configuration import Configuration
from vehicled.estimator import Estimator
from vehicled.filter.backward_pass import BackwardPass
from vehicled.filter.states import ANGULAR_RATE
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate, Innovation, Measurement
from vehicled.smoothing.first_heading import LOCAL, FirstHeading
from vehicled.smoothing.tape_file import EntryKind, TapeFile
from vehicled.sources.added_doubt import AddedDoubt
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.inputs.unmeasured_drive import ADDED_PLACES

_COLUMNS = len(ESTIMATE_COLUMNS)
_GEODETIC = [ESTIMATE_INDEX[n] for n in ("lat", "lon", "alt")]
_SIGMA_YAW = ESTIMATE_INDEX["sigma.yaw"]
_REPORT_EVERY = 250
"""Rows between reports of progress."""
_DOUBT = slice(2, 2 + len(AddedDoubt._fields))
_ADDED = slice(_DOUBT.stop, _DOUBT.stop + len(ADDED_PLACES))
_HEAD = _ADDED.stop
"""Length of the head of a row: number of the origin, σ of a heading that is still unknown (else NaN),
`Estimator.doubt` except that of the place, and the amounts that road and unmeasured drive have added to the
estimate's columns, which are no states."""


class Smoother:
    """Records what `estimator` does at each step, then gives the smoothed estimates.

    A context manager, as the record is in a temporary folder. Step `estimator` through the whole drive and
    call `take` after each step; these estimates are those of the filter. Then call `smooth` once.
    """

    def __init__(self, configuration: Configuration) -> None:
        self.estimator = estimator = Estimator(configuration)
        self._filter = estimator.filter
        self._folder = tempfile.TemporaryDirectory(prefix="vehicled-smooth-")
        self._tape = TapeFile(Path(self._folder.name, "tape"), len(self._filter.states))
        self._filter.errors.tape = self._tape
        self._times: list[int] = []
        self._origins: list[WorldOrigin] = []
        self._first_heading = FirstHeading()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tape.close()
        self._folder.cleanup()

    def take(
        self,
        t: int,
        measurements: list[Measurement],
        estimate: Estimate | None,
        innovations: list[Innovation],
    ) -> None:
        """Record a step of the estimator (a `Sink`). Raises RunError if the disk is full."""
        if estimate is None:
            return
        f, world = self._filter, self.estimator.world
        number = LOCAL
        if world.known and world.origin is not None:
            if not self._origins or self._origins[-1] != world.origin:
                self._origins.append(world.origin)
            number = len(self._origins) - 1
        self._times.append(t)
        sigma_yaw = math.nan if world.aligned else estimate["sigma.yaw"]
        added = self.estimator.calc_added(t)
        head = np.array([number, sigma_yaw, *self.estimator.doubt._replace(place=0.0), *added])
        self._tape.add_row(head, f.save_motion(), f.errors.packed)

    def smooth(self, progress: Callable[[float], None] | None = None) -> Iterator[Estimate]:
        """Run the backward pass, then yield the smoothed estimates in order of time. Can be called once.

        `progress` receives the seconds of the drive that the pass has covered. Raises RunError if the disk is
        full.
        """
        self._filter.errors.tape = None
        # Written from the end of the drive, and read from the end of the file.
        with contextlib.closing(TapeFile(Path(self._folder.name, "rows"), _COLUMNS)) as rows:
            self._pass_backwards(rows, progress)
            for t, entry in zip(self._times, rows.read_backwards(), strict=True):
                yield Estimate(t, np.array(entry.values))

    def _pass_backwards(self, rows: TapeFile, progress: Callable[[float], None] | None) -> None:
        left = len(self._times)
        for backward, values in run_backwards(self._tape, len(self._filter.states)):
            left -= 1
            rows.add_row(self._smooth_row(self._times[left], values, backward))
            if progress is not None and left % _REPORT_EVERY == 0:
                progress((self._times[-1] - self._times[left]) * 1e-9)

    def _smooth_row(self, t: int, values: np.ndarray, backward: BackwardPass) -> np.ndarray:
        """(columns,) of one step: the filter's estimate, corrected by later measurements."""
        f = self._filter
        size = len(f.errors.packed)
        number, sigma_yaw = values[: _DOUBT.start]
        f.restore_motion(values[_HEAD:-size])
        f.errors.restore(values[-size:])
        f.errors.set_estimate(*backward.smooth(f.errors.matrix))
        turns = f.calc_wheel_turns()
        f.apply_corrections()
        # In the filter, the next step of the simulation would follow the radii.
        f.wheel_turns += f.calc_wheel_turns() - turns
        row = f.output()
        self.estimator.correct_pose(row)
        row[ADDED_PLACES] += values[_ADDED]
        AddedDoubt(*values[_DOUBT].tolist()).add_to(row)
        # Without gyroscopes the variance of their bias is zero, and the yaw rate is the model's.
        turning = f.get_variance(GYRO_BIAS, "z") or f.get_variance(ANGULAR_RATE, "yaw")
        origin = self._first_heading.take(t, int(number), row, math.isnan(sigma_yaw), math.sqrt(turning))
        if origin is None:
            row[_SIGMA_YAW], origin = sigma_yaw, int(number)
        row[_GEODETIC] = math.nan if origin == LOCAL else self._origins[origin].to_geodetic(row[:3])
        return row


def run_backwards(tape: TapeFile, states: int) -> Iterator[tuple[BackwardPass, np.ndarray]]:
    """Yield the backward pass at each row of a tape, from the last to the first, with the row's numbers."""
    backward = BackwardPass(states)
    for kind, values in tape.read_backwards():
        if kind == EntryKind.PROPAGATE:
            backward.propagate(tape.read_transition(values))
        elif kind == EntryKind.UPDATE:
            backward.update(*tape.read_update(values))
        elif kind == EntryKind.FORGET:
            backward.forget(int(values[0]))
        elif kind == EntryKind.RESTART:
            backward.restart()
        else:
            yield backward, values
