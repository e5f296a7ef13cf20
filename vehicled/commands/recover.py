"""`vehicled recover`: repairs recordings that were cut off by power loss."""

import argparse
import sys
from pathlib import Path

from replay.mcap_recovery import recover
from vehicled.errors import RunError, UsageError, VehicledError

HELP = "Repair recordings that power loss or a full disk has cut off, in place: any reader then opens them."


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled recover`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
The daemon does the same by itself with those in its folder.

example:
  vehicled recover 20261122T101500Z.mcap"""
    parser.add_argument(
        "recordings", metavar="RECORDING", type=Path, nargs="+", help="MCAP file of this program"
    )


def run(args: argparse.Namespace) -> int:
    """Repair each file, also after a failure; returns the exit status."""
    status = 0
    for path in args.recordings:
        try:
            print(_repair(path))
        except VehicledError as error:
            print(f"vehicled: {error}", file=sys.stderr)
            status = max(status, error.exit_status)
        except OSError as error:
            print(f"vehicled: {path}: {error.strerror or error}", file=sys.stderr)
            status = max(status, 1)
    return status


def _repair(path: Path) -> str:
    """Repair a file; returns a line of what was done. Raises UsageError, RunError and OSError."""
    try:
        recovered = recover(path, check_all=True)
    except (FileNotFoundError, IsADirectoryError) as error:
        raise UsageError(f"{path}: {error.strerror}; expected a recording (.mcap)") from None
    except BlockingIOError:
        raise RunError(f"{path}: is being written; expected a recording that has ended") from None
    if recovered is None:
        return f"{path}: complete, not changed"
    line = f"{path}: {recovered.messages:,} messages; {recovered.removed:,} incomplete bytes removed"
    return line + f"; {recovered.unreadable} damaged chunks left out of the index" * bool(
        recovered.unreadable
    )
