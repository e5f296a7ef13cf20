"""What is at the ports of this machine: reads them with the decoders of all drivers, at the usual baud rates.

Any registered driver of devices that send bytes takes part, also one of another distribution. Nothing is sent,
except by `ask_adapter`.
"""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from drivers.framing import FrameDecoder
from drivers.ports import is_network, open_port
from drivers.registry import known_drivers, load_driver
from drivers.serial_port import SerialDriver
from drivers.slcan import parse_frame
from vehicled.errors import UsageError

BAUDS = (115200, 460800, 921600, 230400, 38400, 9600, 57600)
SLCAN = "slcan"
"""Stands for a CAN adapter where otherwise a driver is named."""

_READ_FOR_S = 1.5
"""Time of reading at one baud rate, s: receivers send at least once a second."""
_SETTLE_S = 0.5
"""Time after the first measurement, s, in which a device shows all that it sends."""
_MOST_BYTES = 200_000
_READ_S = 0.05
_REPLY_S = 0.5
_FRAMES = 5
_ARPHRD_CAN = "280"
_VERSION = re.compile(rb"(?:^|[\r\a])[Vv][ -~]{2,60}\r")


@dataclass(frozen=True)
class ProbedPort:
    """What was found at a port."""

    port: str
    found: str
    """In words, for the user."""
    driver: str | None = None
    """Driver that reads the device, or `slcan`; None if none does."""
    baud: int | None = None
    """Baud rate at which it was read; None for a network address, or if nothing came."""
    channels: tuple[str, ...] = ()
    """What it measures."""
    silent: bool = False


def find_ports(dev: Path = Path("/dev")) -> list[str]:
    """Serial ports, by their stable names where they have one."""
    links = sorted((dev / "serial" / "by-id").glob("*"))
    named = {link.resolve() for link in links}
    others = [
        p for kind in ("ttyUSB*", "ttyACM*") for p in sorted(dev.glob(kind)) if p.resolve() not in named
    ]
    return [str(p) for p in (*links, *others)]


def find_can_interfaces(net: Path = Path("/sys/class/net")) -> list[str]:
    """Names of the network interfaces that are CAN buses."""
    found = []
    for interface in sorted(net.glob("*")):
        with contextlib.suppress(OSError):
            if (interface / "type").read_text().strip() == _ARPHRD_CAN:
                found.append(interface.name)
    return found


def probe_ports(ports: Sequence[str]) -> list[ProbedPort]:
    """Read all of them at once, each by itself, for about ten seconds at most. Ctrl-C ends it soon."""
    stopping = threading.Event()
    with ThreadPoolExecutor(max(1, len(ports))) as pool:
        try:
            return list(pool.map(lambda port: probe_port(port, stopping.is_set), ports))
        except BaseException:
            stopping.set()
            raise


def probe_port(port: str, stopped: Callable[[], bool] = lambda: False) -> ProbedPort:
    """Read one port until one driver decodes it, or none does at any baud rate. Never raises OSError."""
    received = False
    for baud in BAUDS:
        trial = _Trial(port, baud)
        try:
            _read(port, baud, trial, stopped)
        except OSError as error:
            return ProbedPort(port, f"cannot be read: {error.strerror or error}")
        found = trial.find()
        if found is not None:
            return found
        received = received or trial.bytes > 0
        if trial.bytes == 0 or is_network(port) or stopped():
            break  # even at a wrong rate bytes come, only other ones
    if not received:
        return ProbedPort(port, "silent", silent=True)
    return ProbedPort(port, "sends what no driver reads")


def ask_adapter(port: str) -> bool:
    """Whether a silent port is a CAN adapter: sends its command for the version (`V`), and an empty one before."""
    with contextlib.suppress(OSError), contextlib.closing(open_port(port, BAUDS[0])) as line:
        line.write(b"\rV\r")
        reply, end = b"", time.monotonic() + _REPLY_S
        while time.monotonic() < end:
            reply += line.read(_READ_S)
            if _VERSION.search(reply):
                return True
    return False


class _Trial:
    """All decoders on what a port sends at one baud rate."""

    def __init__(self, port: str, baud: int) -> None:
        self._port, self._baud = port, baud
        self._decoders = dict(_make_decoders(port))
        self._channels: dict[str, set[str]] = {kind: set() for kind in self._decoders}
        self._text = b""
        self._first_s: float | None = None
        self.bytes = 0

    def feed(self, data: bytes, now_s: float) -> None:
        """What has come; empty: nothing."""
        self.bytes += len(data)
        self._text = (self._text + data)[-4096:]
        for kind, decoder in self._decoders.items():
            for measurement in decoder.feed(data, round(now_s * 1e9)):
                self._channels[kind].update(measurement.values)
        if self._first_s is None and any(self._channels.values()):
            self._first_s = now_s

    def is_done(self, now_s: float) -> bool:
        """Whether further reading would show nothing new."""
        settled = self._first_s is not None and now_s - self._first_s > _SETTLE_S
        return settled or self._is_adapter() or self.bytes > _MOST_BYTES

    def find(self) -> ProbedPort | None:
        baud = None if is_network(self._port) else self._baud
        readers = [kind for kind, channels in self._channels.items() if channels]
        if readers:
            kind = max(readers, key=self._rank)
            decoder, channels = self._decoders[kind], tuple(sorted(self._channels[kind]))
            spoken = (
                ", ".join(getattr(decoder, "protocols", ())) or f"{decoder.counters['messages']} messages"
            )
            return ProbedPort(self._port, f"{kind} ({spoken})", kind, baud, channels)
        if self._is_adapter():
            return ProbedPort(self._port, "slcan (CAN adapter)", SLCAN, baud)
        return None

    def _rank(self, kind: str) -> tuple[int, int, int, int]:
        """Sort key of drivers that read a device: the one that skips least; then the one made for nothing else."""
        decoder = self._decoders[kind]
        read = set(getattr(decoder, "READS", ())) & set(getattr(decoder, "protocols", ()))
        garbage = decoder.counters["garbage_bytes"]
        return len(read), len(self._channels[kind]), -garbage, -len(type(decoder).__mro__)

    def _is_adapter(self) -> bool:
        lines = self._text.split(b"\r")[1:-1]  # the first may have begun before, the last is incomplete
        return len(lines) >= _FRAMES and all(parse_frame(line, 0.0) is not None for line in lines)


def _make_decoders(port: str) -> Iterator[tuple[str, FrameDecoder]]:
    for kind in known_drivers():
        # A driver that cannot be loaded, or needs more than a port, must not keep others from being tried.
        with contextlib.suppress(UsageError, TypeError):
            driver_type = load_driver(kind)
            driver = driver_type(kind, driver_type.Options(port=port), lambda _: None)
            if isinstance(driver, SerialDriver):
                yield kind, driver.decoder


def _read(port: str, baud: int, trial: _Trial, stopped: Callable[[], bool]) -> None:
    """Raises OSError."""
    with contextlib.closing(open_port(port, baud)) as line:
        end = time.monotonic() + _READ_FOR_S
        while (now := time.monotonic()) < end and not trial.is_done(now) and not stopped():
            trial.feed(line.read(_READ_S), time.monotonic())
