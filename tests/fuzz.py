"""Feeds damaged and random bytes to all readers of external data: no exception, hang, growth or slow frame.

    python tests/fuzz.py                                    all targets, a minute each
    python tests/fuzz.py nmea xsens --frames 1000000        stop after so many frames
    python tests/fuzz.py --seed 7 --seconds 600             other frames, for longer
    python tests/fuzz.py --replay tests/fuzz_corpus/*.json  frames that failed before

The seed determines the frames. A failing sequence is reduced to the last frames that still make it fail, and kept in
`tests/fuzz_corpus`, which tests/test_fuzz.py replays: commit it with the correction.

Time is processor time of this process. The garbage collector is off while a frame is fed, as in the daemon, which
collects in idle time. Otherwise the slowest frame would be one during which this process's whole heap is collected.
A frame is slow if it exceeds its target's limit in each repetition of its session.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import hashlib
import itertools
import json
import math
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuzz_devices import make_devices
from fuzz_documents import make_documents
from fuzz_frames import Frame, Target
from fuzz_logs import make_logs
from fuzz_ntrip import make_ntrip

from vehicled.garbage import collector_off

CORPUS = Path(__file__).parent / "fuzz_corpus"
SESSION = 20_000
"""Number of frames after which a target is restarted."""
HANG_S = 20.0
GROWTH_MB = 8.0
"""Permitted growth of the process since the session after which it was smallest: exceeds allocator fluctuations."""
REPEATS = 2
COLLECT_EVERY = 500


class HangError(Exception):
    """A frame took longer than `HANG_S`."""


class SlowError(Exception):
    """A frame took longer than its target permits, in each repetition."""


@dataclass
class Result:
    """Result for one target."""

    frames: int = 0
    valid: int = 0
    """Frames with valid content."""
    slowest_ms: float = 0.0
    growth_mb: float = 0.0
    seconds: float = 0.0
    failure: tuple[str, list[Frame]] | None = None
    """The error, and the frames that lead to it."""


def make_targets() -> dict[str, Target]:
    """All targets by name."""
    return {
        target.name: target for target in (*make_devices(), *make_ntrip(), *make_documents(), *make_logs())
    }


@collector_off()
def run(target: Target, frames: float, seconds: float, seed: int, session: int = SESSION) -> Result:
    """Run sessions until the number of frames or seconds is reached, or one fails."""
    result = Result()
    began = time.monotonic()
    lowest = math.inf
    for number in itertools.count():
        source = target.frames(random.Random(f"{seed} {target.name} {number}"))
        left = min(session, frames - result.frames)
        if left <= 0 or time.monotonic() - began > seconds:
            break
        fed: list[Frame] = []
        until = began + seconds
        error = _feed(target, itertools.islice(source, math.ceil(left)), fed, result, until)
        if error is not None:
            result.failure = _describe(error), _reduce(target, fed)
            break
        del fed
        gc.collect()
        now = _memory()
        lowest = min(lowest, now)
        result.growth_mb = (now - lowest) / 1e6
    result.seconds = time.monotonic() - began
    if result.failure is None and result.growth_mb > GROWTH_MB:
        result.failure = f"memory grew by {result.growth_mb:.1f} MB from session to session", []
    return result


def replay(target: Target, frames: Sequence[Frame]) -> Exception | None:
    """Start the target and feed the frames; returns the error that they raise."""
    with collector_off():
        return _feed(target, iter(frames), [], Result(), math.inf)


def _reduce(target: Target, frames: list[Frame]) -> list[Frame]:
    """The shortest tail of the frames, by powers of two, that still fails; all frames if no shorter tail fails."""
    count = 1
    while count < len(frames):
        if _feed(target, iter(frames[-count:]), [], Result(), math.inf) is not None:
            return frames[-count:]
        count *= 2
    return frames


def _feed(
    target: Target, frames: Iterator[Frame], fed: list[Frame], result: Result, until: float
) -> Exception | None:
    """Feed the frames and append them to `fed`. Returns the first error, which the last frame in `fed` caused."""
    with _alarm(), target.open() as feed:
        for frame in frames:
            fed.append(frame)
            signal.setitimer(signal.ITIMER_REAL, HANG_S)
            before = time.process_time_ns()
            try:
                valid = feed(frame)
            except Exception as error:
                return error
            took_ms = (time.process_time_ns() - before) / 1e6
            if took_ms > target.limit_ms:
                took_ms = min(took_ms, *(_time_last(target, fed) for _ in range(REPEATS)))
                if took_ms > target.limit_ms:
                    return SlowError(f"{took_ms:.1f} ms; expected at most {target.limit_ms:g} ms")
            result.frames += 1
            result.valid += valid
            result.slowest_ms = max(result.slowest_ms, took_ms)
            if len(fed) % COLLECT_EVERY == 0:
                gc.collect()
            if time.monotonic() > until:
                break
    return None


def _time_last(target: Target, frames: list[Frame]) -> float:
    """Processor time of the last frame after all others, ms."""
    with target.open() as feed:
        for frame in frames[:-1]:
            feed(frame)
        before = time.process_time_ns()
        feed(frames[-1])
        return (time.process_time_ns() - before) / 1e6


@contextlib.contextmanager
def _alarm() -> Iterator[None]:
    """Interrupt a hanging frame when the timer expires, which the caller sets."""

    def hang(*_: object) -> None:
        raise HangError(f"no end within {HANG_S:g} s")

    before = signal.signal(signal.SIGALRM, hang)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def _memory() -> int:
    """Private bytes of the process, without pages of files, which the system loads and drops at will."""
    lines = Path("/proc/self/status").read_text().splitlines()
    sizes = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    return sum(int(sizes[name][0]) for name in ("RssAnon", "VmSwap")) * 1024


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


def save(target: str, what: str, frames: Sequence[Frame], folder: Path = CORPUS) -> Path:
    """Save failing frames in a file, with the name of their target and the error."""
    listed = [[frame.gap_ns, frame.data.hex()] for frame in frames]
    digest = hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:8]
    path = folder / f"{target}-{digest}.json"
    folder.mkdir(exist_ok=True)
    path.write_text(json.dumps({"target": target, "raised": what, "frames": listed}, indent=1) + "\n")
    return path


def load(path: Path) -> tuple[str, list[Frame]]:
    """The target's name and the frames of a file from `save`."""
    kept = json.loads(path.read_text())
    return kept["target"], [Frame(gap, bytes.fromhex(data)) for gap, data in kept["frames"]]


def main() -> int:
    targets = make_targets()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(targets))
    parser.add_argument("--frames", type=int, help="of each target; without, as many as the time allows")
    parser.add_argument("--seconds", type=float, help="for each target; default 60, or all frames")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--replay", type=Path, nargs="+", metavar="FILE", help="of tests/fuzz_corpus")
    arguments = parser.parse_args()
    for name in arguments.targets:
        if name not in targets:
            parser.error(f"no target {name!r}: expected one of {', '.join(targets)}")
    if arguments.replay:
        failed = False
        for path in arguments.replay:
            name, kept = load(path)
            error = replay(targets[name], kept)
            failed |= error is not None
            print(f"{path}: {'passes' if error is None else _describe(error)}")
        return int(failed)
    frames = math.inf if arguments.frames is None else arguments.frames
    seconds = arguments.seconds or (60.0 if arguments.frames is None else math.inf)
    print(f"{'target':14}{'frames':>10}{'valid':>8}{'/s':>9}{'slowest':>11}{'growth':>9}")
    failed = False
    for name in arguments.targets or targets:
        result = run(targets[name], frames, seconds, arguments.seed)
        share, rate = result.valid / max(result.frames, 1), result.frames / max(result.seconds, 1e-9)
        print(
            f"{name:14}{result.frames:10,}{share:8.0%}{rate:9,.0f}{result.slowest_ms:8.2f} ms"
            f"{result.growth_mb:6.1f} MB",
            flush=True,
        )
        if result.failure is not None:
            failed = True
            what, needed = result.failure
            where = f"; kept in {save(name, what, needed)}" if needed else ""
            print(f"  {what}{where}", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
