"""Access to the page: checks of each request, before it is processed."""

from __future__ import annotations

import hmac
import secrets
import socket
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from urllib.parse import parse_qs, urlsplit

from vehicled.trust.addresses import is_loopback

_COOKIE = "vehicled_view"


class Guard:
    """Decides on requests by their headers.

    A page of another site in the same browser can neither connect (`Origin`) nor have its own name resolve to
    this server (`Host`, against DNS rebinding). If others in the network reach the server, a token is needed:
    once in the address, then in a cookie.
    """

    def __init__(self, host: str) -> None:
        """`host`: name or address to which the server is bound."""
        self._local = is_loopback(host)
        self.token = None if self._local else secrets.token_urlsafe(24)
        """None if no token is needed."""
        self._names = {"localhost"}
        if not self._local:
            name = socket.gethostname().lower()
            self._names |= {host.lower(), name, f"{name}.local"}

    def is_host_ours(self, host: str | None) -> bool:
        """Whether the header `Host` names this server: an address, which cannot be rebound, or one of its names."""
        try:
            name = urlsplit(f"//{host or ''}").hostname or ""
        except ValueError:
            return False
        if self._local:
            return is_loopback(name)
        try:
            ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def is_same_origin(self, origin: str | None, host: str | None) -> bool:
        """Whether a WebSocket is opened by a page of this server; browsers send the page's address in `Origin`."""
        try:
            return origin is not None and host is not None and urlsplit(origin).netloc == host
        except ValueError:
            return False

    def has_token_in_address(self, path: str) -> bool:
        """Whether the query of an address contains the right token."""
        given = parse_qs(urlsplit(path).query, max_num_fields=10).get("token", [""])[0]
        return self.token is not None and _is_equal(given, self.token)

    def has_token_in_cookie(self, cookies: str | None) -> bool:
        """Whether the header `Cookie` contains the right token, or none is needed."""
        if self.token is None:
            return True
        try:
            jar = SimpleCookie(cookies or "")
        except CookieError:
            return False
        return _COOKIE in jar and _is_equal(jar[_COOKIE].value, self.token)

    def cookie(self) -> str:
        """The value of `Set-Cookie` for a client with the token in the address."""
        return f"{_COOKIE}={self.token}; HttpOnly; SameSite=Lax; Path=/"


def _is_equal(given: str, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
