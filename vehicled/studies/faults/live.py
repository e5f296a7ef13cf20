"""A run of the daemon on emulated devices, in real time; read back from its recording."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from replay.mcap_log import McapLog
from replay.mcap_log import Run as Recorded
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.errors import VehicledError
from vehicled.messages import ESTIMATE_COLUMNS, Condition, Innovation, Measurement, Status
from vehicled.rig.configuration import write_configuration
from vehicled.rig.daemon_process import RUN
from vehicled.rig.rig import DriveEnd, Rig
from vehicled.studies.faults.drives import RECEIVERS
from vehicled.studies.faults.rows import Row
from vehicled.studies.faults.scores import Observed

_CHECK_EVERY_S = 0.05
_NOTHING = np.empty((0, len(ESTIMATE_COLUMNS)))


def run_live(configuration: str, row: Row, measurements: Sequence[Measurement]) -> Observed:
    """The daemon over a drive with the faults of a row. `configuration`: a file, or a shipped one."""
    with tempfile.TemporaryDirectory(prefix="vehicled-faults-") as name:
        folder = Path(name)
        path = folder / "configuration.yaml"
        write_configuration(configuration, path, folder, folder, RECEIVERS[row.receiver].latency)
        car = load_daemon_configuration(path)
        end: DriveEnd | None = None
        died, offset = None, 0
        try:
            with Rig(
                car, path, folder / "log", measurements, row.faults, module=(*row.module, *RUN[1:])
            ) as rig:
                start = rig.begin()
                offset = start - measurements[0].arrival
                if row.disturbance is not None:
                    commands = car.daemon.publish.command_endpoint
                    threading.Thread(target=_disturb, args=(row, rig, commands, start), daemon=True).start()
                while not rig.is_over():
                    time.sleep(_CHECK_EVERY_S)
                end = rig.finish()
        except VehicledError as error:
            died = str(error)
        recordings = list(folder.glob("*.mcap"))
        if not recordings:
            return Observed(np.empty(0, np.int64), _NOTHING, [], [], died=died or "no recording")
        return _observe(McapLog(recordings[0]).read_run(), end, offset, died)


def _disturb(row: Row, rig: Rig, commands: str, start_ns: int) -> None:
    assert row.disturbance is not None
    time.sleep(max(start_ns * 1e-9 + row.begin - time.monotonic(), 0.0))
    row.disturbance(rig, commands, start_ns * 1e-9 + row.end)


def _observe(run: Recorded, end: DriveEnd | None, offset: int, died: str | None) -> Observed:
    columns = [run.estimates.columns[c] for c in ESTIMATE_COLUMNS] if len(run.estimates.t) else []
    values = np.stack(columns, axis=1) if columns else _NOTHING
    lost, missed = 0, 0
    if end is not None:
        lost = sum(end.counters["queue"]["dropped"].values())
        before = [s for s in run.statuses if s.t <= offset]
        missed = end.counters["loop"]["missed"] - (before[-1].counters["loop"]["missed"] if before else 0)
    return Observed(
        run.estimates.t - offset,
        values,
        list(_find_conditions(run.statuses, offset)),
        _moved(run.innovations, offset),
        lost,
        missed,
        died,
    )


def _find_conditions(statuses: Iterable[Status], offset: int) -> Iterable[Condition]:
    """Each change once, on the time of the drive."""
    last = None
    for s in statuses:
        if (s.since, s.state, s.faults) != last:
            last = s.since, s.state, s.faults
            yield Condition(s.state, None if s.since is None else s.since - offset, s.reason, s.faults)


def _moved(innovations: Iterable[Innovation], offset: int) -> Iterable[Innovation]:
    return (msgspec.structs.replace(i, step=i.step - offset) for i in innovations)
