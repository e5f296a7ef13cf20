"""The compiled car has the figures of its handbook."""

from dataclasses import replace

import numpy as np
import pytest
from vehicle_rig import G, Rig, given, motions

from vehicled.errors import SettingsError
from vehicled.messages import WHEELS
from vehicled.reading import settings
from vehicled.vehicle.handbook import Handbook, HandbookAxle, roll_center_height
from vehicled.vehicle.kinematics import Corner, calc_rates, moved
from vehicled.vehicle.parameters import TMeasyTyre, Vehicle

AXLE = HandbookAxle(
    track=1.5,
    wheel_radius=0.31,
    wheel_rate=24e3,
    damping=1800.0,
    roll_stiffness=22e3,
    roll_center_height=0.06,
    cornering_stiffness=95e3,
    friction=0.95,
    relaxation_length=0.45,
)
CAR = Handbook(
    kind="handbook",
    mass=1240.0,
    wheelbase=2.6,
    front_to_center_of_mass=1.2,
    center_of_mass_height=0.52,
    inertia=(420.0, 1700.0, 1850.0),
    front=AXLE,
    rear=replace(AXLE, track=1.46, wheel_rate=28e3, roll_stiffness=9e3, cornering_stiffness=110e3),
)
LEAST = Handbook(
    kind="handbook",
    mass=1500.0,
    wheelbase=2.7,
    front_to_center_of_mass=1.3,
    center_of_mass_height=0.55,
    front=HandbookAxle(track=1.55, wheel_radius=0.32, cornering_stiffness=100e3),
    rear=HandbookAxle(track=1.55, wheel_radius=0.32, cornering_stiffness=115e3),
)
CARS = {"car": CAR, "least": LEAST, "ferrari_250lm": given("ferrari_250lm")}


def test_tyres_are_built_for_their_load_unless_given():
    def find_stiffness(car: Handbook) -> list[float]:
        vehicle = car.to_vehicle()
        return [axle.tyre.vertical_stiffness for axle in (vehicle.front, vehicle.rear)]

    assert find_stiffness(LEAST) == [2e5, 2e5]
    heavy = replace(LEAST, mass=3500.0)
    front, rear = find_stiffness(heavy)
    load = 0.5 * heavy.mass * heavy.gravity * heavy.front_to_center_of_mass / heavy.wheelbase
    assert load / rear == pytest.approx(0.08 * LEAST.rear.wheel_radius)
    assert 2e5 < rear < front  # more than half of its mass is in front
    given_one = replace(heavy, front=replace(heavy.front, tyre_stiffness=3e5))
    assert find_stiffness(given_one) == [3e5, rear]


@pytest.fixture(scope="module", params=CARS)
def case(request) -> tuple[Handbook, Rig]:
    handbook = CARS[request.param]
    assert isinstance(handbook, Handbook)
    return handbook, Rig(handbook.to_vehicle())


@pytest.fixture
def car(case):
    handbook, rig = case
    rig.car.rest()
    rig.car.inputs[:] = 0.0
    rig.car.corner_inputs[:] = 0.0
    return handbook, rig


def test_mass_center_and_inertia_of_the_whole_car_are_as_given(car):
    handbook, rig = car
    rig.car.restart()
    bodies = motions(rig)
    total = sum(b.mass for b in bodies)
    center = sum(b.mass * b.place for b in bodies) / total
    assert total == pytest.approx(handbook.mass, rel=1e-12)
    assert center == pytest.approx((0.0, 0.0, handbook.center_of_mass_height), abs=1e-9)
    front = rig.vehicle.front.hard_points.wheel_center[0]
    assert front - rig.vehicle.center_of_mass()[0] == pytest.approx(handbook.front_to_center_of_mass)
    moments = np.zeros(3)
    for n, b in enumerate(bodies):
        r = b.place - center
        moments += np.diag(b.inertia) + b.mass * (r @ r - r * r)
        if b.name == "wheel":
            wheel = rig.vehicle.axle(WHEELS[(n - 2) // 4]).wheel
            t = wheel.transverse_inertia
            moments += (t, wheel.axial_inertia, t)
    assert moments == pytest.approx(handbook.calc_inertia(), rel=1e-9)


def test_the_car_rests_in_design_position_with_the_static_loads(car):
    handbook, rig = car
    rig.drive(1.0)
    a, base = handbook.front_to_center_of_mass, handbook.wheelbase
    front, rear = (0.5 * handbook.mass * G * x / base for x in (base - a, a))
    assert rig.car.corner_output("tyre.fz") == pytest.approx([front, front, rear, rear], rel=1e-4)
    assert rig.car.output("z") == pytest.approx(handbook.center_of_mass_height, abs=1e-4)
    assert abs(rig.car.output("pitch")) < 1e-4


def wheel_load(handbook: Handbook, name: str) -> float:
    """Load of one wheel at rest, N."""
    a, base = handbook.front_to_center_of_mass, handbook.wheelbase
    return 0.5 * handbook.mass * handbook.gravity * (base - a if name == "front" else a) / base


def unsprung_mass(handbook: Handbook, name: str) -> float:
    """Unsprung mass of one corner, kg; by default 3 % of the car's mass."""
    return getattr(handbook, name).unsprung_mass or 0.03 * handbook.mass


def expected_rates(handbook: Handbook) -> list[float]:
    rates = []
    for name in ("front", "rear"):
        axle = getattr(handbook, name)
        sprung = wheel_load(handbook, name) / handbook.gravity - unsprung_mass(handbook, name)
        ride = axle.ride_frequency or 1.4
        rates.append(axle.wheel_rate or sprung * (2 * np.pi * ride) ** 2)
    return rates


def test_wheel_rates_are_those_given(car):
    """Change of load over change of travel with more chassis mass. The car rolls, so tyres do not hold the track."""
    handbook, rig = car
    loads, travels = [], []
    for extra in (-15.0, 15.0):
        rig.car.rest()
        mass = rig.vehicle.chassis.mass + extra
        rig.set({"chassis.mass": mass, "aero.drag_area": 0.0}).roll(15.0).drive(6.0)
        loads.append(rig.car.corner_output("tyre.fz").copy())
        travels.append(rig.car.corner_output("suspension.deflection").copy())
    rig.set({"chassis.mass": rig.vehicle.chassis.mass})
    rate = (loads[1] - loads[0]) / (travels[1] - travels[0])
    # The contact is not right below the centre of a cambered wheel, which reduces the rate by W r γ'².
    expected = []
    for name, wheel_rate in zip(("front", "rear"), expected_rates(handbook), strict=True):
        c = Corner.of(getattr(rig.vehicle, name).hard_points)
        gain = (moved(c, 1e-3).camber - moved(c, -1e-3).camber) / 2e-3
        expected += 2 * [wheel_rate - wheel_load(handbook, name) * c.wheel_center[2] * gain**2]
        assert expected[-1] == pytest.approx(wheel_rate, rel=0.015)
    assert rate == pytest.approx(expected, rel=2e-3)


def test_damping_at_the_wheel_is_as_given(car):
    handbook, rig = car
    for name, rate in zip(("front", "rear"), expected_rates(handbook), strict=True):
        axle, built = getattr(handbook, name), getattr(rig.vehicle, name)
        ratio = calc_rates(Corner.of(built.hard_points)).strut
        mean = 0.5 * (built.damper.bump + built.damper.rebound) * ratio**2
        sprung = wheel_load(handbook, name) / handbook.gravity - unsprung_mass(handbook, name)
        critical = 2 * np.sqrt(rate * sprung)
        expected = axle.damping or (axle.damping_ratio or 0.3) * critical
        assert mean == pytest.approx(expected, rel=1e-9)


def test_roll_stiffness_and_roll_centers_are_as_given(car):
    handbook, rig = car
    for name in ("front", "rear"):
        axle, built = getattr(handbook, name), getattr(rig.vehicle, name)
        c = Corner.of(built.hard_points)
        # Roll by a small angle about the middle: the wheels go up and down by half the track each.
        angle = 1e-3
        up, down = (moved(c, side * angle * axle.track / 2) for side in (1.0, -1.0))
        difference = up.lower_ball_joint[2] - down.lower_ball_joint[2]
        energy = 0.5 * built.anti_roll_bar * difference**2
        if axle.roll_stiffness is not None:
            assert energy == pytest.approx(0.5 * axle.roll_stiffness * angle**2, rel=1e-5, abs=1e-12)
        assert roll_center_height(c) == pytest.approx(axle.roll_center_height, abs=1e-9)
        assert max(abs(moved(c, z).toe) for z in (-0.06, 0.06)) < np.radians(0.05)


def corner(handbook: Handbook) -> tuple[float, float]:
    """Lateral acceleration (m/s²) and roll (rad) in a steady corner at 20 m/s."""
    rig = Rig(handbook.to_vehicle())
    rig.roll(20.0).drive(8.0, rack=lambda t: (0.002 * min(t, 1.0), 0.002 * (t < 1), 0.0))
    return rig.car.output("wz") * rig.car.output("vx"), rig.car.output("roll")


@pytest.mark.parametrize("tall", [0.55, 0.7])
@pytest.mark.parametrize(("front", "rear"), [(None, None), (None, 4e3), (2e3, None)])
def test_a_car_without_given_roll_stiffness_gets_bars_for_a_usual_roll(tall, front, rear):
    """Bars are chosen for 7° at 1 g. Wheels that lean and load transfer make that up to a seventh more."""
    known = replace(LEAST, center_of_mass_height=tall)
    known = replace(
        known,
        front=replace(known.front, roll_stiffness=front),
        rear=replace(known.rear, roll_stiffness=rear),
    )
    acceleration, roll = corner(known)
    assert acceleration > 1.0
    assert np.degrees(roll) * G / acceleration == pytest.approx(7.5, rel=0.07)


def test_bars_that_are_not_given_share_the_missing_stiffness_by_the_loads():
    vehicle = LEAST.to_vehicle()
    bars = [
        a.anti_roll_bar * (calc_rates(Corner.of(a.hard_points)).lower_ball_joint[2] * 1.55) ** 2
        for a in (vehicle.front, vehicle.rear)
    ]
    front = wheel_load(LEAST, "front") / (wheel_load(LEAST, "front") + wheel_load(LEAST, "rear"))
    assert bars[0] / sum(bars) == pytest.approx(front)
    # With springs that are stiff enough, there are no bars.
    stiff = replace(LEAST, front=replace(LEAST.front, ride_frequency=3.0), rear=LEAST.rear).to_vehicle()
    assert stiff.front.anti_roll_bar == stiff.rear.anti_roll_bar == 0.0


def test_body_roll_in_a_steady_corner_matches_the_classical_estimate():
    """The estimate is the roll moment of the sprung mass over the roll stiffness of springs and bars.

    It neglects that wheels lean with the body and that tyres deflect (about a tenth).
    """
    handbook = replace(
        CAR,
        front=replace(AXLE, roll_center_height=0.0),
        rear=replace(CAR.rear, roll_center_height=0.0, roll_stiffness=14e3),
    )
    rig = Rig(handbook.to_vehicle())
    rig.roll(20.0).drive(8.0, rack=lambda t: (0.0015 * min(t, 1.0), 0.0015 * (t < 1), 0.0))
    car = rig.car
    acceleration = car.output("wz") * car.output("vx")
    unsprung = sum(2 * unsprung_mass(handbook, n) for n in ("front", "rear"))
    sprung = handbook.mass - unsprung
    height = (handbook.mass * handbook.center_of_mass_height - unsprung * 0.3) / sprung
    stiffness = sum(a.wheel_rate * a.track**2 / 2 + a.roll_stiffness for a in (handbook.front, handbook.rear))
    expected = sprung * height * acceleration / (stiffness - sprung * G * height)
    d = car.corner_output("suspension.deflection")
    tracks = np.array([handbook.front.track, handbook.rear.track])
    assert acceleration > 0.5
    assert float(np.mean((d[1::2] - d[::2]) / tracks)) == pytest.approx(1.06 * expected, rel=0.06)


def test_cornering_stiffness_and_friction_of_the_tyres_are_as_given(car):
    handbook, rig = car
    for name in ("front", "rear"):
        axle, tyre = getattr(handbook, name), getattr(rig.vehicle, name).tyre
        assert isinstance(tyre, TMeasyTyre)
        load = wheel_load(handbook, name)
        assert tyre.nominal_load == pytest.approx(load)
        assert 2 * tyre.lateral.df0[0] == pytest.approx(axle.cornering_stiffness)
        assert tyre.lateral.fm[0] == pytest.approx(axle.friction * load)
        assert tyre.longitudinal.fm[0] == pytest.approx(axle.friction * load)
        length = axle.relaxation_length or 1.3 * axle.wheel_radius
        assert tyre.lateral.df0[0] / tyre.lateral.stiffness == pytest.approx(length)
        for c in (tyre.lateral, tyre.longitudinal):
            assert list(c.check()) == []


def test_cornering_stiffness_of_the_driving_car_is_as_given():
    """Forces over slip angles of both axles in a gentle corner."""
    rig = Rig(CAR.to_vehicle())
    rig.roll(20.0).drive(6.0, rack=lambda t: (0.0006 * min(t, 1.0), 0.0006 * (t < 1), 0.0))
    fy, slip = rig.car.corner_output("tyre.fy"), rig.car.corner_output("slip.angle")
    stiffness = -(fy[::2] + fy[1::2]) / (0.5 * (slip[::2] + slip[1::2]))
    assert np.abs(fy).min() > 50
    assert stiffness == pytest.approx([95e3, 110e3], rel=0.02)


def test_the_greatest_lateral_acceleration_is_limited_by_friction():
    rig = Rig(replace(CAR, rear=replace(CAR.rear, cornering_stiffness=140e3, friction=1.1)).to_vehicle())
    log = rig.roll(22.0).drive(3.0, rack=lambda t: (0.012 * t, 0.012, 0.0), torque=lambda t: 200.0)
    assert (log.iterations > 0).all()
    # The front axle slides first, at its friction less the effect of load transfer.
    assert 0.8 * G < np.abs(log["wz"] * log["vx"]).max() < 1.0 * G


def test_the_default_steering_ratio_is_16():
    built = CAR.to_vehicle()
    turn = 0.2
    steer = -moved(Corner.of(built.front.hard_points), 0.0, built.steering.ratio * turn).toe
    assert turn / steer == pytest.approx(16.0, rel=0.02)
    assert built.steering.ratio > 0


def test_default_brakes_reach_1_g_at_80_bar_and_are_shared_by_load():
    built = LEAST.to_vehicle()
    radius = built.front.hard_points.wheel_center[2]
    force = 2 * 80e5 * (built.front.brake.gain + built.rear.brake.gain) / radius
    assert force == pytest.approx(LEAST.mass * G, rel=0.01)
    front = 0.5 + (1.4 - 1.35) / 2.7 + 0.55 / 2.7
    share = built.front.brake.gain / (built.front.brake.gain + built.rear.brake.gain)
    assert share == pytest.approx(front, rel=0.01)


@pytest.mark.parametrize(("track", "radius"), [(1.0, 0.22), (1.2, 0.36), (1.8, 0.3), (2.0, 0.45)])
@pytest.mark.parametrize("height", [-0.05, 0.0, 0.12])
def test_the_template_fits_small_and_large_cars(track, radius, height):
    axle = replace(AXLE, track=track, wheel_radius=radius, roll_center_height=height)
    handbook = replace(CAR, front=axle, rear=axle, inertia=None)
    for end in ("front", "rear"):
        c = Corner.of(getattr(handbook.to_vehicle(), end).hard_points)
        assert roll_center_height(c) == pytest.approx(height, abs=1e-9)
        assert max(abs(moved(c, z).toe) for z in (-0.06, 0.06)) < np.radians(0.3)


# -- files -----------------------------------------------------------------------------------------------

TEXT = """
kind: handbook
mass: 1240 kg
wheelbase: 2.6 m
front_to_center_of_mass: 1.2 m
center_of_mass_height: 0.52 m
{extra}
front: {{track: 1.5 m, wheel_radius: 0.31 m, cornering_stiffness: 95 kN/rad, {front}}}
rear: {{track: 1.5 m, wheel_radius: 0.31 m, cornering_stiffness: 95 kN/rad}}
"""


@pytest.mark.parametrize(
    ("extra", "front", "where"),
    [
        ("inertia: 50 1700 1850 kg·m²", "", "inertia: "),
        ("inertia: 420 900 1850 kg·m²", "", "inertia: of what remains"),
        ("", "wheel_rate: 20 kN/m, ride_frequency: 1.5 Hz", "front.ride_frequency: "),
        ("", "damping: 2 kN·s/m, damping_ratio: 0.3", "front.damping_ratio: "),
        ("", "unsprung_mass: 200 kg", "front.unsprung_mass: "),
        ("", "tyre_stiffness: 20 kN/m", "front.tyre_stiffness: "),
        ("", "roll_center_height: 0.8 m", "front.roll_center_height: "),
        ("", "friction: -1", "front.friction: "),
    ],
)
def test_mistakes_are_reported_with_their_key(extra, front, where):
    with pytest.raises(SettingsError, match=f"^<text>:\\d+: {where}"):
        settings.loads(TEXT.format(extra=extra, front=front), Handbook)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "_stiffness: 95 kN/rad, ",
            "_stiffness: 84 N/rad, ",
            "front.cornering_stiffness: expected at least 2000",
        ),
        (
            "_stiffness: 95 kN/rad, ",
            "_stiffness: 84 kN/deg, ",
            "front.cornering_stiffness: expected at least 2000",
        ),
        (
            "height: 0.52 m",
            "height: 5.2 m",
            "center_of_mass_height: expected at least 0.15 m and at most 2 m",
        ),
        (
            "front: {track: 1.5 m",
            "front: {track: 3.5 m",
            "front.track: expected at least 0.8 m and at most 2.4 m",
        ),
        ("wheelbase: 2.6 m", "wheelbase: 2600 m", "wheelbase: expected at least 0.9 m and at most 5 m"),
        ("mass: 1240 kg", "mass: 12 kg", "mass: expected at least 100 kg and at most 8000 kg"),
        (
            "kind: handbook",
            "kind: handbook\nsteering_ratio: 0.0625",
            "steering_ratio: expected at least 1 and at most 35",
        ),
        ("height: 0.52 m", "height: 1.9 m", "inertia: by mass, tracks, .* and center_of_mass_height: "),
    ],
)
def test_impossible_figures_are_reported_with_their_own_key(old, new, message):
    """Before, a wrong height or track was reported as wrong moments of inertia, which were not given."""
    text = TEXT.format(extra="", front="")
    assert text.count(old) == 1
    with pytest.raises(SettingsError, match=f"^<text>:\\d+: {message}"):
        settings.loads(text.replace(old, new), Handbook)


def test_center_of_mass_beyond_the_axles_is_refused():
    text = TEXT.format(extra="", front="").replace("center_of_mass: 1.2 m", "center_of_mass: 3 m")
    with pytest.raises(SettingsError, match=r"front_to_center_of_mass: .*between the axles"):
        settings.loads(text, Handbook)


def test_a_minimal_file_gives_a_vehicle():
    handbook = settings.loads(TEXT.format(extra="", front=""), Handbook)
    assert isinstance(handbook.to_vehicle(), Vehicle)
    assert handbook.to_vehicle().mass == pytest.approx(1240.0)
