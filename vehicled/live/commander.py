"""A request to a daemon's command socket."""

from __future__ import annotations

from typing import Any

import msgspec
import zmq

from vehicled.errors import RunError

_REPLY_WITHIN_MS = 3000


def request(endpoint: str, command: dict[str, Any]) -> dict[str, Any]:
    """Have a command executed; returns the reply. Raises RunError if it is refused, or without a reply."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        socket = context.socket(zmq.REQ)
        socket.connect(endpoint)
        socket.send(msgspec.json.encode(command), zmq.DONTWAIT)
        if not socket.poll(_REPLY_WITHIN_MS):
            raise RunError(f"{endpoint}: no reply; expected the command socket of a daemon")
        reply: dict[str, Any] = msgspec.json.decode(socket.recv(), type=dict[str, Any])
    except (zmq.ZMQError, msgspec.DecodeError) as error:
        raise RunError(f"{endpoint}: {error}; expected the command socket of a daemon") from None
    finally:
        context.destroy(linger=0)
    if reply.get("ok") is not True:
        raise RunError(str(reply.get("error")))
    return reply
