"""Determinism, gaps, late and wild measurements, outages, divergence and status of the estimator."""

import dataclasses
import math

import numpy as np
import pytest
from estimator_rig import (
    PERIOD,
    SECOND,
    Run,
    bends,
    cruise,
    mixed,
    parked,
    prototype,
    rms,
    steps,
    with_known_time,
    with_sensors,
    without,
)

from vehicled.errors import RunError
from vehicled.estimator import Estimator
from vehicled.filter.states import ANGULAR_RATE
from vehicled.messages import CHANNELS, ESTIMATE_INDEX, WHEELS, Measurement
from vehicled.sources.imu.model import GYRO_BIAS

SECONDS = 8.0
DEGREES_PER_METRE = 1 / 111e3


def change(measurements, when, **values):
    """Measurements with values added to those for which `when` holds (`gnss__lat=...` adds to gnss.lat)."""
    added = {c.replace("__", "."): v for c, v in values.items()}
    return [
        Measurement(m.source, m.t, m.arrival, {c: v + added.get(c, 0.0) for c, v in m.values.items()})
        if when(m)
        else m
        for m in measurements
    ]


def delayed(measurements, seconds: float, channel: str = "gnss.lat"):
    late = [
        Measurement(m.source, m.t, m.arrival + round(seconds * 1e9), m.values) if channel in m.values else m
        for m in measurements
    ]
    return sorted(late, key=lambda m: m.arrival)


def horizontal(run: Run, drive, seconds: float) -> np.ndarray:
    """Horizontal errors, m, until the end of the drive."""
    return np.hypot(run.error(drive, "x"), run.error(drive, "y"))[run.t <= seconds * 1e9]


# -- determinism -----------------------------------------------------------------------------------------


def test_the_same_measurements_give_the_same_bytes():
    given = steps(bends(3.0).measurements())
    one, two = Run(prototype(), given), Run(prototype(), given)
    assert one.values.tobytes() == two.values.tobytes()
    assert [(i.t, i.sensor, i.nis, i.reason) for i in one.innovations] == [
        (i.t, i.sensor, i.nis, i.reason) for i in two.innovations
    ]


def test_a_reset_removes_all_effects_of_a_run():
    """The car stands, pulls off and steers. A reset would keep known faults of sensors, but there are none."""
    given = steps(mixed(17.0).begin(9.0).measurements())
    fresh = Run(prototype(), given)
    used = Estimator(prototype())
    given_before = mixed(17.0).measurements()  # ends under brakes, when the noise of the model has adapted
    Run(prototype(), steps(given_before[: len(given_before) * 14 // 17]), estimator=used)
    assert used.filter.car.corner_inputs.any()
    used.command("reset", {})
    again = Run(prototype(), given, estimator=used)
    # Geodetic coordinates are expanded about their last values, so that they agree to rounding only.
    geodetic = [ESTIMATE_INDEX[c] for c in ("lat", "lon", "alt")]
    assert again.values[:, geodetic] == pytest.approx(fresh.values[:, geodetic], abs=1e-4)
    again.values[:, geodetic] = fresh.values[:, geodetic] = 0.0
    assert again.values.tobytes() == fresh.values.tobytes()


def test_a_reset_removes_the_direction_of_north_far_from_the_origin():
    """The receiver sends its course before its first position."""
    world = dataclasses.replace(prototype().world, longitude=prototype().world.longitude - 0.01)
    configuration = dataclasses.replace(prototype(), world=world)
    place, given = ("gnss.lat", "gnss.lon", "gnss.alt"), []
    for m in cruise().measurements():
        parts = [{c: v for c, v in m.values.items() if (c in place) == wanted} for wanted in (False, True)]
        given += [Measurement(m.source, m.t, m.arrival, values) for values in parts if values]
    given = steps([m for m in given if m.arrival < 2 * SECOND])
    used = Estimator(configuration)
    fresh = Run(configuration, given)
    Run(configuration, given, estimator=used)
    used.command("reset", {})
    again = Run(configuration, given, estimator=used)
    assert again["yaw"].tobytes() == fresh["yaw"].tobytes()
    # North is not along the plane's axis there.
    assert np.degrees(abs(fresh.error(cruise(), "yaw")[-1])) > 0.1


# -- steps -----------------------------------------------------------------------------------------------


def test_time_that_goes_back_is_an_error_after_which_the_filter_continues():
    e = Estimator(prototype())
    given = steps(parked().measurements()[:2000])
    for s in given:
        e.step(s.t, s.measurements)
    for t in (given[-1].t, given[-1].t - PERIOD):
        with pytest.raises(RunError, match="time went back"):
            e.step(t, [])
    assert e.step(given[-1].t + PERIOD, []) is not None


def test_a_long_gap_causes_a_restart():
    drive = parked()
    measurements = drive.measurements()
    early = [m for m in measurements if m.arrival < 2 * SECOND]
    late = [
        Measurement(m.source, m.t + 5 * SECOND, m.arrival + 5 * SECOND, m.values)
        for m in measurements
        if m.arrival >= 2 * SECOND
    ]
    given = [s for s in steps(early + late) if s.measurements]
    run = Run(prototype(), given)
    status = run.estimator.status()
    assert (status["starts"], status["restarts"]) == (2, 1)
    assert np.abs(run["x"][-10:]).max() < 0.1


def test_positions_keep_their_origin_after_a_gap():
    """If the first fix after the restart became the origin, the position would jump by 60 m without notice."""
    configuration = dataclasses.replace(with_known_time(), world=None)
    given = steps(cruise().measurements())
    throughout = Run(configuration, given)
    run = Run(configuration, [s for s in given if not 1.5 * SECOND < s.t < 4.0 * SECOND])
    assert run.estimator.status()["restarts"] == 1
    for column in ("x", "y"):
        assert run[column][-1] == pytest.approx(throughout[column][-1], abs=0.3)


def test_the_filter_predicts_through_a_short_gap():
    drive = bends(5.0)
    given = [s for s in steps(drive.measurements()) if not 2 * SECOND < s.t < 3.5 * SECOND]
    run = Run(with_known_time(), given)
    assert run.estimator.status()["restarts"] == 0
    assert horizontal(run, drive, 5.0)[-250:].max() < 0.1


def test_irregular_steps_give_nearly_the_same_estimates():
    drive = bends(5.0)
    measurements = drive.measurements()
    regular = Run(with_known_time(), steps(measurements))
    rng = np.random.default_rng(0)
    fine = steps(measurements, 1_000_000)
    given, held, left = [], [], 0
    for s in fine:
        held += s.measurements
        left -= 1
        if left <= 0:
            given.append(s._replace(measurements=held))
            held, left = [], int(rng.integers(1, 11))
    irregular = Run(with_known_time(), given)
    for column, limit in (("x", 0.01), ("y", 0.01), ("yaw", 2e-3), ("vx", 0.02), ("sideslip", 2e-3)):
        moving = (regular["vx"] > 2.0) & (regular.t <= irregular.t[-1])
        seen = np.interp(regular.t[moving], irregular.t, irregular[column])
        assert rms(seen - regular[column][moving]) < limit, column


# -- late measurements -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_fixes_that_are_80_ms_late_are_nearly_as_good_as_timely_ones():
    drive = mixed(10.0)
    timely = Run(prototype(), steps(drive.measurements()))
    late = Run(prototype(), steps(delayed(drive.measurements(), 0.08)))
    assert late.fused("gnss.position") > 0.97 * timely.fused("gnss.position")
    # Without the second in which the first course aligns the car: earlier fixes cannot be used then.
    settled = [rms(horizontal(r, drive, 10.0)[-1000:]) for r in (late, timely)]
    assert settled[0] < 1.1 * settled[1] + 2e-3
    # The latency, with σ of 20 ms at the start, has been found to 2 ms by then, at 19 m/s.
    assert settled[1] < 0.045
    assert rms(late.error(drive, "yaw")[late["vx"] > 2]) < 5e-3


def test_fixes_that_are_too_old_are_rejected_with_this_reason():
    drive = bends(3.0)
    late = Run(prototype(), steps(delayed(drive.measurements(), 1.0)))
    found = [i for i in late.of("gnss.position") if i.step > 2.5 * SECOND]
    assert found
    assert not any(i.fused for i in found)
    reasons = [i.reason for i in found]
    # One of them may come with the course that aligns the car.
    assert set(reasons) - {"not aligned"} == {"too old"}
    assert reasons.count("not aligned") <= 1
    assert late.sensors["gnss.position"]["reasons"]["too old"] >= len(found) - 1


@pytest.mark.parametrize(
    "rate",
    [
        50.0,
        250.0,
        1000.0,
    ],
)
def test_fixes_half_a_second_late_are_used_at_every_rate_of_steps(rate):
    measurements = delayed(parked(2.5).measurements(), 0.5)
    run = Run(prototype(), steps(measurements, round(1e9 / rate)), estimator=Estimator(prototype()))
    found = [i for i in run.of("gnss.position") if i.step > run.t[0] + 0.7 * SECOND]
    assert found
    assert all(i.reason == "fused" for i in found)


# -- GNSS that fails -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outage_run() -> Run:
    return Run(prototype(), steps(mixed(25.0).measurements(outages={"gnss": [(4.0, 24.0)]})))


def test_an_outage_of_20_s_keeps_the_position_within_its_sigma(outage_run):
    """Errors are well within σ: the plant's rolling radii are right, while σ is for radii that are wrong by 1 %."""
    drive, run = mixed(25.0), outage_run
    outage = (run.t > 4 * SECOND) & (run.t < 24 * SECOND)
    ratios = []
    for column in ("x", "y"):
        error, sigma = run.error(drive, column)[outage], run[f"sigma.{column}"][outage]
        assert (np.abs(error) < 4 * sigma + 0.02).all(), column
        ratios.append(error / sigma)
    assert 0.01 < np.square(ratios).mean() < 1.5


def test_an_outage_of_20_s_is_reported_and_ends(outage_run):
    """The car has driven for only a second before: σ is that of radii known to 0.3 % over 200 m."""
    drive, run = mixed(25.0), outage_run
    outage = (run.t > 4 * SECOND) & (run.t < 24 * SECOND)
    distance = np.hypot(run.error(drive, "x"), run.error(drive, "y"))
    assert 0.05 < distance[outage].max() < 0.8
    assert 10 * run["sigma.x"][outage][0] < run["sigma.x"][outage][-1] < 0.8
    reasons = {i.reason for i in run.of("gnss.position") if 4.1 * SECOND < i.step < 24 * SECOND}
    assert reasons == {"no fix"}
    after = (run.t > 24.3 * SECOND) & (run.t < 25 * SECOND)
    assert distance[after].max() < 0.04


def test_gnss_that_begins_later_gives_the_position_on_the_earth():
    drive = mixed(SECONDS)
    configuration = dataclasses.replace(prototype(), world=None)
    measurements = [m for m in drive.measurements() if "gnss.quality" not in m.values or m.t > 5 * SECOND]
    run = Run(configuration, steps(measurements))
    begin, end = run.t < 4.9 * SECOND, run.t > 5.1 * SECOND
    assert np.isnan(run["lat"][begin]).all()
    assert np.isfinite(run["lat"][end]).all()
    settled = (run.t > 7 * SECOND) & (run.t < SECONDS * SECOND)
    # North and east of the true origin, m.
    latitude, longitude = math.radians(43.33), -8.41
    north = (run["lat"] - 43.33) / DEGREES_PER_METRE
    east = (run["lon"] - longitude) / DEGREES_PER_METRE * math.cos(latitude)
    assert rms((north - drive.truth(run.t, "y"))[settled]) < 0.3
    assert rms((east - drive.truth(run.t, "x"))[settled]) < 0.6
    assert np.degrees(rms(run.error(drive, "yaw")[settled])) < 0.5
    assert run.estimator.status()["state"] == "running"


def test_one_wild_fix_is_rejected_and_recorded():
    drive = bends(3.0)
    when = 2 * SECOND
    wild = change(drive.measurements(), lambda m: when <= m.t < when + 15_000_000, gnss__lat=3e-5)
    run = Run(with_known_time(), steps(wild))
    (found,) = [i for i in run.of("gnss.position") if when <= i.t < when + 15_000_000]
    # The east component agrees with the prediction and is fused.
    assert (found.fused, found.reason) == (True, "partly")
    assert found.innovation[1] ** 2 > prototype().sensors.gnss.gate.reject_beyond ** 2 * found.variance[1]
    assert found.innovation[1] == pytest.approx(3e-5 / DEGREES_PER_METRE, abs=0.2)
    assert np.sqrt(found.variance[1]) < 0.1
    assert horizontal(run, drive, 3.0).max() < 0.1


@pytest.mark.parametrize("metres", [pytest.param(10.0, marks=pytest.mark.slow), 300.0])
def test_a_receiver_that_jumps_is_followed_only_if_it_stays_for_ten_seconds(metres):
    """An RTK receiver with 2 cm accuracy: which of its two positions is right cannot be known."""
    drive = mixed(17.0)
    jump = metres * DEGREES_PER_METRE
    run = Run(prototype(), steps(change(drive.measurements(), lambda m: m.t > 5 * SECOND, gnss__lat=jump)))
    assert run.sensors["gnss.position"]["resets"] == 1
    error, before = run.error(drive, "y"), run.t < 14.9 * SECOND
    assert np.abs(error[before]).max() < 0.5
    after = run.t > 15.5 * SECOND
    assert rms(error[after] - metres) < 0.05 + 2e-3 * metres


def test_the_policy_distrust_keeps_rejecting_after_a_jump():
    drive = bends(4.0)
    gnss = prototype().sensors.gnss
    configuration = with_sensors(
        gnss=dataclasses.replace(gnss, gate=dataclasses.replace(gnss.gate, policy="distrust"))
    )
    given = steps(change(drive.measurements(), lambda m: m.t > 2 * SECOND, gnss__lat=1e-4))
    run = Run(configuration, given)
    source = run.sensors["gnss.position"]
    assert (source["state"], source["resets"]) == ("distrusted", 0)
    assert {i.reason for i in run.of("gnss.position") if i.t > 2 * SECOND} == {"partly"}
    assert horizontal(run, drive, 4.0).max() < 0.5


def test_a_wheel_counter_that_restarts_is_reset_and_used_again():
    drive = bends(4.0)
    lost = change(drive.measurements(), lambda m: m.t > 2 * SECOND, wheel__fl__angle=-123.4)
    run = Run(prototype(), steps(lost))
    source = run.sensors["wheel.fl.angle"]
    assert source["resets"] == 1
    assert all(i.fused for i in run.of("wheel.fl.angle") if 3 * SECOND < i.t < 4 * SECOND)


def test_a_silent_source_is_lost_and_active_again_after_it_returns():
    drive = parked(3.5)
    run = Run(prototype(), steps([m for m in drive.measurements() if m.source != "vehicle" or m.t < SECOND]))
    assert run.sensors["vehicle.speed"]["state"] == "lost"
    run = Run(prototype(), steps(drive.measurements(outages={"vehicle": [(1.0, 3.0)]})))
    assert run.sensors["vehicle.speed"]["state"] == "active"


# -- damaged values ---------------------------------------------------------------------------------------

WILD = (math.nan, 1e9)
MORE_WILD = (math.inf, -math.inf, 1e300, -1e300)


@pytest.mark.parametrize("begin", [0, 1], ids=["from the start", "under way"])
@pytest.mark.parametrize("value", [*WILD, *(pytest.param(v, marks=pytest.mark.slow) for v in MORE_WILD)])
def test_wild_values_in_any_channel_do_not_harm_the_estimate(value, begin):
    """Three samples of every channel are wild, one channel after the other."""
    drive = cruise(3.0)
    hit: dict[str, int] = {}
    damaged = []
    for m in drive.measurements():
        values = dict(m.values)
        for c in values:
            if m.t >= begin * SECOND and hit.get(c, 0) < 3:
                hit[c] = hit.get(c, 0) + 1
                values[c] = value
                break
        damaged.append(Measurement(m.source, m.t, m.arrival, values))
    absent = {"steer.wheel", "vehicle.wz", *(f"wheel.{w}.speed" for w in WHEELS)}
    absent |= {f"torque.{n}" for n in ("fl", "fr", "front", "rear")}
    absent |= {c for c in CHANNELS if c.startswith(("gnss2.", "velocity.", "reference.", "joint."))}
    absent |= {f"gnss.{n}" for n in ("hdop", "vn", "ve", "vd", "s_acc", "heading", "heading_acc", "utc")}
    assert set(hit) >= set(CHANNELS) - absent
    run = Run(prototype(), steps(damaged))
    assert run.summary.errors == 0, run.summary.last_error
    assert np.isfinite(run.values).all()
    assert run.estimator.status()["restarts"] == 0
    end = (run.t > 2.5 * SECOND) & (run.t < 3 * SECOND)
    # At constant speed the unknown latency of the receiver (σ 20 ms) is 0.3 m along the track.
    for column in ("x", "y"):
        assert (np.abs(run.error(drive, column)) < 3 * run[f"sigma.{column}"])[end].all(), column
    assert np.hypot(run.error(drive, "x"), run.error(drive, "y"))[end].max() < 0.35
    refused = [i for i in run.innovations if i.reason == "absurd"]
    assert run.estimator.status()["absurd"] >= len(refused) > 3


# -- divergence --------------------------------------------------------------------------------------------

SPOIL = {
    "position": lambda f: f.car.view("q").__setitem__(0, math.nan),
    "rates": lambda f: f.car.view("qd").__setitem__(slice(None), math.nan),
    "multipliers": lambda f: f.car.view("branch.lambda").__setitem__(slice(None), math.nan),
    "covariance": lambda f: f.errors.set_variance(5, math.nan),
    "400 m/s": lambda f: f.car.view("qd").__setitem__(0, 400.0),
}


@pytest.mark.parametrize(
    "what",
    ["covariance", "400 m/s"]
    + [pytest.param(what, marks=pytest.mark.slow) for what in ("position", "rates", "multipliers")],
)
def test_a_filter_that_has_diverged_restarts_from_its_last_good_state(what):
    """That state is up to a second old and has another speed, so that the filter takes seconds to converge."""
    drive = mixed(10.0)
    given = steps([m for m in drive.measurements() if m.arrival < 10 * SECOND])
    e = Estimator(prototype())

    def spoilt():
        for s in given:
            if s.t == given[1000].t:
                SPOIL[what](e.filter)
            yield s

    run = Run(prototype(), spoilt(), estimator=e)
    assert run.summary.errors == 0
    assert e.status()["restarts"] == 1
    assert np.isfinite(run["x"]).all()
    end = run.t > 9 * SECOND
    assert np.hypot(run.error(drive, "x"), run.error(drive, "y"))[end].max() < 0.2


def test_reloaded_noise_is_kept_after_a_divergence():
    """The last good state may be older than the reloaded noise."""
    given = steps(parked(2.0).measurements())
    e = Estimator(prototype())
    Run(prototype(), given[:300], estimator=e)
    arguments = prototype().noise_arguments()
    arguments["filter"]["rate_noise"]["yaw"] = 7.0
    arguments["sensors"]["imu"]["gyroscopes"]["bias_drift"] = 0.5
    e.command("reload_noise", arguments)
    SPOIL["position"](e.filter)
    Run(prototype(), given[300:], estimator=e)
    assert e.status()["restarts"] == 1
    density, states = e.filter.car.view("density"), e.filter.states
    # The density may be adapted a little by consecutive innovations of the gyroscope.
    assert density[states.index(ANGULAR_RATE, "yaw")] == pytest.approx(49.0, rel=0.02)
    assert density[states[GYRO_BIAS]] == pytest.approx(0.25)


# -- status ----------------------------------------------------------------------------------------------


def test_the_status_of_a_filter_without_position_fixes_is_waiting():
    e = Estimator(prototype())
    assert e.status()["state"] == "waiting"
    given = steps(without(parked(2.0).measurements(), "gnss"))
    assert all(e.step(s.t, s.measurements) is None for s in given)
    assert e.status()["state"] == "waiting"


def test_a_late_sample_that_lacks_axes_is_fused():
    measurements = [
        Measurement(m.source, m.t, m.arrival, {"imu.wz": m.values["imu.wz"]}) if "imu.wz" in m.values else m
        for m in delayed(parked(2.0).measurements(), 0.02, "imu.wz")
    ]
    run = Run(prototype(), steps(sorted(measurements, key=lambda m: m.arrival)))
    found = run.of("imu.gyro")
    assert len(found) > 100
    assert {i.reason for i in found if i.step > SECOND} == {"fused"}
