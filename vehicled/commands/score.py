"""`vehicled score`: errors of estimates against the truth."""

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from textwrap import fill

import numpy as np

from replay.csv_log import Table, read_estimates
from vehicled.configuration import load_configuration
from vehicled.errors import RunError, UsageError
from vehicled.maths.geodesy import WorldOrigin
from vehicled.points import ORIGIN, find_point, format_point, with_point
from vehicled.scoring.origins import find_height, find_origin
from vehicled.scoring.scores import (
    Score,
    Scored,
    compare,
    find_compared_point,
    leave_out,
    read_run,
    score,
    score_receiver,
)
from vehicled.sources.output import parse_point
from vehicled.terminal.option_values import read_quantity
from vehicled.units import Vector

HELP = "compare estimates with the truth"

_FARTHEST = 20.0
"""m, limit for the places of sensors; with it a number in mm given as m is detected."""
_MOVED = "estimates are moved there; accelerations are not compared"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled score`."""
    parser.description = fill(
        "Root mean square and largest error of every quantity in both files, over the time that they "
        "have in common; truth is interpolated onto the times of the estimates.",
        90,
    )
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = """\
NEES is the mean of (error/σ)², NIS the mean normalised innovation squared per component: both are 1 when the
filter's standard deviations match its errors; larger means too confident. NIS needs a recording (.mcap), and
accepted and rejected are counts of the innovations in it: 25 per second and kind, unless `record.rates` says
otherwise.
Sideslip and tyre slip count only from 1 m/s on. The receiver alone, if its fixes were recorded and the
truth or the configuration gives the origin of the world: its antenna, and its course over ground taken for the
heading.

Estimates are of the vehicle origin, or of `output.point` of the configuration, which their file says. With
--truth-point, or where the truth has columns point.x, point.y and point.z, they are moved to the point of the
truth: position, velocity and sideslip, not acceleration. Standard deviations stay those of their own point.

examples:
  vehicled score estimates.csv truth.csv
  vehicled score run.mcap truth.csv --json        one JSON object in SI units and radians
  vehicled score run.mcap truth.csv --truth-point rear_axle
  vehicled score estimates.csv truth.csv --truth-point -1.32,0,-0.21
  vehicled score estimates.csv truth.csv --from 20s      without the time in which the filter begins"""
    parser.add_argument("estimates", metavar="ESTIMATES", type=Path, help="estimates .csv or recording .mcap")
    parser.add_argument(
        "truth", metavar="TRUTH", type=Path, help="truth .csv: t and any columns of estimates"
    )
    parser.add_argument(
        "--truth-point",
        metavar="POINT",
        help="point of the car that the truth is of: x,y,z in m, or with one unit behind all three (-1.3,0,0.1 or "
        "'-130,0,10 cm'), rear_axle, front_axle, imu, antenna or center_of_mass",
    )
    parser.add_argument(
        "--config", metavar="FILE", help="car that a named point is of, where ESTIMATES is not a recording"
    )
    parser.add_argument(
        "--from",
        dest="begin",
        metavar="T",
        help="score from T after the first estimate on, in s or with a unit (0)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print the errors of the estimates; returns the exit status."""
    run, truth = read_run(args.estimates), read_estimates(args.truth)
    if not len(run.estimates.t):
        raise RunError(
            f"{args.estimates}: no estimates in it; expected the recording of a run, or a table of them"
        )
    if args.begin is not None:
        run = leave_out(run, _read_begin(args.begin))
    truth = _place_truth(args, run, truth)
    for table in (run.estimates, truth):
        table.problems.show(sys.stderr)
    scores = score(compare(run.estimates, truth), run.innovations)
    for note in scores.notes:
        _warn(note)
    scores = dataclasses.replace(scores, receiver=_receiver(run, truth))
    if args.json:
        print(json.dumps(_without_nan(scores.as_json())))
    else:
        print(scores)
    return 0


def _read_begin(text: str) -> float:
    """Start of the scoring, s. Raises UsageError."""
    begin = read_quantity("--from", text, "s")
    if not 0.0 <= begin < math.inf:
        raise UsageError(f"--from {text}: expected a time of at least 0 s")
    return begin


def _place_truth(args: argparse.Namespace, run: Scored, truth: Table) -> Table:
    """The truth, with the point that `--truth-point` names; notes on points go to stderr."""
    own = find_point(truth.columns)
    here = find_point(run.estimates.columns) or ORIGIN
    if args.truth_point is None:
        if own is None and here != ORIGIN:
            _warn(
                f"the estimates are of the point {format_point(here)}, and the truth is taken to be "
                "(see --truth-point)"
            )
        elif own is not None and own != here:
            _warn(
                f"the estimates are of the point {format_point(here)}, the truth of {format_point(own)}: {_MOVED}"
            )
        return truth
    there = _locate(args, run)
    if own is not None and own != there:
        _warn(f"{args.truth.name} is of the point {format_point(own)} by itself: --truth-point replaces that")
    return truth._replace(columns=with_point(truth.columns, there))


def _locate(args: argparse.Namespace, run: Scored) -> Vector:
    """Place of `--truth-point`. Raises UsageError."""
    try:
        point = parse_point(args.truth_point)
    except UsageError as error:
        raise UsageError(f"--truth-point {error}") from None
    if not isinstance(point, str):
        if max(map(abs, point)) > _FARTHEST:
            expected = f"expected a point of the car, at most {_FARTHEST:g} m from its origin"
            raise UsageError(f"--truth-point {args.truth_point}: {expected}")
        return point
    configuration = run.configuration if args.config is None else load_configuration(args.config)
    if point == "center_of_mass":
        return ORIGIN
    if configuration is None:
        raise UsageError(f"--truth-point {point}: expected --config FILE, which says where that is")
    place = configuration.locate(point)
    if place is None:
        raise UsageError(f"--truth-point {point}: expected a configuration with that sensor")
    return place


def _warn(text: str) -> None:
    print(f"vehicled score: warning: {text}", file=sys.stderr)


def _receiver(run: Scored, truth: Table) -> dict[str, Score]:
    """Scores of the recorded receiver alone, if the recording has the car's configuration and an origin is known."""
    if run.configuration is None:
        return {}
    gnss, world = run.configuration.sensors.gnss, run.configuration.world
    # That of the truth, which may be about another place than the estimates.
    origin = find_origin(truth, find_height(truth))
    if origin is None and world is not None:
        origin = WorldOrigin.of(world)
    if gnss is None or origin is None:
        return {}
    x, y, z = np.subtract(gnss.antenna, find_compared_point(run.estimates, truth)).tolist()
    return score_receiver(run.measurements, truth.t, truth.columns, (x, y, z), origin)


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
