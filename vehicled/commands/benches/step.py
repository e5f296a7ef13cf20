"""`vehicled bench step`: what a step of the vehicle costs."""

import argparse
import json
from typing import Any

from vehicled.studies.benchmarks.peers import PEERS

DESCRIPTION = """\
Times of single calls, taking turns in one run of the drive mixed_drive: one step of the multibody model (4 ms),
one whole step of the filter (predict, update with all new measurements, correct, estimate with standard
deviations), and scipy's LU solution of a dense 169 × 169 system. Then several cars stepped together by
vectorised code; and, where they are installed (pip install 'vehicled[bench]'), MuJoCo and Exudyn on the published
reference vehicle beside our model of it."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench step`."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print what model and filter steps cost on this machine, µs; returns the exit status."""
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.simulation.drive import simulate
    from vehicled.simulation.plant import make_plant
    from vehicled.simulation.scenario import find_scenario
    from vehicled.studies.benchmarks import instances
    from vehicled.studies.benchmarks.published import DURATION
    from vehicled.studies.benchmarks.reference import bench_reference
    from vehicled.studies.benchmarks.step import bench_step
    from vehicled.terminal.progress import Progress

    configuration, scenario = load_daemon_configuration("prototype"), find_scenario("mixed_drive")
    plant = make_plant(configuration, scenario.plant)
    with Progress("simulating", scenario.length, "s", quiet=args.json) as progress:
        measurements, _ = simulate(scenario, plant, 1, progress.update)
    with Progress("measuring", scenario.length, "s", quiet=args.json) as progress:
        found = bench_step(configuration, measurements, scenario.begin.speed, progress.update)
    with Progress("comparing", DURATION, "s", quiet=args.json) as progress:
        found |= bench_reference(progress.update)
    with Progress("side by side", instances.DURATION, "s", quiet=args.json) as progress:
        found["instances"] = instances.bench_instances(configuration.vehicle, progress.update)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


_ROWS = {
    "model_step_us": "model step",
    "filter_step_us": "filter step",
    "filter_step_with_fix_us": "  with a GNSS fix",
    "lu169_us": "LU of 169 × 169",
}

_HEADINGS = f"{'median':>9} {'99 %':>9} {'99.9 %':>9}"


def _lines(found: dict[str, Any]) -> list[str]:
    lines = [f"{'µs':<20} {_HEADINGS}"]
    lines += [f"{name:<20} {_figures(found[key])}" for key, name in _ROWS.items()]
    operations = found["operations"]
    kernels = ", ".join(f"{name} {n}" for name, n in operations["kernels"].items())
    return [
        *lines,
        "",
        f"a model step of {operations['iterations']} iterations takes {operations['step']} operations,",
        f"one on all four corners counted once: {kernels}",
        "",
        *_instance_lines(found["instances"]),
        "",
        *_peer_lines(found),
    ]


def _instance_lines(found: list[dict[str, Any]]) -> list[str]:
    lines = [f"{'cars stepped together':<24} {_HEADINGS} {'µs per car':>12}"]
    for row in found:
        lines.append(f"{row['width']:<24} {_figures(row['step_us'])} {row['us_per_instance']:>12.2f}")
    return lines


def _peer_lines(found: dict[str, Any]) -> list[str]:
    ours = found["reference_step_us"]
    lines = [f"{'reference vehicle, µs':<24} {_HEADINGS} {'× ours':>8} {'off the path, m':>16}"]

    def row(name: str, times: dict[str, Any]) -> None:
        ratio = times["median"] / ours["median"]
        off = f"{times['error_m']:>16.3f}" if "error_m" in times else ""
        lines.append(f"{name:<24} {_figures(times)} {ratio:>8.1f} {off}".rstrip())

    row("vehicled", ours)
    for name, peer in found["peers"].items():
        row(f"{name} {peer['version']}", peer)
        if "mj_step_us" in peer:
            row("  without the tyres", peer["mj_step_us"])
    lines += [f"{name}: not installed" for name in PEERS if name not in found["peers"]]
    return lines


def _figures(times: dict[str, float]) -> str:
    return f"{times['median']:>9.1f} {times['p99']:>9.1f} {times['p999']:>9.1f}"
