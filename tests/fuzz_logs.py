"""Targets of `tests/fuzz.py`: logs that this program decodes without other libraries."""

from __future__ import annotations

import contextlib
import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from foreign_rig import vbo_head, write_ncom
from fuzz_documents import _one_line
from fuzz_frames import Feed, Frame, Rng, Target, damage

from replay.foreign.csv_signals import CsvSignals
from replay.foreign.mapped_log import SignalLog
from replay.foreign.mapping import LogMapping, MappedClock, MappedSignal
from replay.foreign.ncom import NcomSignals
from replay.foreign.vbo import VboSignals
from replay.log import open_log
from replay.times import ISO_8601


class LogTarget:
    """A damaged file, read as a log."""

    limit_ms = 100.0

    def __init__(
        self,
        name: str,
        whole: Callable[[], bytes],
        signals: Callable[[Path], SignalLog],
        syncs: bytes,
        mapping: LogMapping | None = None,
    ) -> None:
        self.name = name
        self._whole, self._signals, self._syncs, self._mapping = whole, signals, syncs, mapping

    @contextlib.contextmanager
    def open(self) -> Iterator[Feed]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"damaged.{self.name}"

            def feed(frame: Frame) -> bool:
                path.write_bytes(frame.data)
                found = 0
                with _one_line():
                    list(self._signals(path).records(()))
                    log = open_log(path, mapping=self._mapping)
                    found = sum(1 for m in log.measurements() if abs(m.t) < 1 << 63)
                return found > 0

            yield feed

    def frames(self, rng: Rng) -> Iterator[Frame]:
        while True:
            yield Frame(0, damage(rng, self._whole(), self._whole(), self._syncs))


@functools.cache
def _vbo() -> bytes:
    row = "{:03d} 2359{:05.2f} +03119.09973 +00058.49277 {:07.3f} {:06.2f} +00152.58 +000.000 {:.6E}\n"
    rows = "".join(row.format(137 - i, 59.0 + i / 20, 3.0 * i, 9.0 * i, 0.01 * i) for i in range(18))
    return (vbo_head(extra=[("YawRate", "deg/s")]) + rows).encode()


@functools.cache
def _ncom() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write_ncom(Path(folder) / "a.ncom", seconds=0.6)
        return (Path(folder) / "a.ncom").read_bytes()


@functools.cache
def _csv() -> bytes:
    row = '{}.05.2026 23:59:{:02d},{:02d};{:.2f};{:.3f};"x";{}\n'
    rows = (row.format(10 + i, i, 9 * i, 3.0 * i, 0.01 * i, "NaN" if i % 4 else "") for i in range(10))
    return ("Zeit;v;Gierrate;;Rest\n" + "".join(rows)).encode()


_CSV_MAPPING = LogMapping(
    channels={
        "vehicle.speed": MappedSignal(signal="v", unit="km/h"),
        "imu.wz": MappedSignal(signal="Gierrate"),
    },
    time=MappedClock(signal="Zeit", unit=ISO_8601),
)


def make_logs() -> list[Target]:
    return [
        LogTarget("vbo", _vbo, VboSignals, b"[]0123456789.+-E \r\nnaif"),
        LogTarget("ncom", _ncom, NcomSignals, b"\xe7\x00\x04\x80\xff"),
        LogTarget("csv", _csv, CsvSignals, b';,\t"0123456789.+-: \r\nTZnaif', _CSV_MAPPING),
    ]
