"""Wheels that spin or slide on ice: what tyres do then is no fault of an accelerometer."""

from estimator_rig import Run, cruise, prototype, steps

from vehicled.messages import Measurement

BEGINS, SNOW, ENDS = 3_000_000_000, 3_600_000_000, 4_500_000_000
SPIN = 25.0
"""rad/s, by which the rear wheels are too fast."""


def over_an_edge_of_ice(m: Measurement, spins: bool) -> Measurement:
    """The rear wheels spin, and push the car by 1.5 m/s² more from one sample to the next."""
    if m.t < BEGINS:
        return m
    values = dict(m.values)
    until = min(m.t, ENDS) - BEGINS
    for channel in ("wheel.rl.angle", "wheel.rr.angle") if spins else ():
        if channel in values:
            values[channel] += SPIN * until * 1e-9
    if "imu.ax" in values and SNOW <= m.t < ENDS:
        values["imu.ax"] += 1.5
    return Measurement(m.source, m.t, m.arrival, values)


def find_stepped(spins: bool) -> set[str]:
    given = [over_an_edge_of_ice(m, spins) for m in cruise().begin(5.5).measurements(3)]
    run = Run(prototype(), steps(given))
    return {f.source for f in run.summary.faults if "stepped" in f.reason}


def test_wheels_that_spin_from_ice_to_snow_step_no_bias():
    assert find_stepped(spins=True) == set()


def test_beside_wheels_that_roll_the_same_is_a_step():
    assert find_stepped(spins=False) == {"imu.accel"}
