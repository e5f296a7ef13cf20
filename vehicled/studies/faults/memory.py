"""Memory shortage: the daemon shares a small control group with a program that takes all of it. Needs root."""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.errors import RunError

if TYPE_CHECKING:  # so that the program starts quickly
    from vehicled.rig.rig import Rig

_LIMIT = 32 << 20
"""For memory taken from then on; what the daemon had before counts for its former group."""
_TAKEN = 256 << 20
_PIECE = 1 << 20


def squeeze(rig: Rig, until: float) -> None:
    """Limit the memory, so that any memory for the daemon first has to be reclaimed from the other program.

    Raises RunError without a control group for memory.
    """
    with _small_group() as group:
        before = Path(f"/proc/{rig.daemon.pid}/cgroup").read_text()
        taker = multiprocessing.get_context("spawn").Process(target=_take, args=(group, until), daemon=True)
        taker.start()
        _join(group, rig.daemon.pid)
        taker.join()
        _join(_find_group(before)[0], rig.daemon.pid)


@contextlib.contextmanager
def _small_group() -> Iterator[Path]:
    own, limit = _find_group(Path("/proc/self/cgroup").read_text())
    # In version 2 of control groups, a group that has processes cannot have groups with limits below it.
    group = (own if limit == _FIRST_VERSION else own.parent) / f"vehicled-faults-{os.getpid()}"
    try:
        group.mkdir()
        try:
            (group / limit).write_text(str(_LIMIT))
            yield group
        finally:
            group.rmdir()
    except OSError as error:
        raise RunError(
            f"{group}: {error.strerror}; expected a control group for memory, and to be root"
        ) from None


_FIRST_VERSION, _SECOND_VERSION = "memory.limit_in_bytes", "memory.max"


def _find_group(processes: str) -> tuple[Path, str]:
    """The group of a process by its `/proc/PID/cgroup`, and the name of its limit."""
    paths = {
        controllers: path for _, controllers, path in (line.split(":", 2) for line in processes.splitlines())
    }
    if "memory" in paths:
        return Path(f"/sys/fs/cgroup/memory{paths['memory']}"), _FIRST_VERSION
    return Path(f"/sys/fs/cgroup{paths.get('', '')}"), _SECOND_VERSION


def _join(group: Path, pid: int) -> None:
    (group / "cgroup.procs").write_text(str(pid))


def _take(group: Path, until: float) -> None:
    """Take pages that the kernel may reclaim, again and again."""
    _join(group, os.getpid())
    with mmap.mmap(-1, _TAKEN, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        piece = b"x" * _PIECE
        while time.monotonic() < until:
            for begin in range(0, _TAKEN, _PIECE):
                memory[begin : begin + _PIECE] = piece
                memory.madvise(mmap.MADV_FREE, begin, _PIECE)
                time.sleep(0)
