"""Messages for Foxglove: they follow its published schemas and show the estimate, live and in recordings."""

import json
import socket
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zmq
from google.protobuf import json_format
from mcap.reader import make_reader

from replay.mcap_recovery import recover
from replay.mcap_writer import McapWriter
from vehicled.cli import main
from vehicled.configuration import load_configuration
from vehicled.daemon.recording_file import Contents, RecordingFile, RecordRates, StepItem
from vehicled.foxglove.scene import Scene, turn
from vehicled.live.subscriber import Publication
from vehicled.messages import ESTIMATE_COLUMNS, ESTIMATE_INDEX, WHEELS, Estimate, Innovation
from vehicled.schemas import TOPIC_COLUMNS, encode_estimate
from vehicled.viewer_messages import VIEWER_TOPICS

UTC = 1_700_000_000_123_456_789


@pytest.fixture(scope="module")
def scene() -> Scene:
    return Scene(load_configuration("prototype").vehicle)


def make_estimate(t: int = 0, **values: float) -> Estimate:
    """An estimate at rest, except for these columns, whose names have `_` for dots."""
    array = np.zeros(len(ESTIMATE_COLUMNS))
    for name, value in values.items():
        array[ESTIMATE_INDEX[name.replace("_", ".")]] = value
    return Estimate(t, array)


MOVING = {"x": 12.0, "y": -3.0, "z": 0.5, "lat": 43.3, "lon": -8.4, "alt": 101.0, "yaw": 0.7, "vx": 20.0}
MOVING |= {f"tyre_{w}_f{a}": f for w in WHEELS for a, f in (("x", 400.0), ("y", -900.0), ("z", 3500.0))}


def draw(scene: Scene, estimate: Estimate) -> dict[str, Any]:
    return {topic: json.loads(data) for topic, data in scene.draw(estimate, UTC)}


def as_protobuf(value: Any) -> Any:
    """JSON with Foxglove's times in the form of protobuf's JSON."""
    if isinstance(value, dict):
        if value.keys() == {"sec", "nsec"}:
            return f"{value['sec']}.{value['nsec']:09d}s"
        return {k: as_protobuf(v) for k, v in value.items()}
    return [as_protobuf(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("topic", VIEWER_TOPICS)
def test_messages_have_the_fields_and_types_of_the_published_schema(scene: Scene, topic: str) -> None:
    name = VIEWER_TOPICS[topic].__name__
    published = getattr(import_module(f"foxglove_schemas_protobuf.{name}_pb2"), name)
    text = json.dumps(as_protobuf(draw(scene, make_estimate(**MOVING))[topic]))
    # Protobuf's JSON has a time as text, and only a duration as seconds.
    text = text.replace(
        '"timestamp": "1700000000.123456789s"', '"timestamp": "2023-11-14T22:13:20.123456789Z"'
    )
    json_format.Parse(text, published())  # refuses unknown fields and wrong types


def rotate(q: dict[str, float]) -> np.ndarray:
    """(3, 3) of a quaternion."""
    v, w = np.array([q["x"], q["y"], q["z"]]), q["w"]
    cross = np.array([[0, -v[2], v[1]], [v[2], 0, -v[0]], [-v[1], v[0], 0]])
    return np.eye(3) + 2 * w * cross + 2 * cross @ cross


def test_the_rotation_of_the_car_frame_is_the_attitude(scene: Scene) -> None:
    roll, pitch, yaw = 0.1, -0.2, 2.5
    (cr, cp, cy), (sr, sp, sy) = ([f(a) for a in (roll, pitch, yaw)] for f in (np.cos, np.sin))
    about_z, about_y = (
        np.array([[cy, -sy, 0], [sy, cy, 0], [0, 0, 1]]),
        np.array([[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]]),
    )
    about_x = np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    drawn = draw(scene, make_estimate(roll=roll, pitch=pitch, yaw=yaw))["transforms"]["transforms"][0]
    assert rotate(drawn["rotation"]) == pytest.approx(about_z @ about_y @ about_x, abs=1e-5)


@pytest.mark.parametrize("ahead", [20.0, -5.0])
def test_a_wheel_points_where_it_rolls_less_its_slip_angle(scene: Scene, ahead: float) -> None:
    # The car turns about a point on the line of the rear axle: rear wheels are straight, front wheels have Ackermann
    # angles.
    vehicle = load_configuration("prototype").vehicle
    rear = vehicle.rear.hard_points.wheel_center[0] - vehicle.center_of_mass()[0]
    wz = 0.3
    drawn = draw(scene, make_estimate(vx=ahead, vy=-rear * wz, wz=wz, slip_fl_angle=0.02))
    angles = {}
    for transform in drawn["transforms"]["transforms"][1:]:
        q = transform["rotation"]
        angles[transform["child_frame_id"]] = 2 * np.arctan2(q["z"], q["w"])
    assert angles["wheel.rl"] == pytest.approx(0.0, abs=1e-5)
    assert angles["wheel.rr"] == pytest.approx(0.0, abs=1e-5)
    track = 2 * vehicle.front.hard_points.wheel_center[1]
    radius = ahead / wz
    assert angles["wheel.fr"] == pytest.approx(np.arctan(vehicle.wheelbase / (radius + track / 2)), abs=1e-4)
    assert angles["wheel.fl"] == pytest.approx(
        np.arctan(vehicle.wheelbase / (radius - track / 2)) - 0.02, abs=1e-4
    )


def test_arrows_have_the_direction_and_length_of_the_forces(scene: Scene) -> None:
    entities = draw(scene, make_estimate(tyre_fl_fx=-2000.0, tyre_fl_fy=1000.0, tyre_fl_fz=4000.0))["scene"][
        "entities"
    ]
    (front_left,) = [e for e in entities if e["id"] == "forces.fl"]
    found = [
        (a["shaft_length"] + a["head_length"]) * rotate(a["pose"]["orientation"])[:, 0]
        for a in front_left["arrows"]
    ]
    total = np.sum(found, axis=0)
    assert total == pytest.approx(np.array([-2000.0, 1000.0, 4000.0]) / 4000.0, abs=2e-3)
    assert next(e for e in entities if e["id"] == "forces.rr")["arrows"] == []


def test_without_a_geodetic_position_there_is_no_location(scene: Scene) -> None:
    assert "location" not in draw(scene, make_estimate(lat=np.nan, lon=np.nan, alt=np.nan))


def record(path: Path, scene: Scene, seconds: float, **rates: Any) -> RecordingFile:
    contents = Contents(RecordRates(**rates), scene)
    recording = RecordingFile(McapWriter(path), "rate: 250 Hz\n", 0, UTC, contents)
    for k in range(round(seconds * 250)):
        t = k * 4_000_000
        innovation = Innovation(
            t, t, "imu.gyro", "imu", [0.1], [0.2], [-0.1], [0.01], 1.0, 0.01, True, "fused"
        )
        recording.write(StepItem(k + 1, t, [], make_estimate(t, **MOVING), [innovation], None))
    return recording


def test_topics_are_recorded_at_their_rates_and_every_step_is_recorded(tmp_path: Path, scene: Scene) -> None:
    record(
        tmp_path / "a.mcap", scene, 2.0, position=None, slip=50.0, suspension=0.0, innovation=25.0
    ).writer.close()
    with open(tmp_path / "a.mcap", "rb") as file:
        reader = make_reader(file)
        summary = reader.get_summary()
        assert summary is not None
        counts = summary.statistics.channel_message_counts  # type: ignore[union-attr]
        by_topic = {c.topic: counts.get(i, 0) for i, c in summary.channels.items()}
    assert by_topic["/position"] == by_topic["/step"] == 500
    assert (by_topic["/slip"], by_topic["/suspension"], by_topic["/innovation"]) == (100, 0, 50)
    assert by_topic["/scene"] == by_topic["/location"] == by_topic["/transforms"] == 20


def test_a_repaired_recording_keeps_configuration_and_metadata(tmp_path: Path, scene: Scene) -> None:
    path = tmp_path / "a.mcap"
    recording = record(path, scene, 1.0)
    recording.writer.end_chunk()
    data = path.read_bytes()
    recording.writer.close()
    path.write_bytes(data[:-200])
    assert recover(path) is not None
    with open(path, "rb") as file:
        reader = make_reader(file)
        (attachment,), (metadata,) = list(reader.iter_attachments()), list(reader.iter_metadata())
    assert (attachment.name, attachment.data) == ("configuration.yaml", b"rate: 250 Hz\n")
    assert metadata.metadata["schema"] == "1"


def test_the_layout_shows_only_topics_and_fields_of_recordings(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["foxglove", "--layout"]) == 0
    layout = capsys.readouterr().out
    panels = json.loads(layout)["configById"]
    paths = [p["value"] for panel in panels.values() for p in panel.get("paths", ())]
    assert paths
    for path in paths:
        topic, _, field = path.lstrip("/").partition(".")
        if topic in TOPIC_COLUMNS:
            assert field.strip('"').replace('\\"', "") in TOPIC_COLUMNS[topic]
        else:
            assert topic.startswith("innovation{sensor==")


def test_a_viewer_receives_the_scene_of_a_running_daemon(scene: Scene) -> None:
    pytest.importorskip("foxglove")
    websockets = pytest.importorskip("websockets.sync.client")
    from vehicled.live.foxglove_server import FoxgloveServer

    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    publisher = context.socket(zmq.PUB)
    port = publisher.bind_to_random_port("tcp://127.0.0.1")
    done = threading.Event()
    with FoxgloveServer(Publication(f"tcp://127.0.0.1:{port}"), scene, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.run, args=(done.is_set,))
        thread.start()
        try:
            with websockets.connect(
                f"ws://127.0.0.1:{server.port}", subprotocols=["foxglove.sdk.v1"]
            ) as viewer:
                channels = {}
                while len(channels) < len(VIEWER_TOPICS):
                    message = viewer.recv(timeout=10)
                    if isinstance(message, str) and json.loads(message)["op"] == "advertise":
                        channels |= {
                            c["topic"]: c
                            for c in json.loads(message)["channels"]
                            if c["topic"][1:] in VIEWER_TOPICS
                        }
                assert channels["/scene"]["schemaName"] == "foxglove.SceneUpdate"
                asked = [{"id": 1, "channelId": channels["/scene"]["id"]}]
                viewer.send(json.dumps({"op": "subscribe", "subscriptions": asked}))
                for k in range(500):
                    estimate = make_estimate(k * 40_000_000, **MOVING)
                    publisher.send_multipart([b"position", b"damaged"])
                    publisher.send(b"position")
                    publisher.send_multipart([b"slip\xff", b"{}"])
                    for topic in TOPIC_COLUMNS:
                        publisher.send_multipart([topic.encode(), encode_estimate(topic, estimate)])
                    try:
                        message = viewer.recv(timeout=0.05)
                    except TimeoutError:
                        continue
                    if isinstance(message, bytes) and message[0] == 1:
                        drawn = json.loads(message[13:])
                        break
                assert {e["id"] for e in drawn["entities"]} >= {f"forces.{w}" for w in WHEELS}
        finally:
            done.set()
            thread.join()
            context.destroy(linger=0)


def test_an_address_beyond_the_loopback_is_refused_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["foxglove", "--config", "prototype", "--host", "0.0.0.0"]) == 2
    assert "loopback" in capsys.readouterr().err


def test_an_address_beyond_the_loopback_is_served_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("foxglove")
    from vehicled.live.foxglove_server import FoxgloveServer

    served = []

    def connect(server: FoxgloveServer) -> None:
        # Another address of this machine, which a server at 127.0.0.1 does not have.
        socket.create_connection(("127.0.0.2", server.port), timeout=10).close()
        served.append(server.port)

    monkeypatch.setattr(FoxgloveServer, "run", connect)
    public = ["--host", "0.0.0.0", "--port", "0", "--insecure-public-bind"]
    assert main(["foxglove", "--config", "prototype", *public]) == 0
    assert f"is served at ws://0.0.0.0:{served[0]};" in capsys.readouterr().out


def test_without_the_live_extra_the_error_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "foxglove", None)
    assert main(["foxglove", "--config", "prototype"]) == 2
    assert "pip install 'vehicled[live]'" in capsys.readouterr().err


def test_a_rotation_by_zero_angles_is_the_identity() -> None:
    q = turn(0.0, 0.0, 0.0)
    assert (q.x, q.y, q.z, q.w) == (0.0, 0.0, 0.0, 1.0)
