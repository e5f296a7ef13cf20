"""`vehicled top`: a running daemon in the terminal."""

import argparse
import json
import math
import sys
from textwrap import fill

from vehicled.errors import UsageError
from vehicled.live import DEFAULT_ENDPOINT
from vehicled.live.options import add_key_arguments, make_publication

HELP = "a running daemon in the terminal"


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled top`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = fill(
        "Shows what a running daemon, or a replay that publishes, estimates: motion, sideslip, slip and deflection "
        "of each wheel, standard deviations, GNSS, time of the filter step, sources that are out of order with the "
        "reason, and a map of the last kilometre. Waits for a daemon that is not there yet; the key q ends. "
        "Without a terminal it prints the page once.",
        90,
    )
    parser.epilog = """\
examples:
  vehicled top                                      the daemon on this machine
  vehicled top --endpoint ipc:///run/vehicled/results
  vehicled top > now.txt                            one page of text
  vehicled top --json | jq .status.state            one JSON object, in SI units and radians

To see a daemon of another machine, forward its port: ssh -L 5550:localhost:5550 car
or, where it has CURVE keys (see systemd/README.md):
  vehicled top --endpoint tcp://car:5550 --server-key server.key --client-key client.key_secret"""
    parser.add_argument(
        "--endpoint",
        default=DEFAULT_ENDPOINT,
        metavar="ENDPOINT",
        help="where the results are published (default: %(default)s)",
    )
    add_key_arguments(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument(
        "--wait",
        type=float,
        default=5.0,
        metavar="S",
        help="without a terminal: wait at most so long for a daemon (default: %(default)g)",
    )


def run(args: argparse.Namespace) -> int:
    """Show the daemon; the exit status. Raises UsageError, and RunError if there is nothing to print."""
    if not 0.0 <= args.wait < math.inf:
        raise UsageError(f"--wait {args.wait:g}: expected 0 or more seconds")
    from vehicled.live.top import RecentTrack, as_json, make_page, take_snapshot, watch

    publication = make_publication(args.endpoint, args)
    if sys.stdout.isatty() and not args.json:
        watch(publication)
        return 0
    feed = take_snapshot(publication, args.wait)
    if args.json:
        print(json.dumps(as_json(args.endpoint, feed)))
    else:
        print("\n".join(make_page(args.endpoint, feed, RecentTrack(), 50)).rstrip())
    return 0
