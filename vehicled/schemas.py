"""The messages as JSON: contents of every topic, its JSON Schema, and fast encoders.

Publisher and recorder send the same bytes, but for the time of day, which a recording has once for all. Every message
starts with `schema`, the schema version. Times are integer nanoseconds of the host's monotonic clock. A value that is
not known is null, never 0 or NaN.
"""

import math
import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Annotated, Any

import msgspec
import numpy as np

from vehicled.messages import (
    CHANNELS,
    CORRELATION,
    ESTIMATE_COLUMNS,
    ESTIMATE_INDEX,
    LOAD_COLUMNS,
    OTHER_REASON,
    POINT_QUANTITIES,
    REASONS,
    SCHEMA_VERSION,
    Estimate,
    Innovation,
    Measurement,
    Parameters,
    ParticleEstimate,
    Status,
)
from vehicled.viewer_messages import VIEWER_TOPICS


class MeasurementRecord(msgspec.Struct, gc=False):
    """One sample of one device: when measured, when arrived, and its channels."""

    step: int | None
    """Time of the filter step that consumed it, ns; null in a log that no filter has seen."""
    source: str
    t: int
    arrival: int
    values: dict[str, float | None]


class StepRecord(msgspec.Struct, gc=False):
    """One filter step: it took place, with this many measurements, and took this long."""

    t: int
    measurements: int
    duration: int | None = None
    """Processing time, ns; null in a replay, whose records are the same bytes every time."""


class CommandRecord(msgspec.Struct):
    """A command from outside that was executed before this step: it changed the filter, or marks a moment."""

    step: int
    name: str
    arguments: dict[str, Any]


class ConfigurationRecord(msgspec.Struct):
    """The text of the program's configuration file."""

    t: int
    text: str


class ClockRecord(msgspec.Struct):
    """One instant on both clocks: the monotonic one that everything is stamped with, and the time of day."""

    t: int
    """Host monotonic clock, ns."""
    utc: int
    """Time since 1970-01-01 UTC, ns; 0 if the log has no time of day."""


def unit_of(column: str) -> str:
    """SI unit of a column of the estimates table or of LOAD_COLUMNS, `""` for a ratio."""
    last = column.rsplit(".", 1)[-1]
    if column.startswith("slip."):
        return {"angle": "rad", "ratio": ""}[last]
    if column.startswith("suspension."):
        return {"deflection": "m", "rate": "m/s", "force": "N"}[last]
    return _UNITS[last]


_UNITS = {
    **dict.fromkeys(("x", "y", "z", "alt"), "m"),
    "xy": "",
    **dict.fromkeys(("lat", "lon"), "deg"),
    **dict.fromkeys(("roll", "pitch", "yaw", "sideslip", "angle"), "rad"),
    **dict.fromkeys(("vx", "vy", "vz"), "m/s"),
    **dict.fromkeys(("wx", "wy", "wz", "speed"), "rad/s"),
    **dict.fromkeys(("ax", "ay", "az"), "m/s²"),
    **dict.fromkeys(("fx", "fy", "fz", "force"), "N"),
    **dict.fromkeys(("mx", "my", "mz", "torque"), "N·m"),
}

_ESTIMATE_TOPICS = {
    "position": "Pose, velocities, accelerations and sideslip of the vehicle origin, or of `output.point` of the "
    "configuration; standard deviations, and the correlation of the errors of x and y.",
    "slip": "Per wheel: slip angle and ratio, tyre forces, rotation.",
    "suspension": "Per wheel: deflection, its rate and the force along the suspension.",
}


def topic_of(column: str) -> str:
    """The topic that contains a column of the estimates table."""
    head = column.split(".", 1)[0]
    if head in ("slip", "tyre", "wheel"):
        return "slip"
    return "suspension" if head == "suspension" else "position"


TOPIC_COLUMNS: dict[str, tuple[str, ...]] = {
    topic: tuple(c for c in ESTIMATE_COLUMNS if topic_of(c) == topic) for topic in _ESTIMATE_TOPICS
}
"""Columns of the estimates table in the topics `position`, `slip` and `suspension`, in order."""


_PLACE = "position"
"""The topic that has the correlation in addition to its columns."""
ROW_COLUMNS = {
    **TOPIC_COLUMNS,
    _PLACE: (*TOPIC_COLUMNS[_PLACE], CORRELATION),
    "loads": LOAD_COLUMNS,
}
"""Fields of all topics whose messages are a row of a table."""


def _column_struct(name: str, columns: Iterable[str], meaning: str) -> type[msgspec.Struct]:
    fields: list[Any] = [("schema", int), ("t", int)]
    for column in columns:
        unit = msgspec.Meta(extra_json_schema={"unit": unit_of(column)})
        fields.append((column.replace(".", "_"), Annotated[float | None, unit], msgspec.field(name=column)))
    return msgspec.defstruct(name, fields, namespace={"__doc__": meaning}, gc=False)


_DIGITS = {"m": 6, "deg": 11, "rad": 8, "m/s": 6, "rad/s": 7, "m/s²": 6, "N": 2, "N·m": 2, "": 8}
"""Decimals of an estimate in a message, by unit: far more than its accuracy, and half as long as all digits."""


def resolution_of(column: str) -> float:
    """Resolution to which a column of the estimates table is rounded in messages, in its unit."""
    return float(10.0 ** -_DIGITS[unit_of(column)])


_ESTIMATE_STRUCTS = {
    topic: _column_struct(topic.capitalize(), ROW_COLUMNS[topic], _ESTIMATE_TOPICS[topic])
    for topic in TOPIC_COLUMNS
}
Loads = _column_struct(
    "Loads",
    LOAD_COLUMNS,
    "Per wheel, in vehicle axes: forces of ball joints, wheel bearing and tie rod on the knuckle, of hinges on the "
    "wishbones; parts of the strut's force.",
)
_ESTIMATE_INDICES = {
    topic: np.array([ESTIMATE_INDEX[c] for c in columns]) for topic, columns in TOPIC_COLUMNS.items()
}

_LOAD_STEPS = np.array([10.0 ** _DIGITS[unit_of(c)] for c in LOAD_COLUMNS])
_POINT_STEPS = np.array([10.0 ** _DIGITS[unit_of(q)] for q in POINT_QUANTITIES])
_STEPS = {
    topic: np.array([10.0 ** _DIGITS[unit_of(c)] for c in columns])
    for topic, columns in TOPIC_COLUMNS.items()
}

PointMotion = msgspec.defstruct(
    "PointMotion",
    [
        (q, Annotated[float | None, msgspec.Meta(extra_json_schema={"unit": unit_of(q)})])
        for q in POINT_QUANTITIES
    ],
    namespace={"__doc__": "Position in the world; velocity and acceleration in vehicle axes; sideslip."},
    gc=False,
)


class Points(msgspec.Struct, gc=False):
    """Motion of `output.points` of the configuration, by name."""

    schema: int
    t: int
    points: dict[str, PointMotion]  # type: ignore[valid-type]


_TYPES: dict[str, type[msgspec.Struct]] = {
    **_ESTIMATE_STRUCTS,
    "points": Points,
    "loads": Loads,
    "mechanism": ParticleEstimate,
    "innovation": Innovation,
    "status": Status,
    "parameters": Parameters,
    "measurement": MeasurementRecord,
    "step": StepRecord,
    "command": CommandRecord,
    "configuration": ConfigurationRecord,
    "clock": ClockRecord,
}

PUBLISHED = (*TOPIC_COLUMNS, "points", "loads", "mechanism", "status", "parameters", "command", "innovation")
"""The topics of the ZeroMQ socket. A recording has all of `TOPICS`."""

TOPICS = tuple(_TYPES)


def _plain(value: object) -> object:
    """Convert NumPy values in a message to plain ones."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError


_encode: Callable[[object], bytes] = msgspec.json.Encoder(enc_hook=_plain).encode
_VERSION = b'{"schema":%d,' % SCHEMA_VERSION


def encode(message: msgspec.Struct) -> bytes:
    """Any message except the estimate of a car as UTF-8 JSON, starting with the schema version."""
    return _VERSION + _encode(message)[1:]


def encode_estimate(topic: str, estimate: Estimate) -> bytes:
    """The columns of `topic` (a key of `TOPIC_COLUMNS`) of an estimate, as UTF-8 JSON."""
    steps = _STEPS[topic]
    values: list[float] = (np.rint(estimate.values[_ESTIMATE_INDICES[topic]] * steps) / steps).tolist()
    if topic == _PLACE:
        values.append(round(estimate.correlation, _DIGITS[""]))
    return _encode(_ESTIMATE_STRUCTS[topic](SCHEMA_VERSION, estimate.t, *values))


_Nanoseconds = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
ROW_TYPES: dict[str, type[msgspec.Struct]] = {
    topic: msgspec.defstruct(
        f"{topic.capitalize()}Row",
        [("t", _Nanoseconds)]
        + [
            (f"c{k}", float | None, msgspec.field(name=column, default=None))
            for k, column in enumerate(columns)
        ],
        gc=False,
    )
    for topic, columns in ROW_COLUMNS.items()
}
"""Type of a topic's messages when read: time (ns), and the columns `ROW_COLUMNS`, None if missing."""
_ROW_DECODERS: dict[str, Callable[[bytes], Any]] = {
    topic: msgspec.json.Decoder(kind).decode for topic, kind in ROW_TYPES.items()
}


def decode_row(topic: str, message: bytes) -> tuple[Any, ...]:
    """Time (int, ns) and the columns `ROW_COLUMNS[topic]` (float or None), from a message of `topic`.

    A column that the message does not have is None. Raises msgspec.DecodeError or UnicodeDecodeError (ValueErrors).
    """
    if not message.isascii():
        message.decode()  # refuses damaged names of fields, which the decoder would ignore
    return msgspec.structs.astuple(_ROW_DECODERS[topic](message))


def decode_estimate(topic: str, message: bytes) -> tuple[int, dict[str, float | None]]:
    """Time (ns) and columns by their names; `decode_row` is several times faster."""
    t, *values = decode_row(topic, message)
    return t, dict(zip(ROW_COLUMNS[topic], values, strict=True))


def encode_points(estimate: Estimate) -> bytes:
    """The further points of an estimate that has them, as UTF-8 JSON."""
    points = {
        name: PointMotion(*(np.rint(values * _POINT_STEPS) / _POINT_STEPS).tolist())
        for name, values in (estimate.points or {}).items()
    }
    return _encode(Points(SCHEMA_VERSION, estimate.t, points))


def encode_loads(estimate: Estimate) -> bytes:
    """The forces in the joints of an estimate that has them, as UTF-8 JSON."""
    assert estimate.loads is not None
    values = np.rint(estimate.loads * _LOAD_STEPS) / _LOAD_STEPS
    return _encode(Loads(SCHEMA_VERSION, estimate.t, *values.tolist()))


def encode_innovation(innovation: Innovation) -> bytes:
    """An innovation record as UTF-8 JSON, with its numbers rounded to their useful digits."""
    i, m = innovation, len(innovation.innovation)
    numbers = *i.value, *i.predicted, *i.innovation, *i.variance, i.nis, i.test_ratio
    if m and math.isfinite(sum(numbers)):
        names = i.t, i.step, _encode(i.sensor), _encode(i.source)
        return _write_template(m) % (*names, *numbers, _encode(i.fused), _encode(i.reason), _find_code(i))
    return b'%b%b,"reason_code":%d}' % (_VERSION, _encode(innovation)[1:-1], _find_code(i))


def _find_code(innovation: Innovation) -> int:
    reason = innovation.reason
    return REASONS.index(reason) if reason in REASONS else OTHER_REASON


@cache
def _write_template(m: int) -> bytes:
    """Format of an innovation with m components; several times faster than rounding for an encoder."""
    lists = [
        b'"%b":[%b]' % (name, b",".join([digits] * m))
        for name, digits in (
            (b"value", b"%.9g"),
            (b"predicted", b"%.9g"),
            (b"innovation", b"%.6g"),
            (b"variance", b"%.5g"),
        )
    ]
    begin = _VERSION + b'"t":%d,"step":%d,"sensor":%b,"source":%b,'
    return begin + b",".join(
        [*lists, b'"nis":%.5g,"test_ratio":%.5g,"fused":%b,"reason":%b,"reason_code":%d}']
    )


def stamp(message: bytes, utc_ns: int) -> bytes:
    """An encoded message as published: with `timestamp`, the time of day of its `t`, s since 1970 UTC."""
    return b'%b"timestamp":%d.%06d,%b' % (
        _VERSION,
        utc_ns // 1_000_000_000,
        utc_ns % 1_000_000_000 // 1000,
        message[len(_VERSION) :],
    )


def encode_measurement(step: int | None, measurement: Measurement) -> bytes:
    """A measurement as UTF-8 JSON, with the time (ns) of the step that used it, if any."""
    if step is None:
        return b'%b"step":null,%b' % (_VERSION, _encode(measurement)[1:])
    return b'%b"step":%d,%b' % (_VERSION, step, _encode(measurement)[1:])


def _inline(schema: Any, definitions: dict[str, Any]) -> Any:
    """A schema with its references replaced by the referenced schemas."""
    if isinstance(schema, dict):
        schema = definitions[schema["$ref"]] if "$ref" in schema else schema
        return {key: _inline(value, definitions) for key, value in schema.items()}
    return [_inline(item, definitions) for item in schema] if isinstance(schema, list) else schema


def _schema_of(kind: type[msgspec.Struct]) -> Any:
    (reference,), definitions = msgspec.json.schema_components((kind,), ref_template="{name}")
    return _inline(definitions[reference["$ref"]], definitions)


def json_schema(topic: str) -> dict[str, Any]:
    """JSON Schema (2020-12) of the messages of `topic`; for published topics, of the messages as published."""
    schema = _recorded_schema(topic)
    if topic in PUBLISHED:
        meaning = "Time of day of `t` (of `step` in commands), s since 1970 UTC"
        stamp = {"timestamp": {"type": "number", "unit": "s", "description": meaning}}
        version = {"schema": schema["properties"]["schema"]}
        schema["properties"] = version | stamp | schema["properties"]
        schema["required"] = ["schema", "timestamp", *schema["required"][1:]]
    return schema


_NULLABLE: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "null"}]}
"""Schema of a number that may not be known; to be copied, as `_simplify` changes schemas."""


def _recorded_schema(topic: str) -> dict[str, Any]:
    schema = _schema_of(_TYPES[topic])
    version = {"type": "integer", "const": SCHEMA_VERSION, "description": "Version of this schema"}
    schema["properties"] = {"schema": version} | {
        name: field for name, field in schema["properties"].items() if name != "schema"
    }
    schema["required"] = ["schema", *(name for name in schema["required"] if name != "schema")]
    if topic == "innovation":
        code = {"type": "integer", "description": "Number of the reason; docs/formats.md has all"}
        schema["properties"]["reason_code"] = code
        schema["required"].append("reason_code")
        schema["properties"] |= {name: dict(_NULLABLE) for name in ("nis", "test_ratio")}
        for name in ("value", "predicted", "innovation", "variance"):
            schema["properties"][name]["items"] = dict(_NULLABLE)
    if topic == "measurement":
        schema["properties"]["values"]["properties"] = {
            channel: {**_NULLABLE, "unit": unit} for channel, unit in CHANNELS.items()
        }
    schema["description"] = re.sub(r"\s+", " ", schema.get("description", "")).strip()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def viewer_schema(topic: str) -> tuple[str, dict[str, Any]]:
    """Name and schema of a topic in recordings, `TOPICS` or `VIEWER_TOPICS`.

    Robotics viewers support one type per field, and need properties in objects.
    """
    if topic in VIEWER_TOPICS:
        return f"foxglove.{VIEWER_TOPICS[topic].__name__}", _schema_of(VIEWER_TOPICS[topic])
    return f"vehicled.{topic}", _simplify(_recorded_schema(topic))


def _simplify(schema: Any) -> Any:
    for alternative in schema.pop("anyOf", []):
        if alternative["type"] != "null":
            schema |= alternative
    if "enum" in schema:
        schema = {"type": "string"}
    if schema.get("type") == "array":
        schema["items"] = _simplify(schema["items"])
    if schema.get("type") == "object":
        schema.pop("additionalProperties", None)
        fields = schema.get("properties", {})
        schema["properties"] = {name: _simplify(field) for name, field in fields.items()}
    return schema
