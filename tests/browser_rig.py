"""A Chromium without a window, driven by its DevTools protocol."""

import base64
import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
_WITHIN_S = 30.0


class Tab:
    """A page in the browser. `errors` collects its exceptions, error log entries and console warnings."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.errors: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=_WITHIN_S))
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result
            self._note(message.get("method"), message.get("params", {}))

    def _note(self, event: str, of: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.errors.append(of["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif event == "Log.entryAdded" and of["entry"]["level"] == "error":
            self.errors.append(f"{of['entry']['text']} {of['entry'].get('url', '')}")
        elif event == "Runtime.consoleAPICalled" and of["type"] in ("error", "warning", "assert"):
            self.errors.append(str([argument.get("value") for argument in of["args"]]))

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete'")

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript."""
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, (expression, reply["exceptionDetails"])
        return reply["result"].get("value")

    def wait_for(self, expression: str, seconds: float = _WITHIN_S) -> None:
        give_up = time.monotonic() + seconds
        while not self.run(expression):
            assert time.monotonic() < give_up, f"not within {seconds:g} s: {expression}; {self.errors}"
            time.sleep(0.03)

    def text(self, name: str) -> str:
        """Text of the element with this id."""
        text: str = self.run(f"document.getElementById({name!r}).textContent")
        return text

    def click(self, name: str) -> None:
        self.run(f"document.getElementById({name!r}).click()")

    def resize(self, width: int, height: int, scale: float = 1, mobile: bool = False) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=mobile,
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=mobile)

    def choose_theme(self, name: str) -> None:
        """`light` or `dark`."""
        feature = {"name": "prefers-color-scheme", "value": name}
        self.call("Emulation.setEmulatedMedia", features=[feature])

    def screenshot(self, path: Path, whole: bool = False) -> None:
        reply = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(reply["data"]))


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Tab]:
    """One tab of a browser whose profile is in `folder`."""
    assert CHROMIUM is not None
    arguments = [
        *("--headless=new", "--remote-debugging-port=0", f"--user-data-dir={folder}", "--no-first-run"),
        # In containers, root gets no sandbox and /dev/shm is small. Only our own page is loaded.
        *("--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--disable-extensions", "about:blank"),
        *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    ]
    process = subprocess.Popen([CHROMIUM, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port_file, give_up = folder / "DevToolsActivePort", time.monotonic() + _WITHIN_S
        while not (port_file.exists() and port_file.read_text().count("\n")):
            assert process.poll() is None, f"{CHROMIUM} has ended"
            assert time.monotonic() < give_up, f"{CHROMIUM} does not start"
            time.sleep(0.05)
        port = int(port_file.read_text().split()[0])
        with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_WITHIN_S) as reply:
            (page,) = (tab for tab in json.load(reply) if tab["type"] == "page")
        with connect(page["webSocketDebuggerUrl"], max_size=None, compression=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(_WITHIN_S)
