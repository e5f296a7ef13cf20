"""Signals of a CAN bus: those of a DBC file that are probably channels of a car."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from cantools.database.can import Database

from drivers.can import CanSignal, find_signal, load_dbc, unit_factor
from vehicled.errors import UsageError
from vehicled.messages import WHEELS

_CORNERS = {
    "fl": r"\b(?:fl|lf|vl|front ?left|left ?front)\b",
    "fr": r"\b(?:fr|rf|vr|front ?right|right ?front)\b",
    "rl": r"\b(?:rl|lr|hl|rear ?left|left ?rear)\b",
    "rr": r"\b(?:rr|hr|rear ?right|right ?rear)\b",
}
CHANNELS: dict[str, tuple[str, ...]] = {
    **{f"wheel.{w}.speed": (r"wh|rad|spe?e?d", _CORNERS[w]) for w in WHEELS},
    "steer.wheel": (
        r"ste?e?r|sas|lrw|lenk",
        r"ang|wheel|winkel",
        r"^(?!.*(?:rate|speed|vel|geschw|torque|moment|motor|road|rack|\bf[lr]\b))",
    ),
    "steer.rack": (
        r"rack|zahnst|ste?e?r|lenk",
        r"^(?!.*(?:rate|speed|vel|geschw|force|target|desired|demand|soll))",
    ),
    **{
        f"steer.{w}": (
            r"ste?e?r|road|lenk",
            _CORNERS[w],
            r"^(?!.*(?:rate|speed|vel|geschw|target|desired|demand|soll))",
        )
        for w in ("fl", "fr")
    },
    "vehicle.speed": (r"veh|ego|car|fzg|fahrzeug", r"spe?e?d|vel|geschw"),
    "brake.pressure": (r"bra?ke?|brems", r"pre?ss?|druck"),
    "vehicle.wz": (
        r"yaw|gier",
        r"rate|spe?e?d|vel|geschw",
        r"^(?!.*(?:target|desired|demand|ref|soll|offset|min|max|limit))",
    ),
}
"""Wanted channels, and patterns in the name of such a signal: in its words and those of its message, in lower
case."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class Bus:
    """The signals of a DBC file."""

    def __init__(self, dbc: Path, front_radius: float, rear_radius: float) -> None:
        """Read the file. Radii of the wheels (m) are for speeds of wheels in m/s. Raises UsageError."""
        self.dbc = dbc
        self._radii = {w: front_radius if w.startswith("f") else rear_radius for w in WHEELS}
        self._database: Database = load_dbc(dbc)

    def propose(self) -> dict[str, str]:
        """Channel to MESSAGE.SIGNAL, if name and unit of exactly one signal fit."""
        found = {channel: list(self._candidates(channel)) for channel in CHANNELS}
        return {channel: names[0] for channel, names in found.items() if len(names) == 1}

    def find(self, channel: str, name: str) -> CanSignal:
        """The signal of a channel by its name MESSAGE.SIGNAL.

        Raises UsageError if there is none, or if its unit is of another quantity.
        """
        message, dot, signal = name.partition(".")
        if not dot:
            raise UsageError(f"signals.{channel}: expected MESSAGE.SIGNAL, got {name!r}")
        plain = CanSignal(message=message, signal=signal)
        _, there = find_signal(self._database, self.dbc, channel, plain)
        try:
            unit_factor(channel, plain, there.unit)
        except UsageError:
            if not channel.startswith("wheel."):
                raise
            turning = CanSignal(message=message, signal=signal, radius=self._radii[channel.split(".")[1]])
            unit_factor(channel, turning, there.unit)
            return turning
        return plain

    def _candidates(self, channel: str) -> Iterator[str]:
        for message in self._database.messages:
            for signal in message.signals:
                name = f"{message.name}.{signal.name}"
                words = " ".join(_WORD.findall(name)).lower()
                if all(re.search(pattern, words) for pattern in CHANNELS[channel]):
                    with contextlib.suppress(UsageError):
                        self.find(channel, name)
                        yield name
