"""Unknown latency of speeds that a control unit smooths and sends late: its state and its effect on a reading."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from vehicled.filter.considered import Considered
from vehicled.filter.factors import calc_share
from vehicled.filter.states import DRIVE_FORCE, UNMODELLED, ErrorStates, Group, make_constant

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom

S = TypeVar("S")
_LATEST = 0.3
"""s: largest error of the latency of speeds and receivers."""
_SMALL_CHANGE = 0.2
"""m/s²: slower changes of the speed do not determine a latency; changes twice as fast determine it fully."""
_UNKNOWN = 0.2
"""(m/s²)²: variance up to which the acceleration is measured, and not just derived from the speeds
themselves."""


def make_latency(
    name: str, meaning: str, sigma: Callable[[S], float | None], carries_place: bool = False
) -> ErrorStates[S]:
    """State of a latency, s; `sigma`: from the configuration, as in `make_constant`."""
    latency = make_constant(
        name, ("",), "s", meaning, contradiction=10.0, limit=_LATEST, is_latency=True, sigma=sigma
    )
    return replace(latency, carries_place=carries_place)


def calc_lateness(model: ErrorModel, latency: Group, by_speed: Atom) -> tuple[Atom, dict[int, Atom]]:
    """Amount by which lateness reduces a reading, and its row; `by_speed`: derivative by the forward speed.

    A late speed taken as present would contradict a receiver and an IMU whose times are right.
    """
    change = by_speed * _calc_acceleration(model)
    row = model.states.entries(latency, {0: -(calc_share_of_change(model) * change)})
    return model.estimates(latency)[0] * change, row


def find_considered(model: ErrorModel, latency: Group) -> Considered | None:
    """The latency, as a state that readings do not correct while the acceleration is unknown (Schmidt–Kalman)."""
    if latency not in model.states:
        return None
    return Considered(dict.fromkeys(model.states.places(latency), calc_unknown(model)))


def find_considered_by_wheels(model: ErrorModel, latency: Group | None = None) -> Considered:
    """The same for wheels: their latency; and, while the acceleration is known, the force that causes their slip.

    The slip of real tyres differs by 10 or 20 % from the model's. Forces corrected by slip would be wrong by
    as much.
    """
    unknown, states = calc_unknown(model), model.states
    places = states.places(latency) if latency is not None and latency in states else []
    return Considered(dict.fromkeys(places, unknown) | dict.fromkeys(_find_forces(model), 1.0 - unknown))


def calc_unknown(model: ErrorModel, known: float = _UNKNOWN) -> Atom:
    """Degree, 0 to 1, to which the acceleration is too uncertain for speeds to show a latency.

    Without good accelerometers the acceleration comes from the unknown force that speeds have corrected: it
    lags behind them, and their innovations correlate with it as with a latency. `known`: variance up to which
    the acceleration is known, (m/s²)².
    """
    return calc_share(model.g, model.calc_variance(_find_forces(model)), known)


def _find_forces(model: ErrorModel) -> list[int]:
    """Indices of the states of forces that accelerate the car ahead."""
    states = model.states
    forces = [states.index(UNMODELLED, "ahead")] if UNMODELLED in states else []
    return forces + ([*states.places(DRIVE_FORCE)] if DRIVE_FORCE in states else [])


def calc_share_of_change(model: ErrorModel) -> Atom:
    """Degree to which the speed changes enough to determine a latency: from 0, at a steady speed, to 1."""
    return calc_share(model.g, _calc_acceleration(model), _SMALL_CHANGE)


def _calc_acceleration(model: ErrorModel) -> Atom:
    """Change of the forward speed, m/s²."""
    return model.calc_change(model.models.jacobians["body_velocity"][0])
