"""The server of `vehicled view`: access to the page, and clients that flood, hang or send garbage."""

import contextlib
import http.client
import json
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zmq

pytest.importorskip("websockets", reason="needs the extra `view`")

import asyncio

from publisher_rig import COUNTERS, circling, publishing, status
from recording_rig import write_recording
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from vehicled.cli import main
from vehicled.daemon.recorder import Recorder
from vehicled.daemon.recording_file import Contents, RecordRates
from vehicled.errors import RunError, UsageError
from vehicled.live.subscriber import Publication
from vehicled.schemas import encode_estimate
from vehicled.view.guard import Guard
from vehicled.view.live_run import LiveRun
from vehicled.view.messages import COLUMNS, ROW_BYTES
from vehicled.view.recorded_run import RecordedRun
from vehicled.view.server import MAX_CLIENTS, ViewServer, find_url

PAGE = Path(__file__).parent.parent / "vehicled/view/page"


class Drive:
    """A source that gives `width` bytes of rows at each poll."""

    def __init__(self, width=ROW_BYTES):
        self.width = width
        self.marks: list[str] = []
        self.polled = 0

    def backlog(self):
        return ['{"type":"hello"}']

    def poll(self):
        self.polled += 1
        return [bytes(self.width)]

    async def mark(self, text):
        if text == "no":
            raise RunError("no daemon")
        self.marks.append(text)


class Running:
    """A server in a thread."""

    def __init__(self, source, host="127.0.0.1"):
        self.source, self.host = source, host
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    async def _run(self):
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with ViewServer(self.source, self.host, 0) as self.server:
            self._ready.set()
            sending = asyncio.create_task(self.server.run())
            await self._end.wait()
            assert not sending.done()  # nothing that clients did has ended it
            sending.cancel()

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(10)
        self.port = self.server.port
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(10)
        assert not self._thread.is_alive()

    def get(self, path="/", **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        return connection.getresponse()

    def open(self, **options):
        options.setdefault("origin", f"http://127.0.0.1:{self.port}")
        # Rows that a test has not read would delay the end of the connection.
        return connect(f"ws://127.0.0.1:{self.port}/live", compression=None, close_timeout=0.2, **options)

    def wait_for_clients(self, number):
        give_up = time.monotonic() + 15
        while self.server.clients != number:
            assert time.monotonic() < give_up, self.server.clients
            time.sleep(0.02)


@pytest.fixture
def drive():
    return Drive()


@pytest.fixture
def running(drive):
    with Running(drive) as running:
        yield running


def test_every_file_that_the_page_names_is_there_with_its_type(running):
    text = running.get("/").read().decode()
    for name in PAGE.iterdir():
        reply = running.get("/" if name.name == "index.html" else f"/{name.name}")
        assert reply.status == 200
        assert reply.read() == name.read_bytes()
        policy = reply.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
    for name in ("/uplot/uPlot.iife.min.js", "/uplot/uPlot.min.css", "/style.css", "/main.js"):
        assert f'"{name}"' in text
        assert running.get(name).status == 200
    assert "style=" not in text
    assert "<script>" not in text
    assert "onclick" not in text


@pytest.mark.parametrize(
    "path",
    ["/nothing", "/../server.py", "/%2e%2e/server.py", "//etc/passwd", "/main.js/", "/index.html", "/\\x"],
)
def test_other_paths_are_not_found(running, path):
    assert running.get(path).status == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("localhost", 200), ("localhost:9000", 200), ("127.0.0.1:1", 200), ("[::1]:80", 200)),
        *(("evil.example", 421), ("evil.example:8550", 421), ("localhost.evil.example", 421), ("", 421)),
        *(("192.168.1.7", 421), ("[::1", 421), ("127.0.0.1@evil.example", 421), ("0x7f000001", 421)),
    ],
)
def test_a_request_with_a_foreign_host_name_is_refused(running, host, status):
    assert running.get("/", Host=host).status == status


@pytest.mark.parametrize(
    "origin",
    [None, "null", "http://evil.example", "https://localhost", "http://127.0.0.1:1", "http://[", "file://"],
)
def test_a_page_of_another_site_gets_no_data(running, origin):
    with pytest.raises(InvalidStatus) as refused, running.open(origin=origin):
        pass
    assert refused.value.response.status_code == 403


def test_on_a_network_a_page_needs_the_token_once_and_then_the_cookie(drive):
    with Running(drive, "0.0.0.0") as running:
        token = running.server.guard.token
        assert len(token) >= 32
        url = find_url("0.0.0.0", running.port, token)
        assert url.endswith(f":{running.port}/?token={token}")
        for path in (
            "/",
            "/main.js",
            "/live",
            "/?token=",
            "/?token=x",
            f"/?token={token[:-1]}",
            f"/?Token={token}",
        ):
            assert running.get(path).status == 403
        assert running.get("/", Cookie="vehicled_view=x").status == 403
        assert running.get("/", Cookie="vehicled_view=\xff; a").status == 403
        reply = running.get(f"/?token={token}")
        assert (reply.status, reply.headers["Location"]) == (303, "/")
        cookie = reply.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite" in cookie
        cookie = cookie.split(";")[0]
        assert running.get("/", Cookie=cookie).status == 200
        with pytest.raises(InvalidStatus):
            running.open()
        with running.open(additional_headers={"Cookie": cookie}) as page:
            assert page.recv(timeout=5) == '{"type":"hello"}'
        # Foreign host names are refused even with the cookie.
        assert running.get("/", Cookie=cookie, Host="evil.example").status == 421
        assert running.get("/", Cookie=cookie, Host="10.1.2.3").status == 200


def test_tokens_are_random_and_compared_in_constant_time(monkeypatch):
    assert Guard("127.0.0.1").token is Guard("localhost").token is Guard("::1").token is None
    guard, other = Guard("192.168.1.7"), Guard("192.168.1.7")
    assert guard.token != other.token
    compared = []
    monkeypatch.setattr(
        "vehicled.view.guard.hmac.compare_digest", lambda a, b: compared.append((a, b)) or a == b
    )
    assert guard.has_token_in_address(f"/?token={guard.token}")
    assert guard.has_token_in_cookie(guard.cookie().split(";")[0])
    assert not guard.has_token_in_address(f"/?token={other.token}")
    assert len(compared) == 3


def test_marks_are_passed_on_and_errors_reported(running, drive):
    with running.open() as page:
        assert page.recv(timeout=5) == '{"type":"hello"}'

        def mark(message):
            page.send(message)
            while isinstance(reply := page.recv(timeout=5), bytes):
                pass
            return json.loads(reply)["error"]

        assert mark('{"type":"mark","text":"kerb"}') is None
        assert mark('{"type":"mark","text":"no"}') == "no daemon"
        for bad in (
            '{"type":"mark","text":""}',
            '{"type":"reset"}',
            "[",
            "7",
            b"\xff\xfe",
            '{"type":"mark"}',
        ):
            assert mark(bad)
    assert drive.marks == ["kerb"]


def send_until_closed(page, messages):
    """The code with which the server has closed the connection; None if the connection was cut."""
    try:
        for message in messages:
            page.send(message)
        while True:
            page.recv(timeout=5)
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


def test_a_page_that_floods_is_disconnected_and_the_others_go_on(running, drive):
    with running.open() as other, running.open() as rude:
        assert send_until_closed(rude, 100_000 * ['{"type":"mark","text":"x"}']) in (None, 1008)
        running.wait_for_clients(1)
        assert len(drive.marks) <= 30
        for _ in range(10):
            other.recv(timeout=5)


def test_the_sender_of_a_large_message_is_disconnected(running):
    with running.open() as page:
        assert send_until_closed(page, ["x" * 100_000]) == 1009
    running.wait_for_clients(0)


def test_pages_that_disappear_or_do_not_read_are_disconnected(monkeypatch):
    monkeypatch.setattr("vehicled.view.server._QUEUE", 40)  # one and a half seconds
    drive = Drive(width=300_000)
    with Running(drive) as running, contextlib.ExitStack() as stack:
        reader, *gone = (stack.enter_context(running.open()) for _ in range(4))
        raw = socket.create_connection(("127.0.0.1", running.port))
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.sendall(
            f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            f"Origin: http://127.0.0.1:{running.port}\r\n\r\n".encode()
        )
        running.wait_for_clients(5)
        for page in gone:
            page.socket.shutdown(socket.SHUT_RDWR)
        give_up = time.monotonic() + 30
        while running.server.clients > 1:
            assert time.monotonic() < give_up
            reader.recv(timeout=5)  # the reader is served all the time
        raw.close()


def test_the_number_of_pages_is_limited_and_closed_pages_make_room(running):
    with contextlib.ExitStack() as stack:
        for _ in range(MAX_CLIENTS):
            stack.enter_context(running.open())
        running.wait_for_clients(MAX_CLIENTS)
        with running.open() as late:
            assert send_until_closed(late, []) == 1013
            assert late.close_reason == f"{MAX_CLIENTS} pages are open already"
    running.wait_for_clients(0)
    with running.open() as page:
        page.recv(timeout=5)


def test_garbage_and_silent_connections_do_not_stop_the_server(running):
    silent = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(100)]
    for seed in range(50):
        with socket.create_connection(("127.0.0.1", running.port)) as raw, contextlib.suppress(OSError):
            raw.sendall(random.Random(seed).randbytes(5000) + b"\r\n\r\n")
    for request in (
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 5000,
    ):
        with socket.create_connection(("127.0.0.1", running.port)) as raw, contextlib.suppress(OSError):
            raw.sendall(request)
    assert running.get("/").status == 200
    for connection in silent:
        connection.close()


# -- a running daemon ------------------------------------------------------------------------------------------


def test_a_late_page_gets_the_last_minutes_and_every_mark(socket_folder):
    endpoint = f"ipc://{socket_folder}/results"
    with publishing(endpoint) as publisher, contextlib.closing(LiveRun(Publication(endpoint))) as run:
        give_up = time.monotonic() + 10
        while not publisher.counters()["subscribed"]:
            assert time.monotonic() < give_up
            time.sleep(0.01)
        # Only topics that the page shows are subscribed to.
        assert set(publisher.counters()["subscribed"]) == {
            "position",
            "slip",
            "suspension",
            "status",
            "command",
        }
        messages = []
        for k in range(50):
            publisher.publish_step(circling(k * 0.04, 5 * 10**18), [])
            publisher.publish_command(5 * 10**18 + k, "mark", {"text": f"mark {k}"})
            if k % 10 == 0:
                publisher.publish_status(status(5 * 10**18 + k))
            sent = publisher.counters()["sent"]["position"]
            while publisher.counters()["sent"]["command"] <= k:
                assert time.monotonic() < give_up, sent
                time.sleep(0.001)
            time.sleep(0.005)
            messages += run.poll()
        hello, rows, *texts = run.backlog()
    assert json.loads(hello)["columns"] == ["t", *COLUMNS]
    table = np.frombuffer(rows, "<f4").reshape(-1, 1 + len(COLUMNS))
    assert len(table) >= 40
    # Seconds since the beginning, to the millisecond although the clock itself has 19 digits.
    steps = np.diff(table[:, 0].astype(float)) / 0.04
    assert np.all(steps > 0.9)
    assert np.allclose(steps, np.round(steps), atol=0.02)
    marks = [m["text"] for m in map(json.loads, texts) if m["type"] == "command"]
    assert marks == [f"mark {k}" for k in range(50)]
    assert b"".join(m for m in messages if isinstance(m, bytes)) == rows


def test_only_a_daemon_of_this_machine_receives_marks(socket_folder, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "vehicled.view.live_run.request", lambda endpoint, command: asked.append((endpoint, command))
    )
    endpoint = f"ipc://{socket_folder}/results"
    places = ("ipc:///run/vehicled/commands", "tcp://10.0.0.1:5551", None)
    with publishing(endpoint) as publisher, contextlib.closing(LiveRun(Publication(endpoint))) as run:
        for t, place in enumerate(places):
            commands = {} if place is None else {"commands": {"endpoint": place, "done": 0}}
            messages, give_up = [], time.monotonic() + 10
            publisher.publish_status(status(t, counters=COUNTERS | commands))
            while not any('"status"' in m for m in messages):
                assert time.monotonic() < give_up
                messages = run.poll()
            takes = place is not None and place.startswith("ipc")
            assert json.loads(messages[-1])["takes_marks"] is takes
            with contextlib.nullcontext() if takes else pytest.raises(RunError):
                asyncio.run(run.mark("kerb"))
    assert asked == [(places[0], {"command": "mark", "text": "kerb"})]


FOREIGN = (
    b"",
    b'{"t":1.5}',
    b'{"t":1,"state":"running","counters":{"loop":3}}',
    b'{"t":%d,"step":%d,"name":"mark","arguments":{}}' % (10**400, 10**400),
    b"\xff",
)


def test_invalid_messages_do_not_reach_the_page(socket_folder):
    context = zmq.Context()
    other = context.socket(zmq.PUB)
    other.bind(f"ipc://{socket_folder}/other")
    got, begun = [], time.monotonic()
    with contextlib.closing(LiveRun(Publication(f"ipc://{socket_folder}/other"))) as run:
        while time.monotonic() < begun + 0.5:
            for payload in FOREIGN:
                for topic in (b"slip", b"suspension", b"status", b"command"):
                    other.send_multipart([topic, payload])
            got += run.poll()
            time.sleep(0.01)
    context.destroy(linger=0)
    assert got == []


def test_a_mark_without_a_daemon_is_refused_with_the_reason(socket_folder):
    run = LiveRun(Publication(f"ipc://{socket_folder}/nobody"))
    with pytest.raises(RunError, match="expected a daemon on this machine"):
        asyncio.run(run.mark("x"))
    run.close()


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["--port", "70000"], 2, "--port 70000: expected 0 to 65535"),
        (["--endpoint", "there"], 2, "--endpoint there: "),
        (["run.mcap", "--endpoint", "tcp://127.0.0.1:5550"], 2, "--endpoint: not with a RUN"),
        (["/nowhere/run.mcap"], 2, "/nowhere/run.mcap: No such file or directory"),
        (["--host", "203.0.113.7"], 1, "203.0.113.7 port 8550: cannot be bound: "),
        (["--host", "no such host"], 1, "no such host port 8550: cannot be bound: "),
    ],
)
def test_bad_arguments_are_reported_in_one_line(arguments, status, line, capsys, monkeypatch):
    monkeypatch.setattr("os.nice", lambda _: 0)
    assert main(["view", *arguments]) == status
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"vehicled: {line}")


@pytest.mark.parametrize(
    "content",
    [b"", b"\x89MCAP0\r\n", b"\x89MCAP0\r\n" + b"\x06" * 500, b"a,b\n1,2\n", b"\xff" * 1000, b"<html>"],
)
@pytest.mark.parametrize("name", ["run.mcap", "estimates.csv"])
def test_a_file_that_is_not_a_drive_is_reported_in_one_line(content, name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("os.nice", lambda _: 0)
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["view", str(path)]) in (1, 2)
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"vehicled: {path}: ")


def test_a_port_in_use_is_reported_in_one_line(running, tmp_path):
    command = [sys.executable, "-m", "vehicled", "view", "--port", str(running.port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "cannot be bound: " in done.stderr
    assert done.stderr.count("\n") == 1


def test_without_the_extra_the_command_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "websockets", None)
    monkeypatch.setattr("os.nice", lambda _: 0)
    assert main(["view"]) == 2
    assert "pip install 'vehicled[view]'" in capsys.readouterr().err


@pytest.mark.parametrize("rates", [{}, {"suspension": 0.0}, {"slip": 30.0, "suspension": 7.0}])
def test_a_recording_is_shown_at_any_rates_of_its_topics(tmp_path, rates):
    path = tmp_path / "run.mcap"
    with Recorder(path, "", 0, 0, contents=Contents(RecordRates(**rates))) as recorder:
        for k in range(500):
            recorder.record_step(k * 4_000_000, [], circling(k * 0.004), [])
    run = RecordedRun(path)
    hello, rows = run.backlog()
    names = json.loads(hello)["columns"]
    table = dict(zip(names, np.frombuffer(rows, "<f4").reshape(-1, len(names)).T, strict=True))
    assert np.allclose(table["t"], np.arange(50) * 0.04)
    assert np.allclose(table["x"], 30 * np.sin(table["t"] / 3), atol=1e-4)
    assert np.all(table["tyre.fl.fz"] == 3500.0)
    assert np.isfinite(table["suspension.fl.deflection"]).all() == (rates.get("suspension") != 0.0)


def test_damaged_messages_of_a_recording_are_counted_and_left_out(tmp_path, monkeypatch):
    def encode_badly(topic, estimate):
        t = {1: b"null", 2: b"1.5", 3: b"1" + 400 * b"0"}.get(estimate.t // 40_000_000)
        return encode_estimate(topic, estimate) if t is None else b'{"t":%b,"x":1}' % t

    monkeypatch.setattr("vehicled.schemas.encode_estimate", encode_badly)
    with Recorder(tmp_path / "run.mcap", "", 0, 0) as recorder:
        for k in range(10):
            recorder.record_step(k * 40_000_000, [], circling(k * 0.04), [])
    run = RecordedRun(tmp_path / "run.mcap")
    assert run.rows == 7
    assert run.problems.counts == {"bad message": 3}


def test_a_recording_cannot_be_marked(tmp_path):
    write_recording(tmp_path / "run.mcap")
    run = RecordedRun(tmp_path / "run.mcap")
    # 290 estimates at 250 Hz are 1.16 s, and 25 rows a second of those are shown.
    assert 28 <= run.rows <= 30
    with pytest.raises(UsageError):
        asyncio.run(run.mark("x"))
