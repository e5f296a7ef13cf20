"""Results over ZeroMQ as PlotJuggler reads them: two frames, JSON, time in seconds, and numbers to plot."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
import zmq
from publisher_rig import circling, publishing, status

from vehicled.messages import REASONS, STATES, Innovation


def flatten(topic: str, value: Any) -> dict[str, float]:
    """PlotJuggler's series: numbers and flags, named by their path. Text cannot be plotted."""
    if isinstance(value, dict):
        return {k: v for key, inner in value.items() for k, v in flatten(f"{topic}/{key}", inner).items()}
    if isinstance(value, list):
        return {k: v for i, inner in enumerate(value) for k, v in flatten(f"{topic}[{i}]", inner).items()}
    return {topic: float(value)} if isinstance(value, bool | int | float) else {}


def observe(sensor: str, t: int, reason: str = "fused") -> Innovation:
    numbers = [[], []] if reason == "no fix" else [[0.1], [0.01]]
    nis = float("nan") if reason == "no fix" else 1.0
    fused = reason == "fused"
    return Innovation(t, t, sensor, "imu", [0.2], numbers[0], numbers[0], numbers[1], nis, nis, fused, reason)


@pytest.fixture
def series(tmp_path: Path) -> dict[str, dict[str, float]]:
    """The last message of each topic to which PlotJuggler would subscribe, flattened."""
    found: dict[str, dict[str, float]] = {}
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with publishing(f"ipc://{tmp_path}/results") as publisher:
        socket = context.socket(zmq.SUB)
        for topic in ("position", "slip", "status", "innovation.imu.gyro", "innovation.gnss"):
            socket.subscribe(topic)
        socket.connect(publisher.endpoint)
        deadline = time.monotonic() + 20
        t = 0
        while len(found) < 5:
            assert time.monotonic() < deadline, found.keys()
            t += 4_000_000
            records = [
                observe("imu.gyro", t),
                observe("imu.accel", t),
                observe("gnss.position", t, "no fix"),
                observe("gnss.speed", t, "gate"),
            ]
            publisher.publish_step(circling(t * 1e-9), records)
            publisher.publish_status(status(t))
            while socket.poll(20):
                frames = socket.recv_multipart()
                assert len(frames) == 2
                topic = frames[0].decode()
                found[topic] = flatten(topic, json.loads(frames[1]))
                if topic == "innovation.gnss.position":
                    found.setdefault("innovation.gnss.speed", {})
    context.destroy(linger=0)
    return found


def test_there_is_a_topic_for_each_source(series: dict[str, dict[str, float]]) -> None:
    kinds = {topic for topic in series if topic.startswith("innovation.")}
    assert kinds == {"innovation.imu.gyro", "innovation.gnss.position", "innovation.gnss.speed"}
    assert series["innovation.imu.gyro"]["innovation.imu.gyro/nis"] == 1.0
    assert series["innovation.imu.gyro"]["innovation.imu.gyro/innovation[0]"] == 0.1


def test_timestamps_are_in_seconds_of_utc(series: dict[str, dict[str, float]]) -> None:
    for topic, values in series.items():
        if values:
            assert abs(values[f"{topic}/timestamp"] - time.time() + time.monotonic()) < 1e4


def test_texts_have_a_numeric_code(series: dict[str, dict[str, float]]) -> None:
    assert STATES[int(series["status"]["status/state_code"])] == "degraded"
    code = series["innovation.gnss.position"]["innovation.gnss.position/reason_code"]
    assert REASONS[int(code)] == "no fix"
    assert series["innovation.gnss.position"]["innovation.gnss.position/fused"] == 0.0


def test_estimates_are_series_with_names(series: dict[str, dict[str, float]]) -> None:
    assert series["position"]["position/vx"] == 10.0
    assert series["slip"]["slip/tyre.fl.fz"] == 3500.0
