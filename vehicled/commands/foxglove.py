"""`vehicled foxglove`: a running daemon, live in Foxglove."""

import argparse
from importlib.resources import files
from importlib.util import find_spec

from vehicled.errors import UsageError
from vehicled.live.options import add_key_arguments, make_publication
from vehicled.trust.addresses import is_loopback

HELP = "Serve a running daemon's results to Foxglove: the car on map and in space, and all values to plot."

_PORT = 8765
"""Foxglove's own default port."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `vehicled foxglove`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--config", metavar="FILE", help="of the daemon: the car's measures, and where it publishes"
    )
    what.add_argument("--layout", action="store_true", help="print the layout for Foxglove, and nothing else")
    parser.add_argument(
        "--endpoint", metavar="ENDPOINT", help="where it publishes, if not as in the configuration"
    )
    add_key_arguments(parser)
    parser.add_argument("--host", default="127.0.0.1", help="address to serve at (default: %(default)s)")
    parser.add_argument(
        "--port", type=int, default=_PORT, metavar="N", help="port to serve at (default: %(default)s)"
    )
    parser.add_argument(
        "--insecure-public-bind",
        action="store_true",
        help="serve at an address that others in the network can reach: everybody there sees the results",
    )
    parser.epilog = """\
examples:
  vehicled foxglove --config my_car.yaml         then in Foxglove: Open connection, ws://localhost:8765
  vehicled replay drive.mcap --config my_car.yaml --publish tcp://127.0.0.1:5550    a drive to show
  vehicled foxglove --layout > layout.json       map, car, plots of sideslip, slip and innovations: Layout, Import
"""


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or print the layout. Raises UsageError."""
    if args.layout:
        print(files("vehicled.foxglove").joinpath("layout.json").read_text("utf-8"), end="")
        return 0
    if not 0 <= args.port < 65536:
        raise UsageError(f"--port {args.port}: expected 0 to 65535")
    if not (args.insecure_public_bind or is_loopback(args.host)):
        raise UsageError(
            f"--host {args.host}: can be reached from the network: expected a loopback address, "
            "or --insecure-public-bind beside it"
        )
    if find_spec("foxglove") is None:
        raise UsageError("vehicled foxglove needs the extra `live`: pip install 'vehicled[live]'")
    from vehicled.daemon.configuration import load_daemon_configuration
    from vehicled.foxglove.scene import Scene
    from vehicled.live.foxglove_server import FoxgloveServer

    configuration = load_daemon_configuration(args.config)
    endpoint = args.endpoint or configuration.daemon.publish.endpoint
    publication = make_publication(endpoint, args)
    with FoxgloveServer(publication, Scene(configuration.vehicle), args.host, args.port) as server:
        print(f"{endpoint} is served at ws://{args.host}:{server.port}; Ctrl-C ends", flush=True)
        server.run()
    return 0
