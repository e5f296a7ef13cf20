"""Options of commands that run something many times: where to run it, and results to start with."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vehicled.jobs.interface import SharingExecutor


def add_executor_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--workers` and `--scheduler`."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--workers",
        type=_positive,
        metavar="N",
        help="processes at a time; as many as processors when left out",
    )
    where.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="of a Dask cluster that does the work instead, such as tcp://host:8786 (extra `cluster`)",
    )


def add_resume_argument(parser: argparse.ArgumentParser, what: str) -> None:
    """Declare `--resume` of a command that makes one of `what` per job."""
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help=f"keep every {what} in FILE, and continue from what is there",
    )


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected at least 1, got {text}")
    return int(text)


def count_workers(args: argparse.Namespace, jobs: int) -> int:
    """Number of processes of this machine for this number of jobs."""
    return max(min(args.workers or len(os.sched_getaffinity(0)), jobs), 1)


def open_executor(args: argparse.Namespace, jobs: int) -> SharingExecutor:
    """Executor for this number of jobs: a context manager that ends running jobs.

    Raises UsageError, ExecutorError.
    """
    if args.scheduler is not None:
        from vehicled.jobs.cluster import Cluster

        return Cluster(args.scheduler, lambda text: print(text, file=sys.stderr))
    from vehicled.jobs.local import LocalProcesses

    return LocalProcesses(count_workers(args, jobs))
