"""Serves the page and a WebSocket for its data, in one thread, with limits for every client."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.frames import CloseCode
from websockets.http11 import Request, Response

from vehicled.errors import RunError, VehicledError
from vehicled.requests import LONGEST_MARK
from vehicled.trust.token_bucket import TokenBucket
from vehicled.view.files import HEADERS, read_files
from vehicled.view.guard import Guard
from vehicled.view.messages import INTERVAL_NS, encode
from vehicled.view.source import ViewSource

SOCKET_PATH = "/live"
MAX_CLIENTS = 16
"""Largest number of pages at the same time."""
_MAX_MESSAGE = 4 * LONGEST_MARK + 200
"""Largest message from a page, bytes: a mark, escaped or not in ASCII."""
_QUEUE = 250
"""Messages queued for a slow page: ten seconds. Then it is disconnected, and may connect again."""
_MESSAGES_PER_S = 2.0
_MESSAGES_AT_ONCE = 10.0
_HANDSHAKE_WITHIN_S = 5.0
_ALIVE_EVERY_S = 10.0
"""s between pings; a page that does not reply within this time is disconnected."""
_CLOSE_WITHIN_S = 1.0


class _Mark(msgspec.Struct, tag_field="type", tag="mark", forbid_unknown_fields=True):
    """The only message that a page sends."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_MARK)]


class ViewServer:
    """One drive for several browsers. An asynchronous context manager."""

    def __init__(self, source: ViewSource, host: str, port: int) -> None:
        """`port`: 0 for any free port."""
        self._source = source
        self._host, self._port = host, port
        self.guard = Guard(host)
        self._files = read_files()
        self._queues: dict[ServerConnection, asyncio.Queue[bytes | str]] = {}
        self._decode = msgspec.json.Decoder(_Mark).decode
        self._server: Server

    @property
    def port(self) -> int:
        """Port to which the server is bound."""
        return int(next(iter(self._server.sockets)).getsockname()[1])

    @property
    def clients(self) -> int:
        """Number of connected pages."""
        return len(self._queues)

    async def __aenter__(self) -> ViewServer:
        """Start the server. Raises RunError if it cannot be bound."""
        try:
            self._server = await serve(
                self._serve_socket,
                self._host,
                self._port,
                process_request=self._reply,
                compression=None,
                server_header=None,
                max_size=_MAX_MESSAGE,
                max_queue=4,
                open_timeout=_HANDSHAKE_WITHIN_S,
                ping_interval=_ALIVE_EVERY_S,
                ping_timeout=_ALIVE_EVERY_S,
                close_timeout=_CLOSE_WITHIN_S,
                logger=_quiet(),
            )
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or error
            raise RunError(f"{self._host} port {self._port}: cannot be bound: {reason}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def run(self) -> None:
        """Send new messages, until cancelled."""
        while True:
            await asyncio.sleep(INTERVAL_NS * 1e-9)
            for message in self._source.poll():
                for connection, queue in list(self._queues.items()):
                    if queue.full():
                        # Its place becomes free at once, whatever happens to the connection.
                        del self._queues[connection]
                        connection.transport.abort()
                    else:
                        queue.put_nowait(message)

    def _reply(self, connection: ServerConnection, request: Request) -> Response | None:
        """Reply to a request for a file; None for a WebSocket, which is then opened."""
        headers = request.headers
        host = _one(headers, "Host")
        if not self.guard.is_host_ours(host):
            return _respond(HTTPStatus.MISDIRECTED_REQUEST, "not a name of this server: use its address")
        path = urlsplit(request.path).path
        if path == "/" and self.guard.has_token_in_address(request.path):
            # After this redirect the token is in no address that could be seen or sent to others.
            return _respond(HTTPStatus.SEE_OTHER, "", Location="/", Set_Cookie=self.guard.cookie())
        if not self.guard.has_token_in_cookie(_one(headers, "Cookie")):
            message = "expected the address with the token that 'vehicled view' has printed"
            return _respond(HTTPStatus.FORBIDDEN, message)
        if path == SOCKET_PATH:
            if not self.guard.is_same_origin(_one(headers, "Origin"), host):
                return _respond(HTTPStatus.FORBIDDEN, "expected a page of this server")
            return None
        if path not in self._files:
            return _respond(HTTPStatus.NOT_FOUND, "no such file")
        kind, body = self._files[path]
        return _respond(HTTPStatus.OK, body, kind)

    async def _serve_socket(self, connection: ServerConnection) -> None:
        if len(self._queues) >= MAX_CLIENTS:
            await connection.close(CloseCode.TRY_AGAIN_LATER, f"{MAX_CLIENTS} pages are open already")
            return
        queue = self._queues[connection] = asyncio.Queue(_QUEUE)
        # Start at once, so that no message is lost between the backlog and the queue.
        sender = asyncio.create_task(_send(connection, self._source.backlog(), queue))
        try:
            await self._take_marks(connection)
        except ConnectionClosed:
            pass
        finally:
            self._queues.pop(connection, None)
            sender.cancel()
            await asyncio.wait([sender])

    async def _take_marks(self, connection: ServerConnection) -> None:
        allowance = TokenBucket(_MESSAGES_PER_S, _MESSAGES_AT_ONCE)
        async for message in connection:
            if not allowance.take(time.monotonic_ns()):
                await connection.close(CloseCode.POLICY_VIOLATION, "too many messages")
                return
            try:
                await self._source.mark(self._decode(message).text)
                reply = {"type": "marked", "error": None}
            except (VehicledError, ValueError) as error:  # errors of msgspec are ValueErrors
                reply = {"type": "marked", "error": str(error)}
            await connection.send(encode(reply))


async def _send(
    connection: ServerConnection, backlog: Iterable[bytes | str], queue: asyncio.Queue[bytes | str]
) -> None:
    with contextlib.suppress(ConnectionClosed):
        for message in backlog:
            await connection.send(message)
        while True:
            await connection.send(await queue.get())


def find_url(host: str, port: int, token: str | None) -> str:
    """Address of the page for a browser."""
    address = host.strip("[]")
    if address in ("0.0.0.0", "::"):
        address = _own_address(address)
    shown = f"[{address}]" if ":" in address else address
    return f"http://{shown}:{port}/" + ("" if token is None else f"?token={token}")


def _own_address(every: str) -> str:
    """Address of this machine in the network of its default route; nothing is sent to find it."""
    family, elsewhere = (
        (socket.AF_INET, "192.0.2.1") if every == "0.0.0.0" else (socket.AF_INET6, "2001:db8::1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((elsewhere, 9))
        except OSError:
            return socket.gethostname()
        return str(probe.getsockname()[0])


def _one(headers: Headers, name: str) -> str | None:
    """The value of a header that occurs once; None if it is missing or occurs several times."""
    values = headers.get_all(name)
    return values[0] if len(values) == 1 else None


def _respond(
    status: HTTPStatus, body: bytes | str, kind: str = "text/plain; charset=utf-8", **more: str
) -> Response:
    content = body.encode() if isinstance(body, str) else body
    headers = Headers(
        {"Connection": "close", "Content-Length": str(len(content)), "Content-Type": kind, **HEADERS}
    )
    for name, value in more.items():
        headers[name.replace("_", "-")] = value
    return Response(status.value, status.phrase, headers, content)


def _quiet() -> logging.Logger:
    """Logger without messages on clients' errors: anything may connect."""
    logger = logging.getLogger("vehicled.view.connections")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger
