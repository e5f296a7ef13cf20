"""Estimates of another point than the vehicle origin: motion, standard deviations, files, and `vehicled score`."""

import csv
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
from estimator_rig import Run, cruise, prototype, steps

import vehicled
from replay.csv_log import read_estimates
from vehicled.cli import main
from vehicled.configuration import Configuration, File, configure
from vehicled.errors import SettingsError, UsageError
from vehicled.estimator import Estimator
from vehicled.filter.states import ATTITUDE
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX
from vehicled.points import POINT_COLUMNS, move, rotations
from vehicled.reading.settings import config_path, loads
from vehicled.schemas import TOPIC_COLUMNS, resolution_of
from vehicled.simulation.drive import Truth
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.sources.output import parse_point
from vehicled.vehicle.arrays import POSE

TEXT = config_path("prototype").read_text(encoding="utf-8")
DEFAULT = "  point: center_of_mass "
assert TEXT.count(DEFAULT) == 1
ARM = (-1.3, 0.4, 0.6)
MOVED = ("x", "y", "z", "lat", "lon", "alt", "vx", "vy", "vz", "ax", "ay", "az", "sideslip")
SIGMAS = ("x", "y", "z", "vx", "vy", "sideslip")


def at(point: tuple[float, float, float]) -> Configuration:
    return dataclasses.replace(prototype(), point=point)


# -- where points are ----------------------------------------------------------------------------------------


def place(point: str, text: str = TEXT) -> tuple[float, float, float]:
    return configure(loads(text.replace(DEFAULT, f"  point: {point} "), File), "").point


def test_points_are_given_by_name_or_coordinates():
    """The prototype: wheel centres at 0 and −2.55 m of the design frame, 0.294 and 0.3005 m high."""
    front, rear = place("front_axle"), place("rear_axle")
    assert np.subtract(front, rear) == pytest.approx((2.55, 0.0, 0.294 - 0.3005), abs=1e-12)
    origin = prototype().vehicle.center_of_mass()
    assert front == pytest.approx((0.0 - origin[0], 0.0, 0.294 - origin[2]))
    assert place("imu") == (0.10, 0.0, -0.15)
    assert place("antenna") == (-0.30, 0.0, 0.75)
    assert place("-80 0 95 cm") == pytest.approx((-0.8, 0.0, 0.95))
    assert place("center_of_mass") == prototype().point == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (
            "bumper",
            "expected center_of_mass, front_axle, .* or antenna or 3 numbers and a unit .m., got 'bumper'",
        ),
        ("1 2 3", "got '1 2 3'"),
        ("1 2 3 deg", "got '1 2 3 deg'"),
        ("1 2 m", "got '1 2 m'"),
    ],
)
def test_an_invalid_point_is_refused(point, message):
    with pytest.raises(SettingsError, match=rf"^<text>:\d+: output\.point: .*{message}$"):
        place(point)


def test_the_point_of_a_sensor_that_is_not_configured_is_refused():
    vehicle = TEXT[TEXT.index("vehicle:") : TEXT.index("\nsensors:")]
    for sensor, name in (("imu", "imu"), ("gnss", "antenna")):
        with pytest.raises(
            SettingsError, match=rf"<text>:3: output\.point: expected sensors\.{sensor}, whose place"
        ):
            loads(f"sensors: {{{sensor}: null}}\noutput:\n  point: {name}\n{vehicle}", File)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rear_axle", "rear_axle"),
        ("-1.3,0,0.1", (-1.3, 0.0, 0.1)),
        ("-130 0 10 cm", (-1.3, 0.0, 0.1)),
        ("1, 2, 3 m", (1.0, 2.0, 3.0)),
    ],
)
def test_points_on_the_command_line_are_read(text, expected):
    point = parse_point(text)
    assert point == expected if isinstance(expected, str) else point == pytest.approx(expected)


@pytest.mark.parametrize(
    "text", ["", "rear", "1,2", "1,2,3,4", "1,2,3 s", "1,2,3 furlong", "1e999,0,0", "-1300mm,0,0"]
)
def test_an_invalid_point_on_the_command_line_is_refused(text):
    with pytest.raises(
        UsageError,
        match=r"expected one of center_of_mass, .*, or x,y,z from .*: in m, or with one unit behind all three",
    ) as error:
        parse_point(text)
    assert "\n" not in str(error.value)


# -- the estimator -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured():
    return steps(cruise(4.0).measurements(seed=2))


@pytest.fixture(scope="module")
def of_origin(measured):
    return Run(prototype(), measured)


@pytest.fixture(scope="module")
def of_point(measured):
    return Run(at(ARM), measured, estimator=Estimator(at(ARM)))


def test_only_quantities_of_the_point_change(of_origin, of_point):
    assert of_point.t.tolist() == of_origin.t.tolist()
    stay = [c for c in ESTIMATE_COLUMNS if c not in (*MOVED, *(f"sigma.{s}" for s in SIGMAS))]
    for column in stay:
        assert of_point[column].tobytes() == of_origin[column].tobytes(), column
    expected = move(dict(zip(ESTIMATE_COLUMNS, of_origin.values.T, strict=True)), ARM)
    for column in set(MOVED) & expected.keys():
        tolerance = {"lat": 1e-9, "lon": 1e-9, "alt": 1e-4}.get(column, 1e-7)  # 0.1 mm
        assert of_point[column] == pytest.approx(expected[column], abs=tolerance), column
    assert [i.nis for i in of_point.innovations] == [i.nis for i in of_origin.innovations]


def test_acceleration_is_that_of_a_rigid_body(of_origin, of_point):
    """For the last estimate, with the angular acceleration of the filter's car."""
    alpha = of_point.estimator.filter.pose[[POSE.index(f"alpha.{a}") for a in "xyz"]]
    w, before, after = (
        np.array([run[f"{name}{a}"][-1] for a in "xyz"])
        for run, name in ((of_origin, "w"), (of_origin, "a"), (of_point, "a"))
    )
    assert np.abs(alpha).max() > 1e-3
    assert after - before == pytest.approx(np.cross(alpha, ARM) + np.cross(w, np.cross(w, ARM)), abs=1e-9)


def test_a_point_next_to_the_origin_has_the_origins_standard_deviations(of_origin, measured):
    near = Run(at((0.0, 0.0, 1e-9)), measured)
    for name in SIGMAS:
        assert near[f"sigma.{name}"] == pytest.approx(of_origin[f"sigma.{name}"], rel=1e-6), name


def test_standard_deviations_are_those_of_drawn_errors(of_point):
    """Errors of pose and rates are drawn from the covariance, and the point's motion is recalculated for each."""
    f = of_point.estimator.filter
    f.set_output_point((-8.0, 1.5, 2.0))  # far away, so that rotation matters
    values = f.output()
    pairs = f.states[ATTITUDE].stop + 4  # rates come after position, attitude and wheels
    places = [*range(6), *range(pairs, pairs + 6)]
    root = np.linalg.cholesky(f.covariance[np.ix_(places, places)] + 1e-18 * np.eye(12))
    drawn = root @ np.random.default_rng(5).standard_normal((12, 200_000))
    # A car that moves along the ground has the vertical velocity of its slope.
    pose = f.pose[:12]
    ahead, left = pose[6], pose[7]
    drawn[8] += drawn[4] * ahead + drawn[5] * left
    x, y, z, yaw, v1z, v2z, ahead, left, up, wz, minus_wy, wx = pose[:, None] + drawn
    pitch = np.arcsin(-v1z)
    roll = np.arcsin(v2z / np.cos(pitch))
    # The published roll has a part beside the model's, which moves the point as well.
    more = values[ESTIMATE_INDEX["roll"]] - math.asin(pose[5] / math.sqrt(1.0 - pose[4] ** 2))
    R = rotations(roll + more, pitch, yaw)
    shift = R @ np.array([-8.0, 1.5, 2.0])
    world = np.stack([np.cos(yaw) * ahead - np.sin(yaw) * left, np.sin(yaw) * ahead + np.cos(yaw) * left, up])
    v = np.einsum("nji,jn->ni", R, world)
    v += np.cross(np.stack([wx, -minus_wy, wz], axis=1), [-8.0, 1.5, 2.0])
    found = {
        "x": x + shift[:, 0],
        "y": y + shift[:, 1],
        "z": z + shift[:, 2],
        "vx": v[:, 0],
        "vy": v[:, 1],
        "sideslip": np.arctan2(v[:, 1], v[:, 0]),
    }
    for name, sample in found.items():
        assert values[ESTIMATE_INDEX[name]] == pytest.approx(sample.mean(), abs=0.02 * sample.std() + 1e-9), (
            name
        )
        assert values[ESTIMATE_INDEX[f"sigma.{name}"]] == pytest.approx(sample.std(), rel=0.01), name
    f.set_output_point((0.0, 0.0, 0.0))
    assert values[ESTIMATE_INDEX["sigma.vy"]] > 1.05 * f.output()[ESTIMATE_INDEX["sigma.vy"]]


def test_the_status_contains_the_point(of_point, of_origin):
    assert of_point.estimator.status()["point"] == list(ARM)
    assert of_origin.estimator.status()["point"] == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("smooth", [False, True])
def test_estimates_and_truth_are_scored_at_the_same_point(smooth):
    """Errors at one point are small; estimates at one point and truth at another differ much more."""
    given = dataclasses.replace(vehicled.load_configuration("prototype"), point=ARM)
    inputs = DriveInputs(rack=[(0.5, 0.0), (1.0, 0.006)], rear_torque=90.0)
    scenario = Scenario(duration=2.5, initial=InitialMotion(speed=15.0), inputs=inputs)
    drive = vehicled.simulate(scenario, given, seed=4)
    estimates = vehicled.estimate(drive, given, smooth=smooth)
    assert estimates.point == drive.truth.point == ARM
    same = vehicled.score(estimates, drive.truth).quantities
    assert {"ax", "ay", "az"} <= same.keys()
    wrong = vehicled.score(estimates, drive.truth, truth_point=(1.3, 0.0, 0.0)).quantities
    assert wrong["vy"].rmse > 0.2 > 5 * same["vy"].rmse
    plain = dataclasses.replace(given, point=(0.0, 0.0, 0.0))
    moved = vehicled.score(vehicled.estimate(drive, plain, smooth=smooth), drive.truth)
    assert moved.point == ARM
    for column in ("x", "y", "vx", "vy", "sideslip"):
        assert moved.quantities[column].rmse == pytest.approx(same[column].rmse, rel=1e-3), column
    assert "ay" not in moved.quantities


def test_truth_of_a_simulation_is_moved_with_its_accelerations():
    drive = cruise(4.0)
    t = np.arange(len(drive._values), dtype=np.int64) * 1_000_000
    truth = Truth(t, drive._values)
    assert truth.at((0.0, 0.0, 0.0)) is truth
    moved = dict(zip(ESTIMATE_COLUMNS, truth.at(ARM).values.T, strict=True))
    seconds = t * 1e-9
    turn = moved["wy"] * moved["vz"] - moved["wz"] * moved["vy"]
    assert moved["ax"][50:-50] == pytest.approx((np.gradient(moved["vx"], seconds) + turn)[50:-50], abs=0.05)


# -- through files and commands ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    """A drive, its truth at the origin and at the rear axle, and its estimates at both."""
    folder = tmp_path_factory.mktemp("points")
    scenario = folder / "short.yaml"
    scenario.write_text(
        "duration: 3 s\ninitial: {speed: 15 m/s}\ninputs: {rear_torque: 100, rack: [[1, 0], [1.5, 5 mm]]}\n"
    )
    (folder / "prototype.dbc").write_bytes(config_path("prototype").with_suffix(".dbc").read_bytes())
    found = {"rear.yaml": str(folder / "rear.yaml"), "folder": str(folder)}
    (folder / "rear.yaml").write_text(TEXT.replace(DEFAULT, "  point: rear_axle "))
    for name, config in (("origin", "prototype"), ("rear", found["rear.yaml"])):
        paths = {
            k: str(folder / f"{name}-{k}") for k in ("drive.mcap", "truth.csv", "run.mcap", "estimates.csv")
        }
        simulated = ["simulate", str(scenario), "--config", config, "--output", paths["drive.mcap"]]
        assert main([*simulated, "--truth", paths["truth.csv"]]) == 0
        run = [
            "replay",
            paths["drive.mcap"],
            "--config",
            config,
            "--fast",
            "--estimates",
            paths["estimates.csv"],
        ]
        assert main([*run, "--record", paths["run.mcap"]]) == 0
        found |= {f"{name}.{k}": path for k, path in paths.items()}
    return found


def header(path: str) -> list[str]:
    with open(path) as file:
        return next(csv.reader(file))


def test_tables_of_another_point_than_the_origin_contain_the_point(files, capsys):
    plain = ["t", *ESTIMATE_COLUMNS]
    assert Path(files["origin.drive.mcap"]).read_bytes() == Path(files["rear.drive.mcap"]).read_bytes()
    converted = str(Path(files["folder"]) / "converted.csv")
    assert main(["convert", files["rear.run.mcap"], converted, "--estimates"]) == 0
    for name in ("truth.csv", "estimates.csv"):
        assert header(files[f"origin.{name}"]) == plain
        assert header(files[f"rear.{name}"]) == [*plain, *POINT_COLUMNS]
    one, other = read_estimates(converted), read_estimates(files["rear.estimates.csv"])
    assert one.t.tolist() == other.t.tolist()
    for column in TOPIC_COLUMNS["position"]:
        errors = np.abs(one.columns[column] - other.columns[column])
        assert np.nanmax(errors, initial=0.0) <= 0.51 * resolution_of(column), column
    read = [
        vehicled.Estimates.read(p) for p in (files["rear.run.mcap"], files["rear.estimates.csv"], converted)
    ]
    assert {e.point for e in read} == {place("rear_axle")}
    assert vehicled.Estimates.read(files["origin.run.mcap"]).columns == ESTIMATE_COLUMNS


def scored(capsys, *arguments: str) -> tuple[dict, str]:
    """JSON and standard error of `vehicled score`."""
    capsys.readouterr()
    assert main(["score", *arguments, "--json"]) == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_score_moves_estimates_to_the_point_of_the_truth(files, capsys):
    x, y, z = place("rear_axle")
    reference, err = scored(capsys, files["rear.run.mcap"], files["rear.truth.csv"])
    assert not err
    assert reference["point"] == {"x": x, "y": y, "z": z, "unit": "m"}
    given, err = scored(
        capsys, files["origin.estimates.csv"], files["origin.truth.csv"], f"--truth-point={x!r},{y!r},{z!r}"
    )
    assert "m everywhere" in err
    assert "or of another point (--truth-point)?" in err
    assert given["vy"]["rmse"] > 0.1, "the truth is not of that point"
    named = ("--truth-point", "rear_axle")
    # Truth of the rear axle without the columns of its point, as reference systems give it.
    bare = Path(files["folder"]) / "bare.csv"
    with open(files["rear.truth.csv"]) as file, open(bare, "w") as written:
        for row in csv.reader(file):
            written.write(",".join(row[: 1 + len(ESTIMATE_COLUMNS)]) + "\n")
    for arguments, warning in (
        ((files["origin.run.mcap"], files["rear.truth.csv"]), "estimates are moved there"),
        ((files["origin.run.mcap"], str(bare), *named), ""),
        ((files["origin.estimates.csv"], str(bare), *named, "--config", files["rear.yaml"]), ""),
        ((files["origin.estimates.csv"], str(bare), "--truth-point", f"{x * 1e3} {y} {z * 1e3} mm"), ""),
        ((files["rear.estimates.csv"], str(bare)), "the truth is taken to be"),
        ((files["rear.estimates.csv"], str(bare), *named, "--config", "prototype"), ""),
    ):
        result, err = scored(capsys, *arguments)
        assert warning in err
        assert err.count("\n") == bool(warning)
        for column in ("horizontal", "x", "y", "vx", "vy", "sideslip", "yaw"):
            assert result[column]["rmse"] == pytest.approx(reference[column]["rmse"], rel=1e-4), column
        assert result["point"]["x"] == pytest.approx(x)
    back, err = scored(
        capsys, files["rear.run.mcap"], files["origin.truth.csv"], "--truth-point", "center_of_mass"
    )
    origin, _ = scored(capsys, files["origin.run.mcap"], files["origin.truth.csv"])
    assert not err
    assert "point" not in back
    # Both are rounded to nine digits on their way through the files.
    assert back["sideslip"]["rmse"] == pytest.approx(origin["sideslip"]["rmse"], rel=1e-5)
    assert "ay" in origin
    assert "ay" not in back


def test_the_receiver_is_scored_at_its_antenna_wherever_the_truth_is(files, capsys):
    receivers = [
        scored(capsys, files[f"{name}.run.mcap"], files[f"{name}.truth.csv"])[0]["receiver"]["horizontal"]
        for name in ("origin", "rear")
    ]
    assert receivers[0]["rmse"] == pytest.approx(receivers[1]["rmse"], rel=1e-5)


def test_the_printed_table_states_the_point(files, capsys):
    capsys.readouterr()
    assert main(["score", files["rear.run.mcap"], files["rear.truth.csv"]]) == 0
    assert ", at the point (-1.302, 0, -0.173) m\n" in capsys.readouterr().out


def test_a_given_point_replaces_that_of_the_truth_with_a_warning(files, capsys):
    _, err = scored(capsys, files["rear.run.mcap"], files["rear.truth.csv"], "--truth-point", "imu")
    assert "warning: rear-truth.csv is of the point" in err


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("rear_axle", "expected --config FILE, which says where that is"),
        ("bumper", "expected one of center_of_mass, front_axle,"),
        ("1,2", "expected one of"),
    ],
)
def test_an_unknown_truth_point_is_reported_in_one_line(files, capsys, point, message):
    capsys.readouterr()
    assert (
        main(["score", files["origin.estimates.csv"], files["origin.truth.csv"], "--truth-point", point]) == 2
    )
    err = capsys.readouterr().err
    assert err.startswith(f"vehicled: --truth-point {point}: {message}")
    assert err.count("\n") == 1
