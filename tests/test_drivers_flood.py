"""Devices that send far too much are decimated, counted and reported; normal devices are not affected."""

import contextlib
import itertools
import os
import threading
import time
import tty
from pathlib import Path

import can
import pytest
from live_rig import IMU, wait_until

from drivers import flood
from drivers.can import Can, CanOptions, CanSignal
from drivers.flood import FloodGuard
from drivers.xsens import Xsens, XsensOptions
from replay.emulate import EmulatedSerial
from replay.encoders import XsensEncoder
from vehicled.messages import Measurement
from vehicled.trust.token_bucket import TokenBucket

SECOND = 1_000_000_000


def admitted(guard, channel, rate, seconds, begin_ns=5 * SECOND):
    """Times of the admitted measurements of a device at `rate`, s."""
    times = [round(i / rate * SECOND) for i in range(round(rate * seconds))]
    return [t / SECOND for t in times if guard.admits(channel, channel, begin_ns + t, t)]


def test_a_token_bucket_gives_no_more_than_it_is_filled_with():
    bucket = TokenBucket(10.0, 5.0)
    assert [bucket.take(0) for _ in range(7)] == [True] * 5 + [False] * 2
    assert bucket.wait_s(0) == pytest.approx(0.1)
    assert [bucket.take(SECOND // 5) for _ in range(3)] == [True, True, False]
    assert not bucket.take(100 * SECOND, 5.1)
    assert bucket.take(100 * SECOND, 5.0)


@pytest.mark.parametrize(
    ("channel", "rate"),
    [("imu.ax", 100), ("imu.ax", 1000), ("imu.wz", 1010), ("gnss.lat", 100), ("wheel.fl.speed", 250)],
)
def test_all_measurements_of_a_normal_device_are_admitted(channel, rate):
    guard = FloodGuard()
    assert len(admitted(guard, channel, rate, 20)) == rate * 20
    assert not guard.is_flooding(25 * SECOND)


def test_a_pause_of_the_reading_thread_loses_nothing():
    guard = FloodGuard()
    assert len(admitted(guard, "imu.ax", 1000, 1)) == 1000
    # 500 ms of samples at once, then the usual rate.
    assert all(guard.admits("imu.ax", "imu.ax", round(6.5 * SECOND), k) for k in range(500))
    assert len(admitted(guard, "imu.ax", 1000, 1, round(6.5 * SECOND))) == 1000


@pytest.mark.parametrize(
    ("channel", "rate", "most"), [("imu.ax", 2500, 1200), ("imu.ax", 50_000, 1200), ("gnss.lat", 500, 120)]
)
def test_a_flood_is_decimated_evenly_and_reported(channel, rate, most):
    guard = FloodGuard()
    times = admitted(guard, channel, rate, 5)
    assert 5 * most <= len(times) <= 5.5 * most + 1
    later = [t for t in times if t > 2]
    assert max(b - a for a, b in itertools.pairwise(later)) < 2.5 / most
    assert guard.is_flooding(10 * SECOND)
    assert not guard.is_flooding(13 * SECOND)


def test_a_faster_device_is_admitted_if_configured():
    assert len(admitted(FloodGuard(2000.0), "imu.ax", 2000, 10)) == 20_000


def test_if_each_sample_is_sent_ten_times_the_first_of_each_ten_passes():
    guard = FloodGuard()
    firsts = []
    for i in range(5000):
        now = 5 * SECOND + round(i / 500 * SECOND)
        passed = guard.admits("gnss.lat", "gnss.lat", now, {"gnss.lat": i // 10})
        if i % 10 == 0:
            firsts.append(passed)
    assert all(firsts)
    assert guard.is_flooding(now)


def test_a_flood_of_equal_samples_is_decimated_like_any_other():
    guard = FloodGuard()
    passed = sum(
        guard.admits("gnss.lat", "gnss.lat", 5 * SECOND + i * SECOND // 500, 1.0) for i in range(2500)
    )
    assert 5 * 120 <= passed <= 5.5 * 120 + 1


def test_a_flood_on_one_channel_does_not_affect_another():
    guard = FloodGuard()
    admitted(guard, "wheel.fl.speed", 5000, 1)
    assert len(admitted(guard, "brake.pressure", 100, 1)) == 100


FLOOD_S = 0.3


@pytest.fixture
def forgetful(monkeypatch):
    """The state `flooding` ends half a second after the flood instead of two seconds."""
    monkeypatch.setattr(flood, "_REMEMBERED_NS", SECOND // 2)


@pytest.fixture
def imu(tmp_path, forgetful):
    """(the device's end of the line, its driver, the measurements that the driver emits)"""
    device = EmulatedSerial(tmp_path / "imu", XsensEncoder())
    out: list[Measurement] = []
    driver = Xsens("imu", XsensOptions(port=str(device.link)), out.append)
    driver.start()
    wait_until(lambda: driver.state == "connected")
    yield device, driver, out
    driver.stop()
    device.close()


def test_a_flooding_device_is_decimated_and_reported(imu):
    device, driver, out = imu
    begun = time.monotonic()
    message = b"".join(device.pack(Measurement("imu", 0, 0, IMU)))
    while not driver.counters()["decimated"]:
        device.write(message * 20)
        time.sleep(0.001)
    assert driver.state == "flooding"
    assert len(out) <= 600 + 1200 * (time.monotonic() - begun)
    wait_until(lambda: driver.state != "flooding")
    assert driver.counters()["internal_errors"] == 0


def test_endless_garbage_is_discarded_undecoded(imu):
    device, driver, out = imu
    begun = time.monotonic()

    def is_too_much():
        device.write(b"\xfa\xff" * 2000)
        return time.monotonic() > begun + FLOOD_S and driver.counters()["discarded_bytes"]

    wait_until(is_too_much)
    read = driver.counters()["bytes"]
    assert read <= 200_000 * (time.monotonic() - begun + 0.1)
    assert driver.state == "flooding"
    wait_until(lambda: driver.state != "flooding")  # its buffer is empty by then
    device.send(device.pack(Measurement("imu", 0, 0, IMU)))
    wait_until(lambda: out)


BRAKE = {"brake.pressure": CanSignal(message="Brake", signal="BrakePressure")}
DBC = Path(__file__).parent.parent / "config" / "prototype.dbc"


@pytest.fixture
def slcan(forgetful):
    """(the adapter's end of the line, the driver at the other end, the measurements that the driver emits)"""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    os.set_blocking(ours, False)
    out: list[Measurement] = []
    driver = Can(
        "can", CanOptions(dbc=DBC, signals=BRAKE, interface="slcan", channel=os.ttyname(theirs)), out.append
    )
    driver.start()
    wait_until(lambda: driver.state == "connected")
    yield ours, driver, out
    driver.stop()
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(
    "line", [b"t7FF0\r", b"\r", b"x" * 30 + b"\r", b"\xff\x00\a"], ids=["frames", "empty", "text", "noise"]
)
def test_an_slcan_adapter_is_read_no_faster_than_any_bus_sends(slcan, line):
    end, driver, out = slcan
    begun = time.monotonic()
    written = 0

    def is_too_much():
        nonlocal written
        with contextlib.suppress(BlockingIOError):
            written += os.write(end, line * (4000 // len(line)))
        return time.monotonic() > begun + FLOOD_S and driver.counters()["discarded_bytes"]

    wait_until(is_too_much)
    assert driver.state == "flooding"
    taken = written - driver.counters()["discarded_bytes"]
    assert taken <= 250_000 * (time.monotonic() - begun + 0.1) + 100_000  # bytes still on the line
    wait_until(lambda: driver.state != "flooding")
    assert not out

    def is_in_step():
        with contextlib.suppress(BlockingIOError):
            os.write(end, b"\rt1308" + b"00" * 8 + b"\r")
        return out

    wait_until(is_in_step)
    assert driver.counters()["internal_errors"] == driver.counters()["disconnects"] == 0


def test_bytes_before_and_after_discarded_ones_are_not_joined_to_a_frame(slcan):
    end, driver, out = slcan
    good, pressures = b"t1308" + b"00" * 8 + b"\r", set()
    begun = time.monotonic()
    while not driver.counters()["discarded_bytes"] or time.monotonic() < begun + FLOOD_S:
        with contextlib.suppress(BlockingIOError):
            os.write(end, good * 150)
    wait_until(lambda: driver.state != "flooding")
    assert out
    pressures = {m.values["brake.pressure"] for m in out}
    assert pressures == {0.0}


def test_excess_frames_are_dropped_before_they_are_decoded():
    options = CanOptions(dbc=DBC, signals=BRAKE, interface="virtual", channel="test_drivers_flood")
    out: list[Measurement] = []
    driver = Can("can", options, out.append)
    driver.start()
    frame = can.Message(arbitration_id=0x130, data=bytes(8), is_extended_id=False)
    with can.Bus(interface="virtual", channel="test_drivers_flood") as bus:
        wait_until(lambda: driver.state == "connected")
        begun = time.monotonic()
        for _ in range(2000):
            bus.send(frame)
        wait_until(lambda: driver.counters()["decimated"] + len(out) == 2000)
    assert driver.state == "flooding"
    assert len(out) <= driver.counters()["messages"] <= 150 + 300 * (time.monotonic() - begun)
    driver.stop()
    assert not [t for t in threading.enumerate() if t.name == "driver-can"]


TWO_KINDS = """\
VERSION ""
BU_: X
BO_ 304 Standard: 2 X
 SG_ Pressure : 0|16@1+ (1,0) [0|0] "bar" X
BO_ 2147483952 Extended: 2 X
 SG_ Speed : 0|16@1+ (1,0) [0|0] "m/s" X
"""
"""Both have the identifier 0x130, one with eleven bits and one with 29."""


def test_standard_and_extended_frames_of_one_identifier_are_limited_separately(tmp_path):
    dbc = tmp_path / "x.dbc"
    dbc.write_text(TWO_KINDS)
    signals = {
        "brake.pressure": CanSignal(message="Standard", signal="Pressure"),
        "vehicle.speed": CanSignal(message="Extended", signal="Speed"),
    }
    options = CanOptions(dbc=dbc, signals=signals, interface="virtual", channel="test_both_kinds")
    out: list[Measurement] = []
    driver = Can("can", options, out.append)
    driver.start()
    with can.Bus(interface="virtual", channel="test_both_kinds") as bus:
        wait_until(lambda: driver.state == "connected")
        for _ in range(2):
            for extended in (False, True):
                for _ in range(60):  # fewer of each kind than are admitted at once
                    bus.send(can.Message(arbitration_id=0x130, data=bytes(2), is_extended_id=extended))
        wait_until(lambda: driver.counters()["decimated"] + len(out) == 240)
    driver.stop()
    assert driver.counters()["decimated"] == 0
