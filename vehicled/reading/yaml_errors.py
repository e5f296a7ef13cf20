"""Errors of YAML syntax in plain words and with the right line, instead of the terms of YAML's grammar."""

from __future__ import annotations

import re

import yaml

_BREAK = re.compile(r"\r\n|[\n\r\x85\u2028\u2029]")
"""Line breaks as YAML counts them."""
_NO_START = re.compile(r"found character '(.)' that cannot start any token")
_NO_VALUE, _END = "expected the node content, but found ", "'<stream end>'"
_COLON = re.compile(r":(?=\s|$)")


def describe_yaml_error(error: yaml.MarkedYAMLError, text: str) -> tuple[int | None, str]:
    """(line, description) of an error in YAML; the line counts from 1, None if it is unknown."""
    mark, begin = error.problem_mark or error.context_mark, error.context_mark
    problem = error.problem or ""
    if mark is None:
        return None, problem
    if text[mark.index : mark.index + 1] == "\t":
        return mark.line + 1, "a tab; YAML indents with spaces"
    lines = _BREAK.split(text)
    if problem == "mapping values are not allowed here":
        if _COLON.search(lines[mark.line][: mark.column]):
            return mark.line + 1, "a second colon with a space behind it; put the text in quotes"
        further = "a key that is indented further than the line before it, which has a value already"
        return _find_missing_colon(lines, mark.line) or (mark.line + 1, further)
    if problem.startswith(("expected <block end>", "expected '<document start>'")):
        missing = _find_missing_colon(lines, mark.line) if "block mapping" in problem else None
        return missing or (mark.line + 1, _describe_indentation(error.context or "", problem, mark.column))
    if (start := _NO_START.match(problem)) is not None:
        return mark.line + 1, f"a value that begins with {start[1]!r}; put it in quotes"
    if begin is not None and problem == "could not find expected ':'":
        return begin.line + 1, "a line without a colon behind its key"
    if begin is not None and problem.startswith(("expected ',' or '}'", "expected ',' or ']'")):
        closing = problem[len("expected ',' or '")]
        opening = "{" if closing == "}" else "["
        return begin.line + 1, f"{opening!r} without {closing!r}, or without commas between what is in it"
    if begin is not None and "quoted scalar" in (error.context or "") and "end of stream" in problem:
        return begin.line + 1, "a quotation mark without a second one"
    if problem == "but found another document":
        return mark.line + 1, "a second document behind '---'"
    if problem.startswith(_NO_VALUE):
        found = problem.removeprefix(_NO_VALUE)
        return mark.line + 1, f"{'the end' if found == _END else found} where a value is expected"
    return mark.line + 1, problem


def _find_missing_colon(lines: list[str], number: int) -> tuple[int, str] | None:
    """As `describe_yaml_error`, if the line above `number` (from 0) is neither a key nor an item of a list."""
    contents = ((n, lines[n].partition(" #")[0].strip()) for n in range(number - 1, -1, -1))
    above, text = next(((n, text) for n, text in contents if text and text[0] != "#"), (0, "-"))
    if text[0] == "-" or _COLON.search(text):
        return None
    behind = "a colon without a space behind it" if ":" in text else "a line without a colon behind its key"
    return above + 1, behind


def _describe_indentation(context: str, problem: str, column: int) -> str:
    if "collection" in context:
        return "a key between the items of a list, which begin with '-'"
    if "'-'" in problem or "block sequence" in problem:
        return "an item of a list, which begins with '-', between keys"
    if "block mapping" in problem:
        spaces = f"{column} space{'s' * (column != 1)}"
        return f"{spaces} before a key; expected as many as before the others of its section"
    return "text behind a value that has ended"
