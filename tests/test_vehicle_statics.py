"""The car at rest: wheel loads by hand, standing on a slope, rolling off it."""

from dataclasses import replace

import numpy as np
import pytest
from vehicle_rig import Basics, G, Rig, motions, vehicle

from vehicled.vehicle.kinematics import Corner, calc_rates
from vehicled.vehicle.parameters import Axle, Vehicle

CARS = ("prototype", "ferrari_250lm", "reference_vehicle")
SLOPE = np.arctan(0.05)


def arms(v: Vehicle) -> tuple[float, float]:
    """Distances from the front and from the rear axle to the centre of mass."""
    place = v.center_of_mass()[0]
    return v.front.hard_points.wheel_center[0] - place, place - v.rear.hard_points.wheel_center[0]


@pytest.mark.parametrize("name", CARS)
def test_wheel_loads_on_level_ground_are_those_of_statics(name):
    v = vehicle(name)
    a, b = arms(v)
    rig = Rig(v)
    rig.drive(1.0)
    front, rear = (0.5 * v.mass * G * x / (a + b) for x in (b, a))
    assert rig.car.corner_output("tyre.fz") == pytest.approx([front, front, rear, rear], rel=2e-4)


def calc_strut(axle: Axle, load: float) -> tuple[float, float]:
    """Force of a strut that carries the load of its wheel less the weight of unsprung parts, by the travel that each
    of them has with the wheel; and the strut's motion ratio."""
    corner = Corner.of(axle.hard_points)
    rates = calc_rates(corner)
    unsprung = axle.wheel.mass + axle.knuckle.mass
    for side in ("lower", "upper"):
        body = axle.bodies()[f"{side}_wishbone"]
        hinge, axis, joint = (getattr(corner, f"{side}_{name}") for name in ("hinge", "axis", "ball_joint"))
        rise, of_joint = (
            np.cross(axis, place - hinge)[2] for place in (np.array(body.center_of_mass), joint)
        )
        unsprung += body.mass * rise / of_joint * getattr(rates, f"{side}_ball_joint")[2]
    return (load - unsprung * G) / rates.strut, rates.strut


@pytest.mark.parametrize("name", CARS)
def test_struts_carry_the_wheel_loads_less_the_unsprung_weight(name):
    v = vehicle(name)
    rig = Rig(v)
    rig.drive(1.0)
    car = rig.car
    assert np.abs(car.corner_output("suspension.deflection")).max() < 1e-6, "relative to the position at rest"
    assert abs(car.output("pitch")) < 1e-3
    drops = []
    for n, axle in ((0, v.front), (2, v.rear)):
        load, force = (float(car.corner_output(output)[n]) for output in ("tyre.fz", "suspension.force"))
        expected, ratio = calc_strut(axle, load)
        assert force == pytest.approx(expected, rel=5e-3)
        # Tyres are compressed, and springs of a given preload until they carry the load.
        spring = axle.spring
        travel = 0.0 if spring.preload is None else (expected - spring.preload) / spring.stiffness / ratio
        hub = axle.tyre.radius - load / axle.tyre.vertical_stiffness
        drops.append(axle.hard_points.wheel_center[2] - hub + travel)
    a, b = arms(v)
    fall = (drops[0] * b + drops[1] * a) / (a + b)
    assert car.output("z") == pytest.approx(v.center_of_mass()[2] - fall, abs=2e-4)


def test_wheel_loads_on_a_slope_are_those_of_statics():
    v = vehicle("prototype")
    rig = Rig(v).slope(0.15)
    rig.drive(5.0, brake=lambda t: 100e5)
    (a, b), height = arms(v), v.center_of_mass()[2]
    # Moments about the contact lines; the nose is uphill.
    front, rear = (
        0.5 * v.mass * G * (np.cos(0.15) * x + sign * np.sin(0.15) * height) / (a + b)
        for x, sign in ((b, -1), (a, 1))
    )
    load = rig.car.corner_output("tyre.fz")
    assert load == pytest.approx([front, front, rear, rear], rel=3e-3)
    assert load.sum() == pytest.approx(v.mass * G * np.cos(0.15), rel=1e-5)
    assert rig.car.corner_output("tyre.fx").sum() == pytest.approx(v.mass * G * np.sin(0.15), rel=1e-3)


def test_wheel_loads_across_a_slope_are_those_of_statics():
    v = vehicle("prototype")
    rig = Rig(v).slope(0.1, np.pi / 2)
    rig.drive(5.0, brake=lambda t: 100e5)
    load = rig.car.corner_output("tyre.fz")
    bodies = motions(rig)
    center = sum(b.mass * b.place for b in bodies) / v.mass
    hubs = np.array([b.place for b in bodies if b.name == "wheel"])
    across, up = np.array([0.0, np.cos(0.1), np.sin(0.1)]), np.array([0.0, -np.sin(0.1), np.cos(0.1)])
    # Down each wheel's plane to the ground.
    spin = np.array([Basics(rig.car)("wheel.axis", "now", n) for n in range(4)])
    down = np.outer(spin @ up, np.ones(3)) * spin - up
    contacts = hubs + down * ((hubs @ up) / -(down @ up))[:, None]
    # Moments about the middle of each pair of contacts: the car leans downhill, to the right.
    moment = (
        v.mass * G * (np.sin(0.1) * center @ up - np.cos(0.1) * (center - contacts.mean(axis=0)) @ across)
    )
    arm = ((contacts[::2] - contacts[1::2]) @ across) / 2
    assert ((load[1::2] - load[::2]) * arm).sum() == pytest.approx(moment, rel=2e-3)
    assert rig.car.corner_output("tyre.fy").sum() == pytest.approx(v.mass * G * np.sin(0.1), rel=2e-3)


@pytest.mark.parametrize("name", ["prototype", "ferrari_250lm"])
def test_the_car_stands_on_a_slope_with_brakes_on_for_a_minute(name):
    rig = Rig(vehicle(name)).slope(SLOPE)
    log = rig.drive(60.0, brake=lambda t: 50e5)
    assert (log.iterations > 0).all()
    assert log.violation < 1e-8
    settled = log.t > 5.0
    creep = np.hypot(log["x"] - log["x"][-1], log["y"] - log["y"][-1])
    assert creep[settled].max() < 0.2e-3
    assert np.abs(log["vx"][settled]).max() < 1e-4
    assert np.abs(log["wheel.speed"][settled]).max() < 1e-3


def test_the_car_rolls_off_a_slope_without_brakes():
    v = vehicle("prototype")
    rig = Rig(v).set({"aero.drag_area": 0.0, "aero.front_lift_area": 0.0, "aero.rear_lift_area": 0.0})
    log = rig.slope(SLOPE).drive(20.0)
    car = rig.car
    # v = r_d φ̇ with the rolling radius; the road's force acts at the loaded one. Nose uphill: the car rolls back.
    static = car.get_corner_parameter("tyre.radius") - car.corner_output(
        "tyre.fz"
    ) / car.get_corner_parameter("tyre.vertical_stiffness")
    inertia = np.array([v.axle(w).wheel.axial_inertia for w in ("fl", "fr", "rl", "rr")])
    rolling = car.get_corner_parameter("tyre.rolling_resistance") * car.corner_output("tyre.fz")
    resistance = (rolling * car.get_corner_parameter("tyre.radius") / static).sum()
    expected = (v.mass * G * np.sin(SLOPE) - resistance) / (
        v.mass + (inertia / (car.rolling_radius * static)).sum()
    )
    measured = -(log["vx"][-1] - log["vx"][2500]) / (log.t[-1] - log.t[2500])
    assert measured == pytest.approx(expected, rel=2e-3)
    assert log["vx"][-1] < -6.0


def test_the_car_stays_at_rest_on_level_ground():
    """Position, yaw and wheels do not drift, with brakes released or applied."""
    for pressure in (0.0, 40e5):
        rig = Rig(vehicle("prototype"))
        log = rig.drive(20.0, brake=lambda t, p=pressure: p)
        assert np.ptp(log["x"]) < 1e-3
        assert np.ptp(log["y"]) < 1e-4
        assert np.ptp(log["yaw"]) < 1e-5
        assert np.abs(log["wheel.speed"]).max() < 5e-3


def test_a_given_preload_is_kept():
    v = vehicle("prototype")
    front = replace(v.front, spring=replace(v.front.spring, preload=3500.0))
    rig = Rig(replace(v, front=front))
    assert rig.car.get_corner_parameter("spring.preload")[:2] == pytest.approx(3500.0)
    # The preload is too small for design height: the car squats in front until the springs carry it.
    assert rig.car.output("z") < v.center_of_mass()[2]
    assert rig.car.get_corner_parameter("rest.travel")[0] > 0.005


def test_load_grows_from_zero_at_touch_down():
    """0.1 mm into the ground at 2 m/s, the tyre's damping force is limited to about its spring force."""
    rig = Rig(vehicle("prototype"))
    rig.car.restart()
    change = np.zeros(12)
    tyre = rig.vehicle.front.tyre
    change[2] = tyre.radius - rig.vehicle.front.hard_points.wheel_center[2] - 1e-4
    change[8] = -2.0
    rig.car.correct(change)
    rig.car.report()
    load = rig.car.corner_output("tyre.fz")[:2]
    assert (load > 0).all()
    assert load == pytest.approx(2 * tyre.vertical_stiffness * 1e-4, rel=0.6)
