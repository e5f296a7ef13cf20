"""`vehicled top`: pages for a daemon that runs, that is missing, and that ends."""

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest
import zmq
import zmq.auth
from publisher_rig import circling, publishing, status

from vehicled.cli import main
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.publisher import Publisher
from vehicled.live import DEFAULT_ENDPOINT, top
from vehicled.live.feed import SHOWN, Feed
from vehicled.live.subscriber import Publication
from vehicled.live.top import RecentTrack, make_page
from vehicled.messages import Innovation


def test_the_default_endpoint_is_that_of_a_daemon():
    assert PublishOptions().endpoint == DEFAULT_ENDPOINT


@pytest.fixture
def brief(monkeypatch):
    """Shortens a snapshot, which normally lasts until a daemon has published its status again."""
    monkeypatch.setattr(top, "_SNAPSHOT_S", 0.4)


@pytest.fixture
def endpoint(socket_folder):
    return f"ipc://{socket_folder}/results"


@pytest.fixture
def publisher(endpoint):
    with publishing(endpoint) as publisher:
        yield publisher


HUGE = 10**400
"""Valid in JSON, and too large for every number here."""


def fill(publisher, t=1.0):
    publisher.publish_step(circling(t), [])
    publisher.publish_status(status(round(t * 1e9)))
    publisher.publish_command(round(t * 1e9), "mark", {"text": "kerb \x1b[2J"})


def receive(feed, messages):
    give_up = time.monotonic() + 5
    while feed.messages < messages:
        assert time.monotonic() < give_up
        feed.take(0.02)


def test_the_page_shows_motion_uncertainty_faults_with_reasons_and_the_last_mark(publisher, endpoint):
    with Feed(Publication(endpoint)) as feed:
        fill(publisher)
        receive(feed, 5)
        text = "\n".join(make_page(endpoint, feed, RecentTrack(), 50))
    assert "degraded" in text
    assert "36.0 km/h" in text
    assert re.search(r"sideslip +1\.15°", text)
    assert "0.05 m position" in text
    assert len(re.findall(r"\d° yaw", text)) == 2
    assert "° heading" not in text
    assert "410 µs (99.9 % 900, max 1200), 2 of 500 deadlines missed" in text
    assert "2.5 MB recorded" in text
    assert "silent for 2.1 s (less certain: position, heading)" in text
    assert "mark        kerb" in text
    assert "\x1b" not in text


def test_a_page_is_made_without_the_counters_of_a_daemon(publisher, endpoint):
    with Feed(Publication(endpoint)) as feed:
        publisher.publish_status(status(1, "running", {"estimator": {}}))
        receive(feed, 1)
        text = "\n".join(make_page(endpoint, feed, RecentTrack(), 50))
    assert "running" in text
    assert "none yet" in text


def test_the_map_shows_the_way_and_is_cleared_by_another_drive():
    track = RecentTrack()
    for k in range(200):
        track.add({"t": k, "x": k / 2, "y": 0.0})
    assert (
        sum(line.count("⠤") + line.count("⠒") + line.count("⣀") + line.count("⠉") for line in track.lines(7))
        > 50
    )
    track.add({"t": 0, "x": 0.0, "y": 0.0})
    assert track.lines(7) == []


def make_fix(t):
    return Innovation(
        t, t, "gnss.position", "gnss", *[[0.1, 0.2, 0.0]] * 3, [0.01] * 3, 1, 0.1, True, "fused"
    )


def test_each_fix_counts_once_and_is_forgotten_when_no_more_come(publisher, endpoint):
    # A publisher sends a fix under both topics while somebody subscribes to the second one.
    with Feed(Publication(endpoint), ("innovation", *SHOWN)) as feed:
        publisher.publish_status(status(1))
        receive(feed, 1)
        t, give_up = 10**9, time.monotonic() + 5
        while len(feed.fixes) < 3:
            assert time.monotonic() < give_up
            t += 10**8
            publisher.publish_step(None, [make_fix(t)])
            feed.take(0.02)
        times = [fix.t for fix in feed.fixes]
        assert len(times) == len(set(times))
        publisher.publish_status(status(t + 3 * 10**9))
        receive(feed, feed.messages + 1)
        assert len(feed.fixes) == 0


def test_a_restart_of_the_daemon_gives_no_negative_rate(publisher, endpoint):
    with Feed(Publication(endpoint)) as feed:
        for second, put, rate in ((1, 5000, None), (2, 6000, 1000.0), (3, 10, None), (4, 1010, 1000.0)):
            counters = {"queue": {"put": put, "dropped": {}}}
            publisher.publish_status(status(second * 10**9, counters=counters))
            receive(feed, second)
            assert feed.measurement_rate == rate


def test_fixes_of_another_drive_are_forgotten(publisher, endpoint):
    with Feed(Publication(endpoint)) as feed:
        publisher.publish_status(status(1))
        receive(feed, 1)
        for t in (500 * 10**9, 10**9):  # a replay that begins again
            publisher.publish_step(None, [make_fix(t)])
            receive(feed, feed.messages + 1)
        assert [fix.t for fix in feed.fixes] == [10**9]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"7",
        b'{"t":"x"}',
        b'{"t":1,"state":7,"counters":3}',
        b"\xff\xfe",
        b'{"t":%d,"step":%d,"name":"mark","arguments":{},"state":"running","counters":{}}' % (HUGE, HUGE),
        b'{"t":1,"x":%d,"state":"running","counters":{"queue":{"put":%d,"dropped":{}}}}' % (HUGE, HUGE),
        b'{"t":1,"innovation":[0.1,0.1],"variance":[-1,-1],"fused":true}',
    ],
)
def test_invalid_messages_are_ignored(socket_folder, payload):
    context = zmq.Context()
    other = context.socket(zmq.PUB)
    other.bind(f"ipc://{socket_folder}/other")
    with Feed(Publication(f"ipc://{socket_folder}/other")) as feed:
        give_up = time.monotonic() + 5
        while feed.messages < 40:
            assert time.monotonic() < give_up
            for topic in (
                b"position",
                b"slip",
                b"suspension",
                b"status",
                b"command",
                b"innovation.gnss.position",
                b"position\xff",
            ):
                other.send_multipart([topic, payload])
                other.send_multipart([topic])
            feed.take(0.01)
        text = make_page("there", feed, RecentTrack(), 50)
    context.destroy(linger=0)
    assert text
    assert feed.status is None
    assert not feed.commands
    assert not feed.fixes


def test_without_a_terminal_one_page_or_one_object_is_printed(brief, publisher, endpoint, capsys):
    fill(publisher)
    assert main(["top", "--endpoint", endpoint]) == 0
    assert "36.0 km/h" in capsys.readouterr().out
    assert main(["top", "--endpoint", endpoint, "--json"]) == 0
    snapshot = json.loads(capsys.readouterr().out)
    assert snapshot["estimate"]["vx"] == 10.0
    assert snapshot["estimate"]["lat"] is None
    assert snapshot["status"]["faults"][0]["reason"] == "silent for 2.1 s"


def test_a_missing_daemon_is_reported_in_one_line(endpoint, capsys):
    assert main(["top", "--endpoint", endpoint, "--wait", "0.1"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert (
        err == f"vehicled: {endpoint}: no messages within 0.1 s; expected a running daemon (vehicled run)\n"
    )


@pytest.mark.parametrize(
    "arguments", [["--endpoint", "there"], ["--endpoint", "tcp://a:b"], ["--wait", "-1"]]
)
def test_bad_arguments_are_reported(arguments, capsys):
    assert main(["top", *arguments]) == 2
    assert capsys.readouterr().err.startswith(f"vehicled: {arguments[0]} {arguments[1]}: ")


def read_until(descriptor, wanted, seconds=20.0):
    text, give_up = "", time.monotonic() + seconds
    while wanted not in text:
        left = give_up - time.monotonic()
        assert left > 0, f"{wanted!r} did not come: {text[-2000:]!r}"
        if select.select([descriptor], [], [], left)[0]:
            text += os.read(descriptor, 65536).decode(errors="replace")
    return text


TOP = """
import sys
from vehicled.cli import main
from vehicled.live import top
top._SILENT_S = 0.5
sys.exit(main())
"""
"""The program, which takes a daemon for gone after half a second."""


def test_in_a_terminal_top_waits_for_a_daemon_shows_it_reports_its_end_and_quits_with_q(endpoint):
    ours, its = pty.openpty()
    command = [sys.executable, "-c", TOP, "top", "--endpoint", endpoint]
    process = subprocess.Popen(
        command,
        stdin=its,
        stdout=its,
        stderr=subprocess.PIPE,
        env=os.environ | {"COLUMNS": "80", "LINES": "40"},
    )
    os.close(its)
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
    try:
        read_until(ours, "no daemon publishes there yet")
        with publishing(endpoint) as publisher:
            give_up = time.monotonic() + 20
            while not publisher.counters()["subscribed"]:
                assert time.monotonic() < give_up
                time.sleep(0.02)
            fill(publisher)
            read_until(ours, "36.0 km/h")
        read_until(ours, "the daemon has stopped, or hangs; waiting")
        os.write(ours, b"q")
        assert process.wait(10) == 0
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_daemon_with_keys_is_shown_only_to_clients_it_lists(brief, tmp_path, capsys):
    for name in ("server", "client", "other"):
        _, secret = zmq.auth.create_certificates(tmp_path, name)
        os.chmod(secret, 0o600)
    listed = zmq.auth.load_certificate(tmp_path / "client.key")[0].decode()
    options = PublishOptions(
        endpoint="tcp://127.0.0.1:*",
        curve_secret_key_file=tmp_path / "server.key_secret",
        allowed_clients=(listed,),
    )
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.publish_status(status(1, "running", {"estimator": {}}))
    publisher.start()
    try:
        key = ["--server-key", str(tmp_path / "server.key")]
        arguments = ["top", "--json", "--endpoint", publisher.endpoint, "--wait", "3", *key]
        assert main([*arguments, "--client-key", str(tmp_path / "client.key_secret")]) == 0
        assert json.loads(capsys.readouterr().out)["status"]["state"] == "running"
        arguments[arguments.index("--wait") + 1] = "0.3"
        for refused in ([], ["--client-key", str(tmp_path / "other.key_secret")]):
            assert main([*arguments, *refused]) == 1
            assert "no messages within 0.3 s" in capsys.readouterr().err
    finally:
        publisher.close()
        endpoints.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--client-key", "client.key_secret"],
            "--client-key client.key_secret: expected --server-key beside it",
        ),
        (["--server-key", "none.key"], "--server-key none.key: "),
        (["--server-key", "text"], "--server-key text: expected a CURVE certificate file"),
        (
            ["--server-key", "server.key", "--client-key", "server.key"],
            "--client-key server.key: expected the certificate with the secret key",
        ),
    ],
)
def test_invalid_keys_are_reported_in_one_line(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    zmq.auth.create_certificates(tmp_path, "server")
    (tmp_path / "server.key").chmod(0o600)
    (tmp_path / "text").write_text("no key")
    assert main(["top", "--json", *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("wanted", "code"), [("", "31"), ("1", "1")])
def test_no_color_is_respected(wanted, code):
    script = "from vehicled.live.lines import style; print(repr(style('gnss silent!')))"
    shown = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "NO_COLOR": wanted}, capture_output=True, text=True
    )
    assert shown.stdout == f"'\\x1b[{code}mgnss silent\\x1b[0m'\n", shown.stderr
