"""Back end to C99 that people can read; it needs `math.h` and nothing else.

A kernel is `void prefix_name(prefix *m)`. A lane vector is an array, and lines that follow each other and compute
lane vectors stand in one loop over the lanes `k`.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from vehicled.symbolic.program import Kernel, Layout
from vehicled.symbolic.text import Assignment, KernelText, identifier

_CALLS = {op: op for op in ("sqrt", "sin", "cos", "tanh", "atan", "atan2", "exp")} | {"abs": "fabs"}


class _CText(KernelText):
    """A lane vector is an array, of which a line reads element `k`."""

    def reserved(self) -> set[str]:
        return {"k", *_CALLS.values()}

    def place(self, array: str, index: int, lane: int | None, rank: int) -> str:
        lanes = f"[{lane}]" if lane is not None else "[k]" if rank else ""
        return f"m->{array}[{index}]{lanes}"

    def function(self, op: str, arguments: Sequence[str]) -> str:
        if op == "where_less":
            return f"({arguments[0]} < {arguments[1]} ? {arguments[2]} : {arguments[3]})"
        return f"{_CALLS[op]}({', '.join(arguments)})"

    def local(self, name: str, rank: int) -> str:
        return f"{name}[k]" if rank else name

    def lane_ones(self) -> str:
        return "1.0"

    def lane_sum(self, name: str) -> tuple[str, int]:
        return " + ".join(f"{name}[{k}]" for k in range(self.layout.lanes)), 1

    def lane_swap(self, name: str) -> str:
        return f"{name}[k ^ 1]"


def source(kernel: Kernel, layout: Layout, prefix: str) -> str:
    """The function in C. Raises ValueError unless the layout's width is 1."""
    groups = _group(_CText(kernel, layout).write())
    lines: list[str] = []
    used_in = _find_uses(groups)
    for n, group in enumerate(groups):
        if not group[0].rank:
            lines += [f"    {'const double ' * line.is_new}{line.target} = {line.value};" for line in group]
            continue
        inner = {line.target for line in group if line.is_new and used_in[line.target] <= {n}}
        kept = [line.target for line in group if line.is_new and line.target not in inner]
        lines += [f"    double {name}[{layout.lanes}];" for name in kept]
        lines.append(f"    for (int k = 0; k < {layout.lanes}; k++) {{")
        # A value that no other group reads is a plain number within the loop.
        element = re.compile(rf"\b({'|'.join(sorted(inner))})\[k\]")
        for line in group:
            value = element.sub(r"\1", line.value) if inner else line.value
            declared = "const double " if line.target in inner else ""
            index = "[k]" if line.is_new and line.target not in inner else ""
            lines.append(f"        {declared}{line.target}{index} = {value};")
        lines.append("    }")
    body = "\n".join(lines or ["    (void)m;"])
    return f"void {prefix}_{identifier(kernel.name)}({prefix} *m)\n{{\n{body}\n}}\n"


def _find_uses(groups: Sequence[Sequence[Assignment]]) -> dict[str, set[int]]:
    """Groups in whose expressions each word occurs."""
    found: dict[str, set[int]] = defaultdict(set)
    for n, group in enumerate(groups):
        for line in group:
            for word in re.findall(r"\w+", line.value):
                found[word].add(n)
    return found


def _group(lines: Sequence[Assignment]) -> list[list[Assignment]]:
    """Group lines that can share one loop over lanes, or none, after the groups that they read from.

    Each group has as many lines as possible: a loop over a few lines costs more than these lines do.
    """
    made = {line.target: n for n, line in enumerate(lines) if line.is_new}
    loads = {n for n, line in enumerate(lines) if line.is_new and line.value.startswith("m->")}
    waits = [
        {made[word] for word in re.findall(r"\w+", line.value) if word in made} if n not in loads else set()
        for n, line in enumerate(lines)
    ]
    for n, line in enumerate(lines):
        if not line.is_new:
            # A kernel may read and write the same place: it has to read first.
            waits[n] |= loads
    swapped = [{made[name] for name in line.swapped} for line in lines]
    groups: list[list[Assignment]] = []
    done: set[int] = set()
    left = list(range(len(lines)))
    rank = lines[0].rank if lines else 0
    while left:
        before, group = set(done), []
        for n in left:
            if lines[n].rank == rank and waits[n] <= done and swapped[n] <= before:
                done.add(n)
                group.append(lines[n])
        left = [n for n in left if n not in done]
        if group:
            groups.append(group)
        rank = 1 - rank
    return groups
