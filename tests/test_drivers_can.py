"""CAN signals decoded and encoded with a DBC file, and checks of the driver's options."""

import math
from pathlib import Path

import can
import pytest

from drivers.can import CanDecoder, CanOptions, CanSignal
from replay.encoders import CanEncoder
from replay.foreign.mapping import LogMapping
from vehicled.daemon.daemon import DaemonOptions, make_driver
from vehicled.errors import SettingsError, UsageError
from vehicled.messages import WHEELS, Measurement
from vehicled.reading.settings import config_path, loads

DBC = Path(__file__).parent.parent / "config" / "prototype.dbc"


def hall(wheel, roll_over=65536, pulses=96, scale=1.0):
    return CanSignal(
        message="WheelHall",
        signal=f"Hall{wheel}",
        roll_over=roll_over,
        pulses_per_revolution=pulses,
        scale=scale,
    )


SIGNALS = {
    **{f"wheel.{w}.angle": hall(w.upper()) for w in WHEELS},
    **{
        f"wheel.{w}.speed": CanSignal(message="WheelSpeed", signal=f"Speed{w.upper()}")
        for w in ("fl", "fr", "rl", "rr")
    },
    "steer.wheel": CanSignal(message="Steering", signal="SteeringWheelAngle"),
    "steer.rack": CanSignal(message="Steering", signal="RackPosition"),
    "steer.fl": CanSignal(message="Steering", signal="RoadWheelAngleFL"),
    "steer.fr": CanSignal(message="Steering", signal="RoadWheelAngleFR"),
    "brake.pressure": CanSignal(message="Brake", signal="BrakePressure"),
    "torque.rl": CanSignal(message="WheelTorque", signal="TorqueRL"),
    "torque.rr": CanSignal(message="WheelTorque", signal="TorqueRR"),
    "vehicle.speed": CanSignal(message="Vehicle", signal="VehicleSpeed"),
}


def options(signals=SIGNALS, **others):
    return CanOptions(dbc=DBC, signals=signals, **others)


def frame(number, data, **kind):
    return can.Message(arbitration_id=number, data=bytes.fromhex(data), is_extended_id=False, **kind)


def test_the_age_of_a_frame_is_subtracted_from_its_time_of_measurement():
    decoder = CanDecoder("car", options())
    (m,) = decoder.feed(frame(0x130, "1027"), 1_000_000_000, age_ns=7_000_000)
    assert (m.t, m.arrival) == (993_000_000, 1_000_000_000)


def test_round_trip_of_every_signal_of_the_prototype():
    values = {
        **{"wheel.fl.angle": 10 * 2 * math.pi / 96, "wheel.fr.angle": 0.0, "wheel.rl.angle": 100 * math.pi},
        **{"wheel.rr.angle": 4000 * math.pi / 48, "wheel.fl.speed": 63.21, "wheel.fr.speed": -63.21},
        **{"wheel.rl.speed": 0.0, "wheel.rr.speed": 319.99, "steer.wheel": -9.1, "steer.rack": -0.0432},
        **{"steer.fl": 0.3, "steer.fr": -0.3, "brake.pressure": 85.5e5, "torque.rl": -1234.4},
        **{"torque.rr": 6400.0, "vehicle.speed": -3.7},
    }
    resolution = {
        "steer.wheel": 5e-4,
        "steer.rack": 3e-6,
        "steer.fl": 2e-5,
        "steer.fr": 2e-5,
        "vehicle.speed": 2e-3,
    }
    decoder, encoder = CanDecoder("can", options(latency=0.002)), CanEncoder(options())
    out = [m for f in encoder.encode(Measurement("s", 0, 0, values)) for m in decoder.feed(f, 10**9)]
    assert len(out) == 6
    assert all(m == Measurement("can", 998_000_000, 10**9, m.values) for m in out)
    got = {k: v for m in out for k, v in m.values.items()}
    assert set(got) == set(values)
    for channel, value in values.items():
        assert got[channel] == pytest.approx(value, abs=resolution.get(channel, 1e-9)), channel


def test_raw_bytes_are_decoded_as_the_database_defines():
    decoder = CanDecoder("can", options())
    (m,) = decoder.feed(frame(0x120, "2003 18fc 3a2c c6d3"), 0)  # 40 deg; -5 mm; +-22.644 deg
    assert m.values == pytest.approx(
        {
            "steer.wheel": math.radians(40),
            "steer.rack": -0.005,
            "steer.fl": math.radians(22.644),
            "steer.fr": math.radians(-22.644),
        }
    )
    (m,) = decoder.feed(frame(0x130, "1027"), 0)
    assert m.values == {"brake.pressure": pytest.approx(50e5)}


def test_a_counter_that_rolls_over_is_unwrapped_both_ways():
    decoder = CanDecoder("can", options({"wheel.rl.angle": hall("RL")}))
    counts = [65530, 65535, 4, 40, 1, 65533, 65000]
    angles = []
    for c in counts:
        (m,) = decoder.feed(frame(0x100, "00000000" + c.to_bytes(2, "little").hex() + "0000"), 0)
        angles.append(m.values["wheel.rl.angle"])
    pulse = 2 * math.pi / 96
    assert angles == pytest.approx([pulse * c for c in (65530, 65535, 65540, 65576, 65537, 65533, 65000)])


def test_a_counter_may_have_another_range_and_a_negative_scale():
    signal = hall("FL", roll_over=100, pulses=50, scale=-1.0)
    decoder = CanDecoder("can", options({"wheel.fl.angle": signal}))
    got = [
        m.values["wheel.fl.angle"] / (2 * math.pi)
        for c in (90, 10, 45, 100, 20)
        for m in decoder.feed(frame(0x100, bytes((c,)).hex() + "00" * 7), 0)
    ]
    assert got == pytest.approx([-1.8, -2.2, -2.9, -2.4])
    assert decoder.counters["out_of_range"] == 1  # 100 is no value of this counter


@pytest.mark.parametrize(
    ("number", "data", "left", "dropped"),
    [
        (0x120, "0080 0000 0000 0000", {"steer.rack", "steer.fl", "steer.fr"}, 1),
        (0x120, "0080 0080 0080 0080", set(), 4),
        (0x130, "ffff", set(), 1),
        (0x150, "0080", set(), 1),
    ],
)
def test_values_outside_the_databases_range_are_dropped_and_counted(number, data, left, dropped):
    decoder = CanDecoder("can", options())
    out = decoder.feed(frame(number, data), 0)
    assert {c for m in out for c in m.values} == left
    assert decoder.counters["out_of_range"] == dropped


def test_a_signal_that_leaves_its_range_is_named_once(caplog):
    decoder = CanDecoder("can", options())
    for _ in range(3):
        decoder.feed(frame(0x130, "ffff"), 0)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("can: brake.pressure (signal BrakePressure) is 327.675: expected ")
    assert line.endswith("by the DBC file; such values are ignored")


def test_foreign_and_faulty_frames_are_counted():
    decoder = CanDecoder("can", options())
    assert decoder.feed(frame(0x7FF, "00"), 0) == []
    assert decoder.feed(can.Message(arbitration_id=0x100, is_extended_id=True, data=bytes(8)), 0) == []
    assert decoder.feed(frame(0x100, "", is_remote_frame=True), 0) == []
    assert decoder.feed(frame(0x100, "0000"), 0) == []
    assert decoder.feed(frame(0x04, "", is_error_frame=True), 0) == []
    assert decoder.feed(frame(0x40, "", is_error_frame=True), 0) == []
    c = decoder.counters
    assert (c["other_frames"], c["truncated"], c["error_frames"], c["bus_off"]) == (3, 1, 2, 1)
    assert c["messages"] == c["measurements"] == 0


@pytest.mark.parametrize(
    ("signal", "message"),
    [
        (CanSignal(message="Wheel", signal="x"), "no message 'Wheel'.*expected one of WheelHall, WheelSpeed"),
        (CanSignal(message="Brake", signal="x"), "no signal 'x' in Brake: expected one of BrakePressure"),
        (
            CanSignal(message="Steering", signal="RackPosition"),
            "expected a unit like Pa, such as bar, got 'mm'",
        ),
        (
            CanSignal(message="Brake", signal="BrakePressure", unit="psi"),
            "expected a unit like Pa, such as bar, got 'psi'",
        ),
    ],
)
def test_a_wrong_signal_is_refused_with_the_expected_ones(signal, message):
    with pytest.raises(UsageError, match=f"signals.brake.pressure: .*{message}"):
        CanDecoder("can", options({"brake.pressure": signal}))


@pytest.mark.parametrize(
    ("old", "new", "line", "key"),
    [
        ("SpeedFL", "SpeedXX", 6, "signals.wheel.fl.speed"),
        ("VehicleSpeed}", "Speed}", 7, "signals.vehicle.speed"),
        ("prototype.dbc", "nothing.dbc", 4, "dbc"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_the_line_of_its_key(old, new, line, key):
    text = """\
devices:
  car:
    driver: can
    options: {dbc: prototype.dbc,
      signals: {
        wheel.fl.speed: {message: WheelSpeed, signal: SpeedFL},
        vehicle.speed: {message: Vehicle, signal: VehicleSpeed}}}
"""
    devices = loads(
        text.replace(old, new), DaemonOptions, "my_car.yaml", config_path("prototype").parent
    ).devices
    with pytest.raises(SettingsError, match=rf"^my_car\.yaml:{line}: devices\.car\.options\.{key}: "):
        make_driver("car", devices["car"], print)


def test_wheel_speeds_may_be_circumferential_speeds():
    """Many control units send wheel speeds in km/h. Here, 100 km/h with a radius of 0.31 m is encoded and decoded."""
    signal = CanSignal(message="Vehicle", signal="VehicleSpeed", unit="km/h", radius=0.31)
    expected = 100 / 3.6 / 0.31
    sent = Measurement("car", 0, 0, {"wheel.fl.speed": expected})
    (frame,) = CanEncoder(options({"wheel.fl.speed": signal})).encode(sent)
    (received,) = CanDecoder("car", options({"wheel.fl.speed": signal})).feed(frame, 0)
    assert received.values["wheel.fl.speed"] == pytest.approx(expected, abs=0.01 / 3.6 / 0.31)
    without = CanSignal(message="Vehicle", signal="VehicleSpeed", unit="km/h")
    with pytest.raises(
        UsageError, match=r"a unit like rad/s, such as deg/s, or a speed with a radius, got 'km/h'"
    ):
        CanDecoder("car", options({"wheel.fl.speed": without}))


def test_a_missing_or_invalid_dbc_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"x\.dbc: cannot be read: No such file"):
        CanDecoder("can", CanOptions(dbc=tmp_path / "x.dbc", signals={}))
    (tmp_path / "y.dbc").write_text("hello")
    with pytest.raises(UsageError, match=r"y\.dbc: expected a DBC file"):
        CanDecoder("can", CanOptions(dbc=tmp_path / "y.dbc", signals={}))


def test_signals_of_two_messages_with_one_identifier_are_refused(tmp_path):
    """A DBC file of two buses may have such messages. The second's signals would be looked up in the first one."""
    dbc = tmp_path / "two.dbc"
    dbc.write_text(
        'VERSION ""\nBS_:\nBU_: A\n'
        'BO_ 100 Slow: 8 A\n SG_ Speed : 0|16@1+ (0.1,0) [0|0] "m/s" A\n'
        'BO_ 100 Fast: 8 A\n SG_ Rate : 16|16@1+ (0.1,0) [0|0] "rad/s" A\n'
    )
    speed, rate = CanSignal(message="Slow", signal="Speed"), CanSignal(message="Fast", signal="Rate")
    with pytest.raises(UsageError, match=r"Fast has the same identifier, 0x64, as Slow of vehicle\.speed"):
        CanDecoder("can", CanOptions(dbc=dbc, signals={"vehicle.speed": speed, "wheel.fl.speed": rate}))
    frame = can.Message(arbitration_id=100, is_extended_id=False, data=bytes([1, 0, 20, 0, 0, 0, 0, 0]))
    (m,) = CanDecoder("can", CanOptions(dbc=dbc, signals={"wheel.fl.speed": rate})).feed(frame, 0)
    assert m.values == {"wheel.fl.speed": 2.0}


def test_the_options_are_read_from_settings_as_the_docstring_shows():
    text = "dbc: prototype.dbc\nlatency: 2 ms\n"
    text += "signals:\n  steer.fl: {message: Steering, signal: RoadWheelAngleFL}\n"
    read = loads(text, CanOptions)
    assert read.latency == 0.002
    assert read.signals["steer.fl"] == CanSignal(message="Steering", signal="RoadWheelAngleFL")
    with pytest.raises(UsageError, match="unknown channel"):
        loads(text.replace("steer.fl", "steer.left"), CanOptions)
    with pytest.raises(UsageError, match="roll_over and pulses_per_revolution together"):
        loads(text.replace("FL}", "FL, roll_over: 100}"), CanOptions)


@pytest.mark.parametrize(("radius", "fits"), [("318.4 mm", True), ("318.4 m", False), ("3 mm", False)])
def test_a_radius_must_be_plausible_for_a_wheel(radius, fits):
    """Before, a radius in m instead of mm was accepted, and speeds were a thousand times too small."""
    signal = f"{{message: Vehicle, signal: VehicleSpeed, radius: {radius}}}"
    text = f"dbc: prototype.dbc\nsignals: {{wheel.fl.speed: {signal}}}\n"
    mapping = f"channels: {{wheel.fl.speed: {{signal: v, unit: km/h, radius: {radius}}}}}\n"
    for given, kind in ((text, CanOptions), (mapping, LogMapping)):
        if fits:
            loads(given, kind)
            continue
        with pytest.raises(UsageError, match=r"speed\.radius: expected at least 0\.1 m and at most 2 m"):
            loads(given, kind)


def test_an_offset_has_the_dimension_of_its_channel():
    text = "dbc: prototype.dbc\nsignals:\n  {}: {{message: Steering, signal: RackPosition, offset: {}}}\n"
    for channel, offset, expected in (
        ("steer.wheel", "90 deg", math.pi / 2),
        ("steer.wheel", "1.5", 1.5),
        ("brake.pressure", "2 bar", 2e5),
        ("gnss.lat", "0.5", 0.5),
    ):
        assert loads(text.format(channel, offset), CanOptions).signals[channel].offset == pytest.approx(
            expected
        )
    with pytest.raises(
        UsageError, match=r"offset: expected a length .*, as it is of steer\.rack, got '2 deg'"
    ):
        loads(text.format("steer.rack", "2 deg"), CanOptions)


def test_accelerations_may_be_sent_in_g():
    signal = CanSignal(message="Vehicle", signal="VehicleSpeed", unit="g")
    (frame,) = CanEncoder(options({"imu.ax": signal})).encode(
        Measurement("car", 0, 0, {"imu.ax": 2 * 9.80665})
    )
    assert frame.data[:2] in ((200).to_bytes(2, "little"), (200).to_bytes(2, "big"))
    (received,) = CanDecoder("car", options({"imu.ax": signal})).feed(frame, 0)
    assert received.values["imu.ax"] == pytest.approx(2 * 9.80665)


@pytest.mark.parametrize(
    ("last", "most"), [(254, "25.4"), (1023, "102.3"), (4094, "409.4"), (32767, "3276.7")]
)
def test_values_at_the_limits_of_a_signal_are_accepted(tmp_path, last, most):
    """In binary floating point, 0.1 × 254 is slightly more than the limit of 25.4."""
    dbc = tmp_path / "x.dbc"
    dbc.write_text(
        f'VERSION ""\nBU_: X\nBO_ 304 Brake: 2 X\n SG_ Pressure : 0|16@1- (0.1,0) [-{most}|{most}] "bar" X\n'
    )
    signals = {"brake.pressure": CanSignal(message="Brake", signal="Pressure")}
    decoder = CanDecoder("can", CanOptions(dbc=dbc, signals=signals))

    def read(raw):
        data = raw.to_bytes(2, "little", signed=True).hex()
        return [m.values["brake.pressure"] / 1e5 for m in decoder.feed(frame(304, data), 0)]

    for raw in (last, -last):
        assert read(raw) == pytest.approx([raw / 10])
    assert decoder.counters["out_of_range"] == 0
    for beyond in {min(last + 1, 32767), max(-last - 1, -32768)} - {last}:
        assert read(beyond) == []
