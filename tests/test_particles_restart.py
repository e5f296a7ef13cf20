"""Particles that begin anew after the mechanism has left the range of its start."""

import numpy as np
import pytest
from particles_rig import follow, move

from vehicled.maths.angles import wrap
from vehicled.multibody.mechanism import Mechanism
from vehicled.particles.configuration import load_particles_configuration
from vehicled.particles.tracker import MechanismTracker
from vehicled.particles.watch import Misfit, Verdict

CART = """\
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m, W: -1 0 m}}
points: {C: 0 0 m, P: 0 -0.5 m}
distances: {x_cart: {points: [O, C], along: x, start: 0.1 m}}
angles: {phi: {between: [y, [P, C]], start: 20 deg}}
bodies:
  cart: {kind: point_mass, point: C, mass: 2 kg}
  rod: {kind: bar, points: [C, P], length: 0.5 m, mass: 0.6 kg}
  bob: {kind: point_mass, point: P, mass: 0.3 kg}
joints: {rail: {kind: point_on_line, points: [O, C], axis: x}}
forces:
  k: {kind: spring, points: [W, C], stiffness: 30 N/m, damping: 0.5 N·s/m, free_length: 1 m}
independent: [x_cart, phi]
"""
DEVICES = """\
particles:
  count: 300
  coordinates:
    x_cart: {low: 0.08 m, high: 0.12 m, motion: 2 mm, rate: 0.5 m/s}
    phi: {low: 18 deg, high: 22 deg, rate: 1 rad/s}
sensors:
  can: {joint.1.distance: {value: x_cart, sigma: 4 mm}, joint.1.angle: {value: phi, sigma: 0.2 deg}}
"""
CHANNELS = {"joint.1.distance": "x_cart", "joint.1.angle": "phi"}


def make_cart(x=0.1, phi=0.35, speed=0.0, rate=0.0):
    m = Mechanism.parse(CART)
    m.set_independent_state(np.array([x, phi]), np.array([speed, rate]))
    return m


@pytest.fixture
def tracker(tmp_path):
    path = tmp_path / "devices.yaml"
    path.write_text(DEVICES)
    return MechanismTracker(make_cart(), load_particles_configuration(path))


def test_a_mechanism_is_found_after_a_pause_in_which_it_has_moved_on(tracker):
    motion = move(make_cart(speed=0.4), 5.5)
    first, last = 75, 205

    def paused(k, channel, reading):
        return np.inf if first <= k < last else reading

    assert abs(motion.q["x_cart"][last] - 0.1) > 0.05
    followed = follow(tracker, motion, CHANNELS, 1, paused)
    assert [c.state for c in followed.conditions] == ["running", "recovering", "running"]
    found = followed.estimates[-30:]
    for name in CHANNELS.values():
        off = wrap(np.array([e.coordinates[name].value for e in found]) - motion.q[name][-30:])
        assert np.mean((off / [e.coordinates[name].sigma for e in found]) ** 2) < 4.0
        assert np.abs(off).max() < 0.01


def test_a_fast_angle_does_not_widen_the_speed_of_a_slide(tracker):
    """The pendulum is struck, and turns at 15 rad/s after that."""
    before = move(make_cart(), 2.0)
    x, v = before.q["x_cart"][-1], before.qd["x_cart"][-1]
    after = move(make_cart(x, before.q["phi"][-1], v, 15.0), 3.0)
    for whole, rest in ((before.q, after.q), (before.qd, after.qd)):
        for name in whole:
            whole[name] = np.concatenate([whole[name], rest[name]])
    followed = follow(tracker, before, CHANNELS, 1)
    assert "recovering" in [c.state for c in followed.conditions]
    fastest = np.abs(before.qd["x_cart"]).max()
    assert np.abs([e.coordinates["x_cart"].rate for e in followed.estimates]).max() < 2.0 * fastest
    assert followed.conditions[-1].state == "running"


def test_limits_at_the_start_are_named_after_restarts_in_vain(tracker, monkeypatch):
    verdicts = [None, *[Verdict((Misfit(0, 9, 10),), False)] * 3]
    monkeypatch.setattr(tracker._watch, "judge", lambda t: verdicts.pop(0) if t % 10**8 == 0 else None)
    followed = follow(tracker, move(make_cart(), 0.38), CHANNELS, 1)
    assert "low and high of particles.coordinates.x_cart and particles.coordinates.phi" in (
        followed.conditions[-1].reason
    )
