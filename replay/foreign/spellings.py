"""Converts spellings of units in files of other programs to those of this one."""

_SPELLINGS = {
    "km/h": ("kph", "kmh", "kmph", "km/hr"),
    "kn": ("kt", "kts", "knot", "knots"),
    "m/s": ("mps", "m/sec"),
    "m/s²": ("m/s2", "m/s/s", "m/sec2", "m/sec^2", "m/sec²"),
    "g": ("g", "gs"),
    "deg": ("deg", "degs", "degree", "degrees", "grad"),  # the last one in German
    "deg/s": ("dps", "deg/sec", "°/sec", "degs/s", "degree/s", "degrees/s", "degree/sec", "grad/s"),
    "rad/s": ("rad/sec",),
    "rpm": ("1/min", "min-1", "min^-1", "u/min", "r/min", "rev/min", "revs/min"),
    "s": ("sec", "second", "seconds"),
    "m": ("metre", "metres", "meter", "meters"),
}
_KNOWN = {spelling: unit for unit, spellings in _SPELLINGS.items() for spelling in spellings}


def find_unit(written: str) -> str:
    """The unit that a spelling stands for; unchanged if the spelling is unknown."""
    return _KNOWN.get(written.strip().lower(), written)
