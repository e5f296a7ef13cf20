"""Reports the daemon's state to the service manager: the datagrams of sd_notify(3)."""

import contextlib
import os
import socket


class Notifier:
    """Sends to the socket named by `NOTIFY_SOCKET`; does nothing if no service manager has set it."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        self._socket: socket.socket | None = None
        if self._address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            if self._address.startswith("@"):  # an abstract name
                self._address = "\0" + self._address[1:]

    @property
    def watchdog_period(self) -> float | None:
        """Seconds within which the service manager expects `watchdog`; None without a watchdog."""
        watched = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = os.environ.get("WATCHDOG_USEC", "")
        if not (self._socket and watched and microseconds.isdecimal() and int(microseconds) > 0):
            return None
        return int(microseconds) * 1e-6

    def ready(self) -> None:
        """Report that the start is over; the watchdog begins to count."""
        self._send("READY=1")

    def status(self, line: str) -> None:
        """Send one line for `systemctl status`."""
        self._send("STATUS=" + " ".join(line.split()))

    def watchdog(self) -> None:
        """Report that the daemon is alive."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Report that the daemon is shutting down."""
        self._send("STOPPING=1")

    def close(self) -> None:
        """Close the socket; nothing is sent afterwards."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: str) -> None:
        if self._socket is not None:
            # If the manager does not receive, estimation goes on.
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)
