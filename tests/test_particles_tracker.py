"""Particles on mechanisms with precise encoders: consistent deviations, or a condition that names the fault."""

import numpy as np
import pytest
from mechanism_rig import mechanism, shipped
from particles_rig import DT, SIGMA, follow, make_tracker, move

from vehicled.errors import SettingsError
from vehicled.maths.angles import wrap
from vehicled.messages import Measurement
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import load_particles_configuration
from vehicled.particles.swarm import Swarm
from vehicled.particles.tracker import MechanismTracker
from vehicled.particles.watch import Misfit, Verdict

CRANKS = {"joint.1.angle": "theta1", "joint.2.angle": "theta2"}
FIVE_BAR = """\
sensors:
  can: {joint.1.angle: {value: theta1, sigma: 0.2 deg}, joint.2.angle: {value: theta2, sigma: 0.2 deg}}
"""
CRANK = {"joint.1.angle": "theta"}
ENCODER = "sensors: {can: {joint.1.angle: {value: theta, sigma: 0.2 deg}}}\n"


WRONG = {"left_crank": 1.2, "right_crank": 0.8, "left_coupler": 0.8, "right_coupler": 1.2}


@pytest.fixture(scope="module")
def five_bar():
    return move(shipped("five_bar"), 4.4)


def changed_masses(name, factors):
    """A shipped mechanism whose bodies have other masses."""
    m = shipped(name)
    m.set_parameters({f"{k}.mass": x * m.get_parameter(f"{k}.mass") for k, x in factors.items()})
    return m


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "more",
    [
        "",
        pytest.param(
            "particles: {coordinates: {theta1: {rate: 5 rad/s}, theta2: {rate: 5 rad/s}}}\n",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_two_precise_encoders_determine_two_degrees_of_freedom(tmp_path, five_bar, seed, more):
    """From rest, with known or unknown initial rates: particles do not contract at a wrong state."""
    followed = follow(make_tracker(tmp_path, FIVE_BAR + more, "five_bar"), five_bar, CRANKS, seed)
    assert followed.refused < 0.01
    assert [c.state for c in followed.conditions] == ["running"]
    for name in CRANKS.values():
        off, normalised = (x[50:] for x in followed.errors(name))
        assert np.sqrt(np.mean(off**2)) < 0.5 * SIGMA
        assert 0.05 < np.mean(normalised**2) < 4.0
        assert np.mean(followed.rate_errors(name)[50:] ** 2) < 4.0


def test_the_initial_rate_is_that_of_the_mechanisms_file(tmp_path):
    """The crank turns by 2 rad between readings, and by 0.6 rad in the longest step."""
    motion = move(shipped("slider_crank"), 1.0, 5e-5)
    followed = follow(make_tracker(tmp_path, ENCODER, "slider_crank"), motion, CRANK, 1)
    off, normalised = followed.errors("theta")
    assert followed.refused < 0.01
    assert np.abs(off[20:]).max() < SIGMA
    assert np.mean(normalised[20:] ** 2) < 4.0
    # The initial rate is known exactly, as no deviation is configured.
    assert followed.estimates[0].coordinates["theta"].rate == pytest.approx(motion.qd["theta"][0], rel=1e-6)


def test_a_linkage_that_moves_at_the_start_is_found_with_one_restart(tmp_path):
    """The configuration says that it is at rest; the reason of the restart names the key."""
    m = shipped("four_bar")
    m.set_independent_state(m.z, np.array([2.0]))
    followed = follow(make_tracker(tmp_path, ENCODER, "four_bar"), move(m, 4.0), CRANK, 1)
    assert [c.state for c in followed.conditions] == ["running", "recovering", "running"]
    reason = followed.conditions[1].reason
    assert "readings of can.joint.1.angle do not fit" in reason
    assert "particles.coordinates.theta.rate" in reason
    off, normalised = followed.errors("theta")
    assert np.abs(off[100:]).max() < SIGMA
    assert np.mean(normalised[100:] ** 2) < 4.0


def test_a_sensor_that_fails_is_named_and_not_used_until_it_fits(tmp_path, five_bar):
    """The sensor is stuck at a value that the crank passes repeatedly."""

    def stuck(k, channel, reading):
        return 3.0 if channel == "joint.2.angle" and 75 <= k < 150 else reading

    followed = follow(make_tracker(tmp_path, FIVE_BAR, "five_bar"), five_bar, CRANKS, 1, stuck)
    assert [c.state for c in followed.conditions] == ["running", "degraded", "running"]
    (fault,) = followed.conditions[1].faults
    assert (fault.source, fault.less_certain) == ("can.joint.2.angle", ("theta2",))
    assert not any(step[1] for step in followed.fused[100:150])
    assert all(step[1] for step in followed.fused[210:])
    for name in CRANKS.values():
        off, normalised = (x[50:] for x in followed.errors(name))
        assert np.sqrt(np.mean(off**2)) < SIGMA
        assert np.mean(normalised**2) < 4.0


@pytest.mark.slow
def test_deviations_are_consistent_if_masses_are_slightly_wrong(tmp_path):
    """A coupler is 2 % heavier. Without forgetting, the error is 2°, and two fifths of the readings are rejected."""
    motion = move(changed_masses("five_bar", {"right_coupler": 1.02}), 4.0)
    followed = follow(make_tracker(tmp_path, FIVE_BAR, "five_bar"), motion, CRANKS, 1)
    assert followed.refused < 0.01
    assert [c.state for c in followed.conditions] == ["running"]
    for name in CRANKS.values():
        off, normalised = (x[50:] for x in followed.errors(name))
        assert np.sqrt(np.mean(off**2)) < SIGMA
        assert 0.1 < np.mean(normalised**2) < 5.0
        assert np.mean(followed.rate_errors(name)[50:] ** 2) < 6.0


def test_wrong_masses_are_reported(tmp_path):
    """Masses are wrong by 20 %; the deviations are still consistent."""
    motion = move(changed_masses("five_bar", WRONG), 6.0)
    followed = follow(make_tracker(tmp_path, FIVE_BAR, "five_bar"), motion, CRANKS, 1)
    (fault,) = followed.conditions[-1].faults
    assert (followed.conditions[-1].state, fault.source) == ("degraded", "mechanism")
    assert "masses" in fault.reason
    assert followed.tracker.status()["memory"] < 0.2
    for name in CRANKS.values():
        off, normalised = (x[50:] for x in followed.errors(name))
        assert np.sqrt(np.mean(off**2)) < 1.5 * SIGMA
        assert np.mean(normalised**2) < 10.0
        assert np.mean(followed.rate_errors(name)[50:] ** 2) < 10.0


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_encoder_turned_on_its_shaft_is_reported(tmp_path, five_bar, seed):
    """By 10°: its readings do not fit the motion that follows from gravity; the encoder or the mechanism is named."""

    def turned(k, channel, reading):
        return reading + np.radians(10.0) if channel == "joint.2.angle" else reading

    followed = follow(make_tracker(tmp_path, FIVE_BAR, "five_bar"), five_bar, CRANKS, seed, turned)
    named = {f.source for c in followed.conditions for f in c.faults}
    assert named in ({"mechanism"}, {"can.joint.2.angle"})


def test_an_encoder_of_wrong_sign_is_reported_within_4_s(tmp_path):
    """The only encoder, on a linkage that gravity turns."""
    motion = move(shipped("four_bar"), 5.0)
    tracker = make_tracker(tmp_path, ENCODER, "four_bar")
    followed = follow(tracker, motion, CRANK, 1, lambda k, channel, reading: -reading)
    assert [f.source for f in followed.conditions[-1].faults] == ["mechanism"]
    assert followed.conditions[-1].since < 10**9 + 4e9


def test_all_published_values_are_finite_and_possible(tmp_path):
    """The mechanism turns by radians in a millisecond, and the encoder's readings are arbitrary."""
    random, published = np.random.default_rng(1), []
    text = ENCODER.replace("theta", "beta")
    tracker = make_tracker(tmp_path, text, "squeezer")
    for k in range(40):
        t = round(k * DT * 1e9)
        reading = float(wrap(0.1 * k**2 + random.uniform(-1.0, 1.0)))
        estimate = tracker.step(t, [Measurement("can", t, t, {"joint.1.angle": reading})])
        published += [] if estimate is None else list(estimate.coordinates.values())
    numbers = np.array([[c.value, c.sigma, c.rate, c.rate_sigma, c.mean, c.deviation] for c in published])
    assert np.isfinite(numbers).all()
    # At most 1 rad in the shortest step, which is a 64th of a quarter of the time between readings.
    assert np.abs(numbers[:, 2]).max() < 64 / (DT / 4)
    assert tracker.condition.state == "recovering"


@pytest.mark.parametrize("step", ["6 s", "1 ns"])
def test_a_longest_step_in_the_wrong_unit_is_refused(tmp_path, step):
    with pytest.raises(SettingsError, match=r"longest_step: expected at least 1e-06 s and at most 0\.1 s"):
        make_tracker(tmp_path, f"particles: {{longest_step: {step}}}\n{ENCODER}", "four_bar")


DOUBLE_PENDULUM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {A: 0 0 m}}
points: {P: 0.5 0 m, Q: 0.9 0 m}
angles: {a: {between: [x, [A, P]]}, b: {between: [x, [P, Q]]}}
bodies:
  upper: {kind: bar, points: [A, P], length: 0.5 m, mass: 2 kg}
  lower: {kind: bar, points: [P, Q], length: 0.4 m, mass: 1 kg}
independent: [a, b]
"""
GYROSCOPE = """
particles:
  seed: SEED
  coordinates: {a: {low: -2, high: -1, rate: 1}, b: {low: -2, high: -1, rate: 1}}
sensors: {imu: {imu.wz: {rate: b, sigma: 0.001}}}
"""


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 9))])
def test_a_gyroscope_far_more_precise_than_the_particles_are_dense_gives_the_right_state(tmp_path, seed):
    """On a double pendulum with unknown initial angles and rates, none of 500 particles is on the curve of states
    that fit a reading. With full weight of each reading, three in ten filters would contract at a wrong state."""
    m = mechanism(DOUBLE_PENDULUM)
    (path := tmp_path / "devices.yaml").write_text(GYROSCOPE.replace("SEED", str(seed)))
    tracker = MechanismTracker(m, load_particles_configuration(path))
    random, truth = np.random.default_rng(seed), Swarm(m.description, 1, ["a", "b"])
    assert assemble(truth, m, random.uniform(-2.0, -1.0, (2, 1))).all()
    truth.shift(None, random.standard_normal((2, 1)))
    for k in range(150):
        t = round(k * 1e7)
        reading = float(truth.get_rates("b")[0] + 0.001 * random.standard_normal())
        estimate = tracker.step(t, [Measurement("imu", t, t, {"imu.wz": reading})])
        for _ in range(10 if k < 149 else 0):
            truth.advance(1e-3)
    assert tracker.condition.state == "running"
    for name in ("a", "b"):
        found = estimate.coordinates[name]
        assert abs(wrap(found.value - truth.get(name)[0])) < min(5.0 * found.sigma, np.radians(0.5))


def test_particles_that_do_not_contract_to_the_readings_are_restarted(tmp_path, monkeypatch):
    """Otherwise particles that are spread everywhere would fit any reading."""
    tracker = make_tracker(tmp_path, ENCODER, "four_bar")
    monkeypatch.setattr(tracker._filter, "update_gradually", lambda readings: None)
    tracker._filter.curtailed = True
    followed = follow(tracker, move(shipped("four_bar"), 1.4), CRANK, 1)
    assert [c.state for c in followed.conditions] == ["running", "recovering"]
    assert followed.conditions[1].reason == "1000 particles do not contract to where the readings are"
    assert followed.conditions[1].since == pytest.approx(2e9, abs=1e6)


def test_unsuccessful_restarts_have_more_particles_until_readings_fit(tmp_path, monkeypatch):
    tracker = make_tracker(tmp_path, f"particles: {{count: 200}}\n{ENCODER}", "four_bar")
    # At every fifth reading, from the first on, at which it is too early for a verdict.
    verdicts = [None, *[Verdict((Misfit(0, 9, 10),), False)] * 4, Verdict((), False)]
    monkeypatch.setattr(tracker._watch, "judge", lambda t: verdicts.pop(0) if t % 10**8 == 0 else None)
    counts, reasons = [], set()

    def noted(k, channel, reading):
        counts.append(tracker.status()["particles"])
        reasons.add(tracker.condition.reason)
        return reading

    followed = follow(tracker, move(shipped("four_bar"), 0.6), CRANK, 1, noted)
    assert counts[5::5] == [400, 800, 800, 800, 800]
    assert tracker.status()["particles"] == 200
    assert any(reason and reason.endswith("right, or particles.count above 800") for reason in reasons)
    assert np.isfinite([e.coordinates["theta"].value for e in followed.estimates]).all()
