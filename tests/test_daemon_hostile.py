"""Hostile clients of the daemon: its memory stays bounded, and other clients are served."""

import contextlib
import json
import os
import socket as sockets
import struct
import time
from concurrent.futures import Future

import numpy as np
import pytest
import zmq
from live_rig import wait_until

from vehicled.daemon.client_memory import Received
from vehicled.daemon.commands import CommandServer
from vehicled.daemon.connections import MAX_CONNECTIONS
from vehicled.daemon.endpoints import Endpoints, PublishOptions
from vehicled.daemon.publisher import Publisher
from vehicled.daemon.subscribers import MAX_BYTES, MAX_SUBSCRIPTIONS
from vehicled.messages import ESTIMATE_COLUMNS, Estimate, Status
from vehicled.schemas import PUBLISHED

MB = 1e6


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def publish(publisher, t):
    publisher.publish_step(Estimate(t, np.zeros(len(ESTIMATE_COLUMNS))), [])


def receive_t(subscriber):
    return json.loads(subscriber.recv_multipart()[1])["t"]


def handshake(endpoint, kind=b"XSUB"):
    """A raw connection after the handshake of ZMTP 3.0 (rfc.zeromq.org/spec/23); it buffers nothing that it sends."""
    if endpoint.startswith("ipc://"):
        connection = sockets.socket(sockets.AF_UNIX)
        connection.connect(endpoint.removeprefix("ipc://"))
    else:
        host, port = endpoint.removeprefix("tcp://").rsplit(":", 1)
        connection = sockets.create_connection((host, int(port)))
    connection.settimeout(5.0)
    ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
    connection.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
    connection.recv(64, sockets.MSG_WAITALL)
    connection.sendall(b"\x04" + bytes([len(ready)]) + ready)
    connection.recv(64)
    return connection


def frame(message):
    return b"\x02" + struct.pack(">Q", len(message)) + message


def send_endless(connection, megabytes, pause_s=0.0):
    """Send frames of a message without end; returns whether the connection was closed."""
    part = (b"\x03" + struct.pack(">Q", 500) + bytes(500)) * 200
    connection.settimeout(1.0)
    try:
        for _ in range(int(megabytes * MB / len(part))):
            connection.sendall(part)
            time.sleep(pause_s)
    except (
        ConnectionError,
        TimeoutError,
    ):  # a full TCP connection notices its end only when it probes for space
        return True
    return False


@pytest.mark.parametrize("pause_s", [0.0, 0.01])
def test_the_sender_of_a_message_without_end_is_disconnected(publisher, connect, pause_s):
    good = connect(zmq.SUB, publisher.endpoint)
    good.subscribe("position")
    wait_until(lambda: publisher.counters()["subscribed"] == ["position"])
    before = resident_bytes()
    for t in range(3):
        with handshake(publisher.endpoint) as hostile:
            assert send_endless(hostile, 300 if pause_s == 0.0 else 20, pause_s)
        publish(publisher, t)
        assert receive_t(good) == t
    assert publisher.counters()["refused"] == 3
    assert resident_bytes() - before < 100 * MB


@pytest.mark.parametrize("is_fast", [True, False])
def test_messages_without_end_over_ipc_are_cut_off_and_other_clients_reconnect(
    socket_folder, connect, is_fast, caplog, monkeypatch
):
    if not is_fast:  # as if ZeroMQ had read everything: the sender cannot be found
        monkeypatch.setattr(Received, "waiting", lambda received: 0)
    options = PublishOptions(
        endpoint=f"ipc://{socket_folder}/results", command_endpoint=f"ipc://{socket_folder}/c"
    )
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    server = CommandServer(endpoints, options, lambda *_: Future(), lambda: None, dict)
    publisher.start()
    server.start()
    good = connect(zmq.SUB, publisher.endpoint)
    good.subscribe("position")
    wait_until(lambda: publisher.counters()["subscribed"] == ["position"])
    before = resident_bytes()
    try:
        for kind, endpoint in ((b"XSUB", publisher.endpoint), (b"DEALER", server.endpoint)):
            with handshake(endpoint, kind) as hostile:
                assert send_endless(hostile, 600, 0.0 if is_fast else 0.001)
            wait_until(lambda: resident_bytes() - before < 40 * MB)
        assert publisher.counters()["refused"]
        assert server.counters()["refused"]
        # A client's ZeroMQ socket reconnects only while it is used.
        wait_until(lambda: not good.poll(1) and publisher.counters()["subscribed"] == ["position"])
        publish(publisher, 7)
        assert receive_t(good) == 7
        assert "cut off: the memory grew" in caplog.text
    finally:
        server.close()
        publisher.close()
        endpoints.close()


@pytest.mark.parametrize(("count", "size"), [(2000, 4000), (4000, 400), (50_000, 16)])
def test_subscriptions_without_end_cost_no_memory_and_others_lose_no_message(publisher, connect, count, size):
    good = connect(zmq.SUB, publisher.endpoint)
    good.subscribe("position")
    wait_until(lambda: publisher.counters()["subscribed"] == ["position"])
    before = resident_bytes()
    rounds = 20
    with contextlib.ExitStack() as opened:
        for t in range(rounds):  # disconnected clients connect again
            with contextlib.suppress(ConnectionError):
                hostile = opened.enter_context(handshake(publisher.endpoint))
                hostile.sendall(b"".join(frame(b"\x01" + os.urandom(size)) for _ in range(count // rounds)))
            publish(publisher, t)
            assert receive_t(good) == t
        time.sleep(0.2)  # until the last data are processed
        assert resident_bytes() - before < 20 * MB


@pytest.mark.parametrize(
    "prefixes",
    [
        [b"%d" % i for i in range(MAX_SUBSCRIPTIONS + 1)],
        [os.urandom(500) for _ in range(MAX_BYTES // 500 + 1)],
    ],
)
def test_a_client_with_too_many_subscriptions_is_disconnected(publisher, connect, prefixes):
    client = connect(zmq.XSUB, publisher.endpoint)
    for prefix in prefixes:
        client.send(b"\x01" + prefix)
    wait_until(lambda: publisher.counters()["refused"])


def test_cancelled_subscriptions_do_not_count_against_the_limit(publisher, connect):
    client = connect(zmq.SUB, publisher.endpoint)
    for i in range(40):
        client.subscribe(f"position {i}")
        client.unsubscribe(f"position {i}")
    client.subscribe("status")
    wait_until(lambda: publisher.counters()["subscribed"] == ["status"])
    assert publisher.counters()["refused"] == 0


def test_a_client_that_subscribes_and_unsubscribes_endlessly_is_disconnected(publisher, connect):
    publisher.publish_status(Status(1, "running", {}))
    client = connect(zmq.XSUB, publisher.endpoint)
    for _ in range(500):
        client.send(b"\x01status")
        client.send(b"\x00status")
    wait_until(lambda: publisher.counters()["refused"])
    assert publisher.counters()["sent"]["status"] <= 100


def test_subscriptions_end_with_the_connection_of_their_client(publisher, connect):
    client, other = (connect(zmq.SUB, publisher.endpoint) for _ in range(2))
    client.subscribe("")
    other.subscribe("slip")
    wait_until(lambda: len(publisher.counters()["subscribed"]) == len(PUBLISHED))
    client.close()
    wait_until(lambda: publisher.counters()["subscribed"] == ["slip"])


def test_the_number_of_connections_is_limited_and_existing_ones_stay(publisher, connect):
    good = connect(zmq.SUB, publisher.endpoint)
    good.subscribe("position")
    wait_until(lambda: publisher.counters()["subscribed"] == ["position"])
    host, port = publisher.endpoint.removeprefix("tcp://").rsplit(":", 1)
    idle = [sockets.create_connection((host, int(port))) for _ in range(MAX_CONNECTIONS + 20)]
    try:
        wait_until(lambda: publisher.counters()["refused"] == 21)
        publish(publisher, 7)
        assert receive_t(good) == 7
    finally:
        for connection in idle:
            connection.close()
    late = connect(zmq.SUB, publisher.endpoint)
    late.subscribe("slip")
    wait_until(lambda: "slip" in publisher.counters()["subscribed"])
