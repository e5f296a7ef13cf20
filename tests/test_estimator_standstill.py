"""A car that stops and stands, with late wheel rates from a bus, and fixes accurate to a metre."""

from functools import lru_cache

import numpy as np
import pytest
from estimator_rig import SECOND, Drive, Run, rms, steps, with_sensors, without

from vehicled.messages import WHEELS, Measurement
from vehicled.simulation.manoeuvres import InitialMotion
from vehicled.simulation.scenario import DriveInputs, Scenario
from vehicled.simulation.sensor_settings import SimulatedGnss, SimulatedSignal
from vehicled.sources.speeds.wheels import WheelSpeeds

STOPPED = 5.0 * SECOND
LEAST_SPEED = 0.4
"""m/s: wheels that turn more slowly are reported as standing."""
CONVENTIONAL = SimulatedGnss(rate=10.0, horizontal=1.0, vertical=2.0, wander=0.0, velocity=0.1, quality=1)

SENSORS = {"wheel_angles": None, "wheel_speeds": WheelSpeeds(noise=0.1)}


@lru_cache
def stop() -> Drive:
    """The car brakes from 6 m/s, then stands for at least 8 s."""
    inputs = DriveInputs(brake_pressure=[(0.5, 0.0), (0.8, 25e5)])
    return Drive(Scenario(duration=13.0, initial=InitialMotion(speed=6.0, yaw=0.5), inputs=inputs))


def report(m: Measurement) -> Measurement:
    """Wheel rates as control units report them: in steps, and zero at low speed."""
    rates = {c: v for c, v in m.values.items() if c.endswith(".speed") and c.startswith("wheel.")}
    told = {c: 0.0 if abs(v) * 0.3 < LEAST_SPEED else round(v, 1) for c, v in rates.items()}
    return Measurement(m.source, m.t, m.arrival, {**m.values, **told})


@lru_cache
def run(late: float, seed: int = 0) -> Run:
    """A run with wheel rates that arrive `late` s after measurement, without vehicle speed, torques and brakes."""
    given = stop().measurements(
        seed,
        gnss=CONVENTIONAL,
        wheel_angles=None,
        wheel_speeds=SimulatedSignal(rate=50.0, latency=late, noise=0.0),
    )
    given = [report(m) for m in without(given, "torque", "brake", "vehicle")]
    assert any(f"wheel.{WHEELS[0]}.speed" in m.values for m in given)
    return Run(with_sensors(**SENSORS), steps(given))


@pytest.mark.parametrize(
    "late", [0.02, *(pytest.param(late, marks=pytest.mark.slow) for late in (0.004, 0.008, 0.012, 0.016))]
)
def test_wheels_stand_still_however_late_their_rates_are(late):
    """The wheels of the model oscillate on its tyres at some 20 Hz: late rates must not excite them."""
    found = run(late)
    standing = found.t > STOPPED
    for wheel in WHEELS:
        assert rms(found[f"wheel.{wheel}.speed"][standing]) < 0.05, wheel
    assert rms(found["wz"][standing]) < np.radians(0.1)
    of_wheels = [i for w in WHEELS for i in found.of(f"wheel.{w}.speed") if i.t > STOPPED]
    assert {i.reason for i in of_wheels} == {"fused"}


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_the_position_of_a_standing_car_is_averaged_over_its_fixes(seed):
    """After the stop each fix of variance R moves the car by the gain P/(P + R)."""
    found = run(0.0, seed)
    standing = found.t > STOPPED
    for axis in ("x", "y"):
        sigma, place = found[f"sigma.{axis}"][standing], found[axis][standing]
        # The variance grows by no more than wheel rates of σ 0.03 m/s at 50 Hz allow in 8 s.
        forgotten = 8.0 * (0.1 * 0.3) ** 2 / 50.0
        assert sigma[-1] ** 2 < sigma[0] ** 2 + forgotten
        assert np.abs(found.error(stop(), axis)[standing] / sigma).max() < 3.0
        # The sum of all corrections of an estimate whose variance falls from P to P' has the variance P − P'.
        assert abs(place[-1] - place[0]) < 3.0 * np.sqrt(max(sigma[0] ** 2 - sigma[-1] ** 2, 0.0) + forgotten)
    assert rms(found["vx"][standing]) < 0.005
