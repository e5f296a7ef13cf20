"""A run of the daemon on emulated devices, in real time, evaluated from what it published and recorded."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np

from replay.mcap_log import McapLog
from replay.mcap_log import Run as Published
from vehicled.daemon.configuration import load_daemon_configuration
from vehicled.errors import RunError, VehicledError
from vehicled.messages import ESTIMATE_COLUMNS, Condition, Innovation, Measurement, Status
from vehicled.rig.configuration import write_configuration
from vehicled.rig.daemon_process import RUN
from vehicled.rig.rig import Rig
from vehicled.studies.faults.disturbances import sleep_until
from vehicled.studies.faults.drives import RECEIVERS
from vehicled.studies.faults.published import Subscription, read_recorded_steps
from vehicled.studies.faults.row import Row
from vehicled.studies.faults.scores import Observed

_CHECK_EVERY_S = 0.05


def run_live(configuration: str, row: Row, measurements: Sequence[Measurement]) -> Observed:
    """Run the daemon over a drive with the faults of a row. `configuration`: a file, or a shipped one."""
    with tempfile.TemporaryDirectory(prefix="vehicled-faults-") as name:
        folder = Path(name)
        try:
            with row.disk(folder / "recordings"):
                return _run(configuration, row, measurements, folder)
        except RunError as error:  # such a disk is not available
            nothing = np.empty((0, len(ESTIMATE_COLUMNS)))
            return Observed(np.empty(0, np.int64), nothing, [], [], died=str(error))


def _run(configuration: str, row: Row, measurements: Sequence[Measurement], folder: Path) -> Observed:
    path, recordings = folder / "configuration.yaml", folder / "recordings"
    write_configuration(configuration, path, folder, recordings, RECEIVERS[row.receiver].latency)
    car = load_daemon_configuration(path)
    begin, lost, died = measurements[0].arrival, 0, None
    with Subscription(car.daemon.publish.endpoint) as subscription:
        try:
            module = (*row.module, *RUN[1:])
            with Rig(car, path, folder / "log", measurements, row.faults, module=module) as rig:
                begin = rig.begin()
                if row.disturbance is not None:
                    sleep_until(begin * 1e-9 + row.begin)
                    row.disturbance(rig, begin * 1e-9 + row.end)
                while not rig.is_over():
                    time.sleep(_CHECK_EVERY_S)
                lost = sum(rig.finish().counters["queue"]["dropped"].values())
        except VehicledError as error:
            died = str(error)
        subscription.save(folder / "published.mcap")
    published = McapLog(folder / "published.mcap").read_run()
    recorded = read_recorded_steps(recordings)
    return _observe(published, recorded, begin - measurements[0].arrival, lost, died)


def _observe(run: Published, recorded: np.ndarray, offset: int, lost: int, died: str | None) -> Observed:
    columns = [run.estimates.columns[c] for c in ESTIMATE_COLUMNS]
    return Observed(
        run.estimates.t - offset,
        np.stack(columns, axis=1),
        list(_find_conditions(run.statuses, offset)),
        _moved(run.innovations, offset),
        recorded - offset,
        lost,
        _count_missed(run.statuses, offset),
        died,
    )


def _find_conditions(statuses: Iterable[Status], offset: int) -> Iterable[Condition]:
    """Each change of the condition once, on the time of the drive."""
    last = None
    for s in statuses:
        if (s.since, s.state, s.faults) != last:
            last = s.since, s.state, s.faults
            yield Condition(s.state, None if s.since is None else s.since - offset, s.reason, s.faults)


def _count_missed(statuses: Iterable[Status], offset: int) -> int:
    """Number of missed deadlines since the beginning of the drive; a restarted daemon counts from 0."""
    counts = [(s.t >= offset, s.counters["loop"]["missed"]) for s in statuses]
    return sum(
        now - before if now >= before else now for (_, before), (late, now) in pairwise(counts) if late
    )


def _moved(innovations: Iterable[Innovation], offset: int) -> Iterable[Innovation]:
    return (msgspec.structs.replace(i, step=i.step - offset) for i in innovations)
