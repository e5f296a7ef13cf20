"""A library as a Python module, which needs NumPy and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vehicled.symbolic import python
from vehicled.symbolic.library import Library
from vehicled.symbolic.loop import Call, IfAny, Iterate, Node, Repeat, Routine, StoreFlag
from vehicled.symbolic.routine_text import RoutineText
from vehicled.symbolic.text import identifier


def write(library: Library) -> dict[str, str]:
    """Text by the name of its file: `NAME.py`."""
    title = "\n".join(library.title).replace("\\", "/").replace('"""', "'''")
    parts = [f'"""{title}\n"""\n\nimport numpy as np\n', _state(library)]
    for kernel in library.kernels():
        comment = "".join(f"# {line}\n" for line in library.describe_function(kernel))
        parts.append(comment + python.source(kernel, library.program.layout))
    for routine, text in library.routines.items():
        parts.append(
            "".join(f"# {line}\n" for line in text.splitlines()) + _Routine(library.program).write(routine)
        )
    return {f"{library.name}.py": "\n\n".join(parts)}


def _state(library: Library) -> str:
    lines = [
        "class State:",
        '    """What the functions work on; begins prepared."""',
        "",
        "    def __init__(self):",
    ]
    for array in library.members():
        shape, values = library.shape(array), library.start(array)
        lines += [f"        # {line}".rstrip() for line in library.describe(array)]
        name = f"        self.{identifier(array)}"
        size = str(shape[0]) if len(shape) == 1 else str(shape)
        lines.append(f"{name} = np.zeros({size})")
        if values:
            lines.append(f"{name}.flat[:{len(values)}] = {values}")
    if library.program.prepare in library.functions:
        lines.append("        prepare(self)")
    return "\n".join(lines) + "\n"


class _Routine(RoutineText):
    """The text of a routine."""

    member, negation = ".", "not "

    def write(self, routine: Routine) -> str:
        lines = "".join(f"{line}\n" for line in self.body(routine.body, "    "))
        counts = any(isinstance(node, Iterate) for node in routine.body)
        result = "runs if reached else -runs" if counts else "0"
        arguments = ", ".join(["m", *(a.name for a in routine.arguments)])
        return f"def {identifier(routine.name)}({arguments}):\n{lines}    return {result}\n"

    def body(self, nodes: Sequence[Node | Iterate], indent: str) -> Iterator[str]:
        inner = indent + "    "
        for node in nodes:
            match node:
                case Call(kernel):
                    yield f"{indent}{identifier(kernel.name)}(m)"
                case StoreFlag(symbol, condition):
                    yield f"{indent}{self.place(symbol)} = 1.0 if {self.condition(condition)} else 0.0"
                case IfAny(condition, then):
                    yield f"{indent}if {self.condition(condition)}:"
                    yield from self.body(then, inner)
                case Repeat(times, repeated):
                    yield f"{indent}for _ in range(max(1, {times.name})):"
                    yield from self.body(repeated, inner)
                case Iterate():
                    yield f"{indent}runs = 0"
                    yield f"{indent}while True:"
                    yield from self.body(node.body, inner)
                    yield f"{inner}runs += 1"
                    yield f"{inner}reached = {self.condition(node.until)}"
                    yield f"{inner}if reached or runs >= {node.limit.name}:"
                    yield f"{inner}    break"
                    yield from self.body(node.between, inner)
