"""The source table of an NTRIP caster: which streams it has, and where their bases are."""

from __future__ import annotations

import contextlib
import math
import time
from typing import NamedTuple

from drivers.ntrip import Caster, ClosedError, Connection, NtripError
from vehicled.reading.expectations import printable

_WITHIN_S = 20.0
_LARGEST = 8 << 20
_END = b"ENDSOURCETABLE"
_LEAST_FIELDS = 4
_EARTH_RADIUS = 6_371_009.0
"""m, mean."""


class Mountpoint(NamedTuple):
    """One stream: a line STR of the table. Text that is absent is empty, a number None."""

    mountpoint: str
    place: str
    format: str
    details: str
    """Messages of the stream, such as `1005(1),1077(1)`, each with its interval in s."""
    systems: str
    """Satellite systems, such as `GPS+GLO+GAL`."""
    network: str
    country: str
    latitude: float | None
    """deg, of base or service area; one or two decimals are usual."""
    longitude: float | None
    needs_position: bool
    """Whether the stream is made for the position that the client sends."""
    authentication: str
    """`none`, `basic` or `digest`."""
    fee: bool
    bit_rate: float | None

    def calc_distance(self, latitude: float, longitude: float) -> float | None:
        """Distance, m, over ground from a place in degrees; None if the place of the stream is unknown."""
        if self.latitude is None or self.longitude is None:
            return None
        a, b = math.radians(self.latitude), math.radians(latitude)
        across = math.radians(longitude - self.longitude)
        h = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(across / 2) ** 2
        return 2 * _EARTH_RADIUS * math.asin(math.sqrt(min(h, 1.0)))


class SourceTable(NamedTuple):
    """What a caster offers."""

    mountpoints: list[Mountpoint]
    skipped: int
    """Lines of streams that could not be read."""
    complete: bool
    """Whether the table was received to its end."""


def fetch_table(caster: Caster) -> SourceTable:
    """Request the table of a caster. Raises NtripError."""
    until = time.monotonic() + _WITHIN_S
    text = bytearray()
    end = NtripError(f"{caster}: no source table within {_WITHIN_S:g} s and {_LARGEST >> 20} MiB")
    with contextlib.closing(Connection(caster, "")) as connection:
        while not (connection.complete or _END in text[-4096 - len(_END) :]):
            left = until - time.monotonic()
            if left <= 0 or len(text) > _LARGEST:
                break
            try:
                text += connection.read(left)
            except ClosedError as error:  # without a length, the end of the table
                end = error
                break
    table = parse_table(bytes(text))
    if not (table.complete or table.mountpoints):
        raise end
    return table


def parse_table(data: bytes) -> SourceTable:
    """The table in the body of a response. Never raises, whatever the bytes."""
    found, skipped, complete = [], 0, False
    for line in data.decode("utf-8", "replace").split("\n"):
        fields = [printable(field.strip(), 200) for field in line.split(";")]
        if fields[0] == _END.decode():
            complete = True
            break
        if fields[0] != "STR":
            continue
        if len(fields) <= _LEAST_FIELDS or not fields[1]:
            skipped += 1
            continue
        found.append(_read(fields[1:]))
    return SourceTable(found, skipped, complete)


def _read(fields: list[str]) -> Mountpoint:
    """From the fields behind `STR`, of which the last ones may be missing."""
    fields = [*fields, *[""] * (17 - len(fields))]
    name, place, form, details, _, systems, network, country, *rest = fields
    north, east, nmea, _, _, _, authentication, fee, bit_rate = rest[:9]
    latitude, longitude = _number(north, -90.0, 90.0), _number(east, -180.0, 360.0)
    if latitude is None or longitude is None or latitude == longitude == 0.0:  # zeros: not filled in
        latitude = longitude = None
    elif longitude > 180.0:
        longitude -= 360.0
    return Mountpoint(
        mountpoint=name,
        place=place,
        format=form,
        details=details,
        systems=systems,
        network=network,
        country=country,
        latitude=latitude,
        longitude=longitude,
        needs_position=nmea == "1",
        authentication={"N": "none", "B": "basic", "D": "digest"}.get(authentication.upper(), ""),
        fee=fee.upper() == "Y",
        bit_rate=_number(bit_rate, 1.0, 1e9),
    )


def _number(text: str, low: float, high: float) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if low <= value <= high else None
