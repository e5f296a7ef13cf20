"""`vehicled batch`: many logs by many configurations, one table."""

import argparse
import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.foreign.options import add_mapping_argument, read_mapping
from vehicled.jobs.options import add_executor_arguments, add_resume_argument, open_executor

if TYPE_CHECKING:
    from vehicled.batch.job import BatchJob


HELP = "Replay many logs with many configurations, on this machine or a Dask cluster, into one table."

EPILOG = """\
For each log and configuration: RMSE against the truth, NIS and share of rejected observations by sensor, restarts of
the filter, processor time of a step. A log that fails is a row with its error, and the exit status is 1 in the end.

The truth of drive.mcap is drive.truth.csv or drive_truth.csv (or drive.mcap.truth.csv) beside it, where there is one;
--truth names others, one for each LOG in the same order.

With --scheduler the workers read logs and truths themselves: under the same path as here, as in a shared folder; that
they have the same content is checked. Configurations are sent. Results are the same to the last digit where the
processors are of the same kind, but for the times of steps.

examples:
  vehicled batch drives/*.mcap --config my_car.yaml
  vehicled batch drives/*.mcap --config my_car.yaml tuned.yaml --parquet table.parquet --plot table.svg
  vehicled batch drives/*.mcap --config my_car.yaml --resume rows.jsonl    continue after Ctrl-C by the same line
  vehicled batch drives/*.mcap --config my_car.yaml --scheduler tcp://host:8786
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled batch`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = EPILOG
    parser.add_argument(
        "logs", nargs="+", type=Path, metavar="LOG", help="any log that `vehicled replay` reads"
    )
    parser.add_argument(
        "--config", nargs="+", required=True, metavar="FILE", help="YAML files, or names of shipped ones"
    )
    parser.add_argument("--truth", nargs="+", type=Path, default=[], metavar="TRUTH", help="one for each LOG")
    add_mapping_argument(parser, "all logs")
    add_executor_arguments(parser)
    add_resume_argument(parser, "row")
    parser.add_argument(
        "--parquet", type=Path, metavar="FILE", help="write the table there (extra `parquet`)"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the table: .svg, .png or .pdf")
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print a row for each log and configuration; 1 if one has an error. Raises UsageError, RunError."""
    _check_outputs(args)
    jobs = _list_jobs(args)
    for name, configuration in {job.config: job.configuration for job in jobs}.items():
        if (unused := configuration.find_unused(name)) is not None:
            print(unused, file=sys.stderr)
    rows = _run_jobs(args, jobs)
    if args.parquet is not None:
        from vehicled.batch.parquet import write_parquet

        write_parquet(rows, {job.config: job.configuration.text for job in jobs}, args.parquet)
    if args.plot is not None:
        from vehicled.batch.plots import draw

        draw(rows, args.plot)
    if args.json:
        print(json.dumps({"rows": rows}, ensure_ascii=False))
    else:
        from vehicled.batch.tables import format_rows

        for row in rows:
            for note in row["notes"]:
                print(f"{row['log']}, {row['config']}: {note}", file=sys.stderr)
        print("\n".join(format_rows(rows)))
    return 0 if all(row["error"] is None for row in rows) else 1


def _check_outputs(args: argparse.Namespace) -> None:
    """Check the output files before the work starts, so that it is not done in vain. Raises UsageError."""
    from vehicled.errors import UsageError
    from vehicled.reading.settings import config_path
    from vehicled.terminal.output_files import PLOTS, OutputFile, check_outputs

    check_outputs(
        [
            OutputFile("--resume", args.resume),
            OutputFile("--parquet", args.parquet, (".parquet",)),
            OutputFile("--plot", args.plot, PLOTS),
        ],
        {
            "log": args.logs,
            "truth": args.truth,
            "configuration": map(config_path, args.config),
            "mapping": [args.mapping],
        },
    )
    if args.parquet is not None and find_spec("pyarrow") is None:
        raise UsageError("--parquet: needs the extra `parquet`: pip install 'vehicled[parquet]'")


def _list_jobs(args: argparse.Namespace) -> "list[BatchJob]":
    """All combinations, with those of one log together. Raises UsageError for files that cannot be read."""
    import hashlib

    from vehicled.batch.job import BatchJob, LoggedFile, hash_file
    from vehicled.batch.truth import pair_truths
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.errors import UsageError

    configurations = {name: load_daemon_configuration(name) for name in args.config}
    pairs = pair_truths(list(dict.fromkeys(args.logs)), args.truth)
    if not pairs:
        raise UsageError("LOG: expected logs, got truths alone")
    mapping = read_mapping(args)
    mapping_content = None if args.mapping is None else hash_file(args.mapping)
    jobs = []
    for log, truth in pairs.items():
        files = LoggedFile.of(log), None if truth is None else LoggedFile.of(truth)
        for name, configuration in configurations.items():
            content = hashlib.sha256(configuration.text.encode()).hexdigest()[:16]
            jobs.append(BatchJob(*files, name, content, configuration, mapping_content, mapping))
    return jobs


def _run_jobs(args: argparse.Namespace, jobs: "list[BatchJob]") -> list[dict[str, Any]]:
    from vehicled.batch.job import get_key, make_empty_row, run_batch_job
    from vehicled.jobs.ledger import Ledger
    from vehicled.jobs.run import run_jobs
    from vehicled.terminal.progress import Progress

    ledger = Ledger(args.resume, get_key, "a row of `vehicled batch`", lambda row: row["error"] is None)
    todo = [job for job in jobs if job.key not in ledger]
    try:
        with (
            open_executor(args, len(todo)) as executor,
            Progress("replaying", len(todo), "runs", quiet=args.json) as progress,
        ):
            run_jobs(
                run_batch_job,
                todo,
                executor,
                progress.update,
                ledger.enter,
                lambda job, error: make_empty_row(job, str(error)),
            )
    except KeyboardInterrupt:
        if args.resume is not None and not args.json:
            done = sum(job.key in ledger for job in jobs)
            print(
                f"{done} of {len(jobs)} rows are in {args.resume}; the same command continues",
                file=sys.stderr,
            )
        raise
    return [ledger[job.key] for job in jobs]
