"""The systemd unit is valid, its sandbox is tight, and it allows what the daemon needs."""

import configparser
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from drivers.registry import load_driver
from vehicled.daemon.connections import MAX_CONNECTIONS
from vehicled.daemon.daemon import DaemonOptions
from vehicled.daemon.loop import LoopOptions
from vehicled.daemon.runtime_folder import SERVICE_FOLDER
from vehicled.reading.settings import loads

FOLDER = Path(__file__).parent.parent / "systemd"
UNIT = FOLDER / "vehicled.service"
EXPOSURE = 1.5

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")


@pytest.fixture
def unit(tmp_path):
    """The unit with an executable that exists on this machine."""
    text, replaced = re.subn(r"(?m)^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text())
    assert replaced == 1
    copy = tmp_path / UNIT.name
    copy.write_text(text)
    return copy


def settings():
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read(UNIT)
    return parser["Service"]


@needs_systemd
def test_verify_reports_nothing(unit):
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    about_ours = [line for line in done.stderr.splitlines() if "vehicled" in line]
    assert about_ours == []
    assert done.returncode == 0


@needs_systemd
def test_verify_would_notice_a_mistake(unit):
    unit.write_text(unit.read_text().replace("ProtectHome=yes", "ProtectHone=yes"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert "ProtectHone" in done.stderr


@needs_systemd
def test_exposure_of_the_unit_stays_below_its_bound(unit):
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            f"--threshold={EXPOSURE * 10:.0f}",
            "--no-pager",
            unit,
        ],
        capture_output=True,
        text=True,
    )
    overall = re.search(r"exposure level for .*: ([0-9.]+)", done.stdout)
    assert overall, done.stderr
    assert float(overall[1]) <= EXPOSURE
    assert done.returncode == 0


@needs_systemd
def test_the_drop_in_for_corrections_is_valid(unit):
    folder = unit.with_name(f"{unit.name}.d")
    folder.mkdir()
    text = (FOLDER / "corrections.conf").read_text()
    assert "IPAddressAllow=" in text
    for key, count in (("IPAddressAllow", 0), ("IPAdressAllow", 1)):
        (folder / "corrections.conf").write_text(text.replace("IPAddressAllow", key))
        done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
        assert sum("IPAdressAllow" in line for line in done.stderr.splitlines()) == count, done.stderr
        assert "corrections.conf" not in done.stderr or count


def test_the_notes_name_the_credential_of_the_drop_in():
    name, _, path = re.search(
        r"LoadCredential=(\S+?)(:)(\S+)", (FOLDER / "corrections.conf").read_text()
    ).groups()
    notes = (FOLDER / "README.md").read_text()
    assert f"/run/credentials/vehicled.service/{name}" in notes
    assert f"install -m 600 /dev/stdin {path}" in notes


def test_real_time_scheduling_is_allowed_up_to_the_priority_of_the_loop():
    service = settings()
    own, limit = int(service["CPUSchedulingPriority"]), int(service["LimitRTPRIO"])
    assert own < LoopOptions().realtime_priority <= limit
    assert service["CPUSchedulingPolicy"] == "fifo"
    # Each of these would deny the daemon something it needs.
    for key in ("RestrictRealtime", "MemoryDenyWriteExecute", "PrivateDevices", "PrivateNetwork"):
        assert key not in service
    assert set(service["RestrictAddressFamilies"].split()) >= {"AF_UNIX", "AF_INET", "AF_CAN"}


def test_memory_tasks_and_open_files_of_the_service_are_limited():
    service = settings()
    assert {"MemoryMax", "TasksMax", "LimitNOFILE"} <= set(service)
    # Room for all clients of both sockets, twice over.
    assert int(service["LimitNOFILE"]) >= 4 * MAX_CONNECTIONS


def test_the_command_socket_is_in_the_folder_of_the_service_and_its_group():
    service = settings()
    assert str(SERVICE_FOLDER) == f"/run/{service['RuntimeDirectory']}"
    assert service["RuntimeDirectoryMode"] == "0750"
    assert "Group" in service


def test_the_command_of_the_unit_exists(capsys):
    from vehicled.cli import make_parser

    _, command, *arguments = settings()["ExecStart"].split()
    args = make_parser(command).parse_args([command, *arguments])
    assert args.config.startswith("/etc/vehicled/")


def test_rules_have_the_syntax_of_udev():
    pair = r'[A-Z_]+(?:\{[\w.]+\})?\s*(?:==|!=|\+=|:=|=)\s*"[^"]*"'
    labels, targets, names = set(), set(), set()
    for line in (FOLDER / "99-vehicled.rules").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        assert re.fullmatch(rf"{pair}(?:, {pair})*", line), line
        labels |= set(re.findall(r'LABEL="(\w+)"', line))
        targets |= set(re.findall(r'GOTO="(\w+)"', line))
        names |= set(re.findall(r'ENV\{\.VEHICLED\}="(\w+)"', line))
    assert targets == labels
    assert names == {"imu", "gnss"}


@dataclass(frozen=True, kw_only=True)
class _Example:
    daemon: DaemonOptions


def test_the_example_configuration_is_valid_and_uses_the_devices_of_the_rules():
    (text,) = re.findall(r"```yaml\n(.*?)```", (FOLDER / "README.md").read_text(), re.DOTALL)
    options = loads(text, _Example).daemon
    rules = (FOLDER / "99-vehicled.rules").read_text()
    for name, device in options.devices.items():
        driver = load_driver(device.driver)
        assert device.options.to(driver.Options).port == f"/dev/vehicled-{name}"
        assert f'ENV{{.VEHICLED}}="{name}"' in rules
    assert str(options.record.directory) == f"/var/lib/{settings()['StateDirectory']}"


def test_the_install_notes_name_every_file():
    notes = (FOLDER / "README.md").read_text()
    for file in FOLDER.iterdir():
        assert file.name == "README.md" or f"`{file.name}" in notes


def test_every_dependency_is_locked_with_its_hashes_and_names_no_registry():
    lock = (FOLDER / "requirements.lock").read_text()
    assert "//" not in lock
    entries = re.findall(r"(?m)^([a-z0-9._-]+)==\S+[^\n]*((?:\\\n[^\n]*)+)", lock)
    assert len(entries) == len(re.findall(r"(?m)^\w", lock)) > 20
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", hashes) for _, hashes in entries)
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())
    wanted = project["project"]["dependencies"] + project["build-system"]["requires"]
    assert {re.match(r"[\w.-]+", d)[0].lower() for d in wanted} <= {name for name, _ in entries}
