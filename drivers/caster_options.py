"""Settings of an NTRIP caster: where it is, and user and password for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from drivers.ntrip import Caster, NtripError, split_caster
from vehicled.errors import UsageError
from vehicled.trust.bounded_file import read_bounded
from vehicled.units import Range

_LONGEST_PASSWORD = 1024


@dataclass(frozen=True, kw_only=True)
class CasterOptions:
    """Where a caster is and how it is accessed."""

    caster: str
    """`HOST` or `HOST:PORT`; the port is 2101 by default."""
    user: str = ""
    password_file: Path | None = None
    """File whose first line is the password, such as one that systemd provides; read at each attempt."""
    password_variable: str | None = None
    """Environment variable that has the password instead."""
    tls: bool = False
    """Encrypt, and verify the caster's certificate."""
    ca_file: Path | None = None
    """With `tls`, certificates of own authorities (PEM); without, those of the system."""
    version: Annotated[int, Range(1, 2)] = 2
    """Version of the protocol in requests. Nearly all casters of version 1 accept requests of version 2 as
    well."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yield (key, what is wrong); never contains a text that may be a password."""
        if split_caster(self.caster) is None:
            yield "caster", "expected HOST or HOST:PORT, without protocol, user, password and mountpoint"
        if ":" in self.user or not self.user.isprintable():
            yield "user", "expected a name without a colon; the password has a file or variable of its own"
        if self.password_file is not None and self.password_variable is not None:
            yield "password_variable", "expected either this or a password file"
        if self.ca_file is not None and not self.tls:
            yield "ca_file", "expected tls with it"

    def find_caster(self) -> Caster:
        """The caster with its password. Raises NtripError if that cannot be read."""
        place = split_caster(self.caster)
        assert place is not None  # see `check`
        return Caster(*place, self.user, self._read_password(), self.tls, self.ca_file, self.version)

    def _read_password(self) -> str:
        """Empty without file and variable."""
        path, variable = self.password_file, self.password_variable
        if path is not None:
            try:
                lines = read_bounded(path, _LONGEST_PASSWORD).decode("utf-8").splitlines()
            except (OSError, UsageError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "expected a short text file"
                raise NtripError(f"password file {path}: {reason}") from None
            return lines[0] if lines else ""
        if variable is not None:
            password = os.environ.get(variable)
            if password is None:
                raise NtripError(f"password: the environment variable {variable} is not set")
            return password
        return ""
