"""Keeps the filter's parameters of the car in a file from one drive to the next; a failing disk blocks nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import msgspec
import yaml

from vehicled.errors import UsageError
from vehicled.messages import SlowState
from vehicled.requests import SetParameters, SlowBound
from vehicled.sources.sensors import find_kinds
from vehicled.trust.bounded_file import read_bounded

_log = logging.getLogger(__name__)

_VERSION = 1
_LARGEST = 1 << 20
"""Largest size of the file, bytes."""
_LONGEST_S = 365 * 86400.0
"""Parameters older than a year are not used."""
_UNKNOWN_AGE_S = 30 * 86400.0
"""Assumed age of a file from the future: the machine's clock is behind now, or was ahead then."""
_CLOCK_S = 60.0
"""Tolerated correction of a clock between two starts."""
_HEAD = re.compile(rb'\s*\{\s*"version"\s*:[^,"]*,\s*"configuration"')
"""Beginning of every such file, even if cut off or of another version."""
_WHERE = ("port", "baud", "pause", "interface", "channel", "bitrate", "dbc")
"""Options of devices that do not change what they measure, or when."""
_NOISE = [setting for kind in find_kinds().values() for setting in kind.NOISE]
"""Noise of sensors: `vehicled tune` changes it, and what was learned stays true."""
_UNUSABLE = (OSError, ValueError, UsageError, msgspec.DecodeError)
"""Errors of a file that cannot be used."""
_LOAD_WITHIN_S = 2.0
_END_WITHIN_S = 3.0


class _Learned(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    configuration: str
    """Hash of what the parameters belong to: vehicle, sensors without their noise, and how devices are read."""
    utc: float
    """Time of writing, s since 1970."""
    parameters: dict[str, SlowState]
    checksum: str = ""
    """Checksum of the fields above; empty in files of older versions."""

    def calc_checksum(self) -> str:
        """Correct value of `checksum`."""
        content = msgspec.json.encode([self.version, self.configuration, self.utc, self.parameters])
        return hashlib.sha256(content).hexdigest()[:16]


class LearnedFile:
    """Reads and writes the file. A file that cannot be used is ignored with a message, never an error."""

    def __init__(self, path: Path, configuration: str, bounds: Mapping[str, SlowBound] | None = None) -> None:
        """`configuration`: text (YAML) with vehicle, sensors and devices that the parameters belong to.

        `bounds`: by name, bounds of a parameter; others have none.
        """
        # If it is a link, the file that it leads to is replaced.
        self._path = path = path.resolve()
        self._bounds = bounds or {}
        self._old = path.with_name(path.name + ".old")
        self._failed = False
        """Whether the last attempt to save failed, which has then been logged."""
        sections = yaml.safe_load(configuration)
        self._older = _hash(_describe(sections))
        """The same in files of older versions, in which noise counted."""
        for setting in _NOISE:
            _remove(sections, setting.path)
        self._configuration = _hash(_describe(sections))

    def load(self) -> dict[str, Any] | None:
        """Arguments of the estimator's command `set_parameters`; None without a file that can be used.

        If the file cannot be used, as it is of another car, that which was moved aside may be of this one.
        """
        try:
            return self._read(self._path)
        except FileNotFoundError:
            return None
        except _UNUSABLE as error:
            why = error
        try:
            found = self._read(self._old)
        except _UNUSABLE:
            _log.warning("%s: what was learned before is not used: %s", self._path, why)
            return None
        _log.warning("%s: not used, but %s: %s", self._path, self._old.name, why)
        return found

    def _read(self, path: Path) -> dict[str, Any]:
        learned = msgspec.json.decode(read_bounded(path, _LARGEST), type=_Learned)
        self._check(learned)
        arguments = SetParameters(self._select(learned.parameters), self._calc_age(learned.utc))
        found: dict[str, Any] = msgspec.to_builtins(arguments)
        return found

    def _check(self, learned: _Learned) -> None:
        if learned.version != _VERSION:
            raise ValueError(f"version {learned.version}, expected {_VERSION}")
        if learned.configuration not in (self._configuration, self._older):
            raise ValueError("it belongs to another vehicle, to other sensors or to other options of devices")
        if learned.checksum and learned.checksum != learned.calc_checksum():
            raise ValueError("its checksum is not that of its content: it is damaged, or has been edited")
        if time.time() - learned.utc > _LONGEST_S:
            raise ValueError("older than a year")

    def _calc_age(self, utc: float) -> float:
        age = time.time() - utc
        if age < -_CLOCK_S:
            _log.warning(
                "%s: written %.0f s from now by the clock of this machine: its age counts as 30 days",
                self._path,
                -age,
            )
            return _UNKNOWN_AGE_S
        return max(age, 0.0)

    def _select(self, parameters: dict[str, SlowState]) -> dict[str, SlowState]:
        """Parameters within their bounds; the others are ignored, with one message."""
        faults = {
            name: fault
            for name, parameter in parameters.items()
            if name in self._bounds and (fault := self._bounds[name].find_fault(parameter)) is not None
        }
        if faults:
            listed = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
            _log.warning("%s: not used of what was learned before: %s", self._path, listed)
        return {name: parameter for name, parameter in parameters.items() if name not in faults}

    def _make_way(self) -> None:
        """Move a file of ours that is damaged or belongs to another car to NAME.old, so that it is not replaced.

        Raises UsageError for a file that is not ours, which stays as it is, and OSError.
        """
        try:
            content = read_bounded(self._path, _LARGEST)
        except FileNotFoundError:
            return
        if not content.strip(b"\0\n "):  # left by a power loss just after creation
            return
        if not _HEAD.match(content):
            raise UsageError("there is another file, not one of what was learned, and it stays as it is")
        try:
            self._check(msgspec.json.decode(content, type=_Learned))
            return
        except (ValueError, msgspec.DecodeError) as error:
            why = error
        old = self._old
        if old.exists() and not _HEAD.match(read_bounded(old, _LARGEST)):
            raise UsageError(f"{why}; it is not replaced, nor is {old.name}, which is another file")
        self._path.replace(old)
        _log.warning("%s: moved to %s: %s", self._path, old.name, why)

    def save(self, parameters: dict[str, SlowState]) -> None:
        """Replace the file as a whole, if any parameters are known. Only a file of ours is ever replaced."""
        if not parameters:
            return
        learned = _Learned(_VERSION, self._configuration, time.time(), parameters)
        learned.checksum = learned.calc_checksum()
        part = self._path.with_name(self._path.name + ".part")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._make_way()
            with part.open("wb") as file:
                file.write(msgspec.json.format(msgspec.json.encode(learned)))
                file.flush()
                os.fsync(file.fileno())
            part.replace(self._path)
        except (OSError, UsageError) as error:
            if not self._failed:
                _log.error("%s: what was learned is not kept: %s", self._path, error)
            self._failed = True
            return
        if self._failed:
            _log.warning("%s: what was learned is kept again", self._path)
        self._failed = False


def _describe(sections: dict[str, Any]) -> list[Any]:
    return [*(sections.get(name) for name in ("vehicle", "sensors")), _describe_devices(sections)]


def _remove(sections: Any, path: Sequence[str | int]) -> None:
    """Remove the setting at a path of keys, if it is there."""
    *parents, key = path
    for parent in parents:
        sections = sections.get(parent)
        if not isinstance(sections, dict):
            return
    sections.pop(key, None)


def _describe_devices(sections: dict[str, Any]) -> list[str]:
    """Driver and options of each device, without its name and where it is connected."""
    devices = (sections.get("daemon") or {}).get("devices") or {}
    return sorted(
        json.dumps(
            [
                d["driver"],
                {key: value for key, value in (d.get("options") or {}).items() if key not in _WHERE},
            ],
            sort_keys=True,
            default=str,
        )
        for d in devices.values()
    )


def _hash(described: object) -> str:
    return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()[:16]


class LearnedKeeper:
    """Loads the file, then saves to it, in a thread of its own, so that a disk that hangs blocks nothing else."""

    def __init__(self, path: Path, configuration: str, bounds: Mapping[str, SlowBound] | None = None) -> None:
        """Takes the arguments of `LearnedFile`. Starts to load."""
        self._path = path
        self._file = LearnedFile(path, configuration, bounds)
        self._loaded: Future[dict[str, Any] | None] = Future()
        self._queue: SimpleQueue[dict[str, SlowState] | None] = SimpleQueue()
        self._late = False
        """Whether the disk hangs, which has then been logged."""
        self._thread = threading.Thread(target=self._run, name="learned", daemon=True)
        self._thread.start()

    def load(self) -> dict[str, Any] | None:
        """As `LearnedFile.load`; None, with a message, if the disk does not respond within two seconds."""
        try:
            return self._loaded.result(_LOAD_WITHIN_S)
        except TimeoutError:
            _log.warning("%s: what was learned before is not used: the disk does not respond", self._path)
            return None

    def save(self, parameters: dict[str, SlowState]) -> None:
        """Save parameters, unless earlier ones still wait for the disk."""
        if not self._queue.qsize():
            self._late = False
            self._queue.put(parameters)
        elif not self._late:
            self._late = True
            _log.error("%s: what was learned is not kept: the disk does not respond", self._path)

    def close(self) -> None:
        """End when everything is saved; does not wait for a disk that hangs."""
        self._queue.put(None)
        self._thread.join(_END_WITHIN_S)
        if self._thread.is_alive():
            _log.error("%s: what was learned at last is not kept: the disk does not respond", self._path)

    def _run(self) -> None:
        self._loaded.set_result(self._file.load())
        while (parameters := self._queue.get()) is not None:
            self._file.save(parameters)
