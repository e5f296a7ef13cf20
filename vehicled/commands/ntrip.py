"""`vehicled ntrip`: the streams of a caster."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.errors import UsageError

if TYPE_CHECKING:
    from drivers.source_table import Mountpoint

HELP = "List the streams of corrections that an NTRIP caster has, those of the nearest bases first."

_COLUMNS = ("mountpoint", "distance", "format", "systems", "position", "access", "place")
_WIDEST = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled ntrip`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("caster", metavar="HOST[:PORT]", help="the caster; its port is 2101 by default")
    parser.add_argument("--near", metavar="LAT,LON", help="degrees: adds distances, and sorts by them")
    parser.add_argument("--mountpoint", metavar="TEXT", help="only streams whose name contains this")
    parser.add_argument("--user", default="", metavar="NAME", help="for casters that require one")
    parser.add_argument(
        "--password-file", type=Path, metavar="FILE", help="file whose first line is the password"
    )
    parser.add_argument(
        "--password-variable", metavar="NAME", help="environment variable that has it instead"
    )
    parser.add_argument("--tls", action="store_true", help="encrypt, and verify the caster's certificate")
    parser.add_argument("--ca-file", type=Path, metavar="FILE", help="certificates of own authorities (PEM)")
    parser.add_argument("--v1", action="store_true", help="request by version 1 of the protocol")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.epilog = """\
examples:
  vehicled ntrip rtk2go.com --near 43.33,-8.41            the nearest bases
  vehicled ntrip caster.example.org:443 --tls --user me --password-file password --json

Column 'position': the stream is made for the position that the receiver has, so that corrections need
'send_position'; 'access': user and password are needed. The name goes into the configuration, as
'corrections: {caster: …, mountpoint: …}' of the receiver."""


def run(args: argparse.Namespace) -> int:
    """Print the caster's table; returns the exit status. Raises UsageError, NtripError."""
    from drivers.caster_options import CasterOptions
    from drivers.source_table import fetch_table

    options = CasterOptions(
        caster=args.caster,
        user=args.user,
        password_file=args.password_file,
        password_variable=args.password_variable,
        tls=args.tls,
        ca_file=args.ca_file,
        version=1 if args.v1 else 2,
    )
    for key, wrong in options.check():
        raise UsageError(f"{'HOST' if key == 'caster' else '--' + key.replace('_', '-')}: {wrong}")
    near = None if args.near is None else _read_place(args.near)
    caster = options.find_caster()
    table = fetch_table(caster)

    def measure(m: Mountpoint) -> float | None:
        return None if near is None else m.calc_distance(*near)

    wanted = (args.mountpoint or "").lower()
    found = [(m, measure(m)) for m in table.mountpoints if wanted in m.mountpoint.lower()]
    if near is not None:
        found.sort(key=lambda pair: float("inf") if pair[1] is None else pair[1])
    if args.json:
        rows = [{**m._asdict(), "distance": distance} for m, distance in found]
        shown = {
            "caster": str(caster),
            "mountpoints": rows,
            "skipped": table.skipped,
            "complete": table.complete,
        }
        print(json.dumps(shown, ensure_ascii=False))
        return 0
    if not table.complete:
        print(f"{caster}: the table ends early", file=sys.stderr)
    if table.skipped:
        print(f"{caster}: {table.skipped} lines cannot be read", file=sys.stderr)
    print("\n".join(_format([_COLUMNS, *(_cells(m, distance) for m, distance in found)])))
    return 0


def _read_place(text: str) -> tuple[float, float]:
    """Latitude and longitude, degrees, from `LAT,LON`. Raises UsageError."""
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError:
        latitude = longitude = float("nan")
    if not (-90.0 <= latitude <= 90.0 and -180.0 <= longitude <= 180.0):
        raise UsageError(f"--near: expected LAT,LON in degrees, such as 43.33,-8.41, got {text!r}")
    return latitude, longitude


def _cells(m: Mountpoint, distance: float | None) -> Sequence[str]:
    access = [m.authentication] if m.authentication not in ("", "none") else []
    return (
        m.mountpoint,
        "" if distance is None else f"{distance / 1e3:.1f} km",
        m.format,
        m.systems,
        "yes" if m.needs_position else "",
        ", ".join([*access, *["fee"] * m.fee]),
        " ".join(filter(None, (m.place, m.country))),
    )


def _format(rows: list[Sequence[str]]) -> list[str]:
    """Rows in aligned columns; columns that are empty in all rows are omitted."""
    columns = [
        column
        for column in zip(*rows, strict=True)
        if any(column[1:]) or column[0] in ("mountpoint", "place")
    ]
    widths = [min(max(map(len, column)), _WIDEST) for column in columns]
    lines = zip(*columns, strict=True)
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in lines]
