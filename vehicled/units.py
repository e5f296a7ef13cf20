"""Physical units: parsing text such as `kN/mm` or `(m/s²)²/Hz`, and the quantity types of the settings files.

Every quantity is converted to SI units and radians. The angle is treated as a separate dimension, so that
`N/rad` and `N` are distinct. `g` is the standard acceleration of free fall, never a gram: where a mass is
expected its dimension is wrong.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, NoReturn

Dimension = tuple[Fraction, Fraction, Fraction, Fraction]
"""Exponents of mass, length, time and angle."""


class UnitError(ValueError):
    """A text that is not a unit, or not numbers followed by a unit; the message has the reason."""


def _dimension(mass: int = 0, length: int = 0, time: int = 0, angle: int = 0) -> Dimension:
    return Fraction(mass), Fraction(length), Fraction(time), Fraction(angle)


_FREE_FALL = 9.80665
"""Value of the unit g, m/s²."""
_MICRO = dict.fromkeys("µμu", 1e-6)
_PREFIXES = {"n": 1e-9, **_MICRO, "m": 1e-3, "c": 1e-2, "h": 1e2, "k": 1e3, "M": 1e6, "G": 1e9}

_PREFIXABLE: dict[str, tuple[float, Dimension]] = {
    "m": (1.0, _dimension(length=1)),
    "s": (1.0, _dimension(time=1)),
    "rad": (1.0, _dimension(angle=1)),
    "N": (1.0, _dimension(1, 1, -2)),
    "Pa": (1.0, _dimension(1, -1, -2)),
    "J": (1.0, _dimension(1, 2, -2)),
    "W": (1.0, _dimension(1, 2, -3)),
    "Hz": (1.0, _dimension(time=-1)),
    "bar": (1e5, _dimension(1, -1, -2)),
    "Nm": (1.0, _dimension(1, 2, -2)),
}

_UNITS: dict[str, tuple[float, Dimension]] = {
    **{p + u: (f * k, d) for u, (k, d) in _PREFIXABLE.items() for p, f in _PREFIXES.items()},
    **_PREFIXABLE,
    "1": (1.0, _dimension()),
    "%": (1e-2, _dimension()),
    "ppm": (1e-6, _dimension()),
    "kg": (1.0, _dimension(mass=1)),
    "t": (1e3, _dimension(mass=1)),
    "min": (60.0, _dimension(time=1)),
    "h": (3600.0, _dimension(time=1)),
    "deg": (math.pi / 180, _dimension(angle=1)),
    "°": (math.pi / 180, _dimension(angle=1)),
    "rev": (2 * math.pi, _dimension(angle=1)),
    "kn": (1852.0 / 3600.0, _dimension(0, 1, -1)),
    "rpm": (2 * math.pi / 60, _dimension(time=-1, angle=1)),
    **{p + "g": (_FREE_FALL * f, _dimension(0, 1, -2)) for p, f in (("", 1.0), ("m", 1e-3), *_MICRO.items())},
}

_NOT_TAKEN = {
    **dict.fromkeys(("lb", "lbs"), "0.45359237 kg"),
    **dict.fromkeys(("in", "inch", "inches", '"'), "25.4 mm"),
    **dict.fromkeys(("ft", "feet"), "0.3048 m"),
    **dict.fromkeys(("mi", "mile", "miles"), "1.609344 km"),
    "mph": "1.609344 km/h",
    "lbf": "4.448222 N",
    "kgf": "9.80665 N",
    "psi": "6.894757 kPa",
    **dict.fromkeys(("degree", "degrees"), "1 deg"),
    **dict.fromkeys(("tonne", "tonnes"), "1 t"),
    "kgs": "1 kg",
}
"""Value of one unit that is not accepted: of another system, or with another name."""

_SUPERSCRIPTS = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
_TOKEN = re.compile(
    r"\s*(?:(?P<power>(?:\^|\*\*)\s*-?\d|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]{1,2}|(?<=[A-Za-z])[2-9])|(?P<sign>[*·⋅×/()√])|(?P<name>[A-Za-zµμ]+|[1%°]))"
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DEEPEST = 20


class _Parser:
    """Recursive descent over `product of powers`; a division applies to the next factor only."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[tuple[str, str]] = []
        position = 0
        stripped = text.rstrip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None or match.lastgroup is None:
                rest = stripped[position:].strip()[:10]
                self.fail(f"at {rest!r}{_find_hint(rest)}")
            self.tokens.append((match.lastgroup, match[match.lastgroup]))
            position = match.end()
        self.next = 0
        self.depth = 0

    def fail(self, why: str) -> NoReturn:
        raise UnitError(f"{self.text.strip()[:40]!r} is not a unit: {why}")

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.next] if self.next < len(self.tokens) else ("end", "")

    def take(self) -> tuple[str, str]:
        token = self.peek()
        self.next += 1
        return token

    def parse(self) -> tuple[float, Dimension]:
        result = self.product()
        if self.peek()[0] != "end":
            self.fail(f"unexpected {self.peek()[1]!r}")
        return result

    def product(self) -> tuple[float, Dimension]:
        self.depth += 1
        if self.depth > _DEEPEST:
            self.fail("nested too deeply")
        if self.peek() == ("sign", "/"):
            factor, dimension = 1.0, _dimension()
        else:
            factor, dimension = self.power()
        divided = False
        while self.peek()[0] != "end" and self.peek()[1] != ")":
            sign = 1
            if self.peek()[0] == "sign" and self.peek()[1] in "*·⋅×/":
                sign = -1 if self.take()[1] == "/" else 1
            if divided and sign > 0:
                self.fail("a product after a division needs parentheses")
            divided = divided or sign < 0
            f, d = self.power()
            factor *= f**sign
            dimension = _add(dimension, d, Fraction(sign))
        self.depth -= 1
        return factor, dimension

    def power(self) -> tuple[float, Dimension]:
        factor, dimension = self.base()
        if self.peek()[0] == "power":
            text = self.take()[1].translate(_SUPERSCRIPTS).lstrip("^* ")
            try:
                exponent = int(text)
            except ValueError:
                self.fail(f"bad exponent {text!r}")
            if abs(exponent) > 9:
                self.fail("exponent too large")
            return factor**exponent, _add(_dimension(), dimension, Fraction(exponent))
        return factor, dimension

    def base(self) -> tuple[float, Dimension]:
        kind, text = self.take()
        if text == "√" or (text == "sqrt" and self.peek()[1] == "("):
            if text == "√" and self.peek()[0] == "sign" and self.peek()[1] != "(":
                self.fail("nothing under the root")
            factor, dimension = self.base()
            return math.sqrt(factor), _add(_dimension(), dimension, Fraction(1, 2))
        if text == "(":
            result = self.product()
            if self.take()[1] != ")":
                self.fail("missing ')'")
            return result
        if kind == "name":
            if text in _UNITS:
                return _UNITS[text]
            self.fail(f"unknown {text!r}{_find_hint(text)}")
        self.fail(f"unexpected {text!r}" if text else "it ends too early")


def _find_hint(name: str) -> str:
    if name in _NOT_TAKEN:
        return f"; one is {_NOT_TAKEN[name]}"
    near = next((unit for unit in _UNITS if unit.lower() == name.lower()), None)
    return "" if near is None else f"; did you mean {near!r}?"


def _add(a: Dimension, b: Dimension, times: Fraction) -> Dimension:
    return a[0] + times * b[0], a[1] + times * b[1], a[2] + times * b[2], a[3] + times * b[3]


_SPEED = _dimension(length=1, time=-1)


@lru_cache(maxsize=1024)
def parse_unit(text: str) -> tuple[float, Dimension]:
    """(factor to SI and radians, dimension) of a unit such as `kN/mm`, `kg·m²`, `rad/s/sqrt(Hz)`.

    Raises UnitError.
    """
    if len(text) > 100:
        raise UnitError("too long for a unit")
    factor, dimension = _Parser(text).parse()
    if not (0.0 < factor < math.inf):
        raise UnitError(f"{text.strip()!r} is not a unit: out of range")
    return factor, dimension


_ALSO_USUAL = {
    "m/s": "km/h",
    "m/s²": "g",
    "rad": "deg",
    "rad/s": "deg/s",
    "Pa": "bar",
    "N·m": "kN·m",
    "s": "ms",
}
"""For the unit of a channel: another unit in which it is often measured."""


def calc_factor(unit: str, wanted: str, radius: float | None = None, rolls: bool = False) -> float:
    """Factor that converts a number in `unit` to `wanted`; empty texts are dimensionless.

    `radius`, m, converts a speed to the rate of a wheel that rolls at it; `rolls`: whether it is one of a
    wheel. Raises UnitError, also for a radius that has no effect.
    """
    to_factor, to_dimension = parse_unit(wanted or "1")
    example = f", such as {_ALSO_USUAL[wanted]}" if wanted in _ALSO_USUAL else ""
    expected = f"expected a unit like {wanted or '1'}{example}"
    got = f"got {unit[:40]!r}" if unit else "got none"
    try:
        factor, dimension = parse_unit(unit or "1")
    except UnitError:
        raise UnitError(f"{expected}, {got}") from None
    if radius is not None:
        if not rolls:
            raise UnitError("expected `radius` only beside the speed of a wheel")
        if dimension != _SPEED:
            raise UnitError(f"expected a unit like m/s or km/h beside `radius`, {got}")
        return factor / radius / to_factor
    if dimension != to_dimension:
        also = ", or a speed with a radius" if rolls else ""
        raise UnitError(f"{expected}{also}, {got}")
    return factor / to_factor


def split_quantity(text: str) -> tuple[list[float], str]:
    """Numbers and unit text of `1.25 0.35 0.22 m`; the unit is empty if there is none. Raises UnitError.

    A last `1` right before a slash belongs to the unit: `20 1/rad`.
    """
    numbers: list[str] = []
    position = 0
    text = text.strip()
    while match := _NUMBER.match(text, position):
        numbers.append(match[0])
        position = match.end()
        while position < len(text) and text[position] in " \t,":
            position += 1
    unit = text[position:]
    if unit.startswith("/") and len(numbers) > 1 and numbers[-1] == "1":
        numbers.pop()
    if not numbers:
        raise UnitError(f"{text[:40]!r} does not start with a number")
    return [float(n) for n in numbers], unit


def to_si(quantity: float | str, unit: str) -> float:
    """A quantity in SI; `unit` is one of its dimension, such as `m/s`. A number without a unit is in SI.

    Raises UnitError, also for a text without a unit.
    """
    if not isinstance(quantity, str):
        return float(quantity)
    numbers, own = split_quantity(quantity)
    factor, dimension = parse_unit(own or "1")
    if len(numbers) != 1 or dimension != parse_unit(unit)[1]:
        raise UnitError(f"expected a number in {unit}, got {quantity[:40]!r}")
    return numbers[0] * factor


@dataclass(frozen=True)
class Unit:
    """Metadata for `Annotated[float, Unit("kg")]`: the unit of the field.

    The value is always converted to SI. With `plain`, a number without a unit is also accepted, in this unit.
    """

    symbol: str
    plain: bool = False
    reason: str = ""
    """Reason for this unit, if another value in the file has determined it: `as steering.source is wheel`."""

    def __post_init__(self) -> None:
        parse_unit(self.symbol)

    @property
    def factor(self) -> float:
        """Factor that converts a number in this unit to SI units."""
        return parse_unit(self.symbol)[0]

    @property
    def dimension(self) -> Dimension:
        """Exponents of mass, length, time and angle."""
        return parse_unit(self.symbol)[1]

    @property
    def expectation(self) -> str:
        """Text that was expected: `a mass such as '1500 kg'`."""
        reason = self.reason and f", {self.reason}"
        if self.factor != 1.0:
            return f"a number or a quantity such as '5 {self.symbol}'{reason}"
        noun, example = _EXAMPLES.get(self.dimension, (f"a quantity in {self.symbol}", f"1 {self.symbol}"))
        return f"{noun} such as '{example}'{reason}"


@dataclass(frozen=True)
class UnitBy:
    """Metadata for a quantity whose unit depends on another value in the file, such as the kind of a sensor."""

    units: Mapping[str, Unit] = dataclass_field(hash=False)
    """Units by the value that determines them; for any other value the quantity is a plain number."""
    field: str = ""
    """The field of the same section that determines the unit; empty: the key of the section."""


@dataclass(frozen=True)
class Range:
    """Metadata for `Annotated[…, Range(lo, hi)]`: the closed interval of allowed SI values."""

    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    """Whether `low` itself is excluded."""

    def __contains__(self, value: float) -> bool:
        return (self.low < value if self.above else self.low <= value) and value <= self.high

    def describe(self, unit: Unit) -> str:
        """The bounds in a unit: `above 0 kg and at most 5 kg`; whole degrees in those."""
        bounds = [math.degrees(b) for b in (self.low, self.high) if math.isfinite(b)]
        if unit.symbol == "rad" and any(bounds) and all(math.isclose(b, round(b)) for b in bounds):
            unit = _DEGREES
        symbol = "" if unit.symbol == "1" else f" {unit.symbol}"
        word = "above" if self.above else "at least"
        low = f"{word} {self.low / unit.factor:g}{symbol}" if self.low > -math.inf else ""
        high = f"at most {self.high / unit.factor:g}{symbol}" if self.high < math.inf else ""
        return " and ".join(filter(None, (low, high)))


_DEGREES = Unit("deg")
Positive = Range(low=0.0, above=True)
NonNegative = Range(low=0.0)

_QUANTITIES = (
    ("1", "a number", "0.9"),
    ("kg", "a mass", "1500 kg"),
    ("m", "a length", "0.35 m"),
    ("m²", "an area", "2.1 m²"),
    ("s", "a time", "20 ms"),
    ("rad", "an angle", "3 deg"),
    ("Hz", "a frequency", "250 Hz"),
    ("N", "a force", "900 N"),
    ("N·m", "a torque", "300 N·m"),
    ("N/m", "a stiffness", "30 kN/m"),
    ("N/m²", "a pressure", "80 bar"),
    ("N·s/m", "a damping", "1500 N·s/m"),
    ("N/rad", "a cornering stiffness", "80 kN/rad"),
    ("N·m/rad", "a torsional stiffness", "500 N·m/deg"),
    ("N·m·s/rad", "a torsional damping", "2 N·m·s/rad"),
    ("kg·m²", "a moment of inertia", "2500 kg·m²"),
    ("kg/m³", "a density", "1.2 kg/m³"),
    ("m/s", "a speed", "20 m/s"),
    ("m/s²", "an acceleration", "9.81 m/s²"),
    ("m/s³", "a rate of acceleration", "1 m/s³"),
    ("rad/s", "an angular rate", "10 deg/s"),
    ("rad/s²", "an angular acceleration", "1 rad/s²"),
    ("N·m/Pa", "a torque per pressure", "150 N·m/MPa"),
)
"""SI unit, quantity, and an example as a user would write it."""
_EXAMPLES: dict[Dimension, tuple[str, str]] = {
    parse_unit(symbol)[1]: (noun, example) for symbol, noun, example in _QUANTITIES
}
_NAMES = {parse_unit(symbol)[1]: symbol for symbol, *_ in _QUANTITIES}


def name_unit(dimension: Dimension) -> str:
    """The unit in SI and radians of a dimension, such as `N·m`; `kg·m·s^-3` if it has no name."""
    if dimension in _NAMES:
        return _NAMES[dimension]
    powers = zip(("kg", "m", "s", "rad"), dimension, strict=True)
    return "·".join(name if power == 1 else f"{name}^{power}" for name, power in powers if power)


Vector = tuple[float, float, float]

Kilograms = Annotated[float, Unit("kg")]
KilogramSquareMetres = Annotated[float, Unit("kg·m²")]
Metres = Annotated[float, Unit("m")]
SquareMetres = Annotated[float, Unit("m²")]
MetresPerSecond = Annotated[float, Unit("m/s")]
MetresPerSecondSquared = Annotated[float, Unit("m/s²")]
Seconds = Annotated[float, Unit("s")]
Hertz = Annotated[float, Unit("Hz")]
Radians = Annotated[float, Unit("rad")]
RadiansPerSecond = Annotated[float, Unit("rad/s")]
Newtons = Annotated[float, Unit("N")]
Pascals = Annotated[float, Unit("Pa")]
NewtonsPerMetre = Annotated[float, Unit("N/m")]
NewtonSecondsPerMetre = Annotated[float, Unit("N·s/m")]
NewtonsPerRadian = Annotated[float, Unit("N/rad")]
NewtonMetres = Annotated[float, Unit("N·m")]
NewtonMetresPerRadian = Annotated[float, Unit("N·m/rad")]
NewtonMetreSecondsPerRadian = Annotated[float, Unit("N·m·s/rad")]
NewtonMetresPerPascal = Annotated[float, Unit("N·m/Pa")]

MetresVector = Annotated[Vector, Unit("m")]
RadiansVector = Annotated[Vector, Unit("rad")]
_FULL_TURN = Range(-2 * math.pi, 2 * math.pi)
Direction = Annotated[Radians, _FULL_TURN]
"""Up to a full turn in either direction; with it a number in degrees given as rad is detected."""
Rotation = Annotated[RadiansVector, _FULL_TURN]
"""Same for three angles."""
RadiansPerSecondVector = Annotated[Vector, Unit("rad/s")]
KilogramSquareMetresVector = Annotated[Vector, Unit("kg·m²")]
