"""Common command-line options of the programs that show a daemon's messages."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vehicled.errors import UsageError

if TYPE_CHECKING:  # so that the command line is parsed quickly
    from vehicled.live.subscriber import Publication


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare `--server-key` and `--client-key`."""
    parser.add_argument(
        "--server-key",
        type=Path,
        metavar="FILE",
        help="public key of a daemon that has CURVE keys (its server.key)",
    )
    parser.add_argument(
        "--client-key",
        type=Path,
        metavar="FILE",
        help="own secret key (client.key_secret), where the daemon lists who may connect",
    )


def make_publication(endpoint: str, args: argparse.Namespace) -> Publication:
    """The publication to subscribe to. Raises UsageError for files that are no keys."""
    from vehicled.live.subscriber import Publication
    from vehicled.trust.curve import ClientKeys

    if args.server_key is None:
        if args.client_key is not None:
            raise UsageError(f"--client-key {args.client_key}: expected --server-key beside it")
        return Publication(endpoint)
    return Publication(endpoint, ClientKeys.read(args.server_key, args.client_key))
