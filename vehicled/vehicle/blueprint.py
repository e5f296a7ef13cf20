"""Description of a compiled car's machine code without atoms; kept on disk between runs.

Building the atoms and emitting their code takes longer than the rest of the start, and is not needed when the
object code is in the cache. So this description is cached too, under a key of everything that determines it:
the source of this package as far as models are made of it, interpreter and libraries, processor, tyre law,
suspensions, extensions, width and differentiation.
"""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

import vehicled
from vehicled.symbolic import cache, machine
from vehicled.symbolic.code import Interface
from vehicled.symbolic.differentiation import Differentiation, TangentLayout
from vehicled.symbolic.program import Layout, RoutineHandle
from vehicled.vehicle.extension import FOLDERS, PLAIN, Extension
from vehicled.vehicle.hard_points import Suspensions
from vehicled.vehicle.interface import CarKernels, Names

_log = logging.getLogger(__name__)

_SUFFIX = "car"
_PACKAGE = Path(vehicled.__file__).parent


@dataclass(frozen=True)
class Blueprint:
    """A compiled car except its object code."""

    layout: Layout
    interface: Interface
    step: RoutineHandle
    kernels: CarKernels
    names: Names
    tangents: TangentLayout | None
    """None without a differentiation."""
    results: tuple[Any, ...]
    """Results of the extensions, in their order."""
    object_key: str
    """Key of the object code in the cache."""


def hash_source(package: Path = _PACKAGE) -> str | None:
    """Hash of a package's Python files that determine code (default: this package); None if there are none."""
    found = hashlib.sha256()
    folders = (*PLAIN, *FOLDERS)
    paths = sorted((*package.glob("*.py"), *(p for f in folders for p in (package / f).rglob("*.py"))))
    for path in paths:
        found.update(f"{path.relative_to(package)}\0{path.stat().st_size}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest() if paths else None


_IMPORTED = hash_source()
"""Hash of the source when this process imported it."""


def get_blueprint(
    tyre: str,
    suspensions: Suspensions,
    extensions: Sequence[Extension[Any]],
    width: int,
    differentiation: Differentiation | None,
    source: str | None = _IMPORTED,
) -> tuple[Blueprint, bytes]:
    """A compiled car and its object code; from disk if it has been made before.

    `source`: hash of the source that the running program was imported from.
    """
    described = [e.code_key for e in extensions]
    if source is None or None in described:
        return _build(tyre, suspensions, extensions, width, differentiation)
    what = repr((tyre, suspensions, described, width, differentiation))
    key = cache.make_key(source, sys.version, np.__version__, machine.target_description(), what)
    kept = _load(key, extensions)
    if kept is not None:
        return kept
    made = _build(tyre, suspensions, extensions, width, differentiation)
    # Not kept if the source has changed since this process imported it.
    if hash_source() == source:
        cache.keep(key, _SUFFIX, msgspec.json.encode(made[0]))
    return made


def _load(key: str, extensions: Sequence[Extension[Any]]) -> tuple[Blueprint, bytes] | None:
    kept = cache.load(key, _SUFFIX)
    if kept is None:
        return None
    try:
        found = msgspec.json.decode(kept, type=Blueprint)
        pairs = zip(found.results, extensions, strict=True)
        results = tuple(msgspec.convert(r, e.result) for r, e in pairs)
        object_code = cache.load(found.object_key, cache.OBJECT)
    except ValueError as error:
        _log.warning("the description of a compiled car in the cache is ignored: %s", error)
        return None
    return None if object_code is None else (replace(found, results=results), object_code)


def _build(
    tyre: str,
    suspensions: Suspensions,
    extensions: Sequence[Extension[Any]],
    width: int,
    differentiation: Differentiation | None,
) -> tuple[Blueprint, bytes]:
    # Imported here, as cached code does not need them.
    from vehicled.symbolic import compiler
    from vehicled.symbolic.tangent import Tangents
    from vehicled.vehicle import model

    vehicle = model.build(tyre, suspensions, extensions, width)
    program, routine = vehicle.program, vehicle.step.routine
    routines = (routine, *program.routines)
    tangents = None if differentiation is None else Tangents(program, differentiation)
    ir = compiler.emit(program, routines, tangents)
    blueprint = Blueprint(
        layout=program.layout,
        interface=compiler.make_interface(program, routines, tangents),
        step=routine.handle,
        kernels=vehicle.kernels,
        names=vehicle.names,
        tangents=None if tangents is None else tangents.layout,
        results=vehicle.results,
        object_key=machine.get_object_key(ir),
    )
    return blueprint, machine.get_object(ir)
