"""Forces in the joints as an output: off by default, without effect on estimates, in messages, files and tables."""

import dataclasses
import json
from functools import cache

import msgspec
import numpy as np
import pytest
from estimator_rig import RoadRun, cruise, prototype, steps

import vehicled
from replay.csv_log import EstimatesWriter, read_estimates
from replay.mcap_log import McapLog
from vehicled import schemas
from vehicled.cli import main
from vehicled.configuration import parse_configuration
from vehicled.daemon.recorder import Recorder
from vehicled.daemon.recording_file import Contents, RecordRates
from vehicled.messages import ESTIMATE_COLUMNS, LOAD_COLUMNS, WHEELS


@cache
def run(loads: bool) -> RoadRun:
    return RoadRun(
        dataclasses.replace(prototype(), loads=loads), steps(cruise().measurements(52, gnss="rtk")[:4000])
    )


def column(estimates, name: str) -> np.ndarray:
    return np.array([e.loads[LOAD_COLUMNS.index(name)] for e in estimates])


def test_loads_are_off_by_default_and_change_no_estimate():
    assert parse_configuration(prototype().text).loads is False
    assert parse_configuration(prototype().text.replace("  loads: false", "  loads: true")).loads is True
    assert {e.loads is None for e in run(False).estimates} == {True}
    with_loads = run(True)
    assert with_loads.values.tobytes() == run(False).values.tobytes()
    assert np.isfinite([e.loads for e in with_loads.estimates]).all()


def test_loads_of_an_estimate_fit_its_tyre_and_suspension_forces():
    result = run(True)
    t = (result.t - result.t[0]) * 1e-9
    settled = t > 1.0
    for w in WHEELS:
        parts = (f"{part}.{w}.force" for part in ("spring", "damper", "stops"))
        strut = sum(column(result.estimates, part) for part in parts)
        assert strut == pytest.approx(result[f"suspension.{w}.force"], abs=1e-6)
        # In the mean over the road, a bearing carries the tyre's load less the wheel's weight.
        bearing = column(result.estimates, f"wheel_bearing.{w}.fz")[settled].mean()
        axle = prototype().vehicle.axle(w)
        weight = axle.wheel.mass * prototype().vehicle.gravity
        assert bearing == pytest.approx(result[f"tyre.{w}.fz"][settled].mean() - weight, rel=0.01)


def test_the_message_has_every_column_and_fits_its_schema():
    last = run(True).estimates[-1]
    message = json.loads(schemas.encode_loads(last))
    assert list(message) == ["schema", "t", *LOAD_COLUMNS]
    assert list(message.values())[2:] == pytest.approx(last.loads, abs=0.0051)
    msgspec.convert(message, schemas.Loads)
    properties = schemas.json_schema("loads")["properties"]
    assert properties["tie_rod.fl.force"]["unit"] == "N"
    assert properties["upper_hinge.rr.mz"]["unit"] == properties["brake.rr.torque"]["unit"] == "N·m"
    assert schemas.decode_estimate("loads", schemas.encode_loads(last))[1] == dict(list(message.items())[2:])


def test_recordings_contain_loads_at_the_configured_rate(tmp_path):
    path = tmp_path / "run.mcap"
    estimates = run(True).estimates[:250]
    with Recorder(path, "", estimates[0].t, 0, contents=Contents(RecordRates(loads=50.0))) as recorder:
        for e in estimates:
            recorder.record_step(e.t, [], e, [])
    found = McapLog(path).read_run().estimates.columns
    values = np.column_stack([found[c] for c in LOAD_COLUMNS])
    recorded = np.isfinite(values).all(axis=1)
    assert recorded.sum() == pytest.approx(50, abs=1)
    expected = np.array([e.loads for e in estimates])
    assert values[recorded] == pytest.approx(expected[recorded], abs=0.0051)
    read = vehicled.Estimates.read(path)
    assert read.columns == (*ESTIMATE_COLUMNS, *LOAD_COLUMNS)
    # A table converted from the recording has the same loads.
    table = tmp_path / "estimates.csv"
    assert main(["convert", str(path), str(table), "--estimates"]) == 0
    converted = read_estimates(table).columns["tie_rod.fl.force"]
    assert np.array_equal(converted, found["tie_rod.fl.force"], equal_nan=True)


def test_tables_have_columns_of_loads_after_the_estimate(tmp_path):
    path = tmp_path / "estimates.csv"
    estimates = run(True).estimates[:20]
    with EstimatesWriter(path, (0.1, 0.0, 0.0), loads=True) as writer:
        for e in estimates:
            writer.write(e)
    table = read_estimates(path)
    assert list(table.columns) == [*ESTIMATE_COLUMNS, *LOAD_COLUMNS, "point.x", "point.y", "point.z"]
    assert table.columns["upper_hinge.rl.my"].tolist() == column(estimates, "upper_hinge.rl.my").tolist()
    assert vehicled.Estimates.from_rows(estimates)["brake.fr.torque"].shape == (20,)
    assert "brake.fr.torque" not in vehicled.Estimates.from_rows(run(False).estimates[:20]).columns
