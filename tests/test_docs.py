"""The documentation agrees with the code: commands, links, names, tables and quoted examples."""

import argparse
import importlib
import re
import runpy
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from vehicled import __version__
from vehicled.cli import COMMANDS, make_parser
from vehicled.errors import UsageError
from vehicled.messages import CHANNELS, ESTIMATE_COLUMNS, WHEELS
from vehicled.schemas import PUBLISHED

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    *ROOT.glob("*.md"),
    *DOCS.rglob("*.md"),
    *(ROOT / folder / "README.md" for folder in ("systemd", "samples/ferrari_250lm")),
    ROOT / "vehicled/multibody/SPEED.md",
]
README = (ROOT / "README.md").read_text()
FORMATS = (DOCS / "formats.md").read_text()


def page(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.fixture(params=PAGES, ids=page)
def path(request: pytest.FixtureRequest) -> Path:
    return request.param


# -- commands ------------------------------------------------------------------------------------------------

_COMMAND = re.compile(r"(?:^|&& |time |/bin/)vehicled((?: [^\s`#|&;]+)+)", re.MULTILINE)
"""A command in a block of shell commands. Elsewhere, `vehicled` may be the package, the service or a folder."""


def commands(text: str) -> Iterator[list[str]]:
    """Commands in blocks."""
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in _COMMAND.findall(re.sub(r"(?m)^ +", "", block)):
            yield shlex.split(line)


def mentions(text: str) -> Iterator[list[str]]:
    """Commands within sentences and tables, which may omit arguments."""
    for words in re.findall(r"`vehicled ([^`\n]+)`", text):
        yield shlex.split(words)


def find_options(parser: argparse.ArgumentParser) -> set[str]:
    """Options of a command and of its subcommands."""
    found = set(parser._option_string_actions)
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                found |= find_options(below)
    return found


def test_commands_in_blocks_are_complete(path):
    for words in commands(path.read_text()):
        try:
            make_parser(words[0]).parse_args(words)
        except UsageError as error:
            pytest.fail(f"{page(path)}: vehicled {' '.join(words)}: {error}")


def test_commands_in_sentences_exist_with_their_options(path):
    for command, *words in mentions(path.read_text()):
        if command == "COMMAND" or command.startswith("--"):
            continue
        assert command in COMMANDS, f"{page(path)}: vehicled {command}"
        options = {word.split("=")[0] for word in words if word.startswith("-")}
        assert options <= find_options(make_parser(command)), f"{page(path)}: vehicled {command} {words}"


def test_every_command_is_described():
    text = (DOCS / "commands.md").read_text()
    assert {words[0] for words in mentions(text)} >= set(COMMANDS)


def test_the_readme_has_two_commands_for_a_new_user():
    lines = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert len(lines) == 2
    for line, end in zip(lines, ("vehicled demo", "pytest"), strict=True):
        assert "pip install" in line
        assert line.endswith(end)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 200


# -- links and names -----------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Anchors of the headings of a page."""
    titles = re.findall(r"(?m)^#+ (.*)$", text)
    return {re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip()) for title in titles}


def test_links_lead_to_existing_files_and_headings(path):
    text = re.sub(r"```.*?```", "", path.read_text(), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)", text):
        there = (path.parent / target).resolve() if target else path
        assert there.is_file(), f"{page(path)}: {target}"
        if anchor:
            assert anchor in anchors(there.read_text()), f"{page(path)}: {target}#{anchor}"


def test_every_channel_and_column_is_described():
    words = set(re.findall(r"`([^`\n]+)`", FORMATS))
    for name in (*CHANNELS, *ESTIMATE_COLUMNS):
        general = re.sub(rf"\.({'|'.join(WHEELS)})(\.|$)", r".W\2", name)
        general = re.sub(r"^joint\.\d\.", "joint.J.", general)
        assert {name, general} & words, name


def test_every_topic_is_described():
    assert {topic for topic in PUBLISHED if f"| `{topic}` |" in FORMATS} == set(PUBLISHED)


def test_api_pages_name_existing_modules():
    for path in (DOCS / "api").glob("*.md"):
        modules = re.findall(r"(?m)^::: (\S+)$", path.read_text())
        assert modules or path.stem == "index"
        for module in modules:
            assert importlib.import_module(module).__doc__, module


@pytest.mark.parametrize("package", ["filter", "simulation", "smoothing", "sources", "vehicle"])
def test_api_pages_have_every_module(package):
    text = "".join(path.read_text() for path in (DOCS / "api").glob("*.md"))
    modules = [f"vehicled.{package}.{m.stem}" for m in (ROOT / "vehicled" / package).glob("[!_]*.py")]
    assert {m for m in modules if f"::: {m}\n" not in text} == set()


def test_tables_have_as_many_cells_in_each_row_as_in_their_heading(path):
    outside_code = re.sub(r"(?s)```.*?```", "", path.read_text())
    for table in re.findall(r"(?m)(?:^ *\|.*\n)+.*", outside_code):
        heading, *rows, after = table.split("\n")
        cells = [len(re.findall(r"(?<!\\)\|", row)) for row in (heading, *rows)]
        assert len(set(cells)) == 1, heading
        assert not after.strip() or after.startswith("<!--"), f"a row that is broken over lines: {after}"


# -- generated and quoted parts ------------------------------------------------------------------------------


def test_the_tables_of_states_agree_with_the_code():
    script = runpy.run_path(str(DOCS / "states_table.py"))
    text = (DOCS / "states.md").read_text()
    assert script["renew"](text) == text, "run: python docs/states_table.py"


@pytest.mark.parametrize("example", sorted((DOCS / "examples").glob("*.py")), ids=page)
def test_examples_are_quoted_verbatim(example):
    quoted = f"```python\n{example.read_text()}```" in (DOCS / "extending.md").read_text()
    assert quoted, f"{page(example)} has changed: copy it into docs/extending.md"


# -- for contributors ----------------------------------------------------------------------------------------


def test_the_hooks_run_the_checks_of_ci():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    script = (ROOT / ".ci/run").read_text().replace("\\\n", "")
    checks = re.findall(r"(?m)^check (.*)$", script)
    checks += [check for line in re.findall(r"(?m)^together (.*)$", script) for check in shlex.split(line)]
    entries = [hook["entry"].removeprefix(".venv/bin/") for hook in hooks if "stages" not in hook]
    assert entries == [check for check in checks if check.startswith(("ruff", "mypy"))]
    (manual,) = (
        hook["entry"].removeprefix(".venv/bin/") for hook in hooks if hook.get("stages") == ["manual"]
    )
    assert any(manual in check for check in checks)


def test_the_changelog_has_the_present_version():
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text()
