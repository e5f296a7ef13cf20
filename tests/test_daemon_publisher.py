"""The publishing and command sockets as their users see them."""

import json
import os
import random
import re
import socket as sockets
import time
from concurrent.futures import Future

import msgspec
import numpy as np
import pytest
import zmq
import zmq.auth
from daemon_fakes import make_innovation
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vehicled.daemon.commands import CommandServer
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.publisher import Publisher
from vehicled.errors import RunError, UsageError
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Parameters, SlowState, Status

LOCAL = {"endpoint": "tcp://127.0.0.1:*", "command_endpoint": "tcp://127.0.0.1:*"}
WAIT_MS = 5000


def estimate(t, x=1.5):
    values = np.full(len(ESTIMATE_COLUMNS), np.nan)
    values[0] = x
    return Estimate(t, values)


@pytest.fixture
def publisher():
    options = PublishOptions(**LOCAL)
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.start()
    yield publisher
    publisher.close()
    endpoints.close()


@pytest.fixture
def connect():
    """Makes sockets of a client and closes them."""
    context = zmq.Context()

    def make(kind, endpoint, server_key=None, keys=None):
        socket = context.socket(kind)
        socket.linger = 0
        socket.rcvtimeo = WAIT_MS
        if server_key is not None:
            socket.curve_serverkey = server_key
            socket.curve_publickey, socket.curve_secretkey = keys or zmq.curve_keypair()
        socket.connect(endpoint)
        return socket

    yield make
    context.destroy(linger=0)


def receive(socket):
    topic, payload = socket.recv_multipart()
    return topic.decode(), json.loads(payload)


def wait_until(condition):
    for _ in range(500):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("did not happen within 5 s")


def test_topics_and_payloads(publisher, connect):
    subscriber = connect(zmq.SUB, publisher.endpoint)
    subscriber.subscribe("")
    wait_until(lambda: len(publisher.counters()["subscribed"]) == 6)
    publisher.publish_step(estimate(7), [make_innovation(6)])
    publisher.publish_status(Status(8, "running", {"a": {"b": 1}}))
    publisher.publish_parameters(Parameters.of(8, {"gyro_scale": SlowState(0.5, 0.1, "–")}))
    got = [receive(subscriber) for _ in range(6)]
    topics = ["position", "slip", "suspension", "innovation", "status", "parameters"]
    assert [topic for topic, _ in got] == topics
    assert all(message["schema"] == 1 for _, message in got)
    assert got[0][1]["x"] == 1.5
    assert got[0][1]["y"] is None
    assert got[3][1]["sensor"] == "imu.gyro"
    assert got[4][1]["counters"] == {"a": {"b": 1}}
    assert (got[5][1]["value"], got[5][1]["sigma"]) == ({"gyro_scale": 0.5}, {"gyro_scale": 0.1})
    once = dict.fromkeys(topics, 1)
    wait_until(lambda: publisher.counters()["sent"] == once)


@pytest.mark.parametrize("endpoint", ["ipc://{}/results", "tcp://[::1]:*"])
def test_other_transports(endpoint, tmp_path, connect):
    if "::1" in endpoint:
        try:
            with sockets.socket(sockets.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError:
            pytest.skip("no IPv6 here")
    options = PublishOptions(endpoint=endpoint.format(tmp_path))
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.publish_status(Status(5, "running", {}))
    publisher.start()
    context = zmq.Context()
    with context.socket(zmq.SUB) as subscriber:
        subscriber.ipv6 = True
        subscriber.rcvtimeo = WAIT_MS
        subscriber.connect(publisher.endpoint)
        subscriber.subscribe("")
        assert receive(subscriber)[1]["t"] == 5
    context.term()
    publisher.close()
    endpoints.close()


def test_a_late_joiner_gets_the_last_value_of_its_topics(publisher, connect):
    for t in (1, 2, 3):
        publisher.publish_step(estimate(t), [])
    publisher.publish_status(Status(3, "running", {}))
    for topic, expected in (("status", ["status"]), ("s", ["slip", "suspension", "status"])):
        late = connect(zmq.SUB, publisher.endpoint)
        late.subscribe(topic)
        got = [receive(late) for _ in expected]
        assert [t for t, _ in got] == expected
        assert all(message["t"] == 3 for _, message in got)


def test_a_second_subscriber_of_a_topic_gets_it_too(publisher, connect):
    publisher.publish_status(Status(5, "running", {}))
    for _ in range(2):
        late = connect(zmq.SUB, publisher.endpoint)
        late.subscribe("status")
        assert receive(late)[1]["t"] == 5


def test_topics_without_subscribers_are_not_sent(publisher, connect):
    publisher.publish_step(estimate(1), [])
    subscriber, other = (connect(zmq.SUB, publisher.endpoint) for _ in range(2))
    subscriber.subscribe("slip")
    receive(subscriber)
    subscriber.unsubscribe("slip")
    other.subscribe("status")
    wait_until(lambda: publisher.counters()["subscribed"] == ["status"])
    publisher.publish_step(estimate(2), [])
    publisher.publish_status(Status(3, "running", {}))
    receive(other)  # the publishing thread has got past the step
    subscriber.subscribe("slip")
    assert receive(subscriber)[1]["t"] == 2
    wait_until(lambda: publisher.counters()["sent"]["slip"] == 2)
    assert publisher.counters()["sent"]["position"] == 0


def test_unknown_subscriptions_are_ignored_and_counted(publisher, connect):
    client = connect(zmq.XSUB, publisher.endpoint)
    for request in (b"\x01no such topic", b"\x07hello", b"", b"\x01" + b"x" * 200):
        client.send(request)
    client.send_multipart([b"\x01status", b"more"])
    client.send(b"\x01status")
    publisher.publish_status(Status(5, "running", {}))
    wait_until(lambda: publisher.counters()["subscribed"] == ["status"])
    assert publisher.counters()["ignored"] >= 3
    assert receive(client)[1]["t"] == 5


def test_the_backlog_is_bounded_and_drops_are_counted():
    options = PublishOptions(**LOCAL)
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)  # its thread not yet started: nothing is taken from the backlog
    for t in range(1000):
        publisher.publish_step(estimate(t), [])
    assert publisher.counters()["dropped"] > 0
    publisher.start()
    publisher.close()
    endpoints.close()


def test_a_message_that_cannot_be_encoded_does_not_stop_the_others(publisher, connect):
    subscriber = connect(zmq.SUB, publisher.endpoint)
    subscriber.subscribe("")
    wait_until(lambda: len(publisher.counters()["subscribed"]) == 6)
    publisher.publish_status(Status(1, "running", {"what": object()}))
    publisher.publish_status(Status(2, "running", {}))
    assert receive(subscriber)[1]["t"] == 2
    assert publisher.counters()["errors"] == 1


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://0.0.0.0:5550", "tcp://*:5550", "tcp://192.168.1.5:5550", "tcp://[::]:5550", "tcp://eth0:5550"],
)
@pytest.mark.parametrize("key", ["endpoint", "command_endpoint"])
def test_a_public_bind_without_keys_is_refused(endpoint, key):
    with pytest.raises(UsageError, match=rf"publish\.{key}: .*insecure_public_bind: true"):
        Endpoints(PublishOptions(**{**LOCAL, key: endpoint}))


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5550", "tcp://[::1]:5550", "ipc:///run/vehicled/out"])
def test_local_binds_are_accepted(endpoint):
    assert list(PublishOptions(endpoint=endpoint).check()) == []


def test_a_public_bind_is_accepted_when_asked_for_in_as_many_words(connect):
    options = PublishOptions(
        endpoint="tcp://0.0.0.0:*", command_endpoint="tcp://127.0.0.1:*", insecure_public_bind=True
    )
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.start()
    publisher.close()
    endpoints.close()


@pytest.mark.parametrize(
    "endpoint", ["5550", "tcp://", "tcp://127.0.0.1", "udp://127.0.0.1:1", "ipc://", "tcp://127.0.0.1:99999"]
)
def test_bad_endpoints(endpoint):
    with pytest.raises(UsageError, match=r"publish\.endpoint: expected 'tcp://ADDRESS:PORT'"):
        Endpoints(PublishOptions(endpoint=endpoint))


def test_a_port_in_use_is_one_clear_line(publisher):
    options = PublishOptions(endpoint=publisher.endpoint)
    endpoints = Endpoints(options)
    with pytest.raises(UsageError, match=r"127\.0\.0\.1.*cannot be bound"):
        Publisher(endpoints, options)
    endpoints.close()


@pytest.fixture
def certificates(tmp_path):
    zmq.auth.create_certificates(tmp_path, "server")
    secret = tmp_path / "server.key_secret"
    secret.chmod(0o600)
    return secret


def start_curve(certificates, **options):
    options = PublishOptions(**LOCAL, curve_secret_key_file=certificates, **options)
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.publish_status(Status(5, "running", {}))
    publisher.start()
    return endpoints, publisher, zmq.auth.load_certificate(certificates)[0]


def test_curve_round_trip(certificates, connect):
    endpoints, publisher, server_key = start_curve(certificates)
    friend = connect(zmq.SUB, publisher.endpoint, server_key)
    plain = connect(zmq.SUB, publisher.endpoint)
    wrong = connect(zmq.SUB, publisher.endpoint, zmq.curve_keypair()[0])
    for subscriber in (friend, plain, wrong):
        subscriber.subscribe("")
    assert receive(friend)[1]["t"] == 5
    for client in (plain, wrong):
        assert client.poll(100) == 0
    publisher.close()
    endpoints.close()


def test_only_listed_clients_may_connect(certificates, connect):
    keys = zmq.curve_keypair()
    endpoints, publisher, server_key = start_curve(certificates, allowed_clients=(keys[0].decode(),))
    listed = connect(zmq.SUB, publisher.endpoint, server_key, keys)
    other = connect(zmq.SUB, publisher.endpoint, server_key)
    for subscriber in (other, listed):
        subscriber.subscribe("")
    assert receive(listed)[1]["t"] == 5
    assert other.poll(100) == 0
    publisher.close()
    endpoints.close()


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: path.chmod(0o604), "others can read it"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_text("nonsense"), "expected a CURVE certificate"),
        (lambda path: path.write_bytes(os.urandom(500)), "expected a CURVE certificate"),
        (lambda path: path.write_bytes(path.with_suffix(".key").read_bytes()), "with the secret key"),
    ],
)
def test_bad_key_files(certificates, spoil, message):
    spoil(certificates)
    with pytest.raises(UsageError, match=message):
        Endpoints(PublishOptions(**LOCAL, curve_secret_key_file=certificates))


def test_client_keys_are_checked(certificates):
    with pytest.raises(UsageError, match=r"allowed_clients\[0\]: expected a public key"):
        Endpoints(
            PublishOptions(**LOCAL, curve_secret_key_file=certificates, allowed_clients=("x" * 39 + '"',))
        )
    with pytest.raises(UsageError, match="curve_secret_key_file"):
        Endpoints(PublishOptions(**LOCAL, allowed_clients=(zmq.curve_keypair()[0].decode(),)))


class Server:
    """A command server whose estimator replies at once, or never (`silent`)."""

    def __init__(self):
        self.submitted = []
        self.status = None
        options = PublishOptions(**LOCAL)
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


@pytest.fixture(scope="module")
def server():
    server = Server()
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
    server.submitted.clear()
    assert ask({"command": "status"}) == {"ok": False, "error": "not yet running"}
    server.status = Status(5, "running", {"loop": {"steps": 3}})
    assert ask({"command": "status"})["status"]["counters"] == {"loop": {"steps": 3}}
    assert ask({"command": "reset"}) == {"ok": True, "executed": "reset"}
    assert ask({"command": "set_position", "lat": 48.1, "lon": 11.5, "yaw": 0.1})["ok"]
    assert ask({"command": "set_position", "x": 13.0, "y": 0}) == {"ok": False, "error": "no luck there"}
    assert ask({"command": "reload_noise"})["ok"]
    assert server.submitted == [
        ("reset", {}),
        ("set_position", {"lat": 48.1, "lon": 11.5, "yaw": 0.1}),
        ("set_position", {"x": 13.0, "y": 0.0}),
        ("reload_noise", {"imu.gyro": 0.01}),
    ]


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (b"", "truncated"),
        (b"\x00\xff\xfe", "malformed"),
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "missing required field `command`"),
        ({"command": "self_destruct"}, "Invalid value 'self_destruct'"),
        ({"command": "reset", "hard": True}, "unknown field `hard`"),
        ({"command": "set_position"}, "either `lat` and `lon`, or `x` and `y`"),
        ({"command": "set_position", "lat": 48.1}, "either"),
        ({"command": "set_position", "x": 1, "y": 1, "lat": 48.1, "lon": 11.5}, "either"),
        ({"command": "set_position", "x": 1, "y": 1, "alt": 5}, "either"),
        ({"command": "set_position", "lat": 91, "lon": 0}, "<= 90.*lat"),
        ({"command": "set_position", "lat": "48", "lon": 0}, "Expected `float | null`, got `str`"),
        (b'{"command": "set_position", "x": NaN, "y": 0}', "malformed"),
        (b'{"command": "set_position", "x": 1e999, "y": 0}', "out of range"),
        (b"[" * 10_000, "recursion|depth|truncated|Expected"),
    ],
)
def test_bad_requests_get_one_line_back(ask, request_, message):
    reply = ask(request_)
    assert reply["ok"] is False
    assert "\n" not in reply["error"]
    assert re.search(message, reply["error"]), reply["error"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.binary(max_size=200))
def test_every_request_gets_a_reply(ask, request_):
    assert isinstance(ask(request_)["ok"], bool)


def test_an_oversized_request_costs_only_its_sender_the_connection(server, connect, ask):
    rude = connect(zmq.REQ, server.server.endpoint)
    rude.send(b"x" * 100_000)
    assert rude.poll(200) == 0
    assert ask({"command": "reset"})["ok"]


def test_garbage_on_the_wire_is_refused_and_the_next_request_served(server, ask):
    host, port = server.server.endpoint.removeprefix("tcp://").rsplit(":", 1)
    for seed in range(20):
        with sockets.create_connection((host, int(port))) as raw:
            raw.sendall(random.Random(seed).randbytes(1000))
        assert ask({"command": "reset"})["ok"]


def test_several_frames_are_refused(server, connect):
    client = connect(zmq.REQ, server.server.endpoint)
    client.send_multipart([b'{"command":"reset"}', b"more"])
    assert msgspec.json.decode(client.recv()) == {"ok": False, "error": "Expected one frame, got 2"}
