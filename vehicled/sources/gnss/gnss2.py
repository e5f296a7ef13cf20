"""A second receiver: the same settings, with channels and errors of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vehicled.sources.gnss.fixes import limit_channels
from vehicled.sources.gnss.gnss import Gnss
from vehicled.sources.gnss.model import GNSS2, ReceiverErrors, add_gnss2


@dataclass(frozen=True, kw_only=True)
class Gnss2(Gnss):
    """Settings of a second receiver, or of the second antenna of one."""

    LIMITS: ClassVar[Mapping[str, float]] = limit_channels("gnss2")
    PLACE = ("gnss2.lat", "gnss2.lon")
    STATES = GNSS2.groups
    LATENCY = GNSS2.latency
    OBSERVATIONS = (add_gnss2,)
    IS_EXTRA = True
    SPEED_PRECEDENCE = 4
    RECEIVER: ClassVar[ReceiverErrors] = GNSS2
