"""Open, locked and limited-slip differentials on the model of the car."""

import dataclasses

import numpy as np
import pytest
from vehicle_rig import Rig, ramp, vehicle

from vehicled.vehicle.differential import LOCKED, Differential
from vehicled.vehicle.parameters import Vehicle

H = 4e-3
OPEN, LOCK = Differential(), Differential(kind="locked")
LIMITED = Differential(kind="limited_slip", preload=80.0, locking=0.3)
REAR = slice(2, 4)


class Driven:
    """Wheels during a drive: (steps, 4) speeds and drive torques; (steps, 1) yaw rates."""

    def __init__(
        self, rig: Rig, differential: Differential, torque: float, seconds: float, steer: float = 0.0
    ):
        car, rack = rig.car, ramp(steer)
        rows = []
        for k in range(round(seconds / H)):
            car.inputs[:] = rack((k + 1) * H)
            car.corner_inputs[:3, :2] = car.inputs[:, None]
            car.corner_inputs[3, REAR] = 0.5 * torque
            car.corner_inputs[5, REAR] = differential.calc_limit(torque)
            assert 0 < car.step(H) < 12
            car.report()
            moved = car.get_state("differential.torque")
            rows.append(
                (*car.corner_output("wheel.speed"), *(car.corner_inputs[3] + moved), car.output("wz"))
            )
        self.speeds, self.torques, self.yaw_rate = np.split(np.array(rows), [4, 8], axis=1)
        self.difference = self.speeds[:, 2] - self.speeds[:, 3]
        """Rear left less rear right, rad/s."""
        self.moved = 0.5 * (self.torques[:, 2] - self.torques[:, 3])
        """Torque moved from the right to the left, N·m."""


def on_a_slippery_side(differential: Differential, torque: float = 900.0) -> Driven:
    """A drive from 5 m/s with a right rear wheel that has a tenth of its grip."""
    rig = Rig(vehicle("prototype")).roll(5.0)
    car = rig.car
    names = [n for n in car.compiled.names.corner_parameters if n.startswith("tyre.x.f")]
    grip = {n: 0.1 * car.get_corner_parameter(n)[3] for n in names}
    slip = {n: 0.1 * car.get_corner_parameter(n)[3] for n in ("tyre.x.sm1", "tyre.x.sm2")}
    car.set_parameters({}, {"rr": grip | slip})
    return Driven(rig, differential, torque, 1.5)


@pytest.mark.parametrize("differential", [OPEN, LIMITED, LOCK])
def test_the_torques_of_the_wheels_add_up_to_that_of_the_drive(differential):
    drive = on_a_slippery_side(differential)
    assert drive.torques[:, REAR].sum(axis=1) == pytest.approx(900.0, abs=1e-9)
    assert (drive.torques[:, :2] == 0.0).all()


def test_an_open_differential_spins_the_wheel_without_grip_and_a_limited_slip_bounds_it():
    free, bounded, locked = (on_a_slippery_side(d) for d in (OPEN, LIMITED, LOCK))
    assert (free.moved == 0.0).all()
    assert free.difference[-1] < -20.0
    # By the locking value, the torques differ by preload and 30 % of their sum.
    assert bounded.moved[-1] == pytest.approx(0.5 * (80.0 + 0.3 * 900.0))
    assert abs(bounded.moved).max() <= 0.5 * (80.0 + 0.3 * 900.0) + 1e-9
    assert free.difference[-1] < bounded.difference[-1] < -1.0
    # The wheels of a locked differential turn by the same angle, except for the twist of their shafts.
    assert abs(locked.difference[-100:]).max() < 0.05
    assert locked.moved[-1] > bounded.moved[-1]


@pytest.mark.parametrize("differential", [LIMITED, LOCK])
@pytest.mark.parametrize("steer", [0.0, 0.02])
def test_a_differential_only_dissipates_energy(differential, steer):
    """Energy that the wheels give to clutch and shafts: they never get back more than they gave."""
    drive = Driven(Rig(vehicle("prototype")).roll(12.0), differential, 600.0, 3.0, steer)
    lost = -np.cumsum(drive.moved * drive.difference) * H
    assert lost.min() > -1e-9
    slipping = abs(drive.moved) > 0.999 * differential.calc_limit(600.0)
    assert (drive.moved * drive.difference)[slipping].max(initial=0.0) <= 1e-9


def test_wheels_of_a_locked_axle_turn_alike_and_resist_the_turn():
    """Without drive the inner wheel would turn slower: the lock drives it and brakes the outer one."""
    free, locked = (
        Driven(Rig(vehicle("prototype")).roll(8.0), d, 0.0, 4.0, steer=0.02) for d in (OPEN, LOCK)
    )
    assert free.yaw_rate[-1] > 0.1
    turning = free.yaw_rate[-1, 0]
    # The rear wheels of the open axle roll: their speeds differ by yaw rate times track.
    assert free.difference[-1] < -0.8 * turning * 1.2 / 0.35
    # The rest is due to shafts that untwist while the car slows down.
    assert abs(locked.difference[-1]) < 0.01 * abs(free.difference[-1])
    assert locked.moved[-1] > 100.0  # forward on the left, the inner wheel: a moment to the right
    assert locked.yaw_rate[-1, 0] < 0.99 * turning


def test_the_clutch_sticks_until_its_preload_is_exceeded():
    """In a gentle bend the clutch of a limited slip holds like a lock; in a tight one it slips at its limit."""
    clutch = Differential(kind="limited_slip", preload=200.0, locking=0.0)
    gentle = Driven(Rig(vehicle("prototype")).roll(8.0), clutch, 0.0, 4.0, steer=0.0005)
    tight = Driven(Rig(vehicle("prototype")).roll(8.0), clutch, 0.0, 4.0, steer=0.02)
    assert abs(gentle.difference[-100:]).max() < 1e-3
    assert 1.0 < gentle.moved[-1] < 99.0
    assert tight.moved[-1] == pytest.approx(100.0)
    assert tight.difference[-1] < -0.1


@pytest.mark.parametrize("h", [1e-3, 4e-3, 10e-3])
def test_a_lock_is_stable_from_standstill_to_speed(h):
    rig = Rig(vehicle("prototype"))
    car = rig.car
    car.corner_inputs[5, REAR] = LOCKED
    speeds, failed = [], 0
    for k in range(round(6.0 / h)):
        car.inputs[:] = ramp(0.02)(k * h)
        car.corner_inputs[:3, :2] = car.inputs[:, None]
        car.corner_inputs[3, REAR] = 400.0 if k * h < 4.0 else -200.0
        failed += car.step(h) < 0
        car.report()
        speeds.append(car.corner_output("wheel.speed").copy())
    difference = np.array(speeds)[:, 2] - np.array(speeds)[:, 3]
    assert failed <= (
        2 if h > 4e-3 else 0
    )  # at 10 ms an open differential also reaches the limit of iterations
    assert speeds[round(4.0 / h)][2] > 15.0
    assert abs(difference[round(2.5 / h) : round(3.9 / h)]).max() < 0.05


def test_the_limit_of_the_torque_follows_from_kind_preload_and_locking():
    assert OPEN.calc_limit(5000.0) == 0.0
    assert LIMITED.calc_limit(-1000.0) == pytest.approx(0.5 * (80.0 + 300.0))
    assert Differential(kind="limited_slip").calc_limit(0.0) > 0.0


def with_drive(**changes) -> Vehicle:
    return dataclasses.replace(vehicle("prototype"), **changes)


def test_the_torque_split_is_as_given_or_that_of_equal_slip():
    stiffness = np.array([1.0, 1.0, 3.0, 3.0])
    assert with_drive(driven="rear").calc_front_share(stiffness) == 0.0
    assert with_drive(driven="front").calc_front_share(stiffness) == 1.0
    assert with_drive(driven="all").calc_front_share(stiffness) == pytest.approx(0.25)
    assert with_drive(driven="all", torque_split=0.4).calc_front_share(stiffness) == 0.4
