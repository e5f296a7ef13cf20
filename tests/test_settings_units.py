"""Units: conversion to SI, distinction of dimensions, and refused text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.units import Range, Unit, UnitError, parse_unit, split_quantity


@pytest.mark.parametrize(
    ("text", "factor", "same_as"),
    [
        ("kN/mm", 1e6, "N/m"),
        ("N/mm", 1e3, "kg/s²"),
        ("kg·m²", 1.0, "kg*m^2"),
        ("kg m²", 1.0, "kg·m**2"),
        ("N·m/deg", 180 / math.pi, "N·m/rad"),
        ("1/deg", 180 / math.pi, "rad^-1"),
        ("km/h", 1 / 3.6, "m/s"),
        ("kn", 1852 / 3600, "m/s"),
        ("rpm", math.pi / 30, "rad/s"),
        ("rev/min", math.pi / 30, "rad·s⁻¹"),
        ("bar", 1e5, "N/m²"),
        ("hPa", 100.0, "kg/(m·s²)"),
        ("%", 0.01, "1"),
        ("ms", 1e-3, "s"),
        ("mm", 1e-3, "m"),
        ("min", 60.0, "s"),
        ("kHz", 1e3, "1/s"),
        ("(mm/s²)²/Hz", 1e-6, "m²/s³"),
        ("rad/s/sqrt(Hz)", 1.0, "rad/√s"),
        ("deg/√h", math.pi / 180 / 60, "rad/sqrt(s)"),
        ("µm/s²/√Hz", 1e-6, "m/s/√s"),
        ("kW", 1e3, "N·m/s"),
        ("kNm/rad", 1e3, "N·m/rad"),
        ("g", 9.80665, "m/s²"),
        ("µg/√Hz", 9.80665e-6, "m/s²/√Hz"),
        ("m2", 1.0, "m²"),
        ("kg·m2/s2", 1.0, "J"),
    ],
)
def test_units_convert_to_si(text: str, factor: float, same_as: str) -> None:
    got, dimension = parse_unit(text)
    assert got == pytest.approx(factor, rel=1e-12)
    assert dimension == parse_unit(same_as)[1]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("lb", "unknown 'lb'; one is 0.45359237 kg"),
        ("in", "unknown 'in'; one is 25.4 mm"),
        ('"', "; one is 25.4 mm"),
        ("lbf/in", "unknown 'lbf'; one is 4.448222 N"),
        ("degrees/s", "unknown 'degrees'; one is 1 deg"),
        ("Kg", "unknown 'Kg'; did you mean 'kg'?"),
    ],
)
def test_an_unknown_unit_is_refused_with_its_value_in_a_known_one(text: str, hint: str) -> None:
    with pytest.raises(UnitError) as error:
        parse_unit(text)
    assert str(error.value).endswith(hint)
    if "one is" in hint:
        _, unit = split_quantity(hint.rpartition("one is ")[2])
        parse_unit(unit)


@pytest.mark.parametrize(
    ("a", "b"),
    [("N/rad", "N"), ("rad/s", "Hz"), ("kg", "N"), ("m", "mrad"), ("%", "deg"), ("g", "kg"), ("mg", "kg")],
)
def test_units_of_different_dimension_are_distinguished(a: str, b: str) -> None:
    assert parse_unit(a)[1] != parse_unit(b)[1]


@pytest.mark.parametrize(
    "text",
    [
        "kgf",
        "Gg",
        "N//m",
        "N/m·s",
        "m^",
        "m^x",
        "(m",
        "m)",
        "√",
        "√√m",
        "m²²²",
        "m^-99",
        "3",
        "()",
        "N/",
        "kN/mm³³",
    ],
)
def test_text_that_is_no_unit_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_unit(text)


@pytest.mark.parametrize(
    ("text", "numbers", "unit"),
    [
        ("1500 kg", [1500.0], "kg"),
        ("5%", [5.0], "%"),
        ("1.25 -0.35 .22 m", [1.25, -0.35, 0.22], "m"),
        ("1, 2, 3 mm", [1.0, 2.0, 3.0], "mm"),
        ("20 1/rad", [20.0], "/rad"),
        ("1/s", [1.0], "/s"),
        ("1e-3 (m/s²)²/Hz", [1e-3], "(m/s²)²/Hz"),
        ("7", [7.0], ""),
    ],
)
def test_quantities_split_into_numbers_and_unit(text: str, numbers: list[float], unit: str) -> None:
    assert split_quantity(text) == (numbers, unit)


@given(st.text(alphabet="1029.eE+-/*·^²⁻√()kgmNsradHz% ", max_size=40))
def test_any_text_is_a_unit_or_refused(text: str) -> None:
    try:
        factor, _ = parse_unit(text)
    except UnitError:
        return
    assert 0.0 < factor < math.inf


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_that_are_written_read_back_exactly(value: float) -> None:
    assert split_quantity(f"{value!r} N/m") == ([value], "N/m")


def test_a_field_with_an_unknown_unit_is_an_error() -> None:
    with pytest.raises(UnitError):
        Unit("furlong")


def test_range_bounds() -> None:
    assert 0.0 in Range(0.0, 1.0)
    assert 1.0 in Range(0.0, 1.0)
    assert 0.0 not in Range(0.0, above=True)
    assert math.nan not in Range(0.0, 1.0)
