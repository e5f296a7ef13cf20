"""Suspension and steering geometry; springs, dampers, stops and anti-roll bars compared with hand calculations."""

import numpy as np
import pytest
from vehicle_rig import G, Rig, ramp, vehicle

from vehicled.vehicle.handbook import roll_center_height
from vehicled.vehicle.kinematics import Corner, calc_rates, moved

AXLES = [(name, end) for name in ("prototype", "ferrari_250lm") for end in ("front", "rear")]


def corner(name: str, end: str) -> Corner:
    return Corner.of(getattr(vehicle(name), end).hard_points)


@pytest.mark.parametrize(("name", "end"), AXLES)
def test_bump_steer_is_small(name, end):
    c = corner(name, end)
    toes = [moved(c, travel).toe - c.toe for travel in np.linspace(-0.06, 0.06, 9)]
    assert np.abs(toes).max() < np.radians(0.1)


@pytest.mark.parametrize(("name", "end"), AXLES)
def test_camber_gain_and_roll_center_are_in_the_usual_range(name, end):
    c = corner(name, end)
    gain = (moved(c, 0.02).camber - moved(c, -0.02).camber) / 0.04
    assert -1.2 < gain < -0.2  # rad/m: leans in with bump
    assert -0.02 < roll_center_height(c) < 0.12


@pytest.mark.parametrize(("name", "end"), AXLES)
def test_moving_a_corner_keeps_every_length(name, end):
    c = corner(name, end)
    for travel, rack in ((0.08, 0.0), (-0.08, 0.0), (0.05, 0.04 if end == "front" else 0.0)):
        m = moved(c, travel, rack)
        assert m.wheel_center[2] - c.wheel_center[2] == pytest.approx(travel, abs=1e-9)
        for a, b in (
            ("lower_ball_joint", "lower_hinge"),
            ("upper_ball_joint", "upper_hinge"),
            ("lower_ball_joint", "upper_ball_joint"),
            ("lower_ball_joint", "wheel_center"),
            ("tie_rod_outer", "tie_rod_inner"),
            ("tie_rod_outer", "wheel_center"),
            ("spring_wishbone", "lower_ball_joint"),
        ):
            before, after = (np.linalg.norm(getattr(x, a) - getattr(x, b)) for x in (c, m))
            assert after == pytest.approx(before, abs=5e-5), (a, b)


def test_motion_ratio_is_that_of_the_lever():
    """Foot's distance from the hinge over the ball joint's, times the ball joint's rise over the wheel's."""
    c = corner("prototype", "front")
    rates = calc_rates(c)
    strut = c.spring_chassis - c.spring_wishbone
    foot = c.spring_wishbone - c.lower_hinge
    arm = c.lower_ball_joint - c.lower_hinge
    turn = rates.lower_ball_joint[2] / arm[1]
    by_hand = turn * np.cross(np.array([1.0, 0, 0]), foot) @ strut / np.linalg.norm(strut)
    assert rates.strut == pytest.approx(by_hand, rel=1e-12)
    step = 1e-4

    def length(travel: float) -> float:
        m = moved(c, travel)
        return float(np.linalg.norm(m.spring_chassis - m.spring_wishbone))

    assert rates.strut == pytest.approx((length(-step) - length(step)) / (2 * step), rel=1e-6)


def test_the_compiled_car_moves_as_by_the_geometry():
    """Toe and camber with a displaced rack, compared with the kinematics of a corner."""
    rig = Rig(vehicle("prototype"))
    rig.drive(1.0, rack=ramp(0.02, 0.8))
    car = rig.car
    names = car.compiled.names.coordinates
    branch = [n[:-3] for n in names if n.endswith(" fl")]
    axis = np.array([car.view("branch.q")[branch.index(f"wheel.axis.{a}"), 0] for a in "xyz"])
    q = car.view("q")[3:12].reshape(3, 3)
    c = moved(corner("prototype", "front"), float(car.corner_output("suspension.deflection")[0]), 0.02)
    assert q @ axis == pytest.approx(c.spin_axis, abs=2e-5)


def test_rack_to_the_left_turns_both_wheels_left_and_the_inner_one_more():
    c = corner("prototype", "front")
    # Left wheel in a left turn is the inner one; in a right turn the outer one.
    inner, outer = -moved(c, 0.0, 0.06).toe, moved(c, 0.0, -0.06).toe
    assert inner > outer > np.radians(20)


# -- spring, damper, stops ---------------------------------------------------------------------------


def strut_states(rig: Rig, log) -> tuple[np.ndarray, np.ndarray]:
    """Compression from design and its rate of the front left strut, from travel and motion ratio."""
    c = corner("prototype", "front")
    travel = log["suspension.deflection"][:, 0]
    grid = np.linspace(travel.min() - 1e-3, travel.max() + 1e-3, 41)
    places = [moved(c, float(z)) for z in grid]
    length = [np.linalg.norm(m.spring_chassis - m.spring_wishbone) for m in places]
    ratio = [calc_rates(m).strut for m in places]
    design = np.linalg.norm(c.spring_chassis - c.spring_wishbone)
    compression = design - np.interp(travel, grid, length)
    return compression, np.interp(travel, grid, ratio) * log["suspension.rate"][:, 0]


def test_strut_force_is_spring_plus_damper_in_bump_and_rebound():
    rig = Rig(vehicle("prototype"))
    change = np.zeros(12)
    change[8] = -0.8
    rig.car.correct(change)
    log = rig.drive(1.0)
    axle = rig.vehicle.front
    compression, rate = strut_states(rig, log)
    assert np.abs(compression).max() < min(axle.stops.bump, axle.stops.droop)
    damping = np.where(rate > 0, axle.damper.bump, axle.damper.rebound)
    preload = rig.car.get_corner_parameter("spring.preload")[0]
    expected = preload + axle.spring.stiffness * compression + damping * rate
    assert log["suspension.force"][:, 0] == pytest.approx(expected, rel=2e-3, abs=3.0)
    assert rate.max() > 0.2
    assert rate.min() < -0.1


def test_the_bump_stop_acts_from_its_travel_on():
    rig = Rig(vehicle("prototype"))
    change = np.zeros(12)
    change[8] = -2.6
    rig.car.correct(change)
    log = rig.drive(0.4, 1e-3)
    assert (log.iterations > 0).all()
    stops, axle = rig.vehicle.front.stops, rig.vehicle.front
    compression, rate = strut_states(rig, log)
    depth = np.maximum(compression - stops.bump, 0.0)
    assert depth.max() > 2 * stops.softness
    damping = np.where(rate > 0, axle.damper.bump, axle.damper.rebound)
    preload = rig.car.get_corner_parameter("spring.preload")[0]
    rubber = stops.stiffness * depth**2 / (depth + stops.softness)
    expected = preload + axle.spring.stiffness * compression + damping * rate + rubber
    # Afterwards the car jumps off the ground, and the droop stop acts.
    before = compression > -stops.droop
    assert log["suspension.force"][before, 0] == pytest.approx(expected[before], rel=5e-3, abs=20.0)


def test_droop_stop_holds_the_wheel_in_the_air():
    rig = Rig(vehicle("prototype"))
    rig.car.ground[3] = -100.0
    log = rig.drive(2.0)
    compression, _ = strut_states(rig, log)
    stops = rig.vehicle.front.stops
    assert (log.iterations > 0).all()
    # In free fall, only the preload pushes the wheel down, against spring and stop.
    depth = -compression[-1] - stops.droop
    assert 0 < depth < 0.02
    assert log["tyre.fz"][-1] == pytest.approx(0.0)
    assert log["az"][-1] == pytest.approx(-G, rel=1e-3)


# -- anti-roll bars ----------------------------------------------------------------------------------


def test_anti_roll_bars_add_the_roll_stiffness_of_a_hand_calculation():
    """Static equilibrium across a slope with and without bars."""

    def roll(bars: bool) -> float:
        rig = Rig(vehicle("prototype"))
        if not bars:
            rig.set(anti_roll__stiffness=0.0)
        rig.slope(0.05, np.pi / 2).drive(6.0, brake=lambda t: 100e5)
        d = rig.car.corner_output("suspension.deflection")
        tracks = [2 * corner("prototype", e).wheel_center[1] for e in ("front", "rear")]
        return float(np.mean((d[1::2] - d[::2]) / tracks))

    def stiffness(bars: bool) -> float:
        """Roll stiffness of both axles, N·m/rad: wheel rates (spring and turning of its line of action) and bars."""
        preload = Rig(vehicle("prototype")).car.get_corner_parameter("spring.preload")
        total = 0.0
        for n, end in enumerate(("front", "rear")):
            axle, c = getattr(vehicle("prototype"), end), corner("prototype", end)
            rates, track = calc_rates(c), 2 * c.wheel_center[1]
            turning = (calc_rates(moved(c, 1e-3)).strut - calc_rates(moved(c, -1e-3)).strut) / 2e-3
            wheel_rate = axle.spring.stiffness * rates.strut**2 + preload[2 * n] * turning
            total += wheel_rate * track**2 / 2
            if bars:
                total += axle.anti_roll_bar * (rates.lower_ball_joint[2] * track) ** 2
        return total

    # The same moment rolls the body by the inverse of the stiffness. The softer car leans further, which adds
    # the shift of its centre of mass.
    shift = vehicle("prototype").mass * G * 0.4
    expected = (stiffness(True) - shift) / (stiffness(False) - shift)
    assert expected > 1.4
    assert roll(False) / roll(True) == pytest.approx(expected, rel=0.03)
