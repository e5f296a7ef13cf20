"""Differentials of driven axles: how much torque each can move from one wheel to the other.

A differential shares the torque of its axle equally. A clutch between the wheels moves torque from the faster to the
slower one, up to a limit: none if it is open, any if it is locked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from vehicled.units import NewtonMetres, NonNegative, Range

LOCKED = 1e6
"""N·m: more than any half-shaft can carry."""
_PRELOAD, _LOCKING = 50.0, 0.4


@dataclass(frozen=True, kw_only=True)
class Differential:
    """Differential of one driven axle."""

    SHORT_FORM: ClassVar[str] = "kind"

    kind: Literal["open", "locked", "limited_slip"] = "open"
    preload: Annotated[NewtonMetres, NonNegative] | None = None
    """For `limited_slip`: largest difference of the wheels' torques without drive torque; default 50 N·m."""
    locking: Annotated[float, Range(0.0, 1.0)] | None = None
    """For `limited_slip`: growth of that difference per sum of both torques; default 40 %."""

    def check(self) -> Iterable[tuple[str, str]]:
        """Yield (key, what is wrong) for settings that only a limited slip differential has."""
        if self.kind != "limited_slip":
            for name in ("preload", "locking"):
                if getattr(self, name) is not None:
                    yield name, f"expected with 'kind: limited_slip' only, not with '{self.kind}'"

    def calc_limit(self, torque: float) -> float:
        """Largest torque (N·m) moved from one wheel to the other, with an axle torque (N·m)."""
        if self.kind == "open":
            return 0.0
        if self.kind == "locked":
            return LOCKED
        preload = _PRELOAD if self.preload is None else self.preload
        locking = _LOCKING if self.locking is None else self.locking
        # One wheel loses what the other gains: the torques differ by twice the moved torque.
        return 0.5 * (preload + locking * abs(torque))


Driven = Literal["rear", "front", "all"]


def check_drive(
    driven: Driven, torque_split: float | None, differentials: dict[str, Differential]
) -> Iterable[tuple[str, str]]:
    """Yield (key, what is wrong) for settings of an axle that is not driven; `differentials` by axle."""
    if torque_split is not None and driven != "all":
        yield "torque_split", f"expected with 'driven: all' only, not with '{driven}'"
    for axle, differential in differentials.items():
        if differential.kind != "open" and driven not in (axle, "all"):
            yield (
                f"{axle}.differential",
                f"expected open, as 'driven: {driven}' leaves this axle without drive",
            )
