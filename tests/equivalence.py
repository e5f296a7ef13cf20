"""Checks that two trees compute the same results in replays, identification and tuning.

    python tests/equivalence.py record BEFORE        in the tree as it was
    python tests/equivalence.py record AFTER BEFORE  in the changed tree, on the same logs
    python tests/equivalence.py compare BEFORE AFTER
    python tests/equivalence.py record ROUNDED BEFORE --perturb
    python tests/equivalence.py compare BEFORE AFTER ROUNDED

All results come from the command line, so that one script serves for any tree. `record` keeps all estimates and
innovations of `mixed_drive` with either receiver and every kind of filter, of the Ferrari sample, and of a log with
late, missing and absurd data. It also keeps the results of one `identify` and one `tune`.

`compare` requires the same innovations to be accepted, and numbers to differ by at most 1e-7 of their spread over the
drive; otherwise it exits with 1. Some quantities amplify rounding errors by more: sideslip and tyre damping of a car
at standstill. `--perturb` shows by how much: it records the same tree with one noise figure changed in its last
digit. With such a recording, a difference may be twice as large as the one that the perturbation causes.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mcap.reader import make_reader

KINDS = ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF")
TOLERANCE = 1e-7
"""Largest permitted difference, as a share of a column's spread over the drive."""
IDENTIFIED = 1e-4
"""Largest permitted difference of parameters, in their standard deviations: a search ends once its criterion hardly
changes."""
TREE = Path(__file__).parent.parent
PROGRAM = """
import sys
sys.path.insert(0, "")
from vehicled.vehicle.car import Instances
Instances.tolerance = 1e-13
from vehicled.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""Newton iterations continue until only rounding errors remain. With the car's own tolerance, rounding may decide
whether one more iteration is made, which changes an estimate by up to 1e-6 of a column's spread."""


def vehicled(*arguments: str | Path) -> str:
    """Standard output of a command of this tree."""
    command = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    return subprocess.run(command, cwd=TREE, check=True, stdout=subprocess.PIPE, text=True).stdout


# -- logs ----------------------------------------------------------------------------------------------


def make_logs(folder: Path) -> None:
    """The drives. `hostile.csv` is the conventional one with the faults of `damage`."""
    for gnss in ("rtk", "conventional"):
        log = folder / f"{gnss}.csv"
        vehicled(
            "simulate", "mixed_drive", "--config", "prototype", "--gnss", gnss, "--seed", "0", "--output", log
        )
    damage(folder / "conventional.csv", folder / "hostile.csv")
    for name, source, end in (("short.csv", "rtk.csv", 24.0), ("shorter.csv", "rtk.csv", 18.0)):
        with (folder / source).open() as given, (folder / name).open("w", newline="") as kept:
            rows = csv.reader(given)
            csv.writer(kept).writerows([next(rows), *(row for row in rows if float(row[0]) < end)])


def damage(source: Path, target: Path) -> None:
    """Late, missing and absurd data, a stuck sensor, a jump and a gap, at fixed times of the drive."""
    with source.open() as file:
        rows = list(csv.DictReader(file))
    columns = list(rows[0])
    kept = []
    for n, row in enumerate(rows):
        t = float(row["t"])
        if 12.0 < t < 12.5 or 40.0 < t < 42.6:
            continue  # no data at all: a short gap, and one after which the filter initialises again
        if 15.0 < t < 17.0:
            row |= {c: "" for c in columns if c.startswith("imu.")}
        if 20.0 < t < 24.0:
            row |= {c: "" for c in columns if c.startswith("gnss.")}
        if 25.0 < t < 28.0 and row.get("gnss.lat"):
            row["gnss.arrival"] = f"{t + 1.3:.6f}"  # older than the filter's history
        if 29.0 < t < 33.0 and row.get("gnss.lat"):
            row["gnss.lat"] = f"{float(row['gnss.lat']) + 2e-4:.9f}"
        if n % 997 == 0:
            row |= {c: "1e12" for c in columns if c.startswith(("imu.w", "vehicle.")) and row[c]}
        if 34.0 < t < 36.0:
            row |= {c: "1.5" for c in columns if c == "imu.wz" and row[c]}
        if 44.0 < t < 46.0 and row.get("wheel.fl.angle"):
            row["wheel.fl.angle"] = "100.0"
        if 47.0 < t < 49.0:
            row |= {c: "" for c in ("imu.wy", "imu.az") if c in columns}
        kept.append(row)
    with target.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(kept)


# -- runs ----------------------------------------------------------------------------------------------


def make_configurations(folder: Path, perturb: bool) -> None:
    """The prototype with every kind of filter, and with the optional states."""
    prototype = (TREE / "config" / "prototype.yaml").read_text()
    if perturb:
        (noise,) = re.findall(r"(?m)^    yaw: (\S+) rad/s²/√Hz", prototype)
        next_noise = float(np.nextafter(float(noise), 1.0))
        prototype = prototype.replace(f"    yaw: {noise} rad/s²/√Hz", f"    yaw: {next_noise!r} rad/s²/√Hz")
    for path in (TREE / "config").glob("*.dbc"):
        shutil.copy(path, folder)
    for kind in KINDS:
        text, count = re.subn(r"(?m)^  kind: errorEKF\w*", f"  kind: {kind}", prototype)
        assert count == 1
        (folder / f"{kind}.yaml").write_text(text)
    # The Ferrari's file already has the state of an unmeasured drive force.
    optional, count = re.subn(r"(?m)^  suspension: null.*$", "  suspension: {travel: 0.5 mm}", prototype)
    assert count == 1
    (folder / "suspension.yaml").write_text(optional)


def runs(folder: Path) -> list[tuple[str, Path, str | Path]]:
    """Name, log and configuration of each replay."""
    found: list[tuple[str, Path, str | Path]] = [
        (f"{gnss}_{kind}", folder / f"{gnss}.csv", folder / f"{kind}.yaml")
        for gnss in ("rtk", "conventional")
        for kind in KINDS
    ]
    found.append(("ferrari", TREE / "samples" / "ferrari_250lm" / "drive.csv", "ferrari_250lm"))
    found += [
        (f"hostile_{kind}", folder / "hostile.csv", folder / f"{kind}.yaml") for kind in ("errorEKF", "UKF")
    ]
    found += [
        (f"{log}_suspension", folder / f"{log}.csv", folder / "suspension.yaml") for log in ("rtk", "hostile")
    ]
    return found


def record(folder: Path, given: Path | None, perturb: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if given is None:
        make_logs(folder)
    else:
        for log in given.glob("*.csv"):
            shutil.copy(log, folder)
    make_configurations(folder, perturb)
    digests = {}
    for name, log, configuration in runs(folder):
        recording = folder / f"{name}.mcap"
        vehicled("replay", log, "--config", configuration, "--fast", "--record", recording)
        numbers, words, digest = read(recording)
        recording.unlink()
        np.savez_compressed(folder / f"{name}.npz", **numbers)
        (folder / f"{name}.json").write_text(json.dumps(words))
        digests[name] = digest
        print(f"{name:<28} {digest[:16]}", flush=True)
    for name, log, parameters in (
        ("identify", "short.csv", "mass,front.tyre_stiffness,steering.offset,gyro_offset.z"),
        ("tune", "shorter.csv", "gyro.noise,plant.yaw,wheel_angles.noise"),
    ):
        command = [name, folder / log, "--config", folder / "errorEKF.yaml", "--parameters", parameters]
        found = vehicled(*command, "--anyway", "--json")
        (folder / f"{name}.found.json").write_text(found)
        digests[name] = hashlib.sha256(found.encode()).hexdigest()
        print(f"{name:<28} {digests[name][:16]}", flush=True)
    (folder / "digests.json").write_text(json.dumps(digests, indent=1))


def read(recording: Path) -> tuple[dict[str, np.ndarray], dict[str, list[str]], str]:
    """Numbers and words of a recording's estimates and innovations, by topic and field, and a digest of both."""
    numbers: dict[str, list[float]] = {}
    words: dict[str, list[str]] = {}
    counts: dict[str, int] = {}

    def take(topic: str, row: int, path: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                take(topic, row, f"{path}.{key}", inner)
        elif isinstance(value, list):
            for key, inner in enumerate(value):
                take(topic, row, f"{path}.{key}", inner)
        elif isinstance(value, (bool, str)):
            words.setdefault(f"{topic}{path}", []).append(f"{row} {value}")
        elif value is not None:
            column = numbers.setdefault(f"{topic}{path}", [])
            column += [float("nan")] * (row - len(column))
            column.append(float(value))

    with recording.open("rb") as file:
        for _, channel, message in make_reader(file).iter_messages(
            topics=["/position", "/slip", "/suspension", "/innovation"]
        ):
            topic = channel.topic[1:]
            content = json.loads(message.data)
            if topic == "innovation":
                # One topic per sensor, so that each column holds one quantity.
                topic = f"innovation {content.get('sensor')}"
            row = counts[topic] = counts.get(topic, -1) + 1
            take(topic, row, "", content)
    if not numbers:
        raise SystemExit(f"{recording}: no estimates in it")
    arrays = {name: np.array(column) for name, column in numbers.items()}
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + arrays[name].tobytes())
    digest.update(json.dumps(words, sort_keys=True).encode())
    return arrays, words, digest.hexdigest()


# -- comparison ----------------------------------------------------------------------------------------


def compare(before: Path, after: Path, rounded: Path | None) -> bool:
    """Print all differences; true if the recordings agree within the tolerances."""
    old, new = (json.loads((folder / "digests.json").read_text()) for folder in (before, after))
    good = True
    for name in old:
        if name not in new:
            continue
        if old[name] == new[name]:
            print(f"{name:<28} identical")
            continue
        verdict, worst = (
            _compare_found(before / f"{name}.found.json", after / f"{name}.found.json")
            if (before / f"{name}.found.json").exists()
            else _compare_run(before / name, after / name, rounded and rounded / name)
        )
        good = good and verdict
        print(f"{name:<28} {'equal to rounding' if verdict else 'DIFFERENT'}: {worst}")
    return good


def _compare_run(before: Path, after: Path, rounded: Path | None) -> tuple[bool, str]:
    old_words, new_words = (json.loads(p.with_suffix(".json").read_text()) for p in (before, after))
    if old_words != new_words:
        names = [n for n in {*old_words, *new_words} if old_words.get(n) != new_words.get(n)]
        name = min(names)
        pairs = zip(old_words.get(name, []), new_words.get(name, []), strict=False)
        first = next(((a, b) for a, b in pairs if a != b), "another number of records")
        return False, f"words of {name} and {len(names) - 1} more, first {first}"
    with np.load(before.with_suffix(".npz")) as file:
        old = dict(file)
    shares = _differences(old, after)
    allowed = dict.fromkeys(shares, TOLERANCE)
    if rounded is not None:
        allowed |= {n: max(TOLERANCE, 2.0 * share) for n, share in _differences(old, rounded).items()}
    worst = max(shares, key=lambda n: shares[n] / allowed[n])
    return shares[worst] <= allowed[worst], f"{shares[worst]:.1e} of the spread of {worst}"


def _differences(old: dict[str, np.ndarray], folder: Path) -> dict[str, float]:
    """Largest difference of each column, divided by its spread; infinite if shapes or missing values differ."""
    shares = {}
    with np.load(folder.with_suffix(".npz")) as new:
        for name in {*old, *new}:
            a, b = old.get(name, np.zeros(0)), new[name] if name in new else np.zeros(0)
            if a.shape != b.shape or (np.isnan(a) != np.isnan(b)).any():
                shares[name] = np.inf
                continue
            spread = np.nanmax(a) - np.nanmin(a) if len(a) and not np.isnan(a).all() else 0.0
            shares[name] = float(np.nanmax(np.abs(a - b), initial=0.0)) / max(spread, 1e-12)
    return shares


def _compare_found(before: Path, after: Path) -> tuple[bool, str]:
    old, new = (
        {p["name"]: p for p in json.loads(path.read_text())["parameters"]} for path in (before, after)
    )
    worst, where = 0.0, "nothing"
    for name, one in old.items():
        other = new.get(name)
        if other is None or other["identified"] != one["identified"]:
            return False, f"{name} is found by one only"
        for key in ("value", "sigma"):
            share = abs(one[key] - other[key]) / max(abs(one["sigma"]), 1e-12)
            if share > worst:
                worst, where = share, f"{name}.{key}"
    return worst <= IDENTIFIED, f"{worst:.1e} σ in {where}"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="run everything and keep what comes out")
    recording.add_argument("folder", type=Path)
    recording.add_argument("--perturb", action="store_true", help="with one noise figure changed by rounding")
    recording.add_argument("logs", type=Path, nargs="?", help="folder of an earlier recording, for its logs")
    comparing = commands.add_parser("compare", help="compare two recordings")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument(
        "rounded", type=Path, nargs="?", help="recorded with --perturb by the tree of BEFORE"
    )
    arguments = parser.parse_args()
    if arguments.command == "record":
        record(arguments.folder.resolve(), arguments.logs and arguments.logs.resolve(), arguments.perturb)
        return 0
    return 0 if compare(arguments.before, arguments.after, arguments.rounded) else 1


if __name__ == "__main__":
    sys.exit(main())
