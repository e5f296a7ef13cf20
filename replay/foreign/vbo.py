"""Racelogic VBOX files (`.vbo`): text with sections in brackets, then columns of numbers.

Format: Racelogic, "VBO file format" (support and developers' pages): time is UTC as HHMMSS.SS, latitude and
longitude are in minutes of arc with west positive, speeds in km/h unless the section `[header]` names other units,
64 is added to the number of satellites while the brake trigger is on and 128 with differential corrections. Text is
in UTF-8 or ANSI. Programs of others write decimal commas, and names of columns with capitals.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import LogMapping, map_names
from replay.foreign.spellings import find_unit
from replay.lines import bounded_lines
from replay.problems import Problems
from vehicled.errors import UsageError

SUFFIX = ".vbo"

_HEAD_LINES = 2000
"""Number of lines within which the data must begin."""
_DAY_NS = 86_400_000_000_000
_CLIMBS = ("vert-vel", "vertvel")
_STANDARD = {"sats", "time", "lat", "long", "velocity", "heading", "height", *_CLIMBS}
_SPEEDS = {"km/h": 1 / 3.6, "kn": 1852 / 3600, "mph": 0.44704, "m/s": 1.0}
"""m/s per unit of a speed. In `[header]` the unit follows the title; without one it is the first of these."""
_HEIGHTS = {"m": 1.0, "ft": 0.3048, "feet": 0.3048}
"""m per unit of a height; the same holds for its unit."""
_LOCK_NS = 1_000_000_000
"""Longest time from the row before the first fix to that row if both have the same clock, as rows come
faster."""
_QUALITY_BY_SOLUTION = {0: 0.0, 1: 1.0, 2: 2.0, 3: 5.0, 4: 4.0}
"""Of NMEA by the column `solution_type`: none, GNSS alone, code differential, RTK float, RTK fixed."""
_DIFFERENTIAL, _SATELLITES = 128, 63

_DERIVED = {
    **{"latitude": "deg", "longitude": "deg", "speed": "m/s", "course": "deg", "quality": ""},
    **{"velocity.north": "m/s", "velocity.east": "m/s", "velocity.down": "m/s"},
}
"""Signals made of the standard columns, with their units."""

MAPPING: LogMapping = map_names(
    {
        "gnss.lat": "latitude",
        "gnss.lon": "longitude",
        "gnss.alt": "height",
        "gnss.quality": "quality",
        "gnss.speed": "speed",
        "gnss.course": "course",
        "gnss.vn": "velocity.north",
        "gnss.ve": "velocity.east",
        "gnss.vd": "velocity.down",
        "reference.lat": "latitude",
        "reference.lon": "longitude",
        "reference.alt": "height",
        "reference.vn": "velocity.north",
        "reference.ve": "velocity.east",
        "reference.vd": "velocity.down",
    }
)
"""Further columns, such as those of an IMU or of a second antenna, are mapped by a file."""


class VboSignals:
    """The columns of a VBOX file, and the standard ones in SI units and degrees."""

    has_clock = True

    def __init__(self, path: Path) -> None:
        """Reads all before the data. UsageError if that is not of a VBOX file."""
        self.path = path
        self.problems = Problems(path.name)
        sections = self._read_head()
        names = " ".join(sections.get("column names", [])).split()
        self._names = [n.lower() if n.lower() in _STANDARD else n for n in names]
        missing = [n for n in ("sats", "time", "lat", "long", "velocity", "heading") if n not in self._names]
        if "data" not in sections or missing:
            what = f"column {missing[0]!r}" if "data" in sections else "section [data]"
            raise UsageError(
                f"{path}: no {what}; expected a VBOX file with its sections and standard columns"
            )
        titles = sections.get("header", [])
        self._speed = self._find_factor(titles, ("velocity",), _SPEEDS)
        self._climb_name = next((n for n in _CLIMBS if n in self._names), None)
        climb = () if self._climb_name is None else ("vertical velocity", *_CLIMBS)
        self._climb = self._find_factor(titles, climb, _SPEEDS)
        height = ("height",) if "height" in self._names else ()
        self._height = self._find_factor(titles, height, _HEIGHTS)
        self._time = self._names.index("time")
        self._solution = next((n for n in self._names if n.lower() == "solution_type"), None)
        others = [n for n in self._names if n.lower() not in _STANDARD]
        units = sections.get("channel units", [])
        # One line for each channel that is not standard; if the numbers differ, the units cannot be assigned.
        self._units = dict(zip(others, units, strict=True)) if len(units) == len(others) else {}

    def _find_factor(
        self, titles: Sequence[str], beginnings: Sequence[str], factors: Mapping[str, float]
    ) -> float:
        """Factor by the unit after a title that begins with one of `beginnings`. UsageError for an unknown unit."""
        for title in map(str.lower, titles):
            for beginning in beginnings:
                written = title.removeprefix(beginning)
                # Longer names, such as of `velocity_quality`, are of other columns.
                if written != title and not written[:1].strip(" ([:,"):
                    written = written.strip(" ()[]:,")
                    unit = find_unit(written)
                    if written and unit not in factors:
                        raise UsageError(
                            f"{self.path}: {beginning} in {written[:20]!r}; expected one of {', '.join(factors)}"
                        )
                    return factors[unit] if written else next(iter(factors.values()))
        return next(iter(factors.values()))

    def _read_head(self) -> dict[str, list[str]]:
        sections: dict[str, list[str]] = {}
        section: list[str] = []
        with open(self.path, "rb") as file:
            for number, line in bounded_lines(file, self.problems):
                text = _decode(line).strip()
                if text.startswith("[") and text.endswith("]"):
                    section = sections.setdefault(text[1:-1].strip().lower(), [])
                    if "data" in sections:
                        self._data, self._first = file.tell(), number + 1
                        break
                elif text or section:
                    section.append(text)
                if number > _HEAD_LINES:
                    break
        for lines in sections.values():
            while lines and not lines[-1]:
                lines.pop()
        return sections

    @property
    def units(self) -> Mapping[str, str]:
        """Units of all columns and derived signals; those of the file are as written there."""
        columns = {n: self._units.get(n, "") for n in self._names}
        return {**columns, "height": "m", "heading": "deg", **_DERIVED}

    def find_mapping(self) -> LogMapping:
        """The mapping of the standard signals."""
        return MAPPING

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per line, in ns since the midnight (UTC) before the first one.

        Lines before the first fix are left out if they have no time, as the receiver's clock starts with the
        fix.
        """
        del wanted  # a line is read as a whole
        first = self._find_clock()
        latest: int | None = None
        for number, numbers, of_day in self._rows(self.problems):
            if number < first:
                self.problems.add("no time", f"line {number}", "before the first fix; row skipped")
                continue
            if latest is not None:
                of_day = latest + _calc_step(latest, of_day)
            latest = of_day
            yield SignalRecord(of_day, of_day, numbers | self._derive(numbers))

    def _find_clock(self) -> int:
        """Line from which times are right: that of the first fix, if times jump or stand still before it."""
        before: int | None = None
        for number, numbers, of_day in self._rows(Problems(self.path.name)):
            if _find_quality(numbers, self._solution) > 0.0:
                goes_on = before is None or 0 < _calc_step(before, of_day) <= _LOCK_NS
                return 0 if goes_on else number
            before = of_day
        return 0

    def _rows(self, problems: Problems) -> Iterator[tuple[int, dict[str, float], int]]:
        """Number of the line, columns, and time of day, ns."""
        with open(self.path, "rb") as file:
            file.seek(self._data)
            for number, line in bounded_lines(file, problems, first=self._first):
                if not line.strip():
                    continue
                fields = line.replace(b",", b".").split()  # decimal commas of some countries
                if len(fields) != len(self._names):
                    kind = "bad row" if line.endswith(b"\n") else "truncated"
                    problems.add(kind, f"line {number}", f"{len(fields)} fields, not {len(self._names)}")
                    continue
                try:
                    numbers = dict(zip(self._names, map(float, fields), strict=True))
                    of_day = _parse_time(fields[self._time])
                except ValueError as error:
                    problems.add("bad number", f"line {number}", f"{error}; row skipped")
                    continue
                yield number, numbers, of_day

    def _derive(self, numbers: Mapping[str, float]) -> dict[str, float]:
        speed, course = numbers["velocity"] * self._speed, numbers["heading"]
        found = {
            "latitude": numbers["lat"] / 60.0,
            "longitude": -numbers["long"] / 60.0,
            "speed": speed,
            "course": course,
            "velocity.north": speed * math.cos(math.radians(course)) if math.isfinite(course) else math.nan,
            "velocity.east": speed * math.sin(math.radians(course)) if math.isfinite(course) else math.nan,
            "quality": _find_quality(numbers, self._solution),
        }
        if "height" in numbers:
            found["height"] = numbers["height"] * self._height
        if self._climb_name is not None:
            found["velocity.down"] = -numbers[self._climb_name] * self._climb
        return found


def _decode(line: bytes) -> str:
    """Units such as °/s are in UTF-8 or in Latin-1, by what has written the file."""
    try:
        return line.decode("utf-8-sig")
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _calc_step(one: int, other: int) -> int:
    """ns from a time of day to the nearest occurrence of another one, across midnight if need be."""
    return (other - one + _DAY_NS // 2) % _DAY_NS - _DAY_NS // 2


def _parse_time(text: bytes) -> int:
    """HHMMSS.SSS to ns since midnight. ValueError."""
    whole, _, fraction = text.partition(b".")
    if not whole.isdigit() or len(whole) > 6 or (fraction and not fraction.isdigit()):
        raise ValueError(f"{text[:20]!r} is no time of day")
    clock = int(whole)
    hours, minutes, seconds = clock // 10000, clock // 100 % 100, clock % 100
    if hours > 23 or minutes > 59 or seconds > 60:
        raise ValueError(f"{text[:20]!r} is no time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * 1_000_000_000 + int(fraction[:9].ljust(9, b"0"))


def _find_quality(numbers: Mapping[str, float], solution: str | None) -> float:
    """Of NMEA, by the column with the type of solution where there is one, else by the number of satellites."""
    if solution is not None and math.isfinite(numbers[solution]):
        return _QUALITY_BY_SOLUTION.get(int(numbers[solution]), 1.0)
    if not 0.0 <= numbers["sats"] < 256.0:
        return 0.0
    satellites = int(numbers["sats"])
    if not satellites & _SATELLITES:
        return 0.0
    return 2.0 if satellites & _DIFFERENTIAL else 1.0
