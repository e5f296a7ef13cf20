"""Drives at the date line, near the poles, high above the sea and far from the origin of the world."""

import json
import math
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pymap3d
import pytest
from log_check_rig import check, drive

from vehicled.cli import main
from vehicled.daemon.recorder import Recorder
from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, Estimate, Measurement
from vehicled.report.data import load_run

ORIGINS = {
    "date line": (52.0, 179.9999, 100.0),
    "date line, eastern hemisphere": (-17.0, -179.9999, 0.0),
    "high": (28.0, 87.0, 4000.0),
    "below the sea": (31.5, 35.5, -430.0),
    "arctic": (85.0, 20.0, 100.0),
    "pole": (89.9, 179.9999, 0.0),
}
S = 1_000_000_000


@pytest.mark.parametrize("place", ORIGINS.values(), ids=ORIGINS)
def test_coordinates_along_a_drive_are_those_of_its_places(place: tuple[float, float, float]) -> None:
    """To a tenth of a millimetre, and with longitudes within half a turn."""
    origin = WorldOrigin(*place)
    for k in range(2000):
        position = np.array([0.1 * k - 100.0, 0.02 * k, 0.0])
        geodetic = origin.to_geodetic(position)
        assert np.linalg.norm(origin.to_world(*geodetic) - position) < 1e-4
        assert abs(geodetic[1]) <= 180.0


def test_longitudes_are_scored_across_the_date_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those of a truth that counts them up to 360°, and between its samples."""
    (tmp_path / "estimates.csv").write_text("t,lon\n0,179.99\n0.5,-180\n1,-179.99\n")
    for west in (-179.99, 180.01):
        (tmp_path / "truth.csv").write_text(f"t,lon\n0,179.99\n1,{west}\n")
        assert main(["score", "--json", str(tmp_path / "estimates.csv"), str(tmp_path / "truth.csv")]) == 0
        assert json.loads(capsys.readouterr().out)["lon"]["max"] < 1e-9


def test_a_track_has_longitudes_beyond_half_a_turn(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,gnss.lat,gnss.lon\n0,-17,179.5\n1,-17,180.5\n2,-17,359.5\n")
    assert main(["convert", str(tmp_path / "a.csv"), str(tmp_path / "a.gpx")]) == 0
    points = ElementTree.parse(tmp_path / "a.gpx").findall(".//{*}trkpt")
    assert [float(p.attrib["lon"]) for p in points] == [179.5, -179.5, -0.5]


def test_a_log_is_right_at_the_date_line() -> None:
    """With a receiver of 5 Hz, between whose fixes positions are interpolated."""
    moved, last = [], -S
    for m in drive():
        values = m.values
        if "gnss.lon" in values:
            if m.t - last < 0.19 * S:
                continue
            last = m.t
            lon = values["gnss.lon"] + 8.41 + 179.9998
            values = values | {"gnss.lon": math.remainder(lon, 360.0)}
        moved.append(Measurement(m.source, m.t, m.arrival, values))
    signs = {m.values["gnss.lon"] > 0.0 for m in moved if "gnss.lon" in m.values}
    assert signs == {True, False}
    assert check(moved) == []


def _record(path: Path, origin: WorldOrigin, away: float) -> None:
    """A drive of 500 m to the north-east of a place `away` m east of the origin; fixes without errors."""
    with Recorder(path, "", 0, 0) as recorder:
        for k in range(50):
            position = np.array([away + 10.0 * k, 10.0 * k, -away * away / 2 / 6.371e6])
            lat, lon, alt = pymap3d.enu2geodetic(*position, origin.latitude, origin.longitude, origin.height)
            values = np.full(len(ESTIMATE_COLUMNS), math.nan)
            for column, value in zip(
                ("x", "y", "z", "lat", "lon", "alt"), (*position, lat, lon, alt), strict=True
            ):
                values[ESTIMATE_INDEX[column]] = value
            fix = Measurement("gnss", k * S, k * S, {"gnss.lat": lat, "gnss.lon": lon, "gnss.alt": alt})
            recorder.record_step(k * S, [fix], Estimate(k * S, values), [], None)


@pytest.mark.parametrize("away", [0.0, 4000.0])
@pytest.mark.parametrize("place", ORIGINS.values(), ids=ORIGINS)
def test_a_report_draws_fixes_where_the_estimates_are(
    tmp_path: Path, place: tuple[float, float, float], away: float
) -> None:
    _record(tmp_path / "run.mcap", WorldOrigin(*place), away)
    run = load_run(tmp_path / "run.mcap")
    there = np.column_stack([run.estimates.columns[c] for c in "xy"])
    assert np.abs(run.fixes - there).max() < 0.02
