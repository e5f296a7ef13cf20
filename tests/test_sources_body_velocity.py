"""Optical sensors of the velocity over ground, mounted anywhere in the car."""

import dataclasses
from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, bends, equipped, rms, steps, without

from vehicled.messages import Measurement
from vehicled.simulation.scenario import PlantErrors, find_scenario
from vehicled.simulation.sensor_settings import SimulatedSignal
from vehicled.sources.speeds.body_velocity import BodyVelocity

SECONDS = 13.0
OPTICAL = SimulatedSignal(noise=0.05, scale=0.002)
MOUNTED = BodyVelocity(position=(-1.0, 0.4, -0.3), angle=0.5)


@lru_cache
def wrong_tyres() -> Drive:
    """A car whose tyres are softer by a third than the configuration says, and have less grip."""
    errors = PlantErrors(tyre_stiffness=-0.35, friction=-0.2)
    scenario = dataclasses.replace(find_scenario("mixed_drive"), duration=SECONDS, plant=errors)
    return Drive(scenario, equipped(velocity=MOUNTED))


def sideslip_error(run: Run) -> float:
    """RMS error while the car moves, rad."""
    drive = wrong_tyres()
    moving = (drive.truth(run.t, "vx") > 3.0) & (run.t < SECONDS * SECOND)
    return rms(run.error(drive, "sideslip")[moving])


@pytest.mark.parametrize("seed", [41, pytest.param(42, marks=pytest.mark.slow)])
def test_an_optical_sensor_gives_the_sideslip_of_a_car_with_wrong_tyre_parameters(seed):
    errors = {}
    for optical in (OPTICAL, None):
        given = wrong_tyres().measurements(seed, gnss=None, velocity=optical)
        run = Run(equipped(velocity=MOUNTED), steps(given))
        errors[optical is not None] = sideslip_error(run)
        if optical is not None:
            found = [i for i in run.of("velocity") if i.fused]
            ratios = np.mean([np.square(i.innovation) / np.array(i.variance) for i in found], axis=0)
            assert ratios == pytest.approx(1.0, abs=0.15)
    assert errors[True] < 0.4 * errors[False]
    assert np.degrees(errors[True]) < 0.1


def test_an_optical_sensor_is_enough_to_initialise_and_to_estimate_the_speed():
    given = without(wrong_tyres().measurements(41, gnss=None, velocity=OPTICAL), "vehicle", "wheel")
    run = Run(equipped(velocity=MOUNTED), steps(given))
    assert np.degrees(sideslip_error(run)) < 0.1
    inside = run.t < SECONDS * SECOND
    # The speed depends only on the scale of the sensor, known to 0.5 %.
    assert np.abs(run.error(wrong_tyres(), "vx")[inside]).max() < 0.15


def test_the_lateral_component_alone_gives_the_sideslip():
    given = wrong_tyres().measurements(41, gnss="conventional", velocity=OPTICAL)
    run = Run(equipped(velocity=MOUNTED), steps(without(given, "velocity.x")))
    assert {len(i.value) for i in run.of("velocity")} == {1}
    assert np.degrees(sideslip_error(run)) < 0.1


@pytest.mark.slow
def test_a_small_error_of_the_mounting_angle_is_estimated_and_a_large_one_distrusted():
    given = wrong_tyres().measurements(41, gnss="conventional", velocity=OPTICAL)
    for degrees, most in ((3.0, 0.3), (30.0, 0.3)):
        mounted = dataclasses.replace(MOUNTED, angle=MOUNTED.angle + np.radians(degrees))
        run = Run(equipped(velocity=mounted), steps(given))
        assert np.degrees(sideslip_error(run)) < most
        if degrees < 10.0:
            found = run.estimator.parameters()["velocity_angle"]
            assert abs(found.value + np.radians(degrees)) < 4.0 * found.sigma
        else:
            assert run.sensors["velocity"]["state"] == "distrusted"
            assert [f.source for f in run.estimator.condition.faults] == ["velocity"]


@pytest.mark.parametrize("ahead", [1.0, pytest.param(-0.5, marks=pytest.mark.slow)])
def test_an_optical_sensor_away_from_its_configured_place_is_found_where_it_is(ahead):
    """A sensor on a bumper whose place is left out, so that the configuration has it at the vehicle origin."""
    x, y, z = MOUNTED.position
    mounted = dataclasses.replace(MOUNTED, position=(x + ahead, y, z))
    given = wrong_tyres().measurements(41, gnss="rtk", velocity=OPTICAL)
    run = Run(equipped(velocity=mounted), steps(given))
    found = run.estimator.parameters()["velocity_place.x"]
    assert abs(found.value + ahead) < 4.0 * found.sigma < 0.2
    later = (run.t > 8.0 * SECOND) & (run.t < SECONDS * SECOND)
    assert np.degrees(rms(run.error(wrong_tyres(), "sideslip")[later])) < 0.3
    assert np.hypot(run.error(wrong_tyres(), "x"), run.error(wrong_tyres(), "y"))[later].max() < 0.06


def test_an_optical_sensor_that_shifts_is_named_and_does_not_move_the_estimate():
    """Its lateral velocity is 0.5 m/s off from some time on, as of a sensor that has been knocked askew."""
    mounted = equipped(velocity=dataclasses.replace(MOUNTED, position_sigma=0.04))  # bends soon tell more
    begin, drive = 4.5 * SECOND, bends(6.5).mounted(mounted)
    aside = np.exp(1j * (0.5 * np.pi - MOUNTED.angle))  # to the left in the sensor's axes

    def shift(m: Measurement) -> Measurement:
        if m.t < begin or "velocity.x" not in m.values:
            return m
        x, y = m.values["velocity.x"] + 0.5 * aside.real, m.values["velocity.y"] + 0.5 * aside.imag
        return Measurement(m.source, m.t, m.arrival, {"velocity.x": x, "velocity.y": y})

    given = drive.measurements(41, gnss="rtk", velocity=OPTICAL)
    run = Run(mounted, steps(map(shift, given)))
    named = [f.begun_ns for f in run.summary.faults if f.source == "velocity"]
    assert begin < named[0] < begin + 0.5 * SECOND
    later = (run.t > begin) & (run.t < 6.5 * SECOND)
    assert np.degrees(rms(run.error(drive, "sideslip")[later])) < 0.3


@pytest.mark.slow
def test_the_place_of_an_optical_sensor_may_be_known():
    """It is no error state then."""
    known = dataclasses.replace(MOUNTED, position_sigma=0.0)
    run = Run(equipped(velocity=known), steps(wrong_tyres().measurements(41, gnss="rtk", velocity=OPTICAL)))
    assert run.fused("velocity") > 1000
    assert "velocity_place.x" not in run.estimator.parameters()


def test_the_latency_of_an_optical_sensor_is_estimated_without_an_error_along_the_track():
    """The sensor is 30 ms late, and nothing else measures the speed."""
    late = 30_000_000
    given = without(
        wrong_tyres().measurements(41, gnss="rtk", velocity=OPTICAL),
        "vehicle",
        "wheel",
        "gnss.speed",
        "gnss.course",
    )
    given = [
        Measurement(m.source, m.t + late, m.arrival + late, m.values) if m.source == "velocity" else m
        for m in given
    ]
    run = Run(equipped(velocity=MOUNTED), steps(sorted(given, key=lambda m: m.arrival)))
    assert run.estimator.parameters()["velocity_latency"].value == pytest.approx(0.03, abs=0.005)
    later = (run.t > 8 * SECOND) & (run.t < SECONDS * SECOND)
    for column in ("x", "vx", "vy"):
        ratio = np.abs(run.error(wrong_tyres(), column))[later] / run[f"sigma.{column}"][later]
        assert ratio.max() < 4.0, column
