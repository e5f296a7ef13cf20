"""Reads the noise settings of a configuration again, in a process of its own.

Parsing YAML takes tens of milliseconds, for which Python's interpreter blocks all other threads, including
the estimator's. A separate process also keeps the daemon running whatever the file contains.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec

from vehicled.errors import RunError, UsageError, VehicledError

_log = logging.getLogger(__name__)

_WITHIN_S = 10.0
_PROGRAM = f"""
import os, sys
os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
from {__name__} import main
sys.exit(main(sys.argv[1]))
"""
"""The process inherits the daemon's real-time priority, and gives it up before the imports: otherwise the
threads that read sensors would have to wait for them."""
_TAKEN = ("sensors", "filter")
_MOST_NAMED = 8
"""Most settings that a log line names."""


def read_noise(name_or_path: str, running: str) -> dict[str, Any]:
    """Read arguments of the command `reload_noise` from a file or the shipped configuration of that name.

    Logs other differences from `running`, the text of the configuration that the daemon was started with, and
    whether a start with the file would fail now. Raises UsageError for a bad configuration, RunError if it
    cannot be read within ten seconds.
    """
    command = [sys.executable, "-P", "-c", _PROGRAM, name_or_path]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        done = subprocess.run(
            command, env=environment, input=running.encode(), capture_output=True, timeout=_WITHIN_S
        )
    except subprocess.TimeoutExpired:
        raise RunError(f"{name_or_path}: not read within {_WITHIN_S:g} s") from None
    if done.returncode == 0:
        for line in done.stderr.decode(errors="replace").splitlines():
            _log.warning("%s: %s", name_or_path, line)
        arguments: dict[str, Any] = msgspec.json.decode(done.stdout)
        return arguments
    lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
    if done.returncode == UsageError.exit_status:
        raise UsageError(lines[-1])
    raise RunError(f"{name_or_path}: cannot be read: {lines[-1]}")


def main(name_or_path: str) -> int:
    """Main function of the process: writes arguments to stdout as JSON, or one line to stderr; returns its status.

    Reads the text of the running configuration from stdin.
    """
    import yaml

    from vehicled.configuration import load_configuration
    from vehicled.daemon.configuration import check_daemon_configuration

    try:
        configuration = load_configuration(name_or_path)
        arguments = configuration.noise_arguments()
    except VehicledError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    changed = list(find_changed(yaml.safe_load(sys.stdin.buffer.read()), yaml.safe_load(configuration.text)))
    if changed:
        named = ", ".join(changed[:_MOST_NAMED]) + ", …" * (len(changed) > _MOST_NAMED)
        print(f"changed, but not taken before a restart: {named}", file=sys.stderr)
    try:
        check_daemon_configuration(name_or_path)
    except VehicledError as error:
        print(f"a restart would fail: {error}", file=sys.stderr)
    sys.stdout.buffer.write(msgspec.json.encode(arguments))
    return 0


def find_changed(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Keys of settings that differ and take effect only at a restart."""
    if path in _TAKEN:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            yield from find_changed(old.get(key), new.get(key), f"{path}.{key}" if path else str(key))
    elif old != new:
        yield path
