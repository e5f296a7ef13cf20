"""The reference vehicle in other engines. Comparisons are valid only if it follows the published path there."""

import numpy as np
import pytest
from vehicle_rig import Basics, Rig, motions, sine, vehicle

from vehicled.studies.benchmarks.peers.tyre import make_tyre
from vehicled.studies.benchmarks.published import STEP, calc_deviation, published, rack
from vehicled.studies.benchmarks.reference import bench_reference, reference_vehicle

STEPS = 1000
"""One period of the steering."""


def test_mujoco_follows_the_published_path():
    pytest.importorskip("mujoco")
    from vehicled.studies.benchmarks.peers.mujoco_vehicle import MujocoVehicle

    engine = MujocoVehicle(reference_vehicle())
    places = [engine.place]
    for n in range(STEPS):
        engine.steer(n * STEP)
        engine.step()
        places.append(engine.place)
    assert len(engine.alone_ns) == STEPS
    assert calc_deviation(np.array(places)) < 0.05


def test_exudyn_follows_the_published_path(capfd):
    pytest.importorskip("exudyn")
    from vehicled.studies.benchmarks.peers import exudyn_vehicle

    turns = []
    record = exudyn_vehicle.drive(reference_vehicle(), STEPS, turns.append)
    assert turns == list(range(STEPS))
    assert len(record.path) == STEPS + 1
    assert len(record.times_ns) == STEPS - 1
    assert calc_deviation(np.array(record.path)) < 0.05
    assert capfd.readouterr().out == ""  # other output would spoil `--json`


def test_the_benchmark_runs_without_any_peer(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = bench_reference(lambda t: None, duration=1.0)
    assert found["peers"] == {}
    ours = found["reference_step_us"]
    assert 0.0 < ours["median"] <= ours["p99"] <= ours["p999"]
    assert ours["error_m"] < 0.02


def test_peers_take_turns_on_the_same_drive():
    pytest.importorskip("mujoco")
    pytest.importorskip("exudyn")
    reported: list[float] = []
    found = bench_reference(reported.append, duration=1.0)
    assert reported == pytest.approx(list(STEP * np.arange(1, 251)))
    for peer in (found["reference_step_us"], *found["peers"].values()):
        assert 0.0 < peer["median"] <= peer["p99"] <= peer["p999"]
        assert peer["error_m"] < 0.05
    assert found["peers"]["mujoco"]["mj_step_us"]["median"] < found["peers"]["mujoco"]["median"]


def test_deviation_from_the_published_path_is_measured():
    t = STEP * np.arange(1001)
    there = np.column_stack([np.interp(t, published()[:, 0], c) for c in published().T[1:]])
    # Straight lines between points of the published path, which are 1 m apart, read at our times.
    assert calc_deviation(there) < 0.01
    there[:, 1] += 0.3 * t / t[-1]
    assert calc_deviation(there) == pytest.approx(0.3, abs=0.01)


def test_rates_of_the_rack_are_derivatives():
    t, e = 1.3, 1e-4
    before, now, after = (rack(t + k * e) for k in (-1, 0, 1))
    assert now[1] == pytest.approx((after[0] - before[0]) / (2 * e), rel=1e-6)
    assert now[2] == pytest.approx((after[1] - before[1]) / (2 * e), rel=1e-6)


@pytest.mark.parametrize("wheel", range(4))
def test_the_tyre_of_the_peers_agrees_with_ours(wheel):
    """The plain tyre law at the wheels of our moving model, which are steered, cambered and unevenly loaded."""
    rig = Rig(vehicle("reference_vehicle")).roll(20.0)
    rig.drive(1.2, rack=sine(0.01, 0.5))
    basics = Basics(rig.car)
    hub = [m for m in motions(rig) if m.name == "wheel"][wheel]
    axis, rate = (basics("wheel.axis", when, wheel) for when in ("now", "rate"))
    turning = np.cross(axis, rate) + basics.spin(wheel) * axis
    found = make_tyre(rig.vehicle.front)(hub.place[2], *axis, *hub.velocity, *turning)

    rig.car.report()
    fx, fy, fz = (rig.car.corner_output(f"tyre.{n}")[wheel] for n in ("fx", "fy", "fz"))
    ahead = np.cross(axis, (0.0, 0.0, 1.0)) / np.hypot(axis[0], axis[1])
    force = fx * ahead + fy * np.cross((0.0, 0.0, 1.0), ahead) + (0.0, 0.0, fz)
    arm = -0.30 * np.cross(ahead, axis)
    assert abs(fy) > 500.0
    assert abs(axis[2]) > 1e-3
    assert found[:3] == pytest.approx(force, rel=1e-6, abs=1e-3)
    assert found[3:] == pytest.approx(np.cross(arm, force), rel=1e-6, abs=1e-3)


def test_a_wheel_in_the_air_has_no_tyre_force():
    assert not any(make_tyre(reference_vehicle().front)(0.31, 0, 1, 0, 20, 0, 0, 0, 60, 0))
