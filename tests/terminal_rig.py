"""A session of `vehicled new` in a terminal whose keys are pressed by a test."""

import contextlib
import os
import pty
import re
import select
import signal
import sys
import time

import pytest


class Session:
    """The program in a terminal of its own."""

    def __init__(self, tmp_path, *arguments):
        self.process, self._terminal = pty.fork()
        if self.process == 0:
            os.chdir(tmp_path)
            os.environ["TERM"] = "dumb"
            command = [sys.executable, "-m", "vehicled", "new", "my_car.yaml", *arguments]
            os.execv(sys.executable, command)
        self.text = ""

    def expect(self, pattern, answer=None):
        """Read until the pattern comes, then type the answer."""
        end = time.monotonic() + 60
        while (found := re.search(pattern, self.text)) is None:
            assert time.monotonic() < end, f"{pattern!r} did not come: {self.text[-500:]!r}"
            if select.select([self._terminal], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self._terminal, 4096).decode()
                except OSError:
                    pytest.fail(f"it ended before {pattern!r}: {self.text[-500:]!r}")
        self.text = self.text[found.end() :]
        if answer is not None:
            self.type(answer + "\r")
        return found

    def type(self, keys):
        os.write(self._terminal, keys.encode())

    def kill(self):
        """Kill the program if it still runs, after a failed test."""
        if self.process:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
            os.close(self._terminal)

    def end(self, key=None):
        """Wait for the end; returns the exit status and the remaining output.

        `key` is typed repeatedly: a signal that arrives just before the program waits for a key takes effect with the
        next key.
        """
        end = time.monotonic() + 60
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                if key is not None:
                    self.type(key)
                while select.select([self._terminal], [], [], 2.0)[0]:
                    self.text += os.read(self._terminal, 4096).decode()
            pytest.fail(f"it did not end: {self.text[-500:]!r}")
        _, status = os.waitpid(self.process, 0)
        self.process = 0
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(status), self.text
