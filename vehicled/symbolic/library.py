"""A program as source code without further dependencies: the content, whatever the language.

`c_library.py` and `python_library.py` write it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vehicled.symbolic.loop import Call, IfAny, Iterate, Node, Repeat, Routine
from vehicled.symbolic.program import Kernel, KernelHandle, Program
from vehicled.symbolic.text import identifier


@dataclass(frozen=True)
class ArrayText:
    """Description of an array of the workspace for readers."""

    text: str
    shape: tuple[int, ...] = ()
    """Shape of a matrix, which is stored by rows; empty for others."""
    elements: Sequence[str] = ()
    """Name and unit of each element, such as `theta, rad`; empty for a matrix."""


@dataclass(frozen=True)
class Library:
    """Kernels and routines of a program, each with a line of text, on the arrays that they need."""

    name: str
    """An identifier, from which file names and prefixes are made."""
    title: Sequence[str]
    """Lines at the top of the text: description, and the program that wrote it."""
    program: Program
    functions: Mapping[KernelHandle, str]
    routines: Mapping[Routine, str]
    arrays: Mapping[str, ArrayText]
    """Descriptions of arrays that are members in any case; other arrays are for internal use of the functions."""
    values: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Initial values of arrays; those without are zero."""

    def kernels(self) -> list[Kernel]:
        """Kernels in the order of their text: those of `functions`, then those that only routines call."""
        called = [handle for r in self.routines for handle in _calls(r.body)]
        return [self.program.kernels[handle] for handle in dict.fromkeys([*self.functions, *called])]

    def members(self) -> list[str]:
        """Names of the arrays with a description, or read or written by functions, in the order of the workspace."""
        layout = self.program.layout
        used = {name for kernel in self.kernels() for name in (*self.read(kernel), *self.written(kernel))}
        used |= set(self.arrays)
        return [name for name, place in layout.places.items() if name in used and place.count]

    def shape(self, array: str) -> tuple[int, ...]:
        """Shape of a member: (count,), or (count, lanes)."""
        layout = self.program.layout
        place = layout.places[array]
        return (place.count, layout.lanes) if place.rank else (place.count,)

    def read(self, kernel: Kernel) -> list[str]:
        """Names of the arrays that a kernel reads."""
        used = {b.id for a in kernel.schedule() for b in a.args} | {e.id for *_, e in kernel.stores}
        return self._arrays(offset for atom, offset in kernel.loads.items() if atom in used)

    def written(self, kernel: Kernel) -> list[str]:
        """Names of the arrays that a kernel writes."""
        return self._arrays(offset for offset, *_ in kernel.stores)

    def _arrays(self, offsets: Iterator[int]) -> list[str]:
        found = {self.program.layout.find(offset)[0] for offset in offsets}
        return [name for name in self.program.layout.places if name in found]

    def describe(self, array: str) -> list[str]:
        """Lines of a comment on a member."""
        known = self.arrays.get(array)
        if known is None:
            return ["(of the functions themselves)"]
        shape = f" ({', '.join(map(str, known.shape))}), by rows" if known.shape else ""
        width = len(str(len(known.elements)))
        return [known.text + shape, *(f"{k:>{width + 2}}  {text}" for k, text in enumerate(known.elements))]

    def describe_function(self, kernel: Kernel) -> list[str]:
        """Lines of a comment on a function."""
        text = self.functions.get(KernelHandle(kernel.name))
        reads, writes = (
            [identifier(n) for n in names] for names in (self.read(kernel), self.written(kernel))
        )
        count = sum(kernel.operations().values())
        return [
            *([text] if text else []),
            f"Reads {', '.join(reads) or 'nothing'}; writes {', '.join(writes) or 'nothing'}. {count} operations.",
        ]

    def start(self, array: str) -> list[float]:
        """Initial values of a member, without trailing zeros."""
        values = np.ravel(self.values.get(array, np.zeros(0))).tolist()
        while values and values[-1] == 0.0:
            values.pop()
        assert len(values) <= math.prod(self.shape(array))
        return values


def _calls(body: Sequence[Node | Iterate]) -> Iterator[KernelHandle]:
    for node in body:
        if isinstance(node, Call):
            yield node.kernel
        elif isinstance(node, Iterate):
            yield from _calls((*node.body, *node.between))
        elif isinstance(node, (IfAny, Repeat)):
            yield from _calls(node.body)
