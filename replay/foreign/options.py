"""The option `--mapping` of all commands that read logs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replay.foreign.mapping import LogMapping


def add_mapping_argument(parser: argparse.ArgumentParser, logs: str = "the log") -> None:
    """Declare `--mapping`, for `logs` in words."""
    parser.add_argument(
        "--mapping",
        type=Path,
        metavar="FILE",
        help=f"YAML file that maps signals of {logs} to channels (docs/mapping.md)",
    )


def read_mapping(args: argparse.Namespace) -> LogMapping | None:
    """What that file has; None where it is left out. Raises SettingsError."""
    from replay.foreign.mapping import load_mapping

    return None if args.mapping is None else load_mapping(args.mapping)
