"""Faults of sensors in a drive are reported in time, healthy sensors remain in use, and errors stay within limits."""

from __future__ import annotations

import math
import os

import pytest

from replay.faults import Fault, Freeze, Offset, Silence
from vehicled.configuration import load_configuration
from vehicled.messages import Measurement
from vehicled.studies.faults.drives import BEGIN, DRIVES, PLACES, FaultDrive, make_drive
from vehicled.studies.faults.offline import run_offline
from vehicled.studies.faults.other_cars import OTHER_DRIVES
from vehicled.studies.faults.rows import BY_NAME, ROWS
from vehicled.studies.faults.runs import CAR, FaultJob, list_jobs, run_job
from vehicled.studies.faults.signals import ClockBeginsAnew

SHORT = (
    ("nothing", "slalom"),
    ("CAN silent 4 s", "slalom"),
    ("wheel counters swapped left and right", "slalom"),
    ("speed 7 % too low, conventional", "braking"),
    pytest.param("accelerometer 2 m/s² off", "slalom", marks=pytest.mark.slow),
    pytest.param("all devices silent", "slalom", marks=pytest.mark.slow),
)
ONE_PLACE = tuple(d for d in DRIVES if d not in PLACES[1:])
"""Drives for each fault; `vehicled bench faults --offline` tests it at all places."""
DRIFTS = [row.name for row in ROWS if " drifts by " in row.name]
"""Rows with runs that miss a limit; docs/faults.md says by how much."""


@pytest.mark.parametrize(("fault", "drive"), SHORT)
def test_a_run_with_a_fault_stays_within_the_limits_of_its_row(fault, drive):
    assert run_job(FaultJob(fault, drive, 0, True))["misses"] == []


@pytest.mark.parametrize(
    ("fault", "drive", "degrees", "sigmas"),
    [
        ("yaw rate drifts by 0.2 rad/s²", "corner", 8.0, 15.0),
        pytest.param("yaw rate drifts by 0.05 rad/s²", "corner", 5.0, 8.0, marks=pytest.mark.slow),
        pytest.param("yaw rate drifts by 0.02 rad/s²", "braking", 4.0, 8.0, marks=pytest.mark.slow),
        pytest.param("accelerometer drifts by 0.5 m/s³", "corner", 1.5, 8.0, marks=pytest.mark.slow),
        ("speed drifts by 0.25 m/s²", "slalom", 0.5, 25.0),
        pytest.param("speed drifts by 0.25 m/s², conventional", "braking", 1.0, 25.0, marks=pytest.mark.slow),
        pytest.param("lateral accelerometer drifts by 0.5 m/s³", "slalom", 0.5, 9.0, marks=pytest.mark.slow),
    ],
)
def test_a_drifting_bias_is_reported_in_time_and_no_healthy_source_is_rejected(fault, drive, degrees, sigmas):
    """In a hard bend a drifting bias looks like a skid, and under braking wheels slip.

    Until the drift is detected, the estimate follows it: `degrees` bounds the error of the heading, and `sigmas`
    how far it is beyond the published σ.
    """
    found = run_job(FaultJob(fault, drive, 0, True))
    assert {"named", "wrongly_refused", "lives", "error_m"}.isdisjoint(found["misses"])
    # A lateral accelerometer that was wrong is used again only once it has agreed in bends.
    assert found["recovered_after"] < (1.5 if fault.startswith("lateral") else BY_NAME[fault].recovery)
    assert math.degrees(found["error_yaw"]) < degrees
    assert found["error_sigma"] < sigmas


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "drive"),
    [
        ("steering stuck", "CommonRoad 2 hard"),
        ("yaw rate 0.1 rad/s too large", "CommonRoad 1 mixed"),
        ("accelerometer 2 m/s² off", "CommonRoad 2 hard"),
        ("speed 0.5 m/s too high, conventional", "CommonRoad 1 mixed"),
    ],
)
def test_faults_are_found_in_cars_that_are_not_the_model(fault, drive):
    pytest.importorskip("vehiclemodels")
    assert run_job(FaultJob(fault, drive, 0, True))["misses"] == []


def test_faults_of_what_other_cars_have_occur_in_them_without_devices_only():
    drives = (*DRIVES, *OTHER_DRIVES)
    jobs = list_jobs(ROWS, OTHER_DRIVES, (0,), True)
    assert {job.drive for job in jobs} == set(OTHER_DRIVES)
    assert {"steering stuck", "IMU upside down"} <= {job.fault for job in jobs}
    assert {"brake at 999 bar", "start in a skid"}.isdisjoint(job.fault for job in jobs)
    assert OTHER_DRIVES[0] not in {job.drive for job in list_jobs(ROWS, drives, (0,), False)}


def test_a_fault_from_the_start_stays_one_in_a_drive_in_which_others_occur_later():
    swapped, silent = BY_NAME["wheel counters swapped left and right"], BY_NAME["gyroscope silent"]
    assert (silent.later(20.0).begin, silent.later(20.0).end) == (silent.begin + 20.0, silent.end + 20.0)
    later = swapped.later(20.0)
    assert (later.begin, later.scored_from) == (0.0, swapped.scored_from + 20.0)


def find_named(drive: FaultDrive, *faults: Fault, until: float) -> set[str]:
    """Sources that are reported at the time `until`, s, in a drive with these faults."""
    observed = run_offline(load_configuration(CAR), drive.measurements, faults)
    begin = drive.measurements[0].arrival
    named = [c.faults for c in observed.conditions if ((c.since or 0) - begin) * 1e-9 <= until]
    return {fault.source for fault in named[-1]}


def test_a_speed_that_is_wrong_from_the_start_is_outvoted():
    """Without wheels the filter starts with the wrong speed."""
    drive = make_drive(load_configuration(CAR), "corner", "rtk", 0, 6.0)
    wrong = Offset(channels=("vehicle.speed",), factor=1.1, by=0.0)
    found = find_named(drive, wrong, Silence(channels=("wheel.",)), until=3.1)
    assert (found & {"vehicle.speed", "gnss.speed"}) == {"vehicle.speed"}


def test_a_frozen_speed_is_reported_and_no_healthy_one():
    drive = make_drive(load_configuration(CAR), "slalom", "rtk", 0, 12.0)
    found = find_named(drive, Freeze(channels=("vehicle.speed",), begin=BEGIN), until=BEGIN + 3.8)
    assert found == {"vehicle.speed"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "job", [j for j in list_jobs(ROWS, ONE_PLACE, (0,), True) if j.fault not in DRIFTS], ids=str
)
def test_all_runs_with_sensor_faults_stay_within_their_limits(job):
    assert run_job(job)["misses"] == []


NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="it mounts a disk, which needs root")


@pytest.mark.slow
@pytest.mark.parametrize(
    "fault",
    [
        "every device unplugged",
        "kill -9 while recording",
        pytest.param("disk full at start", marks=NEEDS_ROOT),
    ],
)
def test_the_daemon_survives_faults_of_devices_process_and_disk(fault):
    """Missed deadlines are not tested, as the machine may be busy."""
    row = run_job(FaultJob(fault, "corner", 0, False))
    assert (row["lives"], row["died"], row["lost_samples"]) == (True, None, 0)
    assert row["unrecorded"] <= BY_NAME[fault].unrecorded
    if BY_NAME[fault].culprits:
        assert row["named_after"] < 0.5


def test_a_restarted_clock_begins_at_the_start_time_of_the_log():
    fault = ClockBeginsAnew(channels="imu.", begin=8.0)
    for channel, t, expected in (("imu.wz", 7.0, 107.0), ("imu.wz", 9.0, 101.0), ("gnss.lat", 9.0, 109.0)):
        ns = round((100.0 + t) * 1e9)
        (m,) = fault.apply(Measurement("a", ns, ns, {channel: 0.0}), t)
        assert (m.t, m.arrival) == (round(expected * 1e9), ns)
