"""The public interface that `import vehicled` offers."""

import ast
import importlib
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import vehicled
from replay.csv_log import EstimatesWriter
from vehicled.cli import main
from vehicled.schemas import resolution_of
from vehicled.studies.observers.factory import KINDS

SOURCE = Path(vehicled.__file__)


@pytest.fixture(scope="module")
def configuration():
    return vehicled.load_configuration("prototype")


@pytest.fixture(scope="module")
def drive(configuration):
    return vehicled.simulate("step_steer", configuration, duration=1.5, seed=4)


@pytest.fixture(scope="module")
def estimates(drive, configuration):
    return vehicled.estimate(drive, configuration)


# -- the names -----------------------------------------------------------------------------------------------


def declared():
    """Module of each public name, from the imports that type checkers see."""
    (block,) = (n for n in ast.parse(SOURCE.read_text()).body if isinstance(n, ast.If))
    return {alias.name: node.module for node in block.body for alias in node.names}


def test_public_names_match_the_imports_for_type_checkers():
    homes = declared()
    assert sorted([*homes, "__version__"]) == sorted(vehicled.__all__)
    for name, home in homes.items():
        assert getattr(vehicled, name) is getattr(importlib.import_module(home), name)
    assert set(vehicled.__all__) <= set(dir(vehicled))


def test_every_public_name_has_a_docstring():
    assert [n for n in declared() if not getattr(vehicled, n).__doc__] == []


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="module 'vehicled' has no attribute 'nothing'"):
        vehicled.nothing  # noqa: B018


def test_the_documentation_names_everything_public():
    page = (Path(__file__).parent.parent / "docs" / "library.md").read_text(encoding="utf-8")
    assert [n for n in vehicled.__all__ if f"`{n}" not in page and f"`vehicled.{n}" not in page] == []


# -- drives --------------------------------------------------------------------------------------------------


def test_estimates_equal_those_of_the_command_of_a_log_and_of_single_steps(
    drive, configuration, estimates, tmp_path
):
    log, table = tmp_path / "drive.mcap", tmp_path / "estimates.csv"
    drive.write(log)
    assert main(["replay", str(log), "--config", "prototype", "--fast", "--estimates", str(table)]) == 0
    by_command = vehicled.Estimates.read(table)
    by_log = vehicled.estimate(log, configuration)
    estimator = vehicled.Estimator(configuration)
    steps = [estimator.step(s.t, s.measurements) for s in vehicled.read_log(log, configuration)]
    by_hand = vehicled.Estimates.from_rows([row for row in steps if row is not None])
    for other in (by_log, by_hand):
        assert np.array_equal(other.t_ns, estimates.t_ns)
        assert other.columns == estimates.columns
        assert all(np.array_equal(other[c], estimates[c], equal_nan=True) for c in other.columns)
    assert np.array_equal(by_command.t_ns, estimates.t_ns)
    np.testing.assert_allclose(by_command["yaw"], estimates["yaw"], rtol=1e-6, atol=1e-9)
    assert [i.nis for i in by_log.innovations] == [i.nis for i in estimates.innovations]


def test_signals_of_a_log_are_mapped_to_channels(drive, configuration, estimates, tmp_path):
    log, mapping = tmp_path / "drive.csv", tmp_path / "mapping.yaml"
    drive.write(log)
    names, *rows = log.read_text(encoding="utf-8").splitlines()
    channels = [c for c in names.split(",") if c != "t"]
    renamed = [f"s{k}" for k in range(len(channels))]
    log.write_text("\n".join([",".join(["t", *renamed]), *rows]) + "\n", encoding="utf-8")
    lines = [f"  {channel}: {name}\n" for channel, name in zip(channels, renamed, strict=True)]
    mapping.write_text("channels:\n" + "".join(lines), encoding="utf-8")
    mapped = vehicled.estimate(log, configuration, mapping=mapping)
    assert np.array_equal(mapped.t_ns, estimates.t_ns)
    np.testing.assert_allclose(mapped["yaw"], estimates["yaw"], rtol=1e-6, atol=1e-9)


def test_a_recording_has_estimates_and_innovations(drive, estimates, tmp_path):
    log, run = tmp_path / "drive.mcap", tmp_path / "run.mcap"
    drive.write(log)
    assert main(["replay", str(log), "--config", "prototype", "--fast", "--record", str(run)]) == 0
    recorded = vehicled.Estimates.read(run)
    assert np.abs(recorded["vx"] - estimates["vx"]).max() <= 0.51 * resolution_of("vx")
    # A recording limits the rate of innovations of each sensor.
    kept, all_of_them = ({(i.sensor, i.step) for i in e.innovations} for e in (recorded, estimates))
    assert {sensor for sensor, _ in kept} == {sensor for sensor, _ in all_of_them}
    assert kept < all_of_them


def test_repr_of_a_drive_summarises_it_in_one_line(drive):
    assert repr(drive) == (
        f"<Drive: {len(drive.measurements)} measurements, "
        f"truth <Estimates: {len(drive.truth)} rows, {len(drive.truth.columns)} columns, 0.000 to 1.500 s>>"
    )


def test_times_in_seconds_equal_the_decimal_numbers_in_files():
    t_ns = np.arange(0, 10**9, 4_000_000)
    estimates = vehicled.Estimates(t_ns, {"x": np.zeros(len(t_ns))})
    assert estimates.t.tolist() == [k * 4 / 1000 for k in range(250)]


def test_estimates_are_near_the_truth(drive, estimates):
    scores = vehicled.score(estimates, drive.truth)
    # The receiver's latency has σ = 20 ms and is not observable at constant speed.
    assert scores.quantities["horizontal"].rmse < 0.3
    assert scores.quantities["yaw"].rmse < np.radians(0.2)
    # NIS measured over six seeds of 1.5 s. Fixes: 0.83 to 1.03. Accelerometers: 0.50 to 0.67, as the filter assumes
    # that cars differ more from their model. Gyroscopes, mean of three axes: 0.18 to 0.24, as `model_error` is large
    # compared with the noise of two of them.
    for sensor, (least, greatest) in {
        "gnss.position": (0.6, 1.5),
        "imu.accel": (0.4, 1.0),
        "imu.gyro": (0.1, 0.4),
    }.items():
        assert least < scores.sensors[sensor].nis < greatest, sensor


def test_estimates_are_a_table(estimates):
    n = len(estimates)
    assert estimates.t.shape == estimates["x"].shape == (n,)
    assert estimates.t_ns.dtype == np.int64
    assert np.allclose(np.diff(estimates.t), 0.004)
    assert repr(estimates).startswith(f"<Estimates: {n} rows, 66 columns, 0.0")
    with pytest.raises(KeyError):
        estimates["speed"]


def test_scores_print_as_a_table(estimates):
    lines = str(vehicled.score(estimates, estimates)).splitlines()
    assert lines[0].startswith("compared from ")
    assert any(line.split()[:4] == ["yaw", "0", "0", "deg"] for line in lines)


def test_an_unknown_parameter_of_a_mechanism_is_named_in_the_error():
    pendulum = vehicled.Mechanism.load("pendulum")
    with pytest.raises(vehicled.UsageError, match=r"unknown parameter 'bar.mas'; did you mean 'bar.mass'\?"):
        pendulum.set_parameters({"bar.mas": 2.0})


def test_estimates_convert_to_a_pandas_data_frame(estimates):
    pytest.importorskip("pandas")
    frame = estimates.to_pandas()
    assert frame.index.name == "t"
    assert tuple(frame.columns) == estimates.columns
    assert np.array_equal(frame["vx"].to_numpy(), estimates["vx"])


def test_without_pandas_the_error_names_the_extra(estimates, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(vehicled.UsageError, match=r"pip install 'vehicled\[pandas\]'"):
        estimates.to_pandas()


def test_simulate_respects_seed_duration_and_gnss(configuration):
    one, same, other = (
        vehicled.simulate("step_steer", configuration, duration=0.1, seed=seed, gnss="none")
        for seed in (1, 1, 2)
    )
    assert one.measurements == same.measurements != other.measurements
    assert one.truth.t[-1] == pytest.approx(0.1)
    assert not any("gnss.lat" in m.values for m in one.measurements)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scenario": "nowhere"}, "nowhere: expected a YAML file or one of step_steer"),
        ({"duration": 0.0}, "duration: expected a time above 0 s, got 0"),
        ({"gnss": "perfect"}, "gnss: expected one of rtk, conventional, none, got 'perfect'"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
    ],
)
def test_simulate_names_a_bad_argument(configuration, arguments, message):
    with pytest.raises(vehicled.UsageError, match=message):
        vehicled.simulate(**{"scenario": "step_steer", "configuration": configuration} | arguments)


def test_errors_name_the_log_and_its_fault(configuration, drive, tmp_path):
    with pytest.raises(vehicled.UsageError, match=r"nowhere\.csv: No such file"):
        vehicled.estimate(tmp_path / "nowhere.csv", configuration)
    with pytest.raises(vehicled.UsageError, match=r"nowhere\.csv: No such file"):
        vehicled.Estimates.read(tmp_path / "nowhere.csv")
    empty = tmp_path / "empty.csv"
    empty.write_text("t,imu.ax\n")
    with pytest.raises(vehicled.RunError, match="no measurement that could be used"):
        vehicled.estimate(empty, configuration)
    few = replace(drive, measurements=drive.measurements[:3])
    with pytest.raises(vehicled.RunError, match="drive: the filter never started"):
        vehicled.estimate(few, configuration)


def test_functions_accept_names_and_paths(drive, configuration, estimates, tmp_path):
    again = vehicled.estimate(drive, "prototype")
    assert np.array_equal(again["x"], estimates["x"], equal_nan=True)
    log, table, truth = (tmp_path / name for name in ("drive.mcap", "estimates.csv", "truth.csv"))
    scenario = tmp_path / "short.yaml"
    scenario.write_text("duration: 3 s\ninitial: {speed: 15}\ninputs: {rear_torque: 90}\n")
    simulated = ["simulate", str(scenario), "--config", "prototype", "--output", str(log)]
    simulated += ["--truth", str(truth)]
    assert main(simulated) == 0
    assert main(["replay", str(log), "--config", "prototype", "--fast", "--estimates", str(table)]) == 0
    wanted = vehicled.score(vehicled.Estimates.read(table), vehicled.Estimates.read(truth))
    assert vehicled.score(table, str(truth)).quantities == wanted.quantities


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vehicled.estimate(["a"], "prototype"), "log: expected a path or a Drive, got list"),
        (
            lambda: vehicled.estimate("a.csv", 3),
            "configuration: expected a configuration, its name or its path",
        ),
        (lambda: vehicled.simulate("slalom", None), "configuration: expected .*, got NoneType"),
        (lambda: vehicled.score(3, "truth.csv"), "estimates: expected Estimates or a path, got int"),
        (
            lambda: vehicled.estimate("a.csv", "protoype"),
            "protoype: expected a file or a shipped configuration",
        ),
    ],
)
def test_bad_arguments_raise_usage_errors(call, message):
    with pytest.raises(vehicled.UsageError, match=message):
        call()


def test_a_damaged_line_of_a_log_causes_a_warning(configuration, tmp_path):
    damaged = tmp_path / "damaged.csv"
    damaged.write_text("t,vehicle.speed\n0.0,10\n0.1,much\n0.2,10\n")
    with pytest.warns(UserWarning, match=r"damaged\.csv: 1 problem .*line 3"):
        assert len(list(vehicled.read_log(damaged, configuration))) > 40


def test_truth_is_read_from_a_file(drive, tmp_path):
    path = tmp_path / "truth.csv"
    row = vehicled.Estimate(2_000_000, np.arange(66.0))
    with EstimatesWriter(path) as writer:
        writer.write(row)
    truth = vehicled.Estimates.read(path)
    assert truth.t_ns.tolist() == [2_000_000]
    assert truth["y"].tolist() == [1.0]
    assert truth.innovations == []


# -- mechanisms ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_observer_corrects_a_wrong_start(kind):
    encoder = vehicled.SensorSet([vehicled.Encoder("theta", 0.01)])
    truth, model = (vehicled.Mechanism.load("four_bar", [encoder]) for _ in range(2))
    model.set_independent_state(model.z + 0.1, model.zd).require("start")
    observer = vehicled.make_observer(
        kind, model, encoder, 5e-3, start_sigma=0.1, density=0.1, euler_density=4e-5
    )
    stepper = vehicled.make_stepper("ali3p")
    for _ in range(20):
        stepper.step(truth, 5e-3).require("truth")
        observer.step(encoder.calc_readings(truth))
    assert abs(observer.z - truth.z)[0] < 0.01


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        ("EKF", {}, "observer: expected one of errorEKF, .*, got 'EKF'"),
        ("DEKF", {"density": 0.0}, "density: expected a number above 0, got 0"),
        ("DEKF", {"start_sigma": -1.0}, "start_sigma: expected a number above 0, got -1"),
        ("DEKF", {"density": np.inf}, "density: expected a number above 0, got inf"),
        ("DEKF", {"euler_density": -1.0}, "euler_density: expected a number of at least 0, got -1"),
    ],
)
def test_make_observer_names_a_bad_argument(kind, numbers, message):
    encoder = vehicled.SensorSet([vehicled.Encoder("theta", 0.01)])
    model = vehicled.Mechanism.load("four_bar", [encoder])
    with pytest.raises(vehicled.UsageError, match=message):
        vehicled.make_observer(kind, model, encoder, 5e-3, **{"start_sigma": 0.1, "density": 0.1} | numbers)


def test_an_observer_needs_a_mechanism_that_was_compiled_with_its_sensors():
    """Otherwise the observer would read other sensors of the same name."""
    encoder, other = (vehicled.SensorSet([vehicled.Encoder("theta", 0.01)]) for _ in range(2))
    for extensions in ([], [other]):
        model = vehicled.Mechanism.load("four_bar", extensions)
        with pytest.raises(
            vehicled.UsageError, match="readings: expected a mechanism that was compiled with these"
        ):
            vehicled.make_observer("CEKF", model, encoder, 5e-3, start_sigma=0.1, density=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_unusable_readings_do_not_change_an_observer(kind):
    encoder = vehicled.SensorSet([vehicled.Encoder("theta", 0.01)])
    model = vehicled.Mechanism.load("four_bar", [encoder])
    observer = vehicled.make_observer(
        kind, model, encoder, 5e-3, start_sigma=0.1, density=0.1, euler_density=4e-5
    )
    z, covariance = observer.z, observer.covariance.copy()
    for readings, message in (
        ([1.0, 2.0], r"readings: expected 1 \(encoder of theta\), got 2"),
        ([np.nan], "encoder of theta: expected a finite reading, got nan"),
    ):
        with pytest.raises(vehicled.UsageError, match=message):
            observer.step(np.array(readings))
    assert model.t == 0.0
    assert np.array_equal(observer.z, z)
    assert np.array_equal(observer.covariance, covariance)


def test_errors_in_a_mechanism_description_name_the_line():
    with pytest.raises(vehicled.UsageError, match="mechanism:2: space: expected planar or spatial"):
        vehicled.Mechanism.parse("bodies: {}\nspace: curved\n")


# -- functions of expressions --------------------------------------------------------------------------------


def test_functions_of_one_graph_compute_values_and_jacobians():
    g = vehicled.Graph()
    x, y, a = (g.symbol(name) for name in "xya")
    values = [a * g.sin(x) * y, x / y]
    f = vehicled.CompiledFunction(
        [[x, y], [a]], [values, [[g.derivative(v, s) for s in (x, y)] for v in values]]
    )
    square = vehicled.CompiledFunction([[x]], [[x * x, g.one]])
    got, jacobian = f([0.3, 2.0], [1.5])
    s, c = np.sin(0.3), np.cos(0.3)
    np.testing.assert_allclose(got, [3.0 * s, 0.15], rtol=1e-14)
    np.testing.assert_allclose(jacobian, [[3.0 * c, 1.5 * s], [0.5, -0.075]], rtol=1e-14)
    assert square([3.0])[0].tolist() == [9.0, 1.0]
    assert f([1.0, 1.0], [0.0])[0].tolist() == [0.0, 1.0]
    assert got[1] == 0.15, "results belong to the caller"


def test_compiled_functions_name_bad_arguments():
    g = vehicled.Graph()
    x, y, lanes = g.symbol("x"), g.symbol("y"), g.symbol("lanes", 1)
    for inputs, outputs, message in (
        ([], [[x]], "at least one symbol"),
        ([[x], [x]], [[x]], "twice"),
        ([[x * y]], [[x]], "takes symbols"),
        ([[x]], [[y]], "reads 'y'"),
        ([[x]], [[x, [x]]], "neither a vector nor a matrix"),
        ([[lanes]], [[x]], "lane vectors"),
    ):
        with pytest.raises(ValueError, match=message):
            vehicled.CompiledFunction(inputs, outputs)
    f = vehicled.CompiledFunction([[x, y]], [[x + y]])
    with pytest.raises(ValueError, match="expected 1 vectors, got 2"):
        f([1.0], [2.0])
    with pytest.raises(ValueError, match=r"expected a vector \(2,\), got \(1,\)"):
        f([1.0])


def test_a_configuration_changed_by_hand_is_checked():
    given = vehicled.load_configuration("hatchback")
    other = replace(given, filter=replace(given.filter, kind="EKF"))
    with pytest.raises(vehicled.UsageError, match=r"filter\.kind: expected one of errorEKF, .*, got 'EKF'"):
        vehicled.Estimator(other)
    gnss = replace(given.sensors.gnss, latency_sigma=-0.02)
    with pytest.raises(
        vehicled.UsageError, match=r"sensors\.gnss\.latency_sigma: expected a number at least 0"
    ):
        vehicled.simulate("slalom", replace(given, sensors=replace(given.sensors, gnss=gnss)), duration=0.1)
