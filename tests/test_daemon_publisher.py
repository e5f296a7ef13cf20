"""The publishing socket as subscribers see it, and the endpoints that are accepted."""

import json
import os
import socket as sockets
import time

import msgspec
import numpy as np
import pytest
import zmq
import zmq.auth
from daemon_fakes import make_innovation
from live_rig import wait_until

from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.publisher import Publisher
from vehicled.errors import RunError, UsageError
from vehicled.messages import (
    ESTIMATE_COLUMNS,
    LOAD_COLUMNS,
    CoordinateEstimate,
    Estimate,
    Parameters,
    ParticleEstimate,
    SlowState,
    Status,
)
from vehicled.schemas import PUBLISHED

LOCAL = {"endpoint": "tcp://127.0.0.1:*"}


def estimate(t, x=1.5):
    values = np.full(len(ESTIMATE_COLUMNS), np.nan)
    values[0] = x
    return Estimate(t, values)


def receive(socket):
    topic, payload = socket.recv_multipart()
    return topic.decode(), json.loads(payload)


def test_each_message_has_its_topic_and_payload(publisher, connect):
    subscriber = connect(zmq.SUB, publisher.endpoint)
    subscriber.subscribe("")
    wait_until(lambda: len(publisher.counters()["subscribed"]) == len(PUBLISHED))
    further, loads = {"driver": np.arange(10.0)}, np.arange(float(len(LOAD_COLUMNS)))
    whole = msgspec.structs.replace(estimate(7), points=further, loads=loads)
    publisher.publish_step(whole, [make_innovation(6)])
    publisher.publish_status(Status(8, "running", {"a": {"b": 1}}))
    publisher.publish_parameters(Parameters.of(8, {"gyro_scale": SlowState(0.5, 0.1, "–")}))
    publisher.publish_command(9, "mark", {"text": "kerb"})
    theta = CoordinateEstimate("rad", 0.5, 0.1, 2.0, 0.2, 0.6, 0.3)
    publisher.publish_step(ParticleEstimate(10, {"theta": theta}, 0.9, 0.5, ["theta"], [[0.01]]), [])
    got = [receive(subscriber) for _ in range(10)]
    topics = [
        "position",
        "slip",
        "suspension",
        "points",
        "loads",
        "innovation",
        "status",
        "parameters",
        "command",
        "mechanism",
    ]
    assert [topic for topic, _ in got] == topics
    assert all(message["schema"] == 1 for _, message in got)
    since_1970 = time.time() - time.monotonic()  # of t = 0; those of the messages are nanoseconds later
    assert [message.pop("timestamp") for _, message in got] == pytest.approx([since_1970] * 10, abs=0.1)
    assert got[0][1]["x"] == 1.5
    assert got[0][1]["y"] is None
    assert got[3][1]["points"]["driver"]["vy"] == 4.0
    assert got[4][1]["tie_rod.fl.force"] == 6.0
    assert got[5][1]["sensor"] == "imu.gyro"
    assert got[6][1]["counters"] == {"a": {"b": 1}}
    assert (got[7][1]["value"], got[7][1]["sigma"]) == ({"gyro_scale": 0.5}, {"gyro_scale": 0.1})
    assert got[8][1] == {"schema": 1, "step": 9, "name": "mark", "arguments": {"text": "kerb"}}
    assert got[9][1]["coordinates"]["theta"]["rate"] == 2.0
    once = dict.fromkeys(topics, 1)
    wait_until(lambda: publisher.counters()["sent"] == once)


@pytest.mark.parametrize("endpoint", ["ipc://{}/results", "tcp://[::1]:*"])
def test_results_are_published_over_ipc_and_ipv6(endpoint, tmp_path, connect):
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
        subscriber.rcvtimeo = 5000
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


def test_a_second_subscriber_of_a_topic_gets_its_last_value_too(publisher, connect):
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
    receive(other)  # the publishing thread has processed the step
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
    publisher = Publisher(endpoints, options)  # its thread has not started: nothing empties the backlog
    for t in range(1000):
        publisher.publish_step(estimate(t), [])
    assert publisher.counters()["dropped"] > 0
    publisher.start()
    publisher.close()
    endpoints.close()


def test_a_message_that_cannot_be_encoded_does_not_stop_the_others(publisher, connect):
    subscriber = connect(zmq.SUB, publisher.endpoint)
    subscriber.subscribe("")
    wait_until(lambda: len(publisher.counters()["subscribed"]) == len(PUBLISHED))
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


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://127.0.0.1:5550", "tcp://[::1]:5550", "tcp://localhost:5550", "ipc:///run/vehicled/out"],
)
def test_local_binds_are_accepted(endpoint):
    assert list(PublishOptions(endpoint=endpoint).check()) == []


def test_a_public_bind_is_accepted_if_configured_explicitly(connect):
    options = PublishOptions(endpoint="tcp://0.0.0.0:*", insecure_public_bind=True)
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.start()
    publisher.close()
    endpoints.close()


@pytest.mark.parametrize(
    "endpoint", ["5550", "tcp://", "tcp://127.0.0.1", "udp://127.0.0.1:1", "ipc://", "tcp://127.0.0.1:99999"]
)
def test_malformed_endpoints_are_refused(endpoint):
    with pytest.raises(UsageError, match=r"publish\.endpoint: expected 'tcp://ADDRESS:PORT'"):
        Endpoints(PublishOptions(endpoint=endpoint))


def test_a_port_in_use_is_a_run_error(publisher):
    options = PublishOptions(endpoint=publisher.endpoint)
    endpoints = Endpoints(options)
    with pytest.raises(RunError, match=r"127\.0\.0\.1.*cannot be bound"):
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


def test_only_clients_with_the_key_of_the_server_receive_messages(certificates, connect):
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
        (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), "expected a regular file, got a pipe"),
        (
            lambda path: path.write_bytes(bytes(2 << 20)),
            "larger than 1 MiB; expected a CURVE certificate file",
        ),
        (lambda path: path.write_bytes(os.urandom(500)), "expected a CURVE certificate"),
        (lambda path: path.write_text(path.read_text()[:-3] + '"'), "expected two keys of 40 Z85 characters"),
        (lambda path: path.write_bytes(path.with_suffix(".key").read_bytes()), "with the secret key"),
    ],
)
def test_bad_key_files_are_refused(certificates, spoil, message):
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


@pytest.mark.parametrize("endpoint", ["tcp://127.0.0.1:5551", "tcp://[::1]:*"])
def test_commands_over_tcp_need_keys(endpoint, certificates):
    with pytest.raises(UsageError, match=r"publish\.command_endpoint: every user .*expected 'ipc://PATH'"):
        Endpoints(PublishOptions(command_endpoint=endpoint, insecure_public_bind=True))
    options = PublishOptions(command_endpoint=endpoint, curve_secret_key_file=certificates)
    assert list(options.check()) == []
