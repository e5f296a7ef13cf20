"""The command socket: JSON requests in, JSON replies out, one at a time."""

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, get_args

import msgspec
import zmq

from vehicled.daemon.connections import CHECK_EVERY_MS, Connections
from vehicled.daemon.endpoints import MAX_WAITING, Endpoints, PublishOptions, endpoint_of
from vehicled.daemon.runtime_folder import default_command_endpoint
from vehicled.errors import VehicledError
from vehicled.messages import Status
from vehicled.requests import Mark, SetPosition
from vehicled.trust.token_bucket import TokenBucket

_log = logging.getLogger(__name__)

_MAX_REQUEST = 16384
"""Bytes. ZeroMQ disconnects a client that sends more."""
_REPLY_WITHIN_S = 2.0
_REQUESTS_PER_S = 100.0
_REQUESTS_AT_ONCE = 50.0
_CHANGES_PER_S = 1.0
"""Rate of commands that are executed before a step: each takes time of the step, and space in the
recording."""
_CHANGES_AT_ONCE = 3.0


class _Request(msgspec.Struct, tag_field="command", forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object whose `command` names one of these."""


class GetStatus(_Request, tag="status"):
    """Reply with the last `status` message."""


class Reset(_Request, tag="reset"):
    """Restart the filter, as after a start of the program."""


class SetPositionRequest(SetPosition, tag_field="command", tag="set_position"):
    """`SetPosition` as a request."""


class MarkRequest(Mark, tag_field="command", tag="mark"):
    """`Mark` as a request."""


class ReloadNoise(_Request, tag="reload_noise"):
    """Read the noise settings from the configuration file again."""


_REQUESTS = GetStatus | Reset | SetPositionRequest | MarkRequest | ReloadNoise
_NAMES = ", ".join(str(request.__struct_config__.tag) for request in get_args(_REQUESTS))


class CommandServer:
    """Serves REQ sockets in a thread of its own; the estimator's thread executes what changes the filter.

    A reply is `{"ok": true, …}` or `{"ok": false, "error": "…"}`; the latter also if the request is not valid
    JSON, if the estimator does not execute it in time, or if it is one too many of those that a step executes.
    Requests beyond what is served per second wait, each client's in its turn.
    """

    def __init__(
        self,
        endpoints: Endpoints,
        options: PublishOptions,
        submit: Callable[[str, dict[str, Any]], Future[dict[str, Any]]],
        status: Callable[[], Status | None],
        read_noise: Callable[[], dict[str, Any]],
    ) -> None:
        """`submit`: `Loop.submit`; `read_noise` gives the arguments of `reload_noise`. Raises UsageError."""
        # A ROUTER used like REP: a REP socket would lose its next reply after a malformed request whose
        # sender has disconnected.
        endpoint = options.command_endpoint or default_command_endpoint()
        self._socket = endpoints.bind(zmq.ROUTER, endpoint, _MAX_REQUEST)
        self._connections = Connections(self._socket, lambda: None, 2 * MAX_WAITING * _MAX_REQUEST)
        self.endpoint = endpoint_of(self._socket)
        self._submit = submit
        self._status = status
        self._read_noise = read_noise
        self._decoder = msgspec.json.Decoder(_REQUESTS)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC)
        self._requests = TokenBucket(_REQUESTS_PER_S, _REQUESTS_AT_ONCE)
        self._changes = TokenBucket(_CHANGES_PER_S, _CHANGES_AT_ONCE)
        self._done = 0
        self._refused = 0
        self._thread = threading.Thread(target=self._run, name="commands", daemon=True)

    def start(self) -> None:
        """Begin to serve."""
        self._thread.start()

    def counters(self) -> dict[str, Any]:
        """Its `endpoint`; requests `done`; requests and connections `refused`."""
        refused = self._refused + self._connections.refused
        return {"endpoint": self.endpoint, "done": self._done, "refused": refused}

    def close(self) -> None:
        """End the thread; returns when it has ended."""
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        os.close(self._wake)

    def _run(self) -> None:
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLIN)
        poller.register(self._connections.monitor, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        pause = zmq.Poller()
        pause.register(self._wake, zmq.POLLIN)
        try:
            while True:
                # Without clients there is nothing to check.
                ready = dict(poller.poll(CHECK_EVERY_MS if self._connections.needs_check else None))
                if self._wake in ready:
                    return
                self._connections.update()
                self._connections.check()
                if self._socket not in ready:
                    continue
                if not self._requests.take(time.monotonic_ns()):
                    pause.poll(math.ceil(1e3 * self._requests.wait_s(time.monotonic_ns())))
                    continue
                try:
                    message = self._socket.recv_multipart(zmq.DONTWAIT, copy=False)
                except zmq.Again:
                    continue
                self._connections.of(message)  # counts the message
                frames = [frame.bytes for frame in message]
                # Address of the client, an empty frame, and the request.
                if len(frames) < 3 or frames[1] != b"":
                    self._refused += 1
                    continue
                reply = self._reply_to(frames[2:])
                # A client that has disconnected without waiting for the reply is no error.
                with contextlib.suppress(zmq.ZMQError):
                    self._socket.send_multipart([frames[0], b"", reply], zmq.DONTWAIT)
        finally:
            self._connections.close()
            self._socket.close()

    def _reply_to(self, frames: list[bytes]) -> bytes:
        try:
            if len(frames) != 1:
                raise ValueError(f"Expected one frame, got {len(frames)}")
            reply = msgspec.json.encode({"ok": True, **self._execute(self._decoder.decode(frames[0]))})
            self._done += 1
            return reply
        except Exception as error:
            # Every error is reported to the client, and the socket is ready for the next request.
            self._refused += 1
            expected = isinstance(error, VehicledError | ValueError | RuntimeError | TimeoutError)
            if not expected:
                _log.error("a command failed", exc_info=error)
            # Make it one line, as the text may quote a request of several lines.
            text = " ".join(str(error).split()) or type(error).__name__
            if isinstance(error, msgspec.ValidationError) and text.endswith(("`command`", "`$.command`")):
                text += f"; expected one of {_NAMES}"
            return msgspec.json.encode({"ok": False, "error": text})

    def _execute(self, request: _Request | SetPositionRequest | MarkRequest) -> dict[str, Any]:
        if isinstance(request, GetStatus):
            status = self._status()
            if status is None:
                raise RuntimeError("not yet running")
            return {"status": status}
        if not self._changes.take(time.monotonic_ns()):
            raise RuntimeError("too many commands at once: expected one per second")
        if isinstance(request, ReloadNoise):
            name, arguments = "reload_noise", self._read_noise()
        else:
            arguments = msgspec.to_builtins(request)
            name = arguments.pop("command")
        future = self._submit(name, arguments)
        try:
            result = future.result(_REPLY_WITHIN_S)
        except TimeoutError:
            raise TimeoutError(
                "the estimator did not execute the command in time; it may still take effect"
            ) from None
        _log.info("command executed: %s", name)
        return result
