"""Back end to readable Python: for inspection, and as the slow reference for the machine code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from vehicled.symbolic.program import Kernel, Layout
from vehicled.symbolic.text import KernelText, identifier

_CALLS = {
    "sqrt": "np.sqrt",
    "sin": "np.sin",
    "cos": "np.cos",
    "tanh": "np.tanh",
    "atan": "np.arctan",
    "atan2": "np.arctan2",
    "exp": "np.exp",
    "abs": "np.abs",
}


class _PythonText(KernelText):
    """A lane vector is an array (lanes,)."""

    def reserved(self) -> set[str]:
        return {"np"}

    def place(self, array: str, index: int, lane: int | None, rank: int) -> str:
        return f"m.{array}[{index}]" if lane is None else f"m.{array}[{index}, {lane}]"

    def function(self, op: str, arguments: Sequence[str]) -> str:
        if op == "where_less":
            return f"np.where({arguments[0]} < {arguments[1]}, {arguments[2]}, {arguments[3]})"
        return f"{_CALLS[op]}({', '.join(arguments)})"

    def local(self, name: str, rank: int) -> str:
        return name

    def lane_ones(self) -> str:
        return f"np.ones({self.layout.lanes})"

    def lane_sum(self, name: str) -> tuple[str, int]:
        return f"np.sum({name})", 4

    def lane_swap(self, name: str) -> str:
        return f"{name}.reshape(-1, 2)[:, ::-1].ravel()"


def source(kernel: Kernel, layout: Layout) -> str:
    """Python source of `def name(m)`, which works on the arrays of the workspace as attributes of `m`.

    Raises ValueError unless the layout's width is 1.
    """
    lines = []
    for line in _PythonText(kernel, layout).write():
        # The value may be a view of a place that is written later.
        copy = ".copy()" if line.is_new and line.rank and line.value.startswith("m.") else ""
        lines.append(f"    {line.target} = {line.value}{copy}\n")
    body = "".join(lines or ["    pass\n"])
    return f"def {identifier(kernel.name)}(m):\n{body}"


def function(kernel: Kernel, layout: Layout) -> Callable[[np.ndarray], None]:
    """The kernel as a Python function on a workspace. Raises ValueError unless the layout's width is 1."""
    namespace: dict[str, Any] = {"np": np}
    exec(source(kernel, layout), namespace)
    compiled: Callable[[SimpleNamespace], None] = namespace[identifier(kernel.name)]

    def run(workspace: np.ndarray) -> None:
        views = {identifier(name): layout.view(workspace, name) for name in layout.places}
        compiled(SimpleNamespace(**views))

    return run
