"""`vehicled bench`: what the program costs and achieves on this machine."""

import argparse
import importlib

HELP = "Measure speed and accuracy on this machine."

BENCHMARKS = {
    "step": "one step of the vehicle model and of the filter, beside other solvers and engines",
    "codegen": "what the model compiler makes of a four-bar linkage and of a locomotive",
    "mechanisms": "the problems A01 to A05 of the IFToMM library of multibody benchmarks",
    "observers": "state observers on a four-bar and a five-bar linkage, side by side",
    "points": "wheels among the sigma points of the car's UKF: their modes, the cost, and what it would change",
    "particles": "the particle filter on a four-bar linkage: cost per particle, and how often it converges",
    "identify": "parameters of a suspension from motions and forces: how many, and which are worth having",
    "faults": "the daemon under faults of sensors, lines, machine and users",
    "robustness": "estimators on cars and sensors that differ from their configuration, beside a kinematic filter",
    "suspension": "travel, wheel loads and slip of cars in other engines, on even and rough roads",
    "live": "a live daemon on emulated devices: step, latency, deadlines, memory; beside a warm loop",
}
"""Name and description in one line of each benchmark; the rest is in `benches`."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare a sub-command for each benchmark."""
    benchmarks = parser.add_subparsers(title="benchmarks", metavar="WHAT", required=True)
    for name, help_line in BENCHMARKS.items():
        module = importlib.import_module(f"vehicled.commands.benches.{name}")
        sub = benchmarks.add_parser(
            name,
            help=help_line,
            description=module.DESCRIPTION,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        sub.set_defaults(benchmark=module.run)
        module.configure(sub)


def run(args: argparse.Namespace) -> int:
    """Run the chosen benchmark; returns its exit status."""
    return int(args.benchmark(args))
