"""`vehicled check` lists configured sensors, and separately those that are used by default if they are measured."""

import json

import pytest

from vehicled.cli import main
from vehicled.reading.settings import config_path, shipped_folder

REAR = {"wheel.rl.speed", "wheel.rr.speed"}
FRONT = {"wheel.fl.speed", "wheel.fr.speed"}


def check(capsys: pytest.CaptureFixture[str], config: object) -> tuple[set[str], set[str]]:
    assert main(["check", str(config), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return set(found["sensors"]), set(found["sensors_by_default"])


def test_sensors_that_the_file_does_not_mention_are_listed_separately(
    capsys: pytest.CaptureFixture[str],
) -> None:
    given, others = check(capsys, "hatchback")
    assert others == {"vehicle.speed"}
    assert given > {"imu.gyro", "gnss.position"} | FRONT | REAR
    assert main(["check", "hatchback"]) == 0
    assert "also, if measured    vehicle.speed\n" in capsys.readouterr().out


def test_wheel_speeds_that_the_bus_does_not_send_are_listed_separately(
    capsys: pytest.CaptureFixture[str], tmp_path
) -> None:
    signals = ", ".join(
        f"{c}: {{message: WheelSpeed, signal: Speed{c.split('.')[1].upper()}}}" for c in sorted(REAR)
    )
    options = f"{{channel: can0, dbc: {shipped_folder() / 'prototype.dbc'}, signals: {{{signals}}}}}"
    path = tmp_path / "car.yaml"
    path.write_text(
        f"{config_path('hatchback').read_text()}\n"
        f"daemon:\n  devices:\n    can: {{driver: can, options: {options}}}\n"
    )
    given, others = check(capsys, path)
    assert others == FRONT | {"vehicle.speed"}
    assert given >= REAR
