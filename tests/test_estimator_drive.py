"""Cars with other driven wheels and other differentials, simulated and estimated."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from estimator_rig import Drive, Run, prototype, rms, steps, with_known_time, without

from vehicled.configuration import Configuration
from vehicled.filter.states import DRIVE_FORCE
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import STANDARD_ERRORS, DriveInputs, Scenario
from vehicled.vehicle.differential import Differential

SECONDS = 7.0
LIMITED = Differential(kind="limited_slip", preload=60.0, locking=0.4)
LOCKED = Differential(kind="locked")


def car(driven: str = "rear", **differentials: Differential) -> Configuration:
    """The prototype with these driven wheels, and with differentials by axle."""
    vehicle = prototype().vehicle
    axles = {
        name: dataclasses.replace(getattr(vehicle, name), differential=d) for name, d in differentials.items()
    }
    return dataclasses.replace(prototype(), vehicle=dataclasses.replace(vehicle, driven=driven, **axles))


def drive_of(configuration: Configuration, seconds: float = SECONDS) -> Drive:
    """From 8 m/s, accelerating, through tight bends to both sides; the plant is off by the standard errors."""
    driven = {"front": ["front"], "rear": ["rear"], "all": ["front", "rear"]}[configuration.vehicle.driven]
    torque = [(0.0, 500.0), (3.0, 500.0), (3.5, 150.0)]
    shares = {f"{axle}_torque": [(t, value / len(driven)) for t, value in torque] for axle in driven}
    inputs = DriveInputs(rack=[(0.5, 0.0), (1.2, 0.015), (3.5, 0.015), (4.5, -0.015)], **shares)
    initial = InitialMotion(speed=8.0, yaw=0.5)
    scenario = Scenario(duration=seconds, initial=initial, inputs=inputs, plant=STANDARD_ERRORS)
    return Drive(scenario, configuration)


@cache
def locked() -> Drive:
    return drive_of(car(rear=LOCKED))


def estimate(configuration: Configuration, measurements, seconds: float = SECONDS) -> Run:
    """A run without the estimates after the end of the drive."""
    made = Run(with_known_time(configuration), steps(measurements))
    assert made.summary.errors == 0, made.summary.last_error
    keep = made.t <= seconds * 1e9
    made.t, made.values = made.t[keep], made.values[keep]
    return made


def is_nominal(run: Run, truth: Drive) -> None:
    """Assert the accuracy that is promised for the rear-driven prototype with RTK."""
    moving = truth.truth(run.t, "vx") > 1.0
    horizontal = np.hypot(run.error(truth, "x"), run.error(truth, "y"))
    assert rms(horizontal) < 0.03
    assert rms(horizontal[run.t > 4e9]) < 0.015
    assert np.degrees(rms(run.error(truth, "yaw")[moving])) < 0.2
    assert np.degrees(rms(run.error(truth, "sideslip")[moving])) < 0.3


@pytest.mark.parametrize(
    ("driven", "differentials", "channels"),
    [
        pytest.param("front", {}, "fl fr", marks=pytest.mark.slow),
        ("front", {"front": LIMITED}, "fl fr"),
        pytest.param("all", {}, "fl fr rl rr", marks=pytest.mark.slow),
    ],
)
def test_a_car_with_measured_torques_keeps_the_nominal_accuracy(driven, differentials, channels):
    configuration = car(driven, **differentials)
    truth = drive_of(configuration)
    measurements = truth.measurements()
    measured = {c for m in measurements for c in m.values if c.startswith("torque.")}
    assert measured == {f"torque.{w}" for w in channels.split()}
    run = estimate(configuration, measurements)
    is_nominal(run, truth)
    # The estimate of the unknown drive force stays close to zero.
    assert abs(run.estimator.filter.slow.get(DRIVE_FORCE)[0]) < 0.02


def test_the_unknown_drive_force_includes_the_axle_without_torque_sensors():
    """All wheels are driven, only front torques are measured: the unknown force is the rear share of acceleration."""
    configuration, seconds = car("all"), 3.0  # while it accelerates
    truth = drive_of(configuration, seconds)
    run = estimate(configuration, without(truth.measurements(), "torque.r"), seconds)
    at_end = np.array([seconds * 1e9])
    radius = configuration.vehicle.rear.tyre.radius
    behind = sum(m.values["torque.rl"] + m.values["torque.rr"] for m in last(truth, "torque.rl"))
    expected = behind / radius / configuration.vehicle.mass
    assert expected > 0.5
    assert run.estimator.filter.slow.get(DRIVE_FORCE)[0] == pytest.approx(expected, rel=0.4)
    assert abs(run["vx"][-1] - truth.truth(at_end, "vx")[0]) < 0.05


def last(drive: Drive, channel: str) -> list:
    return [m for m in drive.measurements() if channel in m.values][-1:]


def test_a_configured_differential_lock_improves_the_slip_of_its_wheels():
    """No torque is measured. In bends a lock turns the inner wheel faster, the outer one slower than free rolling."""
    truth = locked()
    measurements = without(truth.measurements(), "torque.")
    errors = []
    for configuration in (car(rear=LOCKED), car()):
        run = estimate(configuration, measurements)
        cornering = np.abs(truth.truth(run.t, "wz")) > 0.1
        errors.append([rms(run.error(truth, f"slip.{w}.ratio")[cornering]) for w in ("rl", "rr")])
    known, taken_for_open = np.array(errors)
    assert (known < 0.5 * taken_for_open).all(), errors


def test_the_torque_of_an_axle_is_shared_by_its_differential():
    """There is one torque channel for both wheels. With the right differential, slip is as accurate as with two."""
    truth, configuration = locked(), car(rear=LOCKED)
    of_wheels, of_axle = truth.measurements(), truth.measurements()
    for m in of_axle:
        if "torque.rl" in m.values:
            m.values["torque.rear"] = m.values.pop("torque.rl") + m.values.pop("torque.rr")
    runs = [estimate(configuration, given) for given in (of_wheels, of_axle)]
    for run in runs:
        is_nominal(run, truth)
    slip = [max(rms(run.error(truth, f"slip.{w}.ratio")) for w in ("rl", "rr")) for run in runs]
    assert slip[1] < 1.2 * slip[0]
