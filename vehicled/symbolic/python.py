"""Back end to readable Python: for inspection, and as the slow reference for the machine code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Kernel, Layout

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
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


def source(kernel: Kernel, layout: Layout) -> str:
    """Python source of `def name(w)`: what is used once is inlined, the rest gets a name."""
    schedule = kernel.schedule()
    uses: dict[int, int] = {}
    for a in schedule:
        for b in a.args:
            uses[b.id] = uses.get(b.id, 0) + 1
    for *_, e in kernel.stores:
        uses[e.id] = uses.get(e.id, 0) + 1
    lines = [f"def {kernel.name}(w):"]
    text: dict[int, str] = {}

    def place(offset: int, rank: int) -> str:
        n = layout.stride(rank)
        return f"w[{offset}]" if n == 1 else f"w[{offset}:{offset + n}]"

    def value(a: Atom) -> str:
        if a.op == "const":
            return repr(a.value)
        if a.op == "lane_ones":
            return f"np.ones({layout.stride(1)})"
        if a.id not in text:
            text[a.id] = f"r{a.id}"
            copy = "" if layout.stride(a.rank) == 1 else ".copy()"
            lines.append(f"    r{a.id} = {place(kernel.loads[a.id], a.rank)}{copy}")
        return text[a.id]

    def expression(a: Atom) -> str:
        args = [value(b) for b in a.args]
        if a.op in _INFIX:
            return f"({args[0]} {_INFIX[a.op]} {args[1]})"
        if a.op == "neg":
            return f"(-{args[0]})"
        if a.op == "where_less":
            return f"np.where({args[0]} < {args[1]}, {args[2]}, {args[3]})"
        if a.op == "lane_sum":
            return f"np.sum({args[0]})"
        if a.op == "lane_swap":
            return f"{args[0]}.reshape(-1, 2)[:, ::-1].ravel()"
        return f"{_CALLS[a.op]}({', '.join(args)})"

    for a in schedule:
        if a.op in ("const", "lane_ones"):
            continue
        written = expression(a)
        if uses.get(a.id, 0) > 1 or len(written) > 120:
            lines.append(f"    v{a.id} = {written}")
            written = f"v{a.id}"
        text[a.id] = written
    results = [(offset, value(e), rank) for offset, rank, e in kernel.stores]
    lines += [f"    s{i} = {name}" for i, (_, name, _) in enumerate(results)]
    lines += [f"    {place(offset, rank)} = s{i}" for i, (offset, _, rank) in enumerate(results)]
    return "\n".join(lines if len(lines) > 1 else [*lines, "    pass"]) + "\n"


def function(kernel: Kernel, layout: Layout) -> Callable[[np.ndarray], None]:
    """The kernel as a Python function on a workspace (instances one at a time: width 1)."""
    if layout.width != 1:
        raise ValueError("the Python back end computes one instance at a time")
    namespace: dict = {"np": np}
    exec(source(kernel, layout), namespace)
    return namespace[kernel.name]
