"""`vehicled bench identify`: which parameters of a suspension, or of a car, can be identified."""

import argparse
import json
from pathlib import Path
from typing import Any

from vehicled.jobs.options import add_executor_arguments, open_executor

DESCRIPTION = """\
Parameters of a front suspension (15 bodies, 5 degrees of freedom) from its motions and forces. First how many of its
150 inertial parameters have no effect, and how many combinations of the others can be identified: by transfer of
inertial properties between bodies, in extended and in double precision. Then models of few parameters, chosen by
what they contribute with priors that are wrong by up to 100 %, fitted to one motion with 5 % noise on its forces, and
the error of what they predict of another motion: the sum over the five forces of ‖error‖/‖force‖. Published for
another suspension of this topology (Mejía Calderón 2016): 35 null, 115 remaining, 83 base parameters; 13 to 17 %
with 20 of them, above 300 % with fewer than 10, and useless with all 83."""

EPILOG = """\
`--mechanism vehicle` identifies cars instead: each with ten parameters off by 10 to 20 % from the configuration
`prototype` (the centre of gravity by 2.5 to 5 cm), from one `mixed_drive` each, with all errors of the sensors.
The table has the remaining errors beside the standard deviations of the estimates, in % of the true values.

examples:
  vehicled bench identify --plots pictures
  vehicled bench identify --motions 2
  vehicled bench identify --mechanism vehicle --seed 0 1 2 3 4 5 6 7
  vehicled bench identify --mechanism vehicle --parameters 'mass,*.spring,*.damper,*.anti_roll_bar'
"""

_SEEDS = (0, 1, 2, 3)
_WELL_KNOWN = 0.01
"""Standard deviation below which a parameter should be within 2 %."""
_EVALUATIONS = 100
"""Number of motions that a search compares."""
_COUNTS = (5, 10, 15, 20, 25, 30, 40, 60, 83)


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled bench identify`."""
    parser.epilog = EPILOG
    parser.add_argument(
        "--mechanism",
        choices=["front_suspension", "vehicle"],
        default="front_suspension",
        help="default: %(default)s",
    )
    parser.add_argument(
        "--parameters",
        metavar="NAMES",
        help="of the vehicle, between commas, with * for any; ten when left out",
    )
    parser.add_argument(
        "--seed", nargs="+", type=int, metavar="N", help="a vehicle and a drive each; 0 1 2 3 when left out"
    )
    parser.add_argument(
        "--motions",
        type=int,
        default=0,
        metavar="N",
        help="search a motion for each base set of the suspension that excites all its parameters, from N starts: "
        "about a minute of processor time each",
    )
    add_executor_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    parser.add_argument("--plots", type=Path, metavar="DIRECTORY", help="draw what was found")


def run(args: argparse.Namespace) -> int:
    """Print the study of a suspension or of a car; returns the exit status. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.terminal.output_files import check_folder

    check_folder("--plots", args.plots)
    if args.mechanism == "vehicle":
        if args.motions:
            raise UsageError("--motions: expected with --mechanism front_suspension alone")
        return _run_vehicle(args)
    for option in ("parameters", "seed"):
        if getattr(args, option):
            raise UsageError(f"--{option}: expected with --mechanism vehicle alone")
    if args.motions < 0:
        raise UsageError(f"--motions: expected 0 or more, got {args.motions}")
    return _run_suspension(args)


def _run_suspension(args: argparse.Namespace) -> int:
    from vehicled.studies.benchmarks.identify import bench_identify
    from vehicled.studies.benchmarks.identify_study import Study
    from vehicled.terminal.progress import Progress

    study = Study()
    with Progress("identifying", 1.0, quiet=args.json) as progress:
        found = bench_identify(study, progress.update)
    if args.motions:
        found["motions"] = _find_motions(args)
    if args.plots:
        from vehicled.studies.benchmarks.identify_plots import draw

        draw(study, found, args.plots)
    print(json.dumps(found, ensure_ascii=False) if args.json else "\n".join(_lines(found)))
    return 0


def _find_motions(args: argparse.Namespace) -> list[dict[str, Any]]:
    from vehicled.studies.benchmarks.identify_motions import find_motions
    from vehicled.studies.benchmarks.identify_sets import VALID
    from vehicled.terminal.progress import Progress

    jobs = len(VALID) * args.motions
    with (
        open_executor(args, jobs) as executor,
        Progress("motions", jobs, "searches", quiet=args.json) as progress,
    ):
        return find_motions(args.motions, _EVALUATIONS, executor, progress.update)


def _run_vehicle(args: argparse.Namespace) -> int:
    from vehicled.errors import UsageError
    from vehicled.studies.benchmarks.vehicle_identify import PARAMETERS, bench_cars, check_names
    from vehicled.terminal.progress import Progress

    seeds = list(dict.fromkeys(args.seed or _SEEDS))
    if min(seeds) < 0:
        raise UsageError(f"--seed: expected 0 or more, got {min(seeds)}")
    check_names(args.parameters or PARAMETERS)
    with (
        open_executor(args, len(seeds)) as executor,
        Progress("identifying", len(seeds), "cars", quiet=args.json) as progress,
    ):
        rows = bench_cars(args.parameters or PARAMETERS, seeds, executor, progress.update)
    if args.plots:
        from vehicled.studies.benchmarks.identify_plots import draw_cars

        draw_cars(rows, args.plots)
    print(json.dumps(rows, ensure_ascii=False) if args.json else "\n".join(car_lines(rows)))
    return 0


def car_lines(rows: list[dict[str, Any]]) -> list[str]:
    """Errors by parameter and car, and how many are within their limits."""
    lines = ["error of the estimate ± its standard deviation, % of the true value; (…): left at its prior"]
    lines.append(f"{'':<24}" + "".join(f"{'seed ' + str(row['seed']):>16}" for row in rows))
    known = within = sure = identified = 0
    for k, first in enumerate(rows[0]["parameters"]):
        cells = []
        for row in rows:
            p = row["parameters"][k]
            error, sigma = (p["value"] - p["true"]) / abs(p["true"]), p["sigma"] / abs(p["true"])
            text = f"{100 * error:+.2f} ± {100 * sigma:.2f}"
            cells.append(text if p["identified"] else f"({100 * error:+.1f})")
            identified += p["identified"]
            sure += p["identified"] and abs(error) <= 3.0 * sigma
            if p["identified"] and sigma <= _WELL_KNOWN:
                known, within = known + 1, within + (abs(error) <= 0.02)
        lines.append(f"{first['name']:<24}" + "".join(f"{c:>16}" for c in cells))
    for title, key, form in (
        ("passes", "passes", "{:.0f}"),
        ("processor time, s", "processor_s", "{:.0f}"),
        ("time by the clock, s", "wall_s", "{:.0f}"),
        ("driven, s", "driven_s", "{:.0f}"),
        ("plant noise, share", "plant_noise", "{:.2g}"),
    ):
        lines.append(f"{title:<24}" + "".join(f"{form.format(row[key]):>16}" for row in rows))
    lines += [
        "",
        f"{identified} of {len(rows) * len(rows[0]['parameters'])} identified, {sure} of them within 3 σ; "
        f"{known} with σ up to {_WELL_KNOWN:.0%}, {within} of them within 2 %",
    ]
    return lines


def _lines(found: dict[str, Any]) -> list[str]:
    ranks = found["ranks"]
    last, next_one = ranks["pivots"][found["base"] - 1], ranks["pivots"][found["base"]]
    doubles = ", ".join(f"{rank} ({name})" for name, rank in ranks["double"].items())
    condition = found["excitation"]["condition"]
    lines = [
        f"{'inertial parameters':<34} {found['parameters']}, with springs and dampers {found['with_springs']}",
        f"{'null':<34} {found['null']}",
        f"{'remaining':<34} {found['remaining']}",
        f"{'base parameters':<34} {found['base']}",
        f"{'rank with ' + str(ranks['digits']) + ' digits':<34} {ranks['extended']}: "
        f"pivot {found['base']} is {last:.1e}, the next {next_one:.1e}; same space to {ranks['distance']:.0e}",
        f"{'rank in double precision':<34} {doubles}",
        f"{'condition of ' + str(found['excitation']['relevant']) + ' parameters':<34} "
        f"{condition['drawn']:.2g} in a motion drawn at random, {condition['optimised']:.2g} optimised",
        "",
        "base sets, as printed, and their rank with as many digits",
    ]
    for row in found["sets"]:
        text = (
            f"rank {row['rank']}, same space to {row['distance']:.0e}, W N = 0 to {row['residual']:.0e}, "
            f"condition {row['condition']:.0e}"
            if row["valid"]
            else f"rejected: rank {row['rank']}; no transfer has {', '.join(row['alone'])}"
        )
        lines.append(f"{row['set']:<34} {text}")
    lines += [
        "",
        "prediction error on another motion, %, by number of parameters (priors wrong by up to 20 %)",
    ]
    counts = [c for c in _COUNTS if any(m["count"] == c for m in found["studies"][0]["models"])]
    lines.append(f"{'fitted to a motion':<34}" + "".join(f"{c:>8}" for c in counts))
    for row in found["studies"]:
        if row["prior_error"] == 0.2:
            lines.append(f"{_label(row):<34}" + _cells(row, counts))
    lines += [
        "",
        "the same with priors of other errors, with noise, optimised motion; overlap of the first 30",
    ]
    for row in found["studies"]:
        if row["motion"] == "optimised" and row["force_noise"] and not row["weighted"]:
            label = f"{row['set']}, {100 * row['prior_error']:.0f} %, {100 * row['overlap']:.0f} %"
            lines.append(f"{label:<34}" + _cells(row, counts))
    lines += ["", "all parameters at once, of bodies that could be, with noise, optimised motion"]
    for row in found["feasible"]:
        lines.append(
            f"{'priors wrong by up to ' + format(row['prior_error'], '.0%'):<34} "
            f"{100 * row['validation_error']:.1f} % (priors {100 * row['prior_validation_error']:.1f} %), "
            f"impossible bodies {row['infeasible']} (priors {row['prior_infeasible']})"
        )
    lines += ["", "springs and dampers beside 20 parameters, with noise, optimised motion"]
    for row in found["springs"]:
        lines.append(
            f"{row['name']:<34} {row['estimate']:.4g} ± {row['deviation']:.2g}, true {row['value']:.4g}"
        )
    from vehicled.studies.benchmarks.identify_tables import format_tables

    lines += ["", *format_tables(found)]
    if "motions" in found:
        lines += [
            "",
            "condition of all 83 parameters, columns scaled to one, in motions that were searched for",
        ]
        lines.append(f"{'':<34} {'drawn':>9} {'found':>9} {'unscaled':>9} {'published':>10}")
        for row in found["motions"]:
            drawn = f"{row['drawn'][0]:.1e}" if "drawn" in row else "–"
            lines.append(
                f"{row['set']:<34} {drawn:>9} {row['condition']:>9.1e} {row['unscaled']:>9.1e} "
                f"{row['published']:>10.1e}"
            )
    return lines


def _label(row: dict[str, Any]) -> str:
    noise = ("5 %, weighted" if row["weighted"] else "5 % noise") if row["force_noise"] else "no noise"
    return f"{row['motion']}, {row['set'][:2]}, {noise}"


def _cells(row: dict[str, Any], counts: list[int]) -> str:
    errors = {m["count"]: m["validation_error"] for m in row["models"]}
    return "".join(f"{100 * errors[c]:>8.1f}" if c in errors else f"{'–':>8}" for c in counts)
