"""The container file: it copies all needed sources, installs only pinned packages, and does not run as root."""

import json
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Containerfile").read_text()


def instructions() -> list[tuple[str, str]]:
    joined = re.sub(r"\\\n\s*", " ", re.sub(r"(?m)^#.*\n", "", TEXT))
    return [(line.split()[0], line.split(None, 1)[1]) for line in joined.splitlines() if line.strip()]


FINAL = max(i for i, (word, _) in enumerate(instructions()) if word == "FROM")


def test_the_base_image_is_a_pinned_release():
    base = dict(instructions())["ARG"]
    assert re.fullmatch(
        r"BASE=docker\.io/library/python:\d+\.\d+\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?", base
    )
    assert all(text.split()[0] == "$BASE" for word, text in instructions() if word == "FROM")


def test_all_sources_of_the_wheel_are_copied():
    copied = {
        source
        for word, text in instructions()
        if word == "COPY" and "--from" not in text
        for source in text.split()[:-1]
    }
    assert all((ROOT / source).exists() for source in copied)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {"pyproject.toml", project["project"]["readme"], project["project"]["license"]["file"]}
    assert needed | {*wheel["packages"], *wheel["force-include"]} <= copied


def test_only_hashed_packages_and_the_tree_are_installed_without_cache():
    installs = [
        text for word, text in instructions() if word == "RUN" and "pip" in text and "install " in text
    ]
    assert len(installs) >= 2
    for text in installs:
        assert "--no-cache-dir" in text
        assert "--require-hashes -r systemd/requirements.lock" in text or text.endswith(
            "--no-deps --no-build-isolation ."
        )


def test_the_container_runs_vehicled_as_an_ordinary_user():
    final = dict(instructions()[FINAL:])
    assert json.loads(final["ENTRYPOINT"]) == ["vehicled"]
    assert final["USER"] == "vehicled"
    (number,) = re.findall(r"useradd --uid (\d+)", final["RUN"])
    documented = set(
        re.findall(r"--userns=([\w:=,-]+)", TEXT + (ROOT / "docs" / "containers.md").read_text())
    )
    assert documented == {f"keep-id:uid={number},gid={number}"}


def test_python_has_a_handler_for_the_stop_signal():
    """The first process of a container gets no signal without a handler: recordings would lose their last part."""
    stop = getattr(signal, dict(instructions()[FINAL:])["STOPSIGNAL"])
    show = "import signal, sys; print(signal.getsignal(int(sys.argv[1])))"
    command = [sys.executable, "-c", show, str(int(stop))]
    handler = subprocess.run(command, check=True, capture_output=True, text=True, env={}).stdout
    assert "default_int_handler" in handler
