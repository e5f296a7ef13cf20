"""GPX 1.1: a track for maps, of fixes or of estimates."""

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Self
from xml.etree import ElementTree

from replay.csv_log import Table
from vehicled.messages import Measurement
from vehicled.terminal.output_files import open_text_output
from vehicled.version import __version__

SUFFIX = ".gpx"

_HEAD = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    f'<gpx version="1.1" creator="vehicled {__version__}" xmlns="http://www.topografix.com/GPX/1/1">\n<trk><trkseg>\n'
)
_END = "</trkseg></trk>\n</gpx>\n"
_FIX = {0.0: "none", 2.0: "dgps", 4.0: "dgps", 5.0: "dgps"}
"""By quality of NMEA; GPX has no word for RTK."""
_EARLIEST_NS = 1_000_000_000 * 86_400 * 365 * 30
"""A clock before the year 2000 is not the time of day."""


class GpxWriter:
    """Writes a track point per position. A context manager; the file is complete once it is closed."""

    def __init__(self, path: str | Path, utc_offset_ns: int) -> None:
        """`utc_offset_ns`: time of day minus the clock of what is written, 0 if there is none."""
        self.points = 0
        self._offset = utc_offset_ns
        self._file = open_text_output(path)
        self._file.write(_HEAD)

    def write(self, m: Measurement) -> None:
        """Take a measurement; one without a position is left out. Raises OSError."""
        v = m.values
        if "gnss.lat" in v and "gnss.lon" in v and v.get("gnss.quality", 1.0) >= 1.0:
            fix = _FIX.get(v.get("gnss.quality", 1.0), "3d" if "gnss.alt" in v else "2d")
            self._put(m.t, v["gnss.lat"], v["gnss.lon"], v.get("gnss.alt", math.nan), fix)

    def write_estimates(self, table: Table) -> None:
        """Write the positions of a table of estimates. Raises OSError."""
        places = (table.columns[c].tolist() for c in ("lat", "lon", "alt"))
        for t, lat, lon, alt in zip(table.t.tolist(), *places, strict=True):
            self._put(t, lat, lon, alt, None)

    def _put(self, t: int, lat: float, lon: float, alt: float, fix: str | None) -> None:
        if not (abs(lat) <= 90.0 and abs(lon) <= 360.0):
            return
        lon = math.remainder(lon, 360.0)  # GPX counts within ±180°, some receivers up to 360°
        point = ElementTree.Element("trkpt", lat=f"{lat:.9f}", lon=f"{lon:.9f}")
        if math.isfinite(alt):
            ElementTree.SubElement(point, "ele").text = f"{alt:.3f}"
        utc = t + self._offset
        if utc > _EARLIEST_NS:
            moment = datetime.fromtimestamp(utc // 1_000_000_000, UTC)
            ElementTree.SubElement(
                point, "time"
            ).text = f"{moment:%Y-%m-%dT%H:%M:%S}.{utc % 1_000_000_000 // 1_000_000:03d}Z"
        if fix is not None:
            ElementTree.SubElement(point, "fix").text = fix
        self._file.write(ElementTree.tostring(point, encoding="unicode") + "\n")
        self.points += 1

    def close(self) -> None:
        """Complete the file, and close it."""
        self._file.write(_END)
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
