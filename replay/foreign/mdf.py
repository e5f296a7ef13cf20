"""ASAM MDF 3 and 4 (`.mf4`, `.mdf`, `.dat`), read by asammdf."""

import contextlib
import gc
import heapq
import io
import logging
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from replay.foreign.extras import one_line, require
from replay.foreign.mapped_log import SignalRecord
from replay.foreign.mapping import LogMapping, map_own_names
from replay.problems import Problems
from replay.times import LONGEST_S
from vehicled.errors import UsageError

SUFFIXES = (".mf4", ".mdf")
MARKS = (b"MDF     ", b"UnFinMF ")
"""First bytes of such a file; the second are those of a file whose program was killed."""

_FRAGMENT = 1 << 20
"""Bytes of a group that are read at once."""


class MdfSignals:
    """The channels of a measurement file. Groups are read in fragments: memory does not grow with the file.

    A channel's name is that of the file, or `GROUP:NAME` with the number of its group where several have the name.
    """

    has_clock = True

    def __init__(self, path: Path) -> None:
        """Reads the blocks that describe the file. UsageError if that fails."""
        self.path = path
        self.problems = Problems(path.name)
        self._library = require("asammdf", "mdf", path)
        with self._open() as mdf:
            self._places, self._units = _find_channels(mdf)
        if not self._places:
            raise UsageError(f"{path}: no channel in it; expected a measurement file with signals")

    @contextlib.contextmanager
    def _open(self) -> Iterator[Any]:
        fault = None
        with _silence():
            try:
                mdf = self._library.MDF(self.path, process_bus_logging=False)
            except OSError:
                raise
            except Exception as error:  # on damage, of all kinds
                fault = one_line(error)
            if fault is not None:
                gc.collect()  # a partly opened file has reference cycles
        if fault is not None:
            raise UsageError(f"{self.path}: cannot be read as MDF: {fault}")
        try:
            mdf.configure(read_fragment_size=_FRAGMENT)
            yield mdf
        finally:
            mdf.close()

    @property
    def units(self) -> Mapping[str, str]:
        """Units of all channels, as written in the file."""
        return self._units

    def find_mapping(self) -> LogMapping:
        """The channels of this program that it has under their own names."""
        return map_own_names(self._units)

    def records(self, wanted: Collection[str]) -> Iterator[SignalRecord]:
        """One per sample of a group, in order of time, ns since the file's start."""
        groups: dict[int, list[tuple[str, int]]] = {}
        for name in wanted:
            group, index = self._places[name]
            groups.setdefault(group, []).append((name, index))
        with self._open() as mdf:
            streams = [self._read_group(mdf, group, channels) for group, channels in groups.items()]
            yield from heapq.merge(*streams, key=lambda record: record.t)

    def _read_group(self, mdf: Any, group: int, channels: list[tuple[str, int]]) -> Iterator[SignalRecord]:
        names = [name for name, _ in channels]
        done = 0
        try:
            # Each stream yields the same fragments of the group's records, for one channel.
            streams = [mdf.iter_get(group=group, index=index) for _, index in channels]
            fragments = zip(*streams, strict=True)
            while True:
                with _silence():
                    parts = next(fragments, None)
                if parts is None:
                    return
                times = _find_times(parts)
                good = np.abs(times) <= LONGEST_S
                if not good.all():
                    self.problems.add("bad time", f"group {group}", "", int((~good).sum()))
                columns = [_align(part, times) for part in parts]
                ns = np.rint(np.where(good, times, 0.0) * 1e9).astype(np.int64)
                for t, use, *values in zip(ns.tolist(), good.tolist(), *columns, strict=True):
                    if use:
                        yield SignalRecord(t, t, dict(zip(names, values, strict=True)))
                done += len(times)
        except GeneratorExit:
            raise
        except Exception as error:  # on damage, of all kinds
            self.problems.add("unreadable", f"group {group} after sample {done}", one_line(error))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Hide the library's output from the user: timings, and tracebacks of exceptions that it has caught.

    Its finaliser fails for a file that it could not open, which Python would also print.
    """
    before, sys.unraisablehook = sys.unraisablehook, lambda _: None
    logger = logging.getLogger("asammdf")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        sys.unraisablehook, logger.disabled = before, was_disabled


def _find_times(parts: Sequence[Any]) -> np.ndarray:
    """(n,) s, of the records in which any channel is valid: the library leaves out samples that are marked as not."""
    each = [np.asarray(part.timestamps, dtype=float) for part in parts]
    if all(len(times) == len(each[0]) for times in each):
        return each[0]
    return np.unique(np.concatenate(each))


def _align(part: Any, times: np.ndarray) -> list[float]:
    """The samples (n,) of a channel at these times, NaN where it has none or they are no numbers."""
    samples = np.asarray(part.samples)
    values = np.full(len(times), np.nan)
    if samples.dtype.kind in "fiub" and samples.ndim == 1:
        there = slice(None) if len(samples) == len(times) else np.searchsorted(times, part.timestamps)
        values[there] = samples
    found: list[float] = values.tolist()
    return found


def _find_channels(mdf: Any) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
    """(group, index) and unit of every channel that is not the time of its group, by name."""
    places: dict[str, tuple[int, int]] = {}
    units: dict[str, str] = {}
    for name, entries in mdf.channels_db.items():
        found = [(g, i) for g, i in entries if mdf.masters_db.get(g) != i]
        for group, index in found:
            unique = name if len(found) == 1 else f"{group}:{name}"
            places[unique] = group, index
            units[unique] = _unit(mdf, group, index)
    return places, units


def _unit(mdf: Any, group: int, index: int) -> str:
    try:
        unit = mdf.get_channel_unit(group=group, index=index)
    except Exception:  # a damaged text block: the mapping can give the unit
        return ""
    return str(unit or "").strip().strip("\0")
