"""Corrections in a whole daemon: configuration, operation, status; the password is shown nowhere."""

from __future__ import annotations

import json
import os
import tty

import pytest
import yaml
import zmq
from caster import EPOCH, TestCaster
from daemon_fakes import FakeEstimator
from live_rig import wait_until

from vehicled.daemon.daemon import Daemon, DaemonOptions, make_driver, statistics_line
from vehicled.errors import SettingsError
from vehicled.reading import settings
from vehicled.reading.settings import config_path
from vehicled.rig.configuration import write_configuration

SECRET = "hunter2 of the caster"
GGA = b"$GPGGA,120000.00,3848.3000,N,07703.9000,W,4,12,1.0,110.00,M,0.0,M,,*74\r\n"
TEXT = """\
devices:
  gnss:
    driver: nmea
    options: {{port: "{port}"}}
    corrections: {{caster: "{caster}", mountpoint: BASE, user: me, password_file: "{password}", max_age: 1 s}}
loop: {{realtime_priority: 0}}
publish: {{endpoint: "tcp://127.0.0.1:*", command_endpoint: "ipc://{folder}/commands"}}
record: {{directory: "{runs}"}}
"""


@pytest.fixture
def port():
    ours, theirs = os.openpty()
    for end in (ours, theirs):
        tty.setraw(end)
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def test_corrections_reach_the_receiver_and_the_status(port, tmp_path, socket_folder, caplog):
    caplog.set_level("DEBUG")
    ours, name = port
    password = tmp_path / "password"
    password.write_text(SECRET)

    def handle(visit):
        visit.send(b"ICY 200 OK\r\n\r\n" + b"".join(EPOCH))
        visit.wait()

    with TestCaster(handle) as caster:
        runs = tmp_path / "runs"
        text = TEXT.format(
            port=name, caster=caster.address, password=password, folder=socket_folder, runs=runs
        )
        daemon = Daemon(settings.loads(text, DaemonOptions), FakeEstimator(), text, dict)
        with daemon:
            subscriber = zmq.Context.instance().socket(zmq.SUB)
            subscriber.rcvtimeo = 5000
            subscriber.connect(daemon.endpoint)
            subscriber.subscribe("status")
            got = b""
            while len(got) < len(b"".join(EPOCH)):
                got += os.read(ours, 4096)
            os.write(ours, GGA)
            seen = []

            def latest():
                seen.append(json.loads(subscriber.recv_multipart()[1]))
                return seen[-1]["counters"]["devices"]["gnss"]["corrections"]

            wait_until(lambda: latest()["distance"] is not None)
            # The caster sends no more observations, which is a fault.
            wait_until(
                lambda: latest() and any(f["source"] == "gnss.corrections" for f in seen[-1]["faults"])
            )
            line = statistics_line(daemon.status)
            subscriber.close(0)
    assert got == b"".join(EPOCH)
    found = seen[-1]["counters"]["devices"]["gnss"]["corrections"]
    assert found["base"]["station"] == 2003
    assert found["distance"] < 1000.0
    assert found["per_minute"]["1077"] >= 1
    (fault,) = [f for f in seen[-1]["faults"] if f["source"] == "gnss.corrections"]
    assert fault["reason"].startswith("no corrections: ")
    assert fault["less_certain"] == ["position"]
    assert "gnss.corrections: no corrections" in line
    (recording,) = runs.iterdir()
    assert SECRET.encode() not in recording.read_bytes()
    assert SECRET not in "".join(map(str, seen)) + caplog.text


def test_corrections_are_refused_for_a_device_that_is_only_read():
    options = settings.loads(
        "driver: can\noptions: {dbc: x.dbc, signals: {}}\ncorrections: {caster: host, mountpoint: M}".replace(
            "x.dbc", str(config_path("prototype").parent / "prototype.dbc")
        ),
        type(settings.loads("devices: {a: {driver: can, options: {}}}", DaemonOptions).devices["a"]),
    )
    with pytest.raises(
        SettingsError, match="expected a receiver, as it has corrections; the driver 'can' only"
    ):
        make_driver("can", options, print)


def test_a_rig_configuration_has_no_corrections(tmp_path):
    text = config_path("prototype").read_text()
    changed = text.replace(
        "      driver: nmea\n", "      driver: nmea\n      corrections: {caster: h, mountpoint: M}\n"
    )
    assert changed != text
    source = tmp_path / "car.yaml"
    source.write_text(changed)
    (tmp_path / "prototype.dbc").write_bytes((config_path("prototype").parent / "prototype.dbc").read_bytes())
    write_configuration(source, tmp_path / "rig.yaml", tmp_path, tmp_path)
    assert (
        "corrections" not in yaml.safe_load((tmp_path / "rig.yaml").read_text())["daemon"]["devices"]["gnss"]
    )
