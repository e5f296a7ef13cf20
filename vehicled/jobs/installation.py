"""What results depend on in addition to a job: this program, its dependencies, and the processor."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from vehicled.reading import settings
from vehicled.symbolic.machine import target_description
from vehicled.version import __version__

_PACKAGES = ("numpy", "scipy", "llvmlite", "msgspec")


class Installation(NamedTuple):
    """One installation."""

    versions: tuple[tuple[str, str], ...]
    """Versions by name: this program, its code, Python, libraries."""
    processor: str

    def find_difference(self, worker: Installation) -> str:
        """Names of different versions on a worker, in one line; empty if there are none."""
        theirs = dict(worker.versions)
        differing = [(name, v, theirs[name]) for name, v in self.versions if theirs[name] != v]
        if not differing:
            return ""
        named = ", ".join(f"{name} {other} on the worker and {own} here" for name, own, other in differing)
        return f"{named}; expected the same versions"


@cache
def describe_installation() -> Installation:
    """Installation of this process."""
    versions = (
        ("vehicled", __version__),
        ("code", hash_code()),
        ("Python", ".".join(platform.python_version_tuple()[:2])),
        *((name, version(name)) for name in _PACKAGES),
    )
    return Installation(versions, target_description())


@cache
def hash_code() -> str:
    """Hash of the program's code that makes rows: rows of another version are not used."""
    digest = hashlib.sha256()
    package = Path(__file__).parents[1]
    roots = (package, package.parent / "drivers", package.parent / "replay")
    files = [(p.relative_to(root.parent).as_posix(), p) for root in roots for p in root.rglob("*.py")]
    files += [(p.name, p) for p in settings.shipped_folder().glob("*.yaml")]
    for name, path in sorted(files):
        digest.update(name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]
