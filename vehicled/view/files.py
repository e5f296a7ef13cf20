"""The files of the page, in memory, and the HTTP headers for them."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only resources from this server are loaded or run, and no code within the page's own text."""

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every reply."""

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}


def read_files() -> dict[str, tuple[str, bytes]]:
    """(type, content) by path; `/` is the page itself."""
    package = files("vehicled")
    found = _read(package / "view" / "page", "/") | _read(package / "vendored" / "uplot", "/uplot/")
    found["/"] = found.pop("/index.html")
    return found


def _read(folder: Traversable, prefix: str) -> dict[str, tuple[str, bytes]]:
    return {
        prefix + f.name: (_TYPES[kind], f.read_bytes())
        for f in folder.iterdir()
        if (kind := f.name.rpartition(".")[2]) in _TYPES
    }
