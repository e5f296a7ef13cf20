"""Emulated devices: their process, injected faults, and drives repeated in laps."""

import math
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from live_rig import IMU, is_running, wait_until

from drivers.xsens import Xsens, XsensDecoder, XsensOptions
from replay.emulator import Emulator
from replay.encoders import XsensEncoder
from replay.faults import BadLine, Freeze, Multiply, Offset, Silence, Unplugged, WrongBaud, read_at
from replay.laps import Laps
from replay.player import Player
from vehicled.errors import RunError, UsageError
from vehicled.messages import Measurement

MS = 1_000_000


def children():
    """Child processes of this one, including those that have ended but were not waited for."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(path.read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(path.parent.name))
        except OSError:
            pass
    return found


def descriptors(process="self"):
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


def imu(folder):
    return {"imu": ("xsens", XsensOptions(port=str(folder / "imu")))}


def test_a_closed_emulator_leaves_no_process_terminal_or_descriptor(tmp_path):
    with Emulator(imu(tmp_path)):  # starts multiprocessing's own helper, which stays
        pass
    processes, files = children(), descriptors()
    for _ in range(2):
        emulator = Emulator(imu(tmp_path))
        (pid,) = children() - processes
        terminal = (tmp_path / "imu").readlink()
        assert terminal.exists()
        of_devices = descriptors(pid)
        for _ in range(10):
            emulator.unplug("imu")
            emulator.replug("imu")
        assert descriptors(pid) == of_devices
        emulator.close()
        emulator.close()
        assert not is_running(pid)
        assert not os.path.lexists(tmp_path / "imu")
    assert children() == processes
    assert descriptors() == files


def test_a_killed_emulator_is_an_error_for_its_program_and_a_lost_device_for_the_driver(tmp_path):
    devices = imu(tmp_path)
    driver = Xsens("imu", devices["imu"][1], print)
    before = children()
    emulator = Emulator(devices)
    driver.start()
    try:
        wait_until(lambda: driver.state == "connected")
        (pid,) = {p for p in children() - before if b"spawn_main" in Path(f"/proc/{p}/cmdline").read_bytes()}
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: driver.state == "disconnected")
        with pytest.raises(RunError, match="emulated devices ended unexpectedly, status -9"):
            emulator.report()
        emulator.close()
        assert pid not in children()
    finally:
        driver.stop()
    assert driver.counters()["internal_errors"] == 0


OWNER = """
import sys
from pathlib import Path
from replay.emulator import Emulator
from drivers.xsens import XsensOptions

if __name__ == "__main__":
    emulator = Emulator({"imu": ("xsens", XsensOptions(port=sys.argv[1]))})
    print(emulator._process.pid, flush=True)
    input()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_emulator_ends_with_the_program_that_started_it(tmp_path, number):
    script = tmp_path / "owner.py"
    script.write_text(OWNER)
    owner = subprocess.Popen(
        [sys.executable, script, tmp_path / "imu"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    with owner:
        pid = int(owner.stdout.readline())
        assert (tmp_path / "imu").exists()
        owner.send_signal(number)
    wait_until(lambda: not is_running(pid))
    wait_until(lambda: not os.path.lexists(tmp_path / "imu"))


def test_the_emulator_ignores_ctrl_c(tmp_path):
    before = children()
    with Emulator(imu(tmp_path)) as emulator:
        for pid in children() - before:
            os.kill(pid, signal.SIGINT)
        assert not emulator.report().done


def test_unknown_kinds_of_devices_devices_and_folders_are_errors(tmp_path):
    with pytest.raises(UsageError, match="no emulation of 'lidar': expected one of can, nmea"):
        Emulator({"lidar": ("lidar", None)})
    with pytest.raises(UsageError, match="no device 'gnss' for a fault: expected one of imu"):
        Emulator(imu(tmp_path), faults=[Unplugged(devices=["gnss"], begin=1.0)])
    with pytest.raises(RunError, match="No such file"):
        Emulator(imu(tmp_path / "nowhere"))


class Line:
    """A device that keeps the messages it sends."""

    channels = tuple(IMU)

    def __init__(self):
        self.counters = {"messages": 0}
        self.encoder = XsensEncoder()
        self.sent = []
        self.plugs = []

    def pack(self, m):
        return [self.encoder.encode(m)]

    def send(self, packed, damage=()):
        for message in packed:
            for change in damage:
                message = change(message)
            self.sent.append(message)
        return len(packed)

    def unplug(self):
        self.plugs.append(("off", len(self.sent)))

    def replug(self):
        self.plugs.append(("on", len(self.sent)))


def play(measurements, faults=()):
    """Play measurements without waiting; returns the device."""
    line = Line()
    player = Player({"imu": line}, measurements, faults, timed=["imu"])
    player.play(0, lambda _: True)
    assert player.report().done
    assert list(player.times["imu"]) == sorted(player.times["imu"])
    assert len(player.times["imu"]) == len(line.sent)
    return line


def decode(line):
    decoder = XsensDecoder("imu", XsensOptions(port="-"))
    return [m.values for k, message in enumerate(line.sent) for m in decoder.feed(message, k * MS)]


LOG = [Measurement("log", k * 10 * MS, k * 10 * MS, IMU | {"imu.wz": float(k)}) for k in range(100)]


def yaw_rates(faults):
    return [values.get("imu.wz") for values in decode(play(LOG, faults))]


def test_without_faults_everything_is_sent():
    assert yaw_rates([]) == list(range(100))


def test_sensor_faults_act_only_in_their_time_windows():
    window = {"channels": ["imu.wz"], "begin": 0.3, "end": 0.5}
    assert yaw_rates([Freeze(**window)]) == [*range(30), *[29] * 20, *range(50, 100)]
    assert yaw_rates([Offset(**window, by=100.0)]) == [k + 100 * (30 <= k < 50) for k in range(100)]
    turned = yaw_rates([Offset(**window, by=0.0, per_second=10.0, factor=-1.0)])
    assert turned == pytest.approx([-k + 0.1 * (k - 30) if 30 <= k < 50 else k for k in range(100)], abs=1e-5)
    # An IMU sends the three rates together or none.
    assert yaw_rates([Silence(**window)]) == [k if not 30 <= k < 50 else None for k in range(100)]
    window["channels"] = ["imu."]
    assert yaw_rates([Silence(**window)]) == [*range(30), *range(50, 100)]


def test_multiplied_messages_are_sent_in_order_of_time():
    line = play(LOG, [Multiply(channels=["imu."], begin=0.3, end=0.5, times=3, interval=0.0125)])
    found = [values["imu.wz"] for values in decode(line)]
    assert len(found) == 100 + 2 * 20
    assert sorted(found) == sorted([*range(100), *range(30, 50), *range(30, 50)])
    assert found[28:36] == [28, 29, 30, 31, 30, 32, 31, 30]  # at 300, 310, 312.5, 320, 322.5, 325 ms


def test_faults_are_applied_in_order_and_devices_are_unplugged():
    faults = [
        Offset(channels=["imu.wz"], by=1.0),
        Offset(channels=["imu.wz"], by=0.0, factor=2.0),
        Unplugged(devices=["imu"], begin=0.2, end=0.4),
        Unplugged(devices=["imu"], begin=0.9),
    ]
    line = play(LOG, faults)
    assert [values["imu.wz"] for values in decode(line)] == [2.0 * (k + 1) for k in range(100)]
    assert line.plugs == [("off", 20), ("on", 40), ("off", 90)]


def test_noise_is_reproducible_and_limited_to_its_window():
    noise = BadLine(device="imu", begin=0.2, end=0.8, garbage=0.3, dropped=0.3, flipped=0.3, seed=5)
    once, again, clean = play(LOG, [noise]).sent, play(LOG, [noise]).sent, play(LOG).sent
    assert once == again
    damaged = [k for k, (a, b) in enumerate(zip(once, clean, strict=True)) if a != b]
    assert 20 <= damaged[0] < damaged[-1] < 80
    assert len(damaged) > 30
    assert play(LOG, [noise]).sent != play(LOG, [BadLine(device="imu", begin=0.2, end=0.8, garbage=0.3)]).sent


def test_a_user_defined_fault_is_applied():
    class Swap:
        def apply(self, m, t):
            yield Measurement(m.source, m.t, m.arrival, m.values | {"imu.wz": -1.0})

    assert set(yaw_rates([Swap()])) == {-1.0}


def test_a_measurement_goes_to_the_device_that_it_names():
    one, two = Line(), Line()
    log = [
        Measurement("one", 0, 0, IMU),
        Measurement("log", MS, MS, IMU),
        Measurement("two", 2 * MS, 2 * MS, IMU),
    ]
    Player({"one": one, "two": two}, log).play(0, lambda _: True)
    assert (len(one.sent), len(two.sent)) == (2, 2)


def test_playback_can_be_ended_early():
    line, calls = Line(), iter(range(1000))
    player = Player({"imu": line}, LOG)
    player.play(0, lambda _: next(calls) < 10)
    assert len(line.sent) == 10
    assert not player.report().done


def test_laps_continue_time_and_wheel_angles():
    """From lap to lap, time and wheel angles continue; other channels repeat."""
    lap = [
        Measurement("imu", k * 100 * MS, k * 100 * MS, {"imu.wz": math.sin(k), "wheel.fl.angle": 0.5 * k})
        for k in range(10)
    ]
    found = list(Laps(lap, 1000 * MS, {"wheel.fl.angle": 5.0}, 2550 * MS))
    assert [m.t for m in found] == [k * 100 * MS for k in range(26)]
    assert all(b.values["wheel.fl.angle"] - a.values["wheel.fl.angle"] == 0.5 for a, b in pairwise(found))
    assert [m.values["imu.wz"] for m in found[10:20]] == [m.values["imu.wz"] for m in found[:10]]
    assert list(Laps(lap, 1000 * MS, {}, 450 * MS)) == lap[:5]


@pytest.mark.parametrize(
    ("sent", "ratio", "read"),
    [
        (bytes(range(256)), 1.0, bytes(range(256))),
        (bytes(range(256)), 1.03, bytes(range(256))),  # a port tolerates half a bit in ten
        (b"\xff", 0.1, b"\x00"),  # the start bit alone lasts a whole byte: a break
        (b"\xff", 0.5, b"\xfe"),  # the start bit reads as start bit and lowest bit
        (b"\xff", 0.25, b"\xf8"),
        (b"\x00", 10.0, b"\xff"),  # all bits within the port's start bit
        (b"\xff", 10.0, b""),  # over before the middle of the port's start bit
    ],
)
def test_bytes_at_another_baud_rate_are_read_as_the_port_samples_them(sent, ratio, read):
    assert read_at(sent, ratio) == read


def test_a_wrong_baud_rate_changes_the_bytes_of_a_device_in_its_time_window():
    fault = WrongBaud(device="imu", ratio=0.5, begin=0.2, end=0.8)
    clean = play(LOG).sent
    assert play(LOG, [fault]).sent == [
        read_at(message, 0.5) if 20 <= k < 80 else message for k, message in enumerate(clean)
    ]
    assert all(read_at(message, 0.5) != message for message in clean)
    assert play(LOG, [WrongBaud(device="imu", ratio=1.0)]).sent == clean
