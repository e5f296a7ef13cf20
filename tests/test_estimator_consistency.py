"""How good the estimates are on the mixed drive, and whether they know how good they are."""

import numpy as np
import pytest
from estimator_rig import Run, mixed, prototype, rms, steps

from vehicled.messages import WHEELS

SECONDS = 25.0
SEEDS = range(2)
_runs: dict[tuple[str, int], Run] = {}


def run(gnss: str, seed: int) -> Run:
    """Cut to the drive."""
    if (gnss, seed) not in _runs:
        made = Run(prototype(), steps(mixed(SECONDS).measurements(seed, gnss=gnss)))
        keep = made.t <= SECONDS * 1e9
        made.t, made.values = made.t[keep], made.values[keep]
        _runs[gnss, seed] = made
    return _runs[gnss, seed]


@pytest.mark.parametrize("seed", SEEDS)
def test_errors_with_rtk_are_below_the_promised_figures(seed):
    """The plant is off by mass +5 %, inertia +5 %, tyre stiffness −10 %, friction −10 %."""
    truth, r = mixed(SECONDS), run("rtk", seed)
    assert r.summary.errors == 0
    moving = truth.truth(r.t, "vx") > 1.0
    assert rms(np.hypot(r.error(truth, "x"), r.error(truth, "y"))) < 0.02
    assert np.degrees(rms(r.error(truth, "yaw")[moving])) < 0.3
    assert np.degrees(rms(r.error(truth, "sideslip")[moving])) < 0.3
    for w in WHEELS:
        assert rms(r.error(truth, f"suspension.{w}.deflection")) < 0.005


def test_conventional_gnss_halves_its_own_error_and_keeps_sideslip():
    """Over the seeds: 25 s say little about an error that wanders over minutes."""
    truth = mixed(SECONDS)
    own, horizontal, sideslip = [], [], []
    for seed in SEEDS:
        r = run("conventional", seed)
        moving = truth.truth(r.t, "vx") > 1.0
        horizontal.append(rms(np.hypot(r.error(truth, "x"), r.error(truth, "y"))))
        sideslip.append(np.degrees(rms(r.error(truth, "sideslip")[moving])))
        # What the receiver was off by: innovation against where the filter is, plus where that is off.
        seen = [i for i in r.of("gnss.position") if i.fused and i.t <= SECONDS * 1e9]
        there = np.array([i.t for i in seen])
        off = [np.interp(there, r.t, r.error(truth, c)) for c in ("x", "y")]
        innovation = np.array([i.innovation[:2] for i in seen]).T
        own.append(rms(np.hypot(*(innovation + off))))
    assert rms(np.array(horizontal)) < 0.6 * rms(np.array(own))
    assert max(sideslip) < 0.4


@pytest.mark.parametrize("gnss", ["rtk", "conventional"])
def test_innovations_are_as_large_as_they_are_said_to_be(gnss):
    """Mean normalised innovation squared per degree of freedom, over the seeds."""
    total: dict[str, list[float]] = {}
    for seed in SEEDS:
        for i in run(gnss, seed).innovations:
            if i.fused:
                sums = total.setdefault(i.sensor, [0.0, 0.0])
                sums[0] += i.nis
                sums[1] += len(i.value)
    assert {"gnss.position", "gnss.speed", "gnss.course", "imu.gyro", "imu.accel", "vehicle.speed"} <= set(
        total
    )
    ratios = {sensor: nis / n for sensor, (nis, n) in total.items() if n > 50}
    assert all(0.6 < ratio < 1.5 for ratio in ratios.values()), ratios


@pytest.mark.parametrize("gnss", ["rtk", "conventional"])
def test_errors_stay_within_what_the_standard_deviations_say(gnss):
    """NEES of position, heading, speed and sideslip. Errors last for seconds, so that a drive has few independent
    ones: wide bounds on the mean, and hardly anything beyond 4 σ."""
    truth = mixed(SECONDS)
    for column in ("x", "y", "yaw", "vx", "sideslip"):
        ratios = []
        for seed in SEEDS:
            r = run(gnss, seed)
            keep = (truth.truth(r.t, "vx") > 3.0) & (r.t > 5e9)
            ratios.append((r.error(truth, column) / r[f"sigma.{column}"])[keep])
        nees = np.square(np.concatenate(ratios))
        assert nees.mean() < 6.0, (column, nees.mean())
        assert (nees > 16.0).mean() < 0.1, (column, (nees > 16.0).mean())


def test_gates_refuse_hardly_anything_of_good_sensors():
    for seed in SEEDS:
        judged = [i for i in run("rtk", seed).innovations if not np.isnan(i.nis)]
        assert np.mean([i.fused for i in judged]) > 0.998


def test_one_record_for_every_observation():
    r = run("rtk", 0)
    measured = [m for m in mixed(SECONDS).measurements(0, gnss="rtk") if m.arrival > r.t[0]]
    assert len(r.of("imu.gyro")) == sum("imu.wx" in m.values for m in measured)
    assert len(r.of("gnss.position")) == sum("gnss.lat" in m.values for m in measured)
    assert len(r.of("wheel.fl.angle")) == sum("wheel.fl.angle" in m.values for m in measured)
    assert len(r.of("gnss.course")) == sum("gnss.course" in m.values for m in measured)
    for sensor, source in r.sensors.items():
        assert source["fused"] == r.fused(sensor)
        assert source["rejected"] == len(r.of(sensor)) - r.fused(sensor)
