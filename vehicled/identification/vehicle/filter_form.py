"""The form of the filter for the identification of parameters and noise.

While a parameter is searched, the filter must not estimate it as well: the filter would explain part of its
error, and the innovations would show less of it. So the filter takes all parameters as known and does not
adapt its noise. Innovations beyond the gate are rejected instead of weighted: a weight depends on the
innovation, and would have to be differentiated too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeVar

from vehicled.configuration import File
from vehicled.filter.settings import Filter
from vehicled.identification.vehicle.names import Path, get_at, put_at
from vehicled.sources.gate import Gate

T = TypeVar("T", bound=Any)

_GATE = 4.5
"""Standard deviations."""
_UNKNOWNS: Sequence[Path] = (
    *(("filter", "unknowns", f.name) for f in dataclasses.fields(Filter().unknowns)),
    ("sensors", "imu", "rotation_sigma"),
    ("sensors", "imu", "latency_sigma"),
    ("sensors", "imu", "gyroscopes", "scale"),
    ("sensors", "gnss", "antenna_sigma"),
    ("sensors", "gnss", "latency_sigma"),
)
"""Settings with the σ of parameters that the running filter estimates, without the own speed's scale.

That scale stays estimated: if taken as exact, it would determine the rolling radii that are searched."""


_RATES: Path = ("sensors", "imu", "gyroscopes", "model_error")


def without_unknowns(file: File) -> File:
    """The configuration with a filter that estimates no parameter of car or sensors that may be searched."""
    for path in _UNKNOWNS:
        if get_at(file, path) is not None:
            file = put_at(file, path, 0.0)
    return file


def with_hard_gates(file: File) -> File:
    """The configuration with gates that reject, and never weight, measurements beyond them."""
    sensors = file.sensors
    for name, settings in sensors.items():
        changes: dict[str, Any] = {name: _harden(settings)}
        sensors = dataclasses.replace(sensors, **changes)
    return dataclasses.replace(file, sensors=sensors)


def _harden(settings: T) -> T:
    """A section, including its subsections, with hard gates."""
    changes: dict[str, Any] = {}
    for f in dataclasses.fields(settings):
        value = getattr(settings, f.name)
        if isinstance(value, Gate):
            changes[f.name] = dataclasses.replace(value, weigh_beyond=_GATE, reject_beyond=_GATE)
        elif dataclasses.is_dataclass(value):
            changes[f.name] = _harden(value)
    return dataclasses.replace(settings, **changes)


def calc_filter_form(file: File, tuning: bool) -> tuple[File, list[str]]:
    """The configuration for identification, or for `tuning`, and notes on it for the user."""
    notes, of_filter = [], file.filter
    if of_filter.suspension is not None:
        notes.append("found without the states of filter.suspension")
        of_filter = dataclasses.replace(of_filter, suspension=None)
    if not of_filter.kind.startswith("errorEKF"):
        notes.append(f"found with the errorEKF_FE in place of {of_filter.kind}")
        of_filter = dataclasses.replace(of_filter, kind="errorEKF_FE")
    if not tuning:
        of_filter = dataclasses.replace(of_filter, kind="errorEKF")
    file = with_hard_gates(dataclasses.replace(file, filter=of_filter))
    file = put_at(file, ("filter", "unmodelled", "adaptive"), False)
    # For the identification of suspensions, rates of roll and pitch must be those of the model. Noise is
    # found for the running filter, which takes these rates from the gyroscopes.
    if not tuning and get_at(file, _RATES) is not None:
        file = put_at(file, _RATES, (0.0, 0.0, 0.0))
    return (file if tuning else without_unknowns(file)), notes
