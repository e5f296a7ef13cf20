"""The datagrams that the daemon sends to a service manager."""

import os
import socket

import pytest

from vehicled.daemon.notify import Notifier


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path, monkeypatch):
    """The service manager's end of the socket."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"@vehicled-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(name.replace("@", "\0"))
        manager.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield manager


def test_each_notification_is_one_datagram(manager):
    notifier = Notifier()
    notifier.ready()
    notifier.status("two\nlines\r\nof µs")
    notifier.watchdog()
    notifier.stopping()
    got = [manager.recv(1000).decode() for _ in range(4)]
    assert got == ["READY=1", "STATUS=two lines of µs", "WATCHDOG=1", "STOPPING=1"]
    notifier.close()
    notifier.ready()


def test_without_a_manager_nothing_happens(monkeypatch):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    notifier = Notifier()
    notifier.ready()
    assert notifier.watchdog_period is None


def test_a_missing_socket_of_the_manager_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    Notifier().ready()


@pytest.mark.parametrize(
    ("usec", "pid", "period"),
    [
        ("2000000", None, 2.0),
        ("2000000", "own", 2.0),
        ("2000000", "1", None),
        ("", None, None),
        ("0", None, None),
        ("-5", None, None),
        ("soon", None, None),
    ],
)
def test_watchdog_period_comes_from_the_environment_if_meant_for_this_process(
    manager, monkeypatch, usec, pid, period
):
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    if pid is None:
        monkeypatch.delenv("WATCHDOG_PID", raising=False)
    else:
        monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()) if pid == "own" else pid)
    assert Notifier().watchdog_period == period
