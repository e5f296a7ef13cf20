"""The motion of a rigid body at another of its points: closed forms, and paths differentiated numerically."""

import math

import numpy as np
import pytest

from vehicled.maths.geodesy import WorldOrigin
from vehicled.points import POINT_COLUMNS, find_point, move, rotations, with_point

T = np.linspace(0.0, 2.0, 40)


def smooth(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position (n, 3) and roll, pitch, yaw (n, 3) of a car that rolls, pitches, turns and climbs."""
    place = np.stack([15.0 * t, 3.0 * np.sin(t), 0.3 + 0.05 * np.sin(3 * t)], axis=1)
    angles = np.stack([0.05 * np.sin(2 * t), 0.03 * np.cos(3 * t), 0.4 * np.sin(t)], axis=1)
    return place, angles


def path(t: np.ndarray, arm: tuple[float, float, float]) -> np.ndarray:
    """(n, 3) positions of a point of the body."""
    place, angles = smooth(t)
    return place + rotations(*angles.T) @ np.array(arm)


def slope(f, t: np.ndarray, h: float = 1e-4) -> np.ndarray:
    """Central difference of fourth order."""
    return (8 * (f(t + h) - f(t - h)) - (f(t + 2 * h) - f(t - 2 * h))) / (12 * h)


def body_rates(t: np.ndarray) -> np.ndarray:
    """(n, 3) ω in body axes, from Rᵀ dR/dt."""
    R, rate = rotations(*smooth(t)[1].T), slope(lambda s: rotations(*smooth(s)[1].T), t)
    skew = np.swapaxes(R, 1, 2) @ rate
    return np.stack([skew[:, 2, 1], skew[:, 0, 2], skew[:, 1, 0]], axis=1)


def table(arm: tuple[float, float, float]) -> dict[str, np.ndarray]:
    """All columns of a table for a point, by numerical differentiation of its path."""
    R = rotations(*smooth(T)[1].T)
    v = np.einsum("nji,nj->ni", R, slope(lambda t: path(t, arm), T))
    a = np.einsum("nji,nj->ni", R, slope(lambda t: slope(lambda s: path(s, arm), t, 1e-3), T, 1e-3))
    columns = dict(zip(("x", "y", "z"), path(T, arm).T, strict=True))
    columns |= zip(("roll", "pitch", "yaw"), smooth(T)[1].T, strict=True)
    columns |= zip(("vx", "vy", "vz", "ax", "ay", "az"), np.hstack([v, a]).T, strict=True)
    columns |= zip(("wx", "wy", "wz"), body_rates(T).T, strict=True)
    return columns | {"sideslip": np.arctan2(v[:, 1], v[:, 0])}


@pytest.mark.parametrize("arm", [(-1.3, 0.0, 0.0), (0.0, 0.7, 0.0), (0.0, 0.0, 1.2), (2.1, -0.6, -0.3)])
def test_a_moved_table_is_that_of_the_points_own_path(arm):
    expected, moved = table(arm), move(table((0.0, 0.0, 0.0)), arm, slope(body_rates, T, 1e-3))
    assert {*expected, *POINT_COLUMNS} == moved.keys()
    for column, values in expected.items():
        assert moved[column] == pytest.approx(values, abs=1e-5 if column[0] == "a" else 1e-8), column
    assert find_point(moved) == arm


@pytest.mark.parametrize("behind", [-2.0, -1.3, 0.5, 1.4])
def test_sideslip_on_a_steady_circle(behind):
    """At a point d ahead, tan β is larger by d ψ̇/vx."""
    speed, radius, sideslip = 20.0, 50.0, -0.05
    vx, vy, wz = speed * math.cos(sideslip), speed * math.sin(sideslip), speed / radius
    circle = {"vx": vx, "vy": vy, "wz": wz, "sideslip": sideslip}
    moved = move({c: np.full(3, v) for c, v in circle.items()}, (behind, 0.0, 0.0))
    assert moved["sideslip"] == pytest.approx([math.atan(math.tan(sideslip) + behind * wz / vx)] * 3)
    # The foot of the perpendicular from the centre of the circle on the car's axis moves straight ahead.
    still = move({c: np.full(3, v) for c, v in circle.items()}, (-vy / wz, 0.0, 0.0))
    assert still["sideslip"] == pytest.approx([0.0] * 3, abs=1e-15)
    assert still["vx"] == pytest.approx([vx] * 3)


def test_moving_a_table_there_and_back_restores_it():
    alpha = slope(body_rates, T, 1e-3)
    given = table((0.0, 0.0, 0.0))
    back = move(move(given, (1.0, -0.4, 0.7), alpha), (0.0, 0.0, 0.0), alpha)
    for column, values in given.items():
        assert back[column] == pytest.approx(values, abs=1e-12), column


def test_latitude_and_longitude_move_with_the_position():
    origin, arm = WorldOrigin(43.33, -8.41, 100.0), (2.0, -1.0, 0.5)

    def with_geodetic(columns):
        places = np.array(
            [origin.to_geodetic(p) for p in np.column_stack([columns[c] for c in ("x", "y", "z")])]
        )
        return columns | dict(zip(("lat", "lon", "alt"), places.T, strict=True))

    moved = move(with_geodetic(table((0.0, 0.0, 0.0))), arm)
    places = zip(*(moved[c] for c in ("lat", "lon", "alt")), strict=True)
    expected = np.column_stack([moved[c] for c in ("x", "y", "z")])
    assert np.array([origin.to_world(*p) for p in places]) == pytest.approx(expected, abs=1e-3)


def test_columns_that_cannot_be_moved_are_left_out():
    full = table((0.0, 0.0, 0.0)) | {"slip.fl.angle": T, "sigma.vy": T}
    moved = move(full, (1.0, 0.0, 0.0))
    assert full.keys() - moved.keys() == {"ax", "ay", "az"}
    assert moved["slip.fl.angle"] is full["slip.fl.angle"]
    assert moved["sigma.vy"] is full["sigma.vy"]
    without = move(
        {c: v for c, v in full.items() if c not in ("wz", "yaw", "ax", "ay", "az")}, (1.0, 0.0, 0.0)
    )
    assert full.keys() - without.keys() == {
        *("x", "y", "z", "yaw", "wz", "vx", "vy", "vz", "ax", "ay", "az", "sideslip")
    }


def test_rows_with_missing_values_stay_missing():
    given = {c: v.copy() for c, v in table((0.0, 0.0, 0.0)).items()}
    given["wz"][3] = given["yaw"][5] = math.nan
    moved = move(given, (1.0, 0.5, 0.0))
    assert np.flatnonzero(np.isnan(moved["vy"])).tolist() == [3]
    assert np.flatnonzero(np.isnan(moved["x"])).tolist() == [5]


def test_a_table_contains_its_point():
    assert find_point({"x": T}) is None
    assert find_point(with_point({"x": T}, (1.0, 2.0, 3.0))) == (1.0, 2.0, 3.0)
    assert find_point({c: np.full(3, math.nan) for c in POINT_COLUMNS}) is None
