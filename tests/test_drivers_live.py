"""Driver threads on real pseudo-terminals and a virtual bus: devices that come, go and misbehave."""

import sys
import time
import types
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import can
import pytest

from drivers.can import Can, CanOptions, CanSignal
from drivers.nmea import Nmea, NmeaOptions
from drivers.registry import GROUP, known_drivers, load_driver
from drivers.vectornav import VectorNav, VectorNavOptions
from drivers.xsens import Xsens, XsensOptions
from replay.emulate import EmulatedSerial, Emulation, Faults, emulate
from replay.encoders import XsensEncoder
from vehicled.errors import UsageError
from vehicled.messages import Measurement

IMU = {"imu.ax": 0.5, "imu.ay": -1.25, "imu.az": 9.75, "imu.wx": 0.125, "imu.wy": -0.5, "imu.wz": 0.75}
GNSS = {"gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5, "gnss.quality": 4.0, "gnss.h_acc": 0.014}
MS = 1_000_000
BRAKE = CanOptions(
    dbc=Path(__file__).parent.parent / "config" / "prototype.dbc",
    signals={"brake.pressure": CanSignal(message="Brake", signal="BrakePressure")},
    interface="virtual",
    channel="test_drivers_live",
)


def until(condition, timeout_s=20.0):
    """Waits for something that must come about; the time-out is only there to end a failing test."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.002)


def sample(t, values=IMU, source="log"):
    return Measurement(source, t, t, values)


def brake(data):
    return can.Message(arbitration_id=0x130, data=bytes.fromhex(data), is_extended_id=False)


def test_a_device_is_unplugged_and_replugged_under_the_same_name(tmp_path):
    device = EmulatedSerial(tmp_path / "imu", XsensEncoder())
    out: list[Measurement] = []
    driver = Xsens("imu", XsensOptions(port=str(device.link)), out.append)
    assert driver.state == "stopped"
    driver.start()
    try:
        for round_ in range(1, 3):
            until(lambda: driver.state in ("connected", "silent"))
            before = len(out)
            for i in range(5):
                device.send(device.pack(sample(i * 10 * MS)), 0)
            until(lambda before=before: len(out) == before + 5)
            device.write(b"\xfa\xff\x36\x40half")
            device.unplug()
            until(lambda: driver.state == "disconnected")
            until(lambda round_=round_: driver.counters()["disconnects"] == round_)
            device.replug()
    finally:
        driver.stop()
        driver.stop()
        device.close()
    c = driver.counters()
    assert c["measurements"] == 10
    assert c["reconnects"] >= 1
    assert c["internal_errors"] == 0
    assert driver.state == "stopped"
    assert all(m.source == "imu" and m.t <= m.arrival for m in out)
    assert out == sorted(out, key=lambda m: m.arrival)


def test_a_device_that_is_not_there_is_waited_for(tmp_path):
    out: list[Measurement] = []
    driver = VectorNav("imu", VectorNavOptions(port=str(tmp_path / "imu")), out.append)
    driver.start()
    device = None
    try:
        until(lambda: driver.counters()["open_errors"] >= 2)
        assert driver.state == "disconnected"
        device = emulate("vectornav", driver.options)
        until(lambda: driver.state == "connected")
        device.send(device.pack(sample(0)), 0)
        until(lambda: len(out) == 1)
    finally:
        driver.stop()
        if device is not None:
            device.close()
    assert driver.counters()["disconnects"] == 0


def test_a_receiver_that_pauses_hands_out_its_epoch(tmp_path):
    device = emulate("nmea", NmeaOptions(port=str(tmp_path / "gnss")))
    out: list[Measurement] = []
    driver = Nmea("gnss", NmeaOptions(port=str(tmp_path / "gnss"), pause=0.03), out.append)
    driver.start()
    try:
        until(lambda: driver.state == "connected")
        device.send(device.pack(sample(0, GNSS)), 0)
        until(lambda: out)
    finally:
        driver.stop()
        device.close()
    assert out[0].values["gnss.lat"] == pytest.approx(47.25, abs=1e-10)


def test_an_error_of_the_receiving_end_is_outlived(tmp_path):
    device = emulate("xsens", XsensOptions(port=str(tmp_path / "imu")))
    out: list[Measurement] = []

    def emit(m):
        out.append(m)
        if len(out) == 1:
            raise RuntimeError("queue broken")

    driver = Xsens("imu", XsensOptions(port=str(tmp_path / "imu")), emit)
    driver.start()
    try:
        until(lambda: driver.state == "connected")
        device.send(device.pack(sample(0)), 0)
        until(lambda: driver.counters()["internal_errors"] == 1)
        until(lambda: driver.counters()["reconnects"] == 1)
        device.send(device.pack(sample(10 * MS)), 0)
        until(lambda: len(out) == 2)
    finally:
        driver.stop()
        device.close()


def test_a_refused_baud_rate_is_an_open_error(tmp_path):
    device = emulate("xsens", XsensOptions(port=str(tmp_path / "imu")))
    driver = Xsens("imu", XsensOptions(port=str(tmp_path / "imu"), baud=-5), print)
    driver.start()
    try:
        until(lambda: driver.counters()["open_errors"] >= 1)
    finally:
        driver.stop()
        device.close()
    assert driver.counters()["internal_errors"] == 0


def test_a_log_is_played_on_all_devices_with_faults_and_an_outage(tmp_path):
    """End to end: what arrives is what was sent, apart from what the faults and the outage took."""
    options = {
        "imu": ("xsens", XsensOptions(port=str(tmp_path / "imu"))),
        "gnss": ("nmea", NmeaOptions(port=str(tmp_path / "gnss"))),
        "can": ("can", BRAKE),
    }
    faults = Faults(garbage=0.2, dropped=0.1, flipped=0.1, seed=3)
    devices: dict[str, Any] = {
        n: emulate(kind, o, faults if n == "imu" else None) for n, (kind, o) in options.items()
    }
    log = [sample(t * MS, IMU | {"brake.pressure": t * 1e4}) for t in range(0, 800, 10)]
    log += [Measurement("gnss", t * MS, (t + 80) * MS, GNSS) for t in range(0, 700, 100)]
    out: list[Measurement] = []
    drivers = {n: load_driver(kind)(n, o, out.append) for n, (kind, o) in options.items()}
    emulation = Emulation(log, devices, outages={"can": [(0.2, 0.4)]})
    for driver in drivers.values():
        driver.start()
    try:
        until(lambda: all(d.state == "connected" for d in drivers.values()))
        emulation.start()
        assert emulation.join(30)
        damaged = devices["imu"].noise.counters["dropped"] + devices["imu"].noise.counters["flipped"]
        until(lambda: drivers["imu"].counters()["messages"] >= 80 - damaged)
        until(lambda: len([m for m in out if m.source == "gnss"]) >= 7)
        until(lambda: drivers["can"].counters()["messages"] == 60)
    finally:
        for driver in drivers.values():
            driver.stop()
        emulation.stop()
        emulation.stop()
    assert emulation.sent == len(log)
    c = drivers["imu"].counters()
    assert damaged > 5
    assert c["messages"] < 80
    assert c["garbage_bytes"] > 0
    assert c["checksum_errors"] > 0
    imu = [m for m in out if m.source == "imu"]
    assert all(m.values == pytest.approx(IMU, rel=1e-6) for m in imu)
    assert all(m.t <= m.arrival for m in out)
    pressures = [m.values["brake.pressure"] for m in out if m.source == "can"]
    assert pressures == pytest.approx([t * 1e4 for t in range(0, 800, 10) if not 200 <= t < 400], abs=300)


def test_unread_bytes_are_lost_and_counted(tmp_path):
    device = EmulatedSerial(tmp_path / "imu", XsensEncoder())
    for _ in range(40):
        device.write(bytes(1000))
    assert device.counters["unread_bytes"] > 0
    assert device.counters["bytes"] + device.counters["unread_bytes"] == 40_000
    device.unplug()
    device.unplug()
    device.write(b"x")
    assert not device.link.is_symlink()
    device.close()


def test_the_live_driver_survives_bus_off_and_a_missing_bus(monkeypatch):
    bus = can.Bus(interface="virtual", channel="test_drivers_live")
    out: list[Measurement] = []
    driver = Can("can", BRAKE, out.append)
    opening, failures = can.Bus, [OSError("no such bus")]

    def flaky(*args, **kwargs):
        if failures:
            raise failures.pop()
        return opening(*args, **kwargs)

    monkeypatch.setattr("drivers.can.can.Bus", flaky)
    driver.start()
    try:
        until(lambda: driver.state == "connected")
        bus.send(brake("1027"))
        until(lambda: len(out) == 1)
        bus.send(can.Message(arbitration_id=0x40, is_error_frame=True, is_extended_id=False))
        until(lambda: driver.counters()["reconnects"] == 1)
        bus.send(brake("2027"))
        until(lambda: len(out) == 2)
    finally:
        driver.stop()
        bus.shutdown()
    c = driver.counters()
    assert (c["open_errors"], c["disconnects"], c["bus_off"], c["internal_errors"]) == (1, 1, 1, 0)
    assert [m.source for m in out] == ["can", "can"]
    assert out[0].arrival < out[1].arrival
    assert driver.state == "stopped"


def test_the_registry_knows_the_kinds_and_names_them():
    assert {"can", "nmea", "vectornav", "xsens"} <= set(known_drivers())
    for kind in ("can", "nmea", "vectornav", "xsens"):
        assert load_driver(kind).Options.__dataclass_params__.frozen
    with pytest.raises(UsageError, match="no driver 'lidar': expected one of can, nmea"):
        load_driver("lidar")
    with pytest.raises(UsageError, match="no emulation of 'lidar'"):
        emulate("lidar", None)


def register(monkeypatch, **loaded):
    """Exchange the installed entry points for modules with these classes, by kind."""
    for kind, thing in loaded.items():
        monkeypatch.setitem(sys.modules, f"elsewhere_{kind}", types.SimpleNamespace(Other=thing))
    points = EntryPoints(EntryPoint(k, f"elsewhere_{k}:Other", GROUP) for k in loaded)
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))


def test_a_driver_of_another_distribution_is_found(monkeypatch):
    register(monkeypatch, lidar=Xsens)
    assert load_driver("lidar") is Xsens
    assert known_drivers() == ["lidar"]


def test_a_foreign_class_that_is_no_driver_is_refused(monkeypatch):
    register(monkeypatch, lidar=dict)
    with pytest.raises(UsageError, match=r"elsewhere_lidar:Other is not a subclass of drivers\.base\.Driver"):
        load_driver("lidar")


def test_a_driver_without_its_module_is_one_line(monkeypatch):
    points = EntryPoints([EntryPoint("lidar", "not_there:Lidar", GROUP)])
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))
    with pytest.raises(UsageError, match="'lidar' cannot be loaded: No module named 'not_there'"):
        load_driver("lidar")


def test_two_drivers_of_one_name_are_refused(monkeypatch):
    values = ("drivers.xsens:Xsens", "elsewhere:Xsens")
    points = EntryPoints(EntryPoint("xsens", value, GROUP) for value in values)
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))
    with pytest.raises(UsageError, match=r"registered twice: drivers\.xsens:Xsens, elsewhere:Xsens"):
        load_driver("xsens")
