"""`vehicled recover`: recordings that power loss has cut off, made whole."""

import argparse
from pathlib import Path

from replay.mcap_recovery import recover
from vehicled.errors import RunError, UsageError

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
    """Repair each file; returns the exit status. Raises UsageError, RunError and OSError."""
    for path in args.recordings:
        try:
            recovered = recover(path)
        except (FileNotFoundError, IsADirectoryError) as error:
            raise UsageError(f"{path}: {error.strerror}; expected a recording (.mcap)") from None
        except BlockingIOError:
            raise RunError(f"{path}: is being written; expected a recording that has ended") from None
        if recovered is None:
            print(f"{path}: complete, not changed")
        else:
            print(f"{path}: {recovered.messages:,} messages; {recovered.removed:,} incomplete bytes removed")
    return 0
