"""A small separate disk for the recordings, which can become full and can hang. Needs root, as it is mounted."""

import contextlib
import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from vehicled.errors import RunError
from vehicled.rig.rig import Rig
from vehicled.studies.faults.disturbances import sleep_until

_SIZE = 64 << 20
_FILLER = "filler"
_CHUNK = 1 << 20
_FREEZE, _THAW = 0xC0045877, 0xC0045878
"""FIFREEZE and FITHAW of <linux/fs.h>: between the two, a process that writes waits in the kernel."""


@contextlib.contextmanager
def own_disk(folder: Path, full: bool = False) -> Iterator[None]:
    """A file system of 64 MiB at `folder`, which is created. Raises RunError if that is not possible."""
    folder.mkdir()
    image = folder.with_suffix(".image")
    with open(image, "wb") as file:
        file.truncate(_SIZE)
    _run("mkfs.ext4", "-q", "-m", "0", str(image))
    _run("mount", "-o", "loop", str(image), str(folder))
    try:
        if full:
            _fill(folder)
        yield
    finally:
        _run("umount", str(folder))


def fill(rig: Rig, until: float) -> None:
    """Leave no free space until a time."""
    _fill(_recordings(rig))
    free(rig, until)


def free(rig: Rig, until: float) -> None:
    """Fill the disk, and free it at a time."""
    sleep_until(until)
    (_recordings(rig) / _FILLER).unlink()


def hang(rig: Rig, until: float) -> None:
    """Freeze the disk until a time: writes wait in the kernel, whatever the signal, as on a network file system."""
    descriptor = os.open(_recordings(rig), os.O_RDONLY)
    try:
        fcntl.ioctl(descriptor, _FREEZE, 0)
        try:
            sleep_until(until)
        finally:
            fcntl.ioctl(descriptor, _THAW, 0)
    finally:
        os.close(descriptor)


def _recordings(rig: Rig) -> Path:
    options = rig.configuration.daemon.record
    assert options is not None  # see `write_configuration`
    return options.directory


def _fill(folder: Path) -> None:
    with open(folder / _FILLER, "wb", buffering=0) as file:
        for size in (_CHUNK, 4096, 1):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise RunError(f"{command[0]}: not found") from None
    if done.returncode:
        raise RunError(f"{command[0]}: {done.stderr.strip()}; expected to be root")
