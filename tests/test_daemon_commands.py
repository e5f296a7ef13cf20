"""The command socket: who may connect, which commands are executed, and how often."""

import contextlib
import json
import os
import random
import re
import socket as sockets
import stat
import time
from concurrent.futures import Future
from pathlib import Path

import msgspec
import pytest
import zmq
import zmq.auth
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vehicled.daemon import runtime_folder
from vehicled.daemon.commands import CommandServer
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.errors import RunError, UsageError
from vehicled.messages import Status


class Server:
    """A command server whose estimator replies at once."""

    def __init__(self, endpoint):
        self.submitted = []
        self.status = None
        options = PublishOptions(command_endpoint=endpoint)
        self.endpoints = Endpoints(options)
        self.server = CommandServer(
            self.endpoints, options, self.submit, lambda: self.status, lambda: {"imu.gyro": 0.01}
        )
        self.server.start()

    def submit(self, name, arguments):
        self.submitted.append((name, arguments))
        future: Future = Future()
        if arguments.get("x") == 13.0:
            future.set_exception(RunError("no luck there"))
        else:
            future.set_result({"executed": name})
        return future


@pytest.fixture
def server(socket_folder):
    server = Server(f"ipc://{socket_folder}/commands")
    yield server
    server.server.close()
    server.endpoints.close()


@pytest.fixture
def ask(server, connect):
    socket = connect(zmq.REQ, server.server.endpoint)

    def ask(request):
        socket.send(request if isinstance(request, bytes) else json.dumps(request).encode())
        return json.loads(socket.recv())

    return ask


def test_each_command_is_submitted_and_replied_to(server, ask):
    assert ask({"command": "status"}) == {"ok": False, "error": "not yet running"}
    server.status = Status(5, "running", {"loop": {"steps": 3}})
    assert ask({"command": "status"})["status"]["counters"] == {"loop": {"steps": 3}}
    assert ask({"command": "reset"}) == {"ok": True, "executed": "reset"}
    assert ask({"command": "set_position", "lat": 48.1, "lon": 11.5, "yaw": 0.1})["ok"]
    assert ask({"command": "reload_noise"})["ok"]
    assert server.submitted == [
        ("reset", {}),
        ("set_position", {"lat": 48.1, "lon": 11.5, "yaw": 0.1}),
        ("reload_noise", {"imu.gyro": 0.01}),
    ]


def test_what_changes_the_filter_is_in_the_log(server, ask, caplog):
    caplog.set_level("INFO")
    ask({"command": "status"})
    assert ask({"command": "reload_noise"})["ok"]
    assert not ask({"command": "set_position", "x": 13.0, "y": 0.0, "z": 0.0})["ok"]
    executed = [r.getMessage() for r in caplog.records if "executed" in r.getMessage()]
    assert executed == ["command executed: reload_noise"]


def test_a_mark_is_a_text_of_one_short_line(server, ask):
    assert ask({"command": "mark", "text": "Bremspunkt 3 – näher"})["ok"]
    assert server.submitted == [("mark", {"text": "Bremspunkt 3 – näher"})]
    for text in ("", "x" * 201, "two\nlines", "\x1b[2J", "a\u2028b", 7, None):
        assert ask({"command": "mark", "text": text})["ok"] is False
    assert ask({"command": "mark"})["ok"] is False
    assert len(server.submitted) == 1


def test_an_error_of_the_estimator_is_the_reply(ask):
    assert ask({"command": "set_position", "x": 13.0, "y": 0}) == {"ok": False, "error": "no luck there"}


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"", "truncated"),
        (b"\x00\xff\xfe", "malformed"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `command`; expected one of status, reset, set_position, mark, "),
        ({"command": "self_destruct"}, "Invalid value 'self_destruct'.*; expected one of status, reset, "),
        ({"command": "self\n destruct"}, "Invalid value 'self destruct'"),
        ({"command": "reset", "hard": True}, "unknown field `hard`"),
        ({"command": "set_position"}, "either `lat` and `lon`, or `x` and `y`"),
        ({"command": "set_position", "lat": 48.1}, "either"),
        ({"command": "set_position", "x": 1, "y": 1, "lat": 48.1, "lon": 11.5}, "either"),
        ({"command": "set_position", "x": 1, "y": 1, "alt": 5}, "either"),
        ({"command": "set_position", "lat": 91, "lon": 0}, "<= 90.*lat"),
        ({"command": "set_position", "lat": "48", "lon": 0}, "Expected `float | null`, got `str`"),
        (b'{"command": "set_position", "x": NaN, "y": 0}', "malformed"),
        (b'{"command": "set_position", "x": 1e999, "y": 0}', "out of range"),
        ({"command": "set_position", "x": 0, "y": 0, "z": 1e7}, r"<= 100000.0 - at `\$\.z`"),
        ({"command": "set_position", "x": 0, "y": 0, "sigma": 1e-300}, r">= 0.001 - at `\$\.sigma`"),
        ({"command": "set_position", "x": 0, "y": 0, "yaw": 0, "yaw_sigma": 1e-300}, r">= 0.0001 - at"),
        (b"[" * 10_000, "recursion|depth|truncated|Expected"),
    ],
)
def test_bad_requests_get_one_line_back(ask, request_, message):
    reply = ask(request_)
    assert reply["ok"] is False
    assert "\n" not in reply["error"]
    assert re.search(message, reply["error"]), reply["error"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(st.binary(max_size=200))
def test_every_request_gets_a_reply(ask, request_):
    assert isinstance(ask(request_)["ok"], bool)


def test_an_oversized_request_gets_no_reply_and_others_are_served(server, connect, ask):
    rude = connect(zmq.REQ, server.server.endpoint)
    rude.send(b"x" * 100_000)
    assert rude.poll(200) == 0
    assert ask({"command": "reset"})["ok"]


def test_garbage_on_the_wire_is_refused_and_the_next_request_served(server, ask):
    server.status = Status(5, "running", {})
    for seed in range(20):
        with sockets.socket(sockets.AF_UNIX) as raw:
            raw.connect(server.server.endpoint.removeprefix("ipc://"))
            raw.sendall(random.Random(seed).randbytes(1000))
        assert ask({"command": "status"})["ok"]


def test_a_request_of_several_frames_is_refused(server, connect):
    client = connect(zmq.REQ, server.server.endpoint)
    client.send_multipart([b'{"command":"reset"}', b"more"])
    assert msgspec.json.decode(client.recv()) == {"ok": False, "error": "Expected one frame, got 2"}


def test_commands_that_change_the_filter_are_rate_limited(server, ask):
    server.status = Status(5, "running", {})
    replies = [ask({"command": "reset"}) for _ in range(20)]
    begun = time.monotonic()
    done = [r["ok"] for r in replies]
    assert done[:3] == [True] * 3
    assert len(server.submitted) == sum(done) < 10
    assert replies[3]["error"].startswith("too many commands")
    assert ask({"command": "set_position", "x": 1, "y": 1})["ok"] is False
    assert ask({"command": "status"})["ok"]
    while not ask({"command": "reset"})["ok"]:
        assert time.monotonic() < begun + 5
        time.sleep(0.1)


def test_endless_requests_of_one_client_do_not_block_others(server, connect, ask):
    server.status = Status(5, "running", {})
    hostile = connect(zmq.DEALER, server.server.endpoint)
    hostile.sndtimeo = 0
    hostile.sndhwm = 10
    begun = time.monotonic()
    served = asked = 0
    while time.monotonic() < begun + 1.0:
        with contextlib.suppress(zmq.Again):
            while True:
                hostile.send_multipart([b"", b'{"command": "status"}'])
        assert ask({"command": "status"})["ok"]
        asked += 1
        while hostile.poll(0):
            hostile.recv_multipart()
            served += 1
    # The rate limit holds for both clients together, and the other client gets its share.
    assert served + asked <= 50 + 100 * (time.monotonic() - begun) + 1
    assert asked >= 10


def test_only_owner_and_group_may_use_the_socket(server):
    mode = os.stat(server.server.endpoint.removeprefix("ipc://")).st_mode
    assert stat.S_IMODE(mode) == 0o660


def test_a_socket_in_use_is_not_taken_over(server, ask):
    options = PublishOptions(command_endpoint=server.server.endpoint)
    endpoints = Endpoints(options)
    with pytest.raises(RunError, match="commands: cannot be bound: Address already in use") as caught:
        endpoints.bind(zmq.ROUTER, server.server.endpoint, 1000)
    assert caught.value.exit_status == 1  # the service restarts; with status 2 it would not
    endpoints.close()
    assert ask({"command": "reset"})["ok"]


def test_a_path_too_long_for_a_socket_is_a_usage_error(socket_folder):
    endpoints = Endpoints(PublishOptions())
    with pytest.raises(UsageError, match="cannot be bound: AF_UNIX path too long"):
        endpoints.bind(zmq.ROUTER, f"ipc://{socket_folder}/{'x' * 120}", 1000)
    endpoints.close()


def test_only_a_daemons_own_socket_is_removed_at_its_end(socket_folder):
    path = socket_folder / "commands"
    first, second = Endpoints(PublishOptions()), Endpoints(PublishOptions())
    bound = first.bind(zmq.ROUTER, f"ipc://{path}", 1000)
    path.rename(socket_folder / "away")  # so that its inode is not reused
    other = second.bind(zmq.ROUTER, f"ipc://{path}", 1000)
    bound.close()
    first.close()
    assert path.is_socket()
    other.close()
    second.close()
    assert not path.exists()


@pytest.mark.parametrize("endpoint", ["tcp://a..b:5550", f"tcp://{'x' * 70}:5550", "ipc:///tmp/a\0b"])
def test_an_invalid_endpoint_is_reported_in_one_line(endpoint):
    endpoints = Endpoints(PublishOptions(endpoint=endpoint, insecure_public_bind=True))
    with pytest.raises(UsageError, match=r"^[^\x00\n]*: cannot be bound: [^\n]+$"):
        endpoints.bind(zmq.XPUB, endpoint, 1000)
    endpoints.close()


def test_a_regular_file_at_the_path_of_the_socket_is_left_alone(socket_folder):
    path = socket_folder / "drive.mcap"
    path.write_bytes(b"a recording")
    endpoints = Endpoints(PublishOptions())
    with pytest.raises(UsageError, match=r"drive\.mcap: cannot be bound: there is a file that is no socket"):
        endpoints.bind(zmq.ROUTER, f"ipc://{path}", 1000)
    endpoints.close()
    assert path.read_bytes() == b"a recording"


def test_a_socket_left_behind_is_replaced(socket_folder, connect):
    path = socket_folder / "commands"
    with sockets.socket(sockets.AF_UNIX) as former:
        former.bind(str(path))
    server = Server(f"ipc://{path}")
    client = connect(zmq.REQ, server.server.endpoint)
    client.send(b'{"command": "reset"}')
    assert json.loads(client.recv())["ok"]
    server.server.close()
    server.endpoints.close()
    assert not path.exists()


def test_commands_over_tcp_are_encrypted(tmp_path, connect):
    zmq.auth.create_certificates(tmp_path, "server")
    secret = tmp_path / "server.key_secret"
    secret.chmod(0o600)
    options = PublishOptions(command_endpoint="tcp://127.0.0.1:*", curve_secret_key_file=secret)
    endpoints = Endpoints(options)
    server = CommandServer(endpoints, options, lambda *_: Future(), lambda: Status(5, "running", {}), dict)
    server.start()
    friend = connect(zmq.REQ, server.endpoint, zmq.auth.load_certificate(secret)[0])
    plain = connect(zmq.REQ, server.endpoint)
    for client in (friend, plain):
        client.send(b'{"command": "status"}')
    assert json.loads(friend.recv())["ok"]
    assert plain.poll(100) == 0
    server.close()
    endpoints.close()


def test_the_default_endpoint_is_in_the_folder_of_service_session_or_user(socket_folder, monkeypatch):
    monkeypatch.setattr(runtime_folder, "SERVICE_FOLDER", socket_folder / "run")
    monkeypatch.setattr(runtime_folder.tempfile, "tempdir", str(socket_folder))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    own = socket_folder / f"vehicled-{os.geteuid()}"
    assert runtime_folder.default_command_endpoint() == f"ipc://{own}/commands"
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    (socket_folder / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(socket_folder / "session"))
    assert runtime_folder.default_command_endpoint() == f"ipc://{socket_folder}/session/vehicled/commands"
    (socket_folder / "run").mkdir()
    assert runtime_folder.default_command_endpoint() == f"ipc://{socket_folder}/run/commands"


@pytest.mark.parametrize("spoil", [lambda f: f.chmod(0o777), lambda f: (f.rmdir(), f.symlink_to("/"))])
def test_a_folder_that_others_can_write_to_is_not_used(socket_folder, monkeypatch, spoil):
    monkeypatch.setattr(runtime_folder, "SERVICE_FOLDER", Path("/nowhere"))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(socket_folder))
    folder = socket_folder / "vehicled"
    folder.mkdir()
    spoil(folder)
    with pytest.raises(UsageError, match="vehicled: others can write to it"):
        runtime_folder.default_command_endpoint()
