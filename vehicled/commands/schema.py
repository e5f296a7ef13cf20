"""`vehicled schema`: the JSON Schemas of the messages, for subscribers in any language."""

import argparse
import json
from textwrap import fill

from vehicled.errors import UsageError
from vehicled.schemas import PUBLISHED, TOPICS, json_schema

HELP = "print the JSON Schemas of the published messages"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled schema`."""
    parser.description = fill(
        "Prints the JSON Schema (2020-12) of one topic, or one JSON object with those of all topics. "
        f"Published over ZeroMQ: {', '.join(PUBLISHED)}; recordings also have the others. "
        "Every number's SI unit is in its 'unit'.",
        90,
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
examples:
  vehicled schema                          all of them: {"position": {...}, "slip": {...}, ...}
  vehicled schema position > position.json"""
    parser.add_argument("topic", metavar="TOPIC", nargs="?", help=f"one of {', '.join(TOPICS)}")


def run(args: argparse.Namespace) -> int:
    """Print one schema or all; returns the exit status. Raises UsageError for an unknown topic."""
    if args.topic is not None and args.topic not in TOPICS:
        raise UsageError(f"schema: unknown topic {args.topic!r}; expected one of {', '.join(TOPICS)}")
    schema = json_schema(args.topic) if args.topic else {topic: json_schema(topic) for topic in TOPICS}
    print(json.dumps(schema, indent=2, ensure_ascii=False))
    return 0
