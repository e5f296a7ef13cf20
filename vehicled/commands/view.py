"""`vehicled view`: a running daemon or a recording in a browser."""

import argparse
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from vehicled.errors import UsageError
from vehicled.live import DEFAULT_ENDPOINT
from vehicled.live.options import add_key_arguments, make_publication

if TYPE_CHECKING:
    from vehicled.view.source import ViewSource

HELP = "a running daemon or a recording in a browser"

_PORT = 8550
_NICE = 10
"""Niceness: the page can wait; the daemon and its sources cannot."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled view`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = fill(
        "Serves a page that shows a running daemon, a replay that publishes, or a recording: map with standard "
        "deviations, speed, sideslip, slip, load and deflection of the four corners, g-g diagram, health of "
        "every source, step time. Pause, go back in time, and mark a moment in the daemon's recording. Runs beside "
        "the daemon until Ctrl-C; needs pip install 'vehicled[view]'.",
        90,
    )
    parser.epilog = """\
examples:
  vehicled view                           the daemon on this machine, at http://localhost:8550
  vehicled view run.mcap                  a recording
  vehicled view estimates.csv             a table of estimates
  vehicled view --host 0.0.0.0            for a phone in the same network; prints an address with a token
  vehicled view --endpoint tcp://127.0.0.1:5560
      for: vehicled replay drive.mcap --config my_car.yaml --publish tcp://127.0.0.1:5560

Only this machine reaches the page unless --host names another address. What is sent is not encrypted: in a network
that others use, forward the port instead: ssh -L 8550:localhost:8550 car"""
    parser.add_argument(
        "run_file", metavar="RUN", type=Path, nargs="?", help="recording .mcap or estimates .csv"
    )
    parser.add_argument(
        "--endpoint",
        metavar="ENDPOINT",
        help=f"where a daemon or a replay publishes (default: {DEFAULT_ENDPOINT})",
    )
    add_key_arguments(parser)
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to serve the page at (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=_PORT,
        metavar="N",
        help="its port, 0 for a free one (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C. Raises UsageError, and RunError where the page cannot be served."""
    import asyncio
    import contextlib
    import os
    import sys

    for option in ("endpoint", "server_key", "client_key"):
        if args.run_file is not None and getattr(args, option) is not None:
            raise UsageError(f"--{option.replace('_', '-')}: not with a RUN, which is a file")
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: expected 0 to 65535")
    if find_spec("websockets") is None:
        raise UsageError("vehicled view needs the extra `view`: pip install 'vehicled[view]'")
    from vehicled.view.server import ViewServer, find_url

    async def serve(source: "ViewSource") -> None:
        async with ViewServer(source, args.host, args.port) as server:
            print(find_url(args.host, server.port, server.guard.token), flush=True)
            await server.run()

    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.ExitStack() as opened:
        source: ViewSource
        if args.run_file is None:
            from vehicled.view.live_run import LiveRun

            publication = make_publication(args.endpoint or DEFAULT_ENDPOINT, args)
            source = opened.enter_context(contextlib.closing(LiveRun(publication)))
        else:
            from vehicled.terminal.progress import Progress
            from vehicled.view.recorded_run import RecordedRun

            with Progress("reading", unit="s") as progress:
                source = RecordedRun(args.run_file, progress.update)
            source.problems.show(sys.stderr)
        asyncio.run(serve(source))
    return 0
