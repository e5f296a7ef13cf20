"""Driver threads on devices that another process emulates, and that appear, vanish and misbehave."""

import dataclasses
import itertools
import subprocess
import sys
import threading
import time
import types
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import can
import pytest
from live_rig import IMU, wait_until

from drivers import base
from drivers.can import Can, CanOptions, CanSignal
from drivers.nmea import Nmea, NmeaOptions
from drivers.registry import GROUP, known_drivers, load_driver
from drivers.vectornav import VectorNav, VectorNavOptions
from drivers.xsens import Xsens, XsensOptions
from replay.emulator import Emulator
from replay.faults import BadLine, Unplugged
from vehicled.errors import UsageError
from vehicled.messages import Measurement

GNSS = {"gnss.lat": 47.25, "gnss.lon": 8.5, "gnss.alt": 412.5, "gnss.quality": 4.0, "gnss.h_acc": 0.014}
MS = 1_000_000
BRAKE = CanOptions(
    dbc=Path(__file__).parent.parent / "config" / "prototype.dbc",
    signals={"brake.pressure": CanSignal(message="Brake", signal="BrakePressure")},
)


def sample(t, values=IMU, source="log"):
    return Measurement(source, t, t, values)


def brake(data):
    return can.Message(arbitration_id=0x130, data=bytes.fromhex(data), is_extended_id=False)


def slcan(tmp_path):
    return dataclasses.replace(BRAKE, interface="slcan", channel=str(tmp_path / "can"), bitrate=500_000)


@pytest.mark.parametrize("kind", ["imu", "can"])
def test_a_driver_reconnects_to_a_device_that_is_unplugged_and_replugged(tmp_path, kind):
    options, values, half = {
        "imu": (XsensOptions(port=str(tmp_path / "imu")), IMU, b"\xfa\xff\x36\x40half"),
        "can": (slcan(tmp_path), {"brake.pressure": 50e5}, b"t13021"),
    }[kind]
    plan = {"imu": "xsens", "can": "can"}[kind]
    samples = (sample(i * 10 * MS, values) for i in itertools.count())
    out: list[Measurement] = []
    driver = load_driver(plan)(kind, options, out.append)
    assert driver.state == "connecting"
    with Emulator({kind: (plan, options)}) as emulator:
        driver.start()
        try:
            for round_ in range(1, 3):
                wait_until(lambda: driver.state in ("connected", "silent"))
                # An adapter sends nothing before it has opened its channel, which takes it a moment.
                before = len(out)
                wait_until(lambda before=before: emulator.send(next(samples)) or len(out) > before)
                for m in itertools.islice(samples, 5):
                    emulator.send(m)
                wait_until(lambda: len(out) == emulator.report().counters[kind]["messages"])
                emulator.write(kind, half)
                emulator.unplug(kind)
                wait_until(lambda: driver.state == "disconnected")
                wait_until(lambda round_=round_: driver.counters()["disconnects"] == round_)
                emulator.replug(kind)
        finally:
            driver.stop()
            driver.stop()
    c = driver.counters()
    assert c["measurements"] == len(out) >= 12
    assert c["reconnects"] >= 1
    assert c["internal_errors"] == 0
    assert driver.state == "stopped"
    assert all(m.source == kind and m.t <= m.arrival for m in out)
    assert out == sorted(out, key=lambda m: m.arrival)


def test_a_driver_waits_for_a_missing_device(tmp_path):
    out: list[Measurement] = []
    driver = VectorNav("imu", VectorNavOptions(port=str(tmp_path / "imu")), out.append)
    driver.start()
    try:
        wait_until(lambda: driver.counters()["open_errors"] >= 2)
        assert driver.state == "disconnected"
        with Emulator({"imu": ("vectornav", driver.options)}) as emulator:
            wait_until(lambda: driver.state == "connected")
            emulator.send(sample(0))
            wait_until(lambda: len(out) == 1)
            assert driver.counters()["disconnects"] == 0
    finally:
        driver.stop()


def test_a_pause_of_the_receiver_ends_its_epoch(tmp_path):
    options = NmeaOptions(port=str(tmp_path / "gnss"), pause=0.03)
    out: list[Measurement] = []
    driver = Nmea("gnss", options, out.append)
    with Emulator({"gnss": ("nmea", options)}) as emulator:
        driver.start()
        try:
            wait_until(lambda: driver.state == "connected")
            emulator.send(sample(0, GNSS))
            wait_until(lambda: out)
        finally:
            driver.stop()
    assert out[0].values["gnss.lat"] == pytest.approx(47.25, abs=1e-10)


def test_a_driver_continues_after_an_error_of_its_receiving_function(tmp_path):
    options = XsensOptions(port=str(tmp_path / "imu"))
    out: list[Measurement] = []

    def emit(m):
        out.append(m)
        if len(out) == 1:
            raise RuntimeError("queue broken")

    driver = Xsens("imu", options, emit)
    with Emulator({"imu": ("xsens", options)}) as emulator:
        driver.start()
        try:
            wait_until(lambda: driver.state == "connected")
            emulator.send(sample(0))
            wait_until(lambda: driver.counters()["internal_errors"] == 1)
            wait_until(lambda: driver.counters()["reconnects"] == 1)
            emulator.send(sample(10 * MS))
            wait_until(lambda: len(out) == 2)
        finally:
            driver.stop()


def test_a_refused_baud_rate_is_an_open_error(tmp_path):
    options = XsensOptions(port=str(tmp_path / "imu"), baud=-5)
    with Emulator({"imu": ("xsens", options)}):
        driver = Xsens("imu", options, print)
        driver.start()
        try:
            wait_until(lambda: driver.counters()["open_errors"] >= 1)
        finally:
            driver.stop()
    assert driver.counters()["internal_errors"] == 0


def test_a_log_is_played_on_all_devices_with_faults_and_an_outage(tmp_path):
    """End to end: all that was sent arrives, except for the losses by the faults and the outage."""
    devices = {
        "imu": ("xsens", XsensOptions(port=str(tmp_path / "imu"))),
        "gnss": ("nmea", NmeaOptions(port=str(tmp_path / "gnss"))),
        "can": ("can", slcan(tmp_path)),
    }
    faults = [
        BadLine(device="imu", garbage=0.2, dropped=0.1, flipped=0.1, seed=3),
        Unplugged(devices=["can"], begin=0.2, end=0.4),
    ]
    log = [sample(t * MS, IMU | {"brake.pressure": t * 1e4}) for t in range(0, 1000, 10)]
    log += [Measurement("gnss", t * MS, (t + 80) * MS, GNSS) for t in range(0, 700, 100)]
    out: list[Measurement] = []
    drivers = {n: load_driver(kind)(n, o, out.append) for n, (kind, o) in devices.items()}
    with Emulator(devices, log, faults, timed=["can"]) as emulator:
        for driver in drivers.values():
            driver.start()
        try:
            wait_until(lambda: all(d.state == "connected" for d in drivers.values()))
            start = emulator.start()
            assert emulator.join(30)
            report = emulator.report()
            damaged = report.counters["imu"]["dropped"] + report.counters["imu"]["flipped"]
            wait_until(lambda: drivers["imu"].counters()["messages"] >= 100 - damaged)
            wait_until(lambda: len([m for m in out if m.source == "gnss"]) >= 7)
            sent = emulator.sent_times("can")
            wait_until(lambda: drivers["can"].counters()["messages"] == len(sent))
        finally:
            for driver in drivers.values():
                driver.stop()
    assert report.sent == len(log)
    c = drivers["imu"].counters()
    assert damaged > 5
    assert c["messages"] < 100
    assert c["garbage_bytes"] > 0
    assert c["checksum_errors"] > 0
    imu = [m for m in out if m.source == "imu"]
    assert all(m.values == pytest.approx(IMU, rel=1e-6) for m in imu)
    assert all(m.t <= m.arrival for m in out)
    pressures = [m.values["brake.pressure"] for m in out if m.source == "can"]
    # The adapter is unplugged from 0.2 s to 0.4 s, and sends nothing until the driver has opened it again.
    assert pressures[:20] == pytest.approx([t * 1e4 for t in range(0, 200, 10)], abs=300)
    assert pressures[20] > 399e4
    assert pressures[20:] == pytest.approx([1000e4 - k * 10e4 for k in range(len(sent) - 20, 0, -1)], abs=300)
    assert all(t >= start + k * 10 * MS for k, t in enumerate(sent[:20]))


def test_bytes_that_nobody_reads_are_lost_and_counted(tmp_path):
    with Emulator({"imu": ("xsens", XsensOptions(port=str(tmp_path / "imu")))}) as emulator:
        for _ in range(40):
            emulator.write("imu", bytes(1000))
        c = emulator.report().counters["imu"]
        assert c["unread_bytes"] > 0
        assert c["bytes"] + c["unread_bytes"] == 40_000
        emulator.unplug("imu")
        emulator.unplug("imu")
        emulator.write("imu", b"x")
        assert emulator.report().counters["imu"] == c
        assert not (tmp_path / "imu").is_symlink()


@pytest.fixture
def vcan():
    """A virtual interface of SocketCAN, if this system can make one."""
    name = "vehicled-test"
    made = subprocess.run(["ip", "link", "add", name, "type", "vcan"], capture_output=True)
    if made.returncode:
        pytest.skip(f"no vcan: {made.stderr.decode().strip()}")
    try:
        subprocess.run(["ip", "link", "set", name, "up"], check=True)
        yield name
    finally:
        subprocess.run(["ip", "link", "delete", name], check=True)


def test_frames_pass_through_socketcan(vcan):
    options = dataclasses.replace(BRAKE, interface="socketcan", channel=vcan)
    out: list[Measurement] = []
    driver = Can("can", options, out.append)
    driver.start()
    try:
        wait_until(lambda: driver.state == "connected")
        with Emulator({"can": ("can", options)}) as emulator:
            emulator.send(sample(0, {"brake.pressure": 50e5}))
            wait_until(lambda: out)
            emulator.unplug("can")
            emulator.send(sample(0, {"brake.pressure": 60e5}))
            emulator.replug("can")
            emulator.send(sample(0, {"brake.pressure": 70e5}))
            wait_until(lambda: len(out) == 2)
    finally:
        driver.stop()
    assert [m.values["brake.pressure"] for m in out] == pytest.approx([50e5, 70e5])


def test_the_live_driver_survives_bus_off_and_a_missing_bus(monkeypatch):
    # Only SocketCAN reports bus-off, by an error frame. Here, python-can's virtual bus sends that frame.
    options = dataclasses.replace(BRAKE, interface="virtual", channel="test_drivers_live")
    bus = can.Bus(interface="virtual", channel=options.channel)
    out: list[Measurement] = []
    driver = Can("can", options, out.append)
    opening, failures = can.Bus, [OSError("no such bus")]

    def flaky(*args, **kwargs):
        if failures:
            raise failures.pop()
        return opening(*args, **kwargs)

    monkeypatch.setattr("drivers.can.can.Bus", flaky)
    driver.start()
    try:
        wait_until(lambda: driver.state == "connected")
        bus.send(brake("1027"))
        wait_until(lambda: len(out) == 1)
        bus.send(can.Message(arbitration_id=0x40, is_error_frame=True, is_extended_id=False))
        wait_until(lambda: driver.counters()["reconnects"] == 1)
        bus.send(brake("2027"))
        wait_until(lambda: len(out) == 2)
    finally:
        driver.stop()
        bus.shutdown()
    c = driver.counters()
    assert (c["open_errors"], c["disconnects"], c["bus_off"], c["internal_errors"]) == (1, 1, 1, 0)
    assert [m.source for m in out] == ["can", "can"]
    assert out[0].arrival < out[1].arrival
    assert driver.state == "stopped"


@pytest.mark.parametrize(("interface", "age"), [("virtual", 0.05), ("udp_multicast", 0.0), ("pcan", 0.0)])
def test_stamps_count_where_they_are_of_the_clock_of_this_machine(interface, age, monkeypatch):
    """Adapters and other machines have clocks of their own, beside which that of this one is slewed or set."""

    def receive(timeout):
        time.sleep(0.001)
        frame = brake("1027")
        frame.timestamp = time.time() - 0.05
        return frame if timeout else None

    bus = types.SimpleNamespace(recv=receive, shutdown=lambda: None)
    monkeypatch.setattr("drivers.can.can.Bus", lambda **_: bus)
    out: list[Measurement] = []
    driver = Can("can", dataclasses.replace(BRAKE, interface=interface, channel="stamps"), out.append)
    driver.start()
    try:
        wait_until(lambda: len(out) >= 10)
    finally:
        driver.stop()
    assert min(m.arrival - m.t for m in out) * 1e-9 == pytest.approx(age, abs=0.02)


def test_a_device_that_cannot_be_closed_is_opened_again(monkeypatch):
    """python-can's interfaces raise whatever their libraries raise."""

    def fail(bus):
        shut(bus)
        raise RuntimeError("not initialised")

    shut = can.interfaces.virtual.VirtualBus.shutdown
    monkeypatch.setattr("can.interfaces.virtual.VirtualBus.shutdown", fail)
    monkeypatch.setattr("can.interfaces.virtual.VirtualBus.recv", lambda *_: 1 / 0)
    driver = Can("can", dataclasses.replace(BRAKE, interface="virtual", channel="closing"), lambda m: None)
    driver.start()
    wait_until(lambda: driver.counters()["reconnects"] >= 2)
    driver.stop()
    assert driver.state == "stopped"


def test_the_registry_knows_the_kinds_and_names_them():
    assert {"can", "nmea", "vectornav", "xsens"} <= set(known_drivers())
    for kind in ("can", "nmea", "vectornav", "xsens"):
        assert load_driver(kind).Options.__dataclass_params__.frozen
    with pytest.raises(UsageError, match="no driver 'lidar'; known here: can, nmea"):
        load_driver("lidar")
    with pytest.raises(UsageError, match="no emulation of 'lidar'"), Emulator({"lidar": ("lidar", None)}):
        pass


def register(monkeypatch, **loaded):
    """Replace the installed entry points by modules with these classes, by kind."""
    for kind, thing in loaded.items():
        monkeypatch.setitem(sys.modules, f"elsewhere_{kind}", types.SimpleNamespace(Other=thing))
    points = EntryPoints(EntryPoint(k, f"elsewhere_{k}:Other", GROUP) for k in loaded)
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))


def test_a_driver_of_another_distribution_is_found(monkeypatch):
    register(monkeypatch, lidar=Xsens)
    assert load_driver("lidar") is Xsens
    assert known_drivers() == ["lidar"]


def test_a_foreign_class_that_is_not_a_driver_is_refused(monkeypatch):
    register(monkeypatch, lidar=dict)
    with pytest.raises(UsageError, match=r"elsewhere_lidar:Other is not a subclass of drivers\.base\.Driver"):
        load_driver("lidar")


def test_a_driver_with_a_missing_module_is_a_usage_error(monkeypatch):
    points = EntryPoints([EntryPoint("lidar", "not_there:Lidar", GROUP)])
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))
    with pytest.raises(
        UsageError, match="'lidar' cannot be loaded: ModuleNotFoundError: No module named 'not_there'"
    ):
        load_driver("lidar")


def test_a_driver_whose_module_fails_is_a_usage_error(monkeypatch, tmp_path):
    (tmp_path / "broken_lidar.py").write_text("class Lidar:\n    raise KeyError('no such\\nfield')\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = EntryPoints([EntryPoint("lidar", "broken_lidar:Lidar", GROUP)])
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))
    with pytest.raises(UsageError, match=r"'lidar' cannot be loaded: KeyError: .*no such"):
        load_driver("lidar")


def test_two_drivers_of_one_name_are_refused(monkeypatch):
    values = ("drivers.xsens:Xsens", "elsewhere:Xsens")
    points = EntryPoints(EntryPoint("xsens", value, GROUP) for value in values)
    monkeypatch.setattr("drivers.registry.entry_points", lambda **wanted: points.select(**wanted))
    with pytest.raises(UsageError, match=r"registered twice: drivers\.xsens:Xsens, elsewhere:Xsens"):
        load_driver("xsens")


@pytest.mark.parametrize("kind", ["imu", "can"])
def test_data_buffered_while_the_process_stood_still_are_discarded(tmp_path, kind, monkeypatch):
    """For example, frames of a CAN adapter have no time stamps: old ones would count as measured now."""
    options, values, plan = {
        "imu": (XsensOptions(port=str(tmp_path / "imu")), IMU, "xsens"),
        "can": (slcan(tmp_path), {"brake.pressure": 50e5}, "can"),
    }[kind]
    monkeypatch.setattr(base, "_STOOD_STILL_NS", 300 * MS)
    stands_still, goes_on = threading.Event(), threading.Event()
    out: list[Measurement] = []

    def emit(measurement: Measurement) -> None:
        out.append(measurement)
        if stands_still.is_set():
            goes_on.wait(10.0)
            stands_still.clear()

    driver = load_driver(plan)(kind, options, emit)
    samples = (sample(i * 10 * MS, values) for i in itertools.count())
    with Emulator({kind: (plan, options)}) as emulator:
        driver.start()
        try:
            wait_until(lambda: driver.state in ("connected", "silent"))
            wait_until(lambda: emulator.send(next(samples)) or len(out) > 0)
            stands_still.set()
            before = len(out)
            wait_until(lambda: emulator.send(next(samples)) or len(out) > before)
            for m in itertools.islice(samples, 20):
                emulator.send(m)
            time.sleep(0.4)
            goes_on.set()
            wait_until(lambda: driver.counters()["stale"] >= 20)
            before = len(out)
            wait_until(lambda: emulator.send(next(samples)) or len(out) > before)
        finally:
            driver.stop()
    assert driver.counters()["truncated"] == driver.counters()["internal_errors"] == 0
    assert len(out) < 15
