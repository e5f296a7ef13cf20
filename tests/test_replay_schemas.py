"""Messages in JSON agree with their schemas."""

import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest

from vehicled.cli import main
from vehicled.messages import (
    CHANNELS,
    ESTIMATE_COLUMNS,
    LOAD_COLUMNS,
    CoordinateEstimate,
    Estimate,
    Innovation,
    Measurement,
    Parameters,
    ParticleEstimate,
    SlowState,
    Status,
)
from vehicled.schemas import (
    PUBLISHED,
    TOPIC_COLUMNS,
    TOPICS,
    ClockRecord,
    CommandRecord,
    ConfigurationRecord,
    StepRecord,
    decode_estimate,
    encode,
    encode_estimate,
    encode_innovation,
    encode_loads,
    encode_measurement,
    encode_points,
    json_schema,
    resolution_of,
    stamp,
    unit_of,
    viewer_schema,
)
from vehicled.viewer_messages import VIEWER_TOPICS

VALUES = np.arange(len(ESTIMATE_COLUMNS)) / 7
VALUES[3:6] = np.nan

MESSAGES: dict[str, bytes] = {
    **{topic: encode_estimate(topic, Estimate(5, VALUES)) for topic in TOPIC_COLUMNS},
    "points": encode_points(Estimate(5, VALUES, {"driver": VALUES[:10]})),
    "mechanism": encode(
        ParticleEstimate(
            5, {"theta": CoordinateEstimate("rad", *range(6))}, 1.0, 0.5, ["theta"], [[1.0, 0.0], [0.0, 1.0]]
        )
    ),
    "loads": encode_loads(Estimate(5, VALUES, None, np.arange(len(LOAD_COLUMNS)) / 7)),
    "innovation": encode_innovation(
        Innovation(1, 2, "imu.gyro", "imu", [1.0], [1.5], [-0.5], [4.0], 0.25, 0.1, True, "fused")
    ),
    "status": encode(Status(1, "running", {"queue": {"dropped": np.int32(2), "rates": np.ones(2)}})),
    "parameters": encode(Parameters.of(1, {"gyro_scale": SlowState(0.5, 0.1, "–")})),
    "measurement": encode_measurement(7, Measurement("imu", 1, 2, {"imu.ax": 1.0, "gnss.lat": -0.0})),
    "step": encode(StepRecord(5, 3, None)),
    "command": encode(CommandRecord(5, "reset", {})),
    "configuration": encode(ConfigurationRecord(5, "rate: 250 Hz")),
    "clock": encode(ClockRecord(5, 0)),
}


def fits(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is valid, by the part of JSON Schema that the schemas use."""
    if "anyOf" in schema:
        return any(fits(value, s) for s in schema["anyOf"])
    if "const" in schema:
        return value == schema["const"]
    if schema.get("type") == "object":
        fields = schema.get("properties", {})
        others = schema.get("additionalProperties", {})
        return (
            isinstance(value, dict)
            and all(name in value for name in schema.get("required", []))
            and all(fits(v, fields.get(name, others)) for name, v in value.items())
        )
    if schema.get("type") == "array":
        return isinstance(value, list) and all(fits(v, schema["items"]) for v in value)
    kinds: dict[str | None, Any] = {
        "number": (int, float),
        "integer": int,
        "string": str,
        "boolean": bool,
        "null": type(None),
        None: object,
    }
    return isinstance(value, kinds[schema.get("type")])


@pytest.mark.parametrize("topic", TOPICS)
def test_messages_agree_with_their_schema(topic: str) -> None:
    message = json.loads(stamp(MESSAGES[topic], 5) if topic in PUBLISHED else MESSAGES[topic])
    schema = json_schema(topic)
    assert message["schema"] == 1
    assert set(message) == set(schema["properties"]), "no field without a schema, none missing"
    assert fits(message, schema)
    assert not fits({**message, "schema": 2}, schema)
    assert not fits({k: v for k, v in message.items() if k not in ("t", "step")}, schema)


def test_the_three_topics_contain_every_column_once() -> None:
    columns = [c for topic in TOPIC_COLUMNS.values() for c in topic]
    assert sorted(columns) == sorted(ESTIMATE_COLUMNS)
    together = {k: v for topic in TOPIC_COLUMNS for k, v in json.loads(MESSAGES[topic]).items()}
    for column, value in zip(ESTIMATE_COLUMNS, VALUES.tolist(), strict=True):
        if np.isnan(value):
            assert together[column] is None
        else:
            assert together[column] == pytest.approx(value, rel=0, abs=0.5001 * resolution_of(column))
    assert together["t"] == 5


def test_the_position_has_the_correlation_of_x_and_y() -> None:
    unknown, known = (
        encode_estimate("position", Estimate(5, VALUES, **c)) for c in ({}, {"correlation": -0.5})
    )
    assert json.loads(unknown)["correlation.xy"] is None
    assert json.loads(known)["correlation.xy"] == -0.5
    assert decode_estimate("position", known)[1]["correlation.xy"] == -0.5
    assert json_schema("position")["properties"]["correlation.xy"]["unit"] == ""


def test_units_of_fields_are_published() -> None:
    assert unit_of("sigma.sideslip") == "rad"
    assert unit_of("slip.fl.ratio") == ""
    assert unit_of("suspension.rr.rate") == "m/s"
    assert unit_of("tyre.fl.fz") == "N"
    assert json_schema("slip")["properties"]["wheel.fl.speed"]["unit"] == "rad/s"
    assert all(unit_of(c) is not None for c in ESTIMATE_COLUMNS)


def test_measurements_are_exact() -> None:
    values = dict.fromkeys(CHANNELS, 0.1 + 0.2)
    back = msgspec.json.decode(encode_measurement(None, Measurement("all", 1, 2, values)))
    assert back["values"] == values
    assert back["step"] is None


@pytest.mark.parametrize("topic", [*TOPICS, *VIEWER_TOPICS])
def test_viewers_get_one_type_per_field_and_properties_in_every_object(topic: str) -> None:
    def check(schema: dict[str, Any]) -> None:
        assert schema["type"] in ("object", "array", "number", "integer", "string", "boolean")
        if schema["type"] == "object":
            for field in schema["properties"].values():
                check(field)
        if schema["type"] == "array":
            check(schema["items"])

    _, schema = viewer_schema(topic)
    check(schema)
    assert "$ref" not in json.dumps(schema)


def test_the_command_prints_one_schema_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "position"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("position")
    assert main(["schema"]) == 0
    assert set(json.loads(capsys.readouterr().out)) == set(TOPICS) >= set(PUBLISHED)
    assert main(["schema", "positon"]) == 2
    assert "expected one of position, slip" in capsys.readouterr().err


@pytest.mark.parametrize("field", ["value", "variance"])
def test_infinite_numbers_of_an_innovation_are_null_in_json(field: str) -> None:
    numbers = {"value": [1.0, 2.0], "variance": [1e-4, 1e-4], field: [1.0, math.inf]}
    innovation = Innovation(
        t=1,
        step=2,
        sensor="a%s",
        source="b",
        predicted=[1.0, 2.0],
        innovation=[0.0, 0.0],
        nis=1.0,
        test_ratio=0.1,
        fused=True,
        reason="fused",
        **numbers,
    )
    found = msgspec.json.decode(encode_innovation(innovation))
    assert found[field] == [1.0, None]
    assert found["sensor"] == "a%s"
    assert fits(json.loads(stamp(encode_innovation(innovation), 5)), json_schema("innovation"))


def test_an_observation_that_was_not_compared_with_the_estimate_agrees_with_the_schema() -> None:
    left_out = Innovation(1, 2, "gnss.speed", "gnss", [3.0], [], [], [], math.nan, math.nan, False, "too old")
    message = json.loads(stamp(encode_innovation(left_out), 5))
    assert message["nis"] is message["test_ratio"] is None
    assert fits(message, json_schema("innovation"))
