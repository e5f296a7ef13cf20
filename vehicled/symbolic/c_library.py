"""A library as a header and a source file in C99, which need `math.h` and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vehicled.symbolic import c
from vehicled.symbolic.library import Library
from vehicled.symbolic.loop import Call, Count, IfAny, Iterate, Node, Repeat, Routine, StoreFlag
from vehicled.symbolic.program import KernelHandle
from vehicled.symbolic.routine_text import RoutineText
from vehicled.symbolic.text import identifier


def write(library: Library) -> dict[str, str]:
    """Text by the name of its file: `NAME.h`, `NAME.c`."""
    return {f"{library.name}.h": _header(library), f"{library.name}.c": _source(library)}


def _header(library: Library) -> str:
    name, guard = library.name, f"{library.name.upper()}_H"
    members = [
        line
        for array in library.members()
        for line in (
            *_comment(library.describe(array), "    "),
            f"    double {identifier(array)}{''.join(f'[{n}]' for n in library.shape(array))};",
        )
    ]
    functions = [
        line
        for kernel in library.kernels()
        if KernelHandle(kernel.name) in library.functions
        for line in (
            *_comment(library.describe_function(kernel)),
            f"void {name}_{identifier(kernel.name)}({name} *m);\n",
        )
    ]
    for routine, text in library.routines.items():
        functions += [*_comment(text.splitlines()), f"{_signature(library, routine)};\n"]
    return "\n".join(
        [
            *_comment(library.title),
            f"#ifndef {guard}",
            f"#define {guard}",
            "",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            "",
            "typedef struct {",
            *members,
            f"}} {name};",
            "",
            *_comment(["Sets all members to what they begin with, and prepares. To be called first."]),
            f"void {name}_initialise({name} *m);\n",
            *functions,
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "",
            f"#endif /* {guard} */",
            "",
        ]
    )


def _source(library: Library) -> str:
    name = library.name
    parts = [
        "\n".join([*_comment(library.title), f'#include "{name}.h"', "", "#include <math.h>", ""]),
        _initialise(library),
    ]
    for kernel in library.kernels():
        own = "" if KernelHandle(kernel.name) in library.functions else "static "
        comment = "".join(f"{line}\n" for line in _comment(library.describe_function(kernel)))
        parts.append(comment + own + c.source(kernel, library.program.layout, name))
    parts += [_Routine(library).write(routine) for routine in library.routines]
    return "\n".join(parts)


def _comment(lines: Sequence[str], indent: str = "") -> list[str]:
    """Lines of a comment. End marks within the text are changed, as names of mechanisms' files may have them."""
    first, *others = [line.replace("*/", "* /") for line in lines]
    text = [f"{indent}/* {first}", *(f"{indent}   {line}".rstrip() for line in others)]
    text[-1] += " */"
    return text


def _initialise(library: Library) -> str:
    lines = [f"    static const {library.name} start = {{"]
    for array in library.members():
        if values := library.start(array):
            lines.append(f"        .{identifier(array)} = {_nested(values, library.shape(array))},")
    if len(lines) == 1:
        lines.append("        {0}")
    lines += ["    };", "    *m = start;"]
    if library.program.prepare in library.functions:
        lines.append(f"    {library.name}_prepare(m);")
    return f"void {library.name}_initialise({library.name} *m)\n{{\n" + "\n".join(lines) + "\n}\n"


def _nested(values: Sequence[float], shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return "{" + ", ".join(map(repr, values)) + "}"
    rows = [values[k : k + shape[1]] for k in range(0, len(values), shape[1])]
    return "{" + ", ".join(_nested(row, shape[1:]) for row in rows) + "}"


def _signature(library: Library, routine: Routine) -> str:
    arguments = [f"{'int' if isinstance(a, Count) else 'double'} {a.name}" for a in routine.arguments]
    return f"int {library.name}_{identifier(routine.name)}({library.name} *m, {', '.join(arguments)})"


class _Routine(RoutineText):
    """The text of a routine."""

    member, negation = "->", "!"

    def __init__(self, library: Library) -> None:
        super().__init__(library.program)
        self.library = library

    def write(self, routine: Routine) -> str:
        lines = "".join(f"{line}\n" for line in self.body(routine.body, "    "))
        counts = any(isinstance(node, Iterate) for node in routine.body)
        begin = "    int runs = 0, reached = 0;\n" if counts else ""
        result = "reached ? runs : -runs" if counts else "0"
        return f"{_signature(self.library, routine)}\n{{\n{begin}{lines}    return {result};\n}}\n"

    def body(self, nodes: Sequence[Node | Iterate], indent: str) -> Iterator[str]:
        inner = indent + "    "
        for node in nodes:
            match node:
                case Call(kernel):
                    yield f"{indent}{self.library.name}_{identifier(kernel.name)}(m);"
                case StoreFlag(symbol, condition):
                    yield f"{indent}{self.place(symbol)} = {self.condition(condition)} ? 1.0 : 0.0;"
                case IfAny(condition, then):
                    yield f"{indent}if ({self.condition(condition)}) {{"
                    yield from self.body(then, inner)
                    yield f"{indent}}}"
                case Repeat(times, repeated):
                    yield f"{indent}for (int n = 0; n < 1 || n < {times.name}; n++) {{"
                    yield from self.body(repeated, inner)
                    yield f"{indent}}}"
                case Iterate():
                    yield f"{indent}for (runs = 1;; runs++) {{"
                    yield from self.body(node.body, inner)
                    yield f"{inner}reached = {self.condition(node.until)};"
                    yield f"{inner}if (reached || runs >= {node.limit.name}) break;"
                    yield from self.body(node.between, inner)
                    yield f"{indent}}}"
