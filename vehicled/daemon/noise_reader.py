"""Reads the noise settings of a configuration again, in a process of its own.

To parse YAML takes tens of milliseconds, during which Python's interpreter serves no other thread, the estimator's
included; and whatever the file has become by now, the daemon goes on.
"""

import os
import subprocess
import sys
from typing import Any

import msgspec

from vehicled.errors import RunError, UsageError, VehicledError

_WITHIN_S = 10.0


def read_noise(name_or_path: str) -> dict[str, Any]:
    """Arguments of the estimator's command `reload_noise`, from a file or the shipped configuration of that name.

    Raises UsageError for a bad configuration, RunError if it cannot be read within ten seconds.
    """
    command = [sys.executable, "-P", "-m", __name__, name_or_path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{name_or_path}: not read within {_WITHIN_S:g} s") from None
    if done.returncode == 0:
        arguments: dict[str, Any] = msgspec.json.decode(done.stdout)
        return arguments
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
    if done.returncode == UsageError.exit_status:
        raise UsageError(lines[-1])
    raise RunError(f"{name_or_path}: cannot be read: {lines[-1]}")


def main(name_or_path: str) -> int:
    """The process: writes the arguments to stdout as JSON, or one line to stderr; returns the exit status."""
    # The daemon's scheduling is inherited, and would let this go before other programs.
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    from vehicled.configuration import load_configuration

    try:
        arguments = load_configuration(name_or_path).noise_arguments()
    except VehicledError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    sys.stdout.buffer.write(msgspec.json.encode(arguments))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
