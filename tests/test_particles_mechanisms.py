"""Particles of mechanisms other than four-bars: their motion, their noise, and finding the state."""

import numpy as np
import pytest
from mechanism_rig import describe

from vehicled.maths.angles import wrap
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.elements import Angle, Bar, GroundBody, TorsionSpring
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.particles.assembly import assemble
from vehicled.particles.configuration import CoordinateOptions
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.instruments import PositionInstrument, RateInstrument
from vehicled.particles.pace import Pace
from vehicled.particles.start import ParticleStart, StartCoordinate
from vehicled.particles.swarm import Swarm

H = 2e-3


def swarm_of(name, count, seed=1, rate=0.0):
    """Particles at random positions, and their mechanism."""
    description = load_description(name)
    mechanism = Mechanism(CompiledMechanism(description))
    swarm = Swarm(description, count, description.independent)
    wanted = np.random.default_rng(seed).uniform(-np.pi, np.pi, (len(swarm.noisy), count))
    assert assemble(swarm, mechanism, wanted, rate).all()
    for name, angles in zip(swarm.noisy, wanted, strict=True):
        assert wrap(swarm.get(name) - angles) == pytest.approx(0.0, abs=1e-6)
        assert swarm.get_rates(name) == pytest.approx(rate)
    return swarm, mechanism


@pytest.mark.parametrize(("name", "rate", "h"), [("five_bar", 0.5, 1e-3), ("slider_crank", 20.0, 2e-4)])
def test_particles_move_as_the_mechanism(name, rate, h):
    """The mechanism uses another formulation; the slider's friction is a force on a distance."""
    swarm, mechanism = swarm_of(name, 3, rate=rate)
    q, qd = swarm.get_q(), swarm.get_qd()
    own = [mechanism.index(c) for c in swarm.coordinates]
    relative = [*swarm.angles, *swarm.distances]
    values = {n: swarm.get(n) for n in relative}
    rates = np.array([swarm.get_rates(n) for n in swarm.noisy])
    for _ in range(200):
        swarm.advance(h)
    stepper = make_stepper("matrix_r", "runge_kutta_4")
    for k in range(swarm.count):
        mechanism.t = 0.0
        mechanism.q[own] = q[:, k]
        for n in relative:
            mechanism.q[mechanism.index(n)] = values[n][k]
        assert mechanism.set_independent_state(mechanism.z, rates[:, k]).converged
        assert mechanism.qd[own] == pytest.approx(qd[:, k], abs=1e-9)
        for _ in range(200):
            stepper.step(mechanism, h).require("step")
        assert swarm.get_q()[:, k] == pytest.approx(mechanism.q[own], abs=1e-8)
        for n in relative:
            off = swarm.get(n)[k] - mechanism.q[mechanism.index(n)]
            assert (wrap(off) if n in swarm.angles else off) == pytest.approx(0.0, abs=1e-7)
            assert swarm.get_rates(n)[k] == pytest.approx(mechanism.qd[mechanism.index(n)], abs=1e-5)


def test_a_force_on_an_angle_swings_a_bar_at_its_natural_frequency():
    stiffness, mass, length = 7.0, 3.0, 0.5
    description = Description(
        space="planar",
        gravity=(0.0, 0.0),
        ground=GroundBody(points={"A": (0.0, 0.0)}),
        points={"P": (length, 0.0)},
        angles={"theta": Angle(between=("x", ("A", "P")))},
        bodies={"bar": Bar(kind="bar", points=("A", "P"), length=length, mass=mass)},
        forces={"spring": TorsionSpring(kind="torsion_spring", angle="theta", stiffness=stiffness)},
        independent=["theta"],
    )
    swarm = Swarm(description, 5, ["theta"])
    start = np.linspace(-1.5, 1.5, 5)
    swarm.set_states(length * np.array([np.cos(start), np.sin(start)]), np.zeros((2, 5)))
    for _ in range(400):
        swarm.advance(H)
    frequency = np.sqrt(stiffness / (mass * length**2 / 3.0))
    assert swarm.get_angles("theta") == pytest.approx(start * np.cos(frequency * 400 * H), abs=1e-5)


def test_noise_on_a_distance_and_on_several_coordinates_has_the_given_size():
    description = load_description("slider_crank")
    mechanism = Mechanism(CompiledMechanism(description))
    swarm = Swarm(description, 4000, ["stroke"])
    assemble(swarm, mechanism, np.full((1, 4000), 0.2))
    pf = ParticleFilter(swarm, [], MotionNoise(motion=1e-3, speed=0.02), np.random.default_rng(3))
    pf.predict(0.0)
    assert swarm.get("stroke").std() == pytest.approx(1e-3, rel=0.05)
    assert swarm.get_rates("stroke").std() == pytest.approx(0.02, rel=0.05)
    swarm, _ = swarm_of("five_bar", 4000)
    before = np.array([swarm.get(n) for n in swarm.noisy])
    pf = ParticleFilter(
        swarm, [], MotionNoise(motion=(1e-3, 3e-3), speed=(0.0, 0.1)), np.random.default_rng(3)
    )
    pf.predict(0.0)
    moved = wrap(np.array([swarm.get(n) for n in swarm.noisy]) - before)
    assert moved.std(axis=1) == pytest.approx([1e-3, 3e-3], rel=0.05)
    assert abs(np.corrcoef(moved)[0, 1]) < 0.06
    kicked = np.array([swarm.get_rates(n) for n in swarm.noisy])
    assert kicked[0] == pytest.approx(0.0, abs=1e-9)
    assert kicked[1].std() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("name", ["five_bar", "slider_crank"])
def test_a_mechanism_that_may_be_anywhere_is_found(name):
    """By a gyroscope on one crank and, on the five-bar, the position of a joint. The position has a large multiplier,
    because otherwise its first reading would leave only the nearest particle."""
    swarm, mechanism = swarm_of(name, 1500, seed=2)
    truth = Swarm(swarm.description, 1, swarm.noisy)
    assemble(truth, mechanism, np.full((len(swarm.noisy), 1), 0.7))
    crank = swarm.noisy[0]
    instruments = [RateInstrument(crank, 0.05, 2.0), PositionInstrument("Q", 0.01, 10.0)]
    noise = MotionNoise(motion=0.02, keeps_covariance=True)
    pf = ParticleFilter(swarm, instruments, noise, np.random.default_rng(4))
    random = np.random.default_rng(5)
    for _ in range(150):
        truth.advance(H)
        place = np.array([truth.get("Q.x")[0], truth.get("Q.y")[0]]) + 0.01 * random.standard_normal(2)
        reading = truth.get_rates(crank)[0] + 0.05 * random.standard_normal()
        pf.step(H, [reading, place if name == "five_bar" else None])
    for angle in swarm.noisy:
        error = wrap(pf.find_peak(angle) - truth.get(angle)[0])
        assert abs(error) < np.radians(5.0), angle


def test_drives_are_refused():
    with pytest.raises(MechanismError, match="drives or inputs"):
        Swarm(load_description("suspension_corner"), 8)


def test_a_third_point_of_a_body_is_refused_with_what_to_do():
    text = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m}}
points: {P: 1 0 m, Q: 1 1 m}
angles: {theta: {between: [x, [O, P]]}}
bodies:
  arm: {kind: rigid, points: {O: 0 0 m, P: 1 0 m, Q: 1 1 m}, mass: 1 kg, center_of_mass: 0.5 0 m, inertia: 1 kg·m²}
MASS
independent: [theta]
"""
    expected = r"Q\.x: no mass .* expected a further point of a body among its markers, or a point_mass there"
    with pytest.raises(MechanismError, match=expected):
        Swarm(describe(text.replace("MASS", "")), 8, ["theta"])
    Swarm(describe(text.replace("MASS", "  tip: {kind: point_mass, point: Q, mass: 0.001 kg}")), 8, ["theta"])


@pytest.mark.parametrize("away", [0.0, 1000.0])
def test_the_size_of_a_mechanism_depends_neither_on_its_place_nor_on_unit_vectors(away):
    """A nut that slides along 20 mm of a rail has a size of 20 mm, wherever the rail is."""
    description = describe(f"""
space: spatial
ground: {{points: {{O: {away} 0 0 m}}}}
points: {{P: {away} 0 0 m}}
vectors: {{e: 1 0 0, n: 0 1 0, f: 0 0 1}}
distances: {{s: {{points: [O, P], along: z}}}}
bodies:
  nut:
    kind: rigid
    points: [P]
    vectors: [e, n, f]
    mass: 1 kg
    center_of_mass: {away} 0 0 m
    inertia: 1 1 1 kg·cm²
joints:
  slide: {{kind: prismatic, points: [O, P], axes: [z, f], normals: [x, n]}}
independent: [s]
""")
    m = Mechanism(CompiledMechanism(description))
    swarm = Swarm(description, 200, ["s"])
    way = StartCoordinate("s", False, CoordinateOptions(low="-10 mm", high="10 mm", motion=0.0))
    start = ParticleStart(swarm, m, [way], np.random.default_rng(0))
    assert start.size == pytest.approx(0.02, rel=0.05)
    start.begin(swarm, {"s": (2.0, 0.0)})
    # 2 m/s are 100 sizes per second: 0.6 in 6 ms, which is six times the limit per step.
    assert Pace(swarm, start.size).divide(6e-3, np.full(200, 1 / 200)) in (6, 7)
