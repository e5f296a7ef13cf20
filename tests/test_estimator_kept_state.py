"""State that an estimator keeps over the end of a drive, restarts, reloaded settings and silent sensors."""

import dataclasses
import math

import msgspec
import pytest
from estimator_rig import mixed, steps, with_sensors, without
from straight_drive import drive_straight

from vehicled.configuration import Configuration, load_configuration
from vehicled.estimator import Estimator
from vehicled.filter.states import STEERING_OFFSET, STEERING_RATIO, TYRE_ERROR, Group
from vehicled.messages import ESTIMATE_INDEX, WHEELS, Measurement
from vehicled.sources.imu.model import GYRO_BIAS
from vehicled.sources.sensors import Readers


@pytest.fixture(scope="module")
def configuration() -> Configuration:
    return load_configuration("prototype")


def _drive(estimator: Estimator, seconds: float, speed: float = 10.0) -> None:
    for t, given in drive_straight(seconds, speed):
        estimator.step(t, given)


def _find(estimator: Estimator, place: int, value: float, variance: float) -> None:
    """Set a slow state as if the drive had determined it."""
    f = estimator.filter
    f._extra[place - f._slow] = value
    f.errors.set_variance(place, variance)


def test_a_parked_car_keeps_the_prior_sigma_of_the_gyroscope_scale(configuration: Configuration) -> None:
    parked, driven = Estimator(configuration), Estimator(configuration)
    _drive(parked, 1.0, speed=0.0)
    found = parked.parameters()
    assert found["gyro_scale"].sigma == pytest.approx(configuration.sensors.imu.gyroscopes.scale)
    driven.command("set_parameters", {"parameters": msgspec.to_builtins(found), "age": 60.0})
    _drive(driven, 1.0)
    assert driven.parameters()["gyro_scale"].sigma > 0.9 * found["gyro_scale"].sigma


def test_a_second_restart_soon_after_the_first_keeps_an_estimated_bias(
    configuration: Configuration,
) -> None:
    estimator = Estimator(configuration)
    for k, (t, given) in enumerate(drive_straight(3.7, 10.0)):
        if k == 300:
            states = estimator.filter.states
            _find(estimator, states[GYRO_BIAS].start + 1, 0.004, 1e-8)
        estimator.step(t, given)
        if k in (860, 900):
            estimator._restart_in_place(t, "test")
            bias = estimator.parameters()["gyro_bias.y"]
            assert bias.value == pytest.approx(0.004, rel=0.05)
            assert bias.sigma < 2e-4


def test_estimated_values_that_are_written_into_the_settings_count_once(configuration: Configuration) -> None:
    estimator, sensors = Estimator(configuration), configuration.sensors
    found = {"antenna.x": (0.3, 0.005, "m"), "imu_latency": (0.015, 0.002, "s")}
    given = {name: dict(zip(("value", "sigma", "unit"), f, strict=True)) for name, f in found.items()}
    estimator.command("set_parameters", {"parameters": given, "age": 0.0})
    _drive(estimator, 0.4)
    now = estimator.parameters()
    antenna = (sensors.gnss.antenna[0] + now["antenna.x"].value, *sensors.gnss.antenna[1:])
    latency = sensors.imu.latency + now["imu_latency"].value
    gnss = dataclasses.replace(sensors.gnss, antenna=antenna)
    imu = dataclasses.replace(sensors.imu, latency=latency)
    written = dataclasses.replace(configuration, sensors=dataclasses.replace(sensors, gnss=gnss, imu=imu))
    estimator.command("reload_noise", written.noise_arguments())
    after = estimator.parameters()
    assert after["antenna.x"].value == 0.0
    assert after["imu_latency"].value == 0.0


def test_settings_with_a_known_latency_end_its_estimate(
    configuration: Configuration,
) -> None:
    estimator, sensors = Estimator(configuration), configuration.sensors
    found = {"imu_latency": {"value": 0.015, "sigma": 0.002, "unit": "s"}}
    estimator.command("set_parameters", {"parameters": found, "age": 0.0})
    imu = dataclasses.replace(sensors.imu, latency_sigma=0.0)
    known = dataclasses.replace(configuration, sensors=dataclasses.replace(sensors, imu=imu))
    lateness = set()
    for k, (t, given) in enumerate(drive_straight(1.2, 10.0)):
        if k == 150:
            estimator.command("reload_noise", known.noise_arguments())
        estimator.step(t, given)
        times = {m.t for m in given if "imu.wz" in m.values}
        lateness |= {(k >= 150, max(times) - i.t) for i in estimator.innovations() if i.sensor == "imu.gyro"}
    assert {late for is_known, late in lateness if not is_known} == {15_000_000}
    assert {late for is_known, late in lateness if is_known} == {0}


def test_settings_without_wheel_angles_can_be_reloaded_before_the_start(configuration: Configuration) -> None:
    estimator = Estimator(configuration)
    wheels = {f"wheel.{wheel}.angle": 0.0 for wheel in ("fl", "fr", "rl", "rr")}
    without = dataclasses.replace(configuration.sensors, wheel_angles=None)
    for k in range(1, 100):
        t = k * 4_000_000
        if k == 50:
            arguments = dataclasses.replace(configuration, sensors=without).noise_arguments()
            assert any(sensor.startswith("wheel.") for sensor in estimator.status()["sensors"])
            estimator.command("reload_noise", arguments)
        estimator.step(t, [Measurement("can", t, t, {"vehicle.speed": 0.0, **wheels})])
    for t, given in drive_straight(0.4, 10.0):
        estimator.step(t, [*given, Measurement("can", t, t, wheels)])
        assert not any(i.sensor.startswith("wheel.") for i in estimator.innovations())
    assert estimator.condition.state == "running"
    assert not any(sensor.startswith("wheel.") for sensor in estimator.status()["sensors"])


def test_tyre_errors_have_their_initial_sigma_when_steering_and_accelerometers_join(
    configuration: Configuration,
) -> None:
    estimator = Estimator(configuration)
    f, begin = estimator.filter, 1_000_000_000
    for t, given in drive_straight(1.2, 10.0):
        silent = [name for name, since in (("imu.a", 0.4), ("steer", 0.9)) if t - begin < since * 1e9]
        if t - begin < 0.4e9:
            silent += ["gnss.v"]
        kept = [{c: x for c, x in m.values.items() if not c.startswith(tuple(silent))} for m in given]
        estimator.step(
            t, [Measurement(m.source, m.t, m.arrival, v) for m, v in zip(given, kept, strict=True) if v]
        )
    sigma = math.sqrt(f.variances[f.states[TYRE_ERROR].start])
    assert sigma > 0.9 * configuration.filter.unknowns.cornering_stiffness


@pytest.mark.parametrize("group", [STEERING_OFFSET, STEERING_RATIO])
def test_a_steering_error_reset_while_the_steering_is_silent_stays_reset(
    configuration: Configuration, group: Group
) -> None:
    estimator = Estimator(configuration)
    _drive(estimator, 0.4)
    f = estimator.filter
    _find(estimator, f.states[group].start, 0.02, 1e-6)
    f.set_steering_known(False, 0.03)
    f.slow.forget((group,))
    f.set_steering_known(True, 0.03)
    found = f.slow.parameters()[group.name]
    assert found.value == 0.0
    sigmas = {
        STEERING_OFFSET: configuration.filter.unknowns.steering_offset,
        STEERING_RATIO: configuration.sensors.steering.scale_sigma,
    }
    assert found.sigma == pytest.approx(sigmas[group])


def test_the_steering_ratio_is_not_estimated_while_the_steering_is_silent(
    configuration: Configuration,
) -> None:
    estimator = Estimator(configuration)
    _drive(estimator, 0.4)
    f = estimator.filter
    i = f.states.index(STEERING_RATIO)
    _find(estimator, i, -0.04, 1e-4)
    f.set_steering_known(False, 0.03)
    f.slow.move(STEERING_RATIO, 0.3)
    f.errors.set_variance(i, 1e-6)
    assert f.slow.parameters()["steering_ratio"].value == -0.04
    f.set_steering_known(True, 0.03)
    found = f.slow.parameters()["steering_ratio"]
    assert (found.value, found.sigma) == pytest.approx((-0.04, 0.01))


def test_an_estimated_steering_angle_is_not_reset_with_the_parameters(configuration: Configuration) -> None:
    """Without a sensor this state is the steering angle itself: a reset would change the motion at once."""
    f = Estimator(configuration).filter
    f.set_steering_known(False, 0.1)
    f.slow.move(STEERING_OFFSET, 0.4)
    before = f.variances[f.states.index(STEERING_OFFSET, "")]
    f.slow.forget((STEERING_OFFSET,))
    assert f.slow.get(STEERING_OFFSET).tolist() == [0.4]
    assert f.variances[f.states.index(STEERING_OFFSET, "")] == before
    assert f.slow.parameters()["steering_offset"].value == 0.0


def test_an_update_that_is_not_finite_loses_only_one_estimate(configuration: Configuration) -> None:
    estimator, missing = Estimator(configuration), 0
    observe = estimator._sources.observe

    def spoil(measurements: list[tuple[Measurement, Readers]]) -> None:
        observe(measurements)
        estimator.filter.car.view("q")[0] = math.nan
        estimator._sources.observe = observe

    for k, (t, given) in enumerate(drive_straight(3.0, 10.0)):
        if k == 500:
            estimator._sources.observe = spoil
        estimate = estimator.step(t, given)
        missing += k >= 500 and estimate is None
    assert missing == 1
    assert estimator.status()["restarts"] == 1


@pytest.mark.parametrize("joins_after", [0.0, 0.5])
def test_at_standstill_a_fix_leaves_sigma_of_at_least_the_distance_of_the_antenna(
    configuration: Configuration, joins_after: float
) -> None:
    """The antenna is off the vehicle origin, in a direction that is unknown before the first course."""
    wait = configuration.filter.start.wait_for_gnss
    begins = wait + joins_after if joins_after else 0.0
    estimator, estimate = Estimator(configuration), None
    for k, (t, given) in enumerate(drive_straight(begins + 0.5, 0.0)):
        estimate = estimator.step(t, [m for m in given if m.source != "gnss" or k * 0.004 >= begins])
    assert estimate is not None
    assert not estimator.world.aligned
    distance = math.hypot(*configuration.sensors.gnss.antenna[:2])
    assert estimate.values[ESTIMATE_INDEX["sigma.x"]] >= distance


@pytest.mark.parametrize("apart", [False, True], ids=["one message", "two messages"])
def test_position_and_velocity_may_arrive_in_separate_messages(
    configuration: Configuration, apart: bool
) -> None:
    """There is one fix per second: the car moves for metres before the first course aligns it."""
    estimator, worst, way, speed = Estimator(configuration), 0.0, 0.0, 0.0
    for k, (t, given) in enumerate(drive_straight(12.0, 0.0, pulls_off=True, apart=apart, fixes_every=250)):
        speed += 0.004 * 2.0 if 1.0 < k * 0.004 < 4.0 else 0.0
        way += 0.004 * speed
        estimate = estimator.step(t, given)
        if estimate is not None and estimator.world.aligned:
            error, sigma = math.hypot(estimate["x"], estimate["y"] - way), estimate["sigma.y"]
            worst = max(worst, error - 4.0 * sigma)
    # The origin is the first fix of the antenna, not the position of the vehicle origin.
    assert worst < 0.4
    assert not [f for f in estimator.condition.faults if f.source.startswith("gnss")]


def test_radii_from_before_that_are_contradicted_are_found_anew_together() -> None:
    """Before, each was forgotten by itself, with what they have in common each time: they went to 0.087, or −0.3."""
    radii = {f"rolling_radius.{wheel}": {"value": 0.02, "sigma": 0.0043, "unit": "–"} for wheel in WHEELS}
    given = without(
        mixed(25.0).measurements(seed=3, gnss="rtk"),
        "torque",
        "brake",
        "vehicle",
        "gnss.speed",
        "gnss.course",
    )
    estimator = Estimator(with_sensors(vehicle_speed=None))
    estimator.command("set_parameters", {"parameters": radii, "age": 3600.0})
    for step in steps(given):
        estimator.step(step.t, step.measurements)
        found = estimator.parameters()
        assert all(abs(found[name].value) < 0.025 for name in radii if found)
    assert all(abs(found[name].value) < 2.0 * found[name].sigma < 0.012 for name in radii)
