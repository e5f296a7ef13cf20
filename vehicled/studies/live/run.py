"""The measurement: emulated devices, daemon and subscriber, each in a process; then the same steps in a warm loop."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from replay.laps import Laps
from replay.mcap_log import McapLog
from vehicled.daemon.configuration import DaemonConfiguration
from vehicled.errors import RunError, UsageError
from vehicled.estimator import Estimator
from vehicled.garbage import collector_off
from vehicled.live.subscriber import Publication, Subscriber
from vehicled.messages import Step
from vehicled.rig.rig import DriveEnd, Rig
from vehicled.schemas import StepRecord
from vehicled.stepping import run_steps
from vehicled.studies.live.latency import pair_sent, summarise
from vehicled.studies.live.parts import ProfiledEstimator

FOLLOWED = {"xsens": "imu", "vectornav": "imu", "can": "can"}
"""Drivers whose samples are followed to the subscriber, and the name of their latency in the result."""
SETTLED_S = 60.0
"""Time, s, after which memory must not grow."""
_LEAST_SLOPE_S = 50.0
_WARM_S = 60.0
"""Length of the replayed drive, s."""
_SAMPLE_S = 1.0
_PRIORITY = 10
"""SCHED_FIFO priority of the subscriber if permitted, so that the measurement excludes this process's own waiting."""
_BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"


@dataclass
class Watched:
    """Observations of the subscriber."""

    estimates: array[int] = field(default_factory=lambda: array("q"))
    """Times of the estimates, ns."""
    arrivals: array[int] = field(default_factory=lambda: array("q"))
    """Times of their arrival, ns, CLOCK_MONOTONIC."""
    memory: list[tuple[float, int]] = field(default_factory=list)
    """Seconds since the start, and the daemon's resident memory, bytes."""

    @property
    def growth(self) -> float | None:
        """Growth of the memory after the first minute, MB per hour; None if the drive is too short."""
        settled = [(t, rss) for t, rss in self.memory if t >= SETTLED_S]
        if not settled or settled[-1][0] - settled[0][0] < _LEAST_SLOPE_S:
            return None
        t, rss = np.array(settled).T
        return float(np.polyfit(t, rss, 1)[0] * 3600 / 1e6)


def watch(rig: Rig, progress: Callable[[float], None]) -> tuple[Watched, DriveEnd]:
    """Start the drive and subscribe to the daemon; `progress` receives the time of the drive, s."""
    seen = Watched()
    decode = msgspec.json.Decoder(_Time).decode
    with (
        _ahead_of_others(),  # threads made here, as the socket's, inherit this
        Subscriber(Publication(rig.endpoint), ["position"]) as subscriber,
    ):
        start = rig.begin()
        next_sample = start
        while True:
            subscriber.wait(0.1)
            for _, message in subscriber.receive():
                seen.arrivals.append(time.monotonic_ns())
                seen.estimates.append(decode(message).t)
            now = time.monotonic_ns()
            if now >= next_sample:
                next_sample += round(_SAMPLE_S * 1e9)
                seconds = (now - start) * 1e-9
                seen.memory.append((seconds, rig.daemon.get_memory()))
                progress(seconds)
                if rig.is_over():
                    break
        return seen, rig.finish()


class _Time(msgspec.Struct):
    t: int


@contextmanager
def _ahead_of_others() -> Iterator[None]:
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    try:
        yield
    finally:
        os.sched_setscheduler(0, *before)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """A number of processes of ordinary priority that never wait; they end with this program."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def bench_live(
    configuration: DaemonConfiguration,
    path: Path,
    folder: Path,
    drive: Laps,
    load: int,
    progress: Callable[[float], None],
) -> dict[str, Any]:
    """All of `vehicled bench live --json` except the part of `bench_warm`.

    `configuration`: of the file `path`, recording into `folder`. `load`: number of busy processes. Raises
    RunError, and UsageError if the configuration has no device that can be followed.
    """
    devices = configuration.daemon.devices.items()
    timed = {name: FOLLOWED[device.driver] for name, device in devices if device.driver in FOLLOWED}
    if not timed:
        raise UsageError(f"no device to follow: expected one of {', '.join(FOLLOWED)} in daemon.devices")
    parts, log = folder / "parts.json", folder / "daemon.log"
    module = ("vehicled.studies.live.profiled_daemon", str(parts))
    with busy_processes(load), Rig(configuration, path, log, drive, timed=[*timed], module=module) as rig:
        seen, end = watch(rig, progress)
        sent = {name: np.array(rig.emulator.sent_times(name)) for name in timed}
    if not seen.estimates:
        raise RunError("no estimate within the drive")
    recordings = list_recordings(folder)
    counters, loop = end.counters, end.counters["loop"]
    received = {name: counters["devices"][name]["measurements"] for name in end.sent}
    lost = {name: max(n - received[name], 0) for name, n in end.sent.items()}
    steps = _read_steps(recordings, set(timed))
    latency, stages = _calc_latencies(timed, sent, steps, seen)
    return {
        "seconds": seen.memory[-1][0],
        "scheduling": loop["scheduling"],
        "step_us": summarise(steps.durations[steps.t >= seen.estimates[0]]),
        "tick_us": loop["step_us"],
        "late_us": loop["late_us"],
        "latency_us": latency,
        "latency_stages_us": stages,
        "breakdown_us": {"live": json.loads(parts.read_text())},
        "missed": loop["missed"],
        "steps": loop["steps"],
        "skipped": loop["skipped"],
        "restarts": counters["estimator"]["restarts"],
        "cpu_share": end.cpu,
        "rss_mb": seen.memory[-1][1] / 1e6,
        "rss_mb_per_hour": seen.growth,
        "lost": sum(lost.values()) + sum(counters["queue"]["dropped"].values()),
        "unread_bytes": end.unread_bytes,
        "emulation_late_us": end.late_max / 1e3,
        "recording_mb": sum(r.stat().st_size for r in recordings) / 1e6,
    }


@dataclass
class _Steps:
    t: np.ndarray
    """(n,) ns."""
    durations: np.ndarray
    """(n,) ns."""
    samples: dict[str, np.ndarray]
    """For each device, (m, 2): time of arrival, and time of the step that used it, ns."""


def list_recordings(folder: Path) -> list[Path]:
    """The files of one run in order of time: a long run has several. Raises RunError if there is none."""
    found = sorted(folder.glob("*.mcap"), key=lambda path: path.stat().st_mtime_ns)
    if not found:
        raise RunError(f"{folder}: nothing was recorded there")
    return found


def _read_steps(recordings: list[Path], devices: set[str]) -> _Steps:
    taken = {device: array("q") for device in devices}
    decode = msgspec.json.Decoder(StepRecord).decode
    records = array("q")
    for log in map(McapLog, recordings):
        for step in log.recorded_steps():
            for m in step.measurements:
                if m.source in devices:
                    taken[m.source].extend((m.arrival, step.t))
        for message in log.messages(("step",)):
            record = decode(message.data)
            records.extend((record.t, record.duration or 0))
    t, durations = np.array(records).reshape(-1, 2).T
    return _Steps(t, durations, {name: np.array(a).reshape(-1, 2) for name, a in taken.items()})


def _calc_latencies(
    groups: dict[str, str], sent: dict[str, np.ndarray], steps: _Steps, seen: Watched
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Latencies from the bytes to the subscriber, µs: of all samples and by group; and by stages."""
    published, arrived_there = np.array(seen.estimates), np.array(seen.arrivals)
    found: dict[str, list[np.ndarray]] = {}
    for name, group in groups.items():
        read, step = steps.samples[name].T
        places = pair_sent(sent[name], read)
        # A step without an estimate, or whose message was lost, is assigned to the next published one.
        following = np.searchsorted(published, step)
        known = (places >= 0) & (following < len(published)) & (step >= published[0])
        stages = np.stack(
            (sent[name][places[known]], read[known], step[known], arrived_there[following[known]])
        )
        found.setdefault(group, []).append(np.diff(stages, axis=0))
    parts = {group: np.concatenate(several, axis=1) for group, several in found.items()}
    latency = {group: summarise(part.sum(axis=0)) for group, part in parts.items()}
    every = summarise(np.concatenate([part.sum(axis=0) for part in parts.values()]))
    names = ("to_driver", "to_step", "to_subscriber")
    stages_us = {
        group: {name: summarise(row) for name, row in zip(names, part, strict=True)}
        for group, part in parts.items()
    }
    return every | latency, stages_us


def bench_warm(configuration: DaemonConfiguration, recording: Path) -> dict[str, Any]:
    """Repeat the recorded steps one after the other without pause: `warm_us`, and the parts of a step's time."""
    steps = _take_seconds(McapLog(recording).recorded_steps(), _WARM_S)
    estimator = ProfiledEstimator(Estimator(configuration))
    durations = []
    with collector_off(), _ahead_of_others():
        begin = time.perf_counter_ns()
        for result in run_steps(estimator, steps):
            now = time.perf_counter_ns()
            if result.estimate is not None:
                durations.append(now - begin)
            begin = time.perf_counter_ns()
    times = summarise(np.array(durations))
    parts = estimator.summaries_us()
    del parts["begun_after"]
    return {"warm_us": times["median"], "warm_p99_us": times["p99"], "parts_us": parts}


def _take_seconds(steps: Iterator[Step], seconds: float) -> list[Step]:
    first = next(steps)
    end = first.t + round(seconds * 1e9)
    taken = [first]
    for step in steps:
        if step.t > end:
            break
        taken.append(step)
    return taken
