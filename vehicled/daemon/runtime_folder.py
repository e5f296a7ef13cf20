"""Default place of the command socket: a folder that no other user can write to."""

import os
import tempfile
from pathlib import Path

from vehicled.errors import UsageError
from vehicled.trust import ownership

SERVICE_FOLDER = Path("/run/vehicled")
"""Folder of the service: the unit's `RuntimeDirectory`."""


def default_command_endpoint() -> str:
    """`ipc://FOLDER/commands`. Raises UsageError if there is no safe folder.

    FOLDER is that of the service if this process may write there; else `$XDG_RUNTIME_DIR/vehicled`, which
    belongs to the user who is logged in; else, without a session, `vehicled-UID` in the folder of temporary
    files.
    """
    if os.access(SERVICE_FOLDER, os.W_OK | os.X_OK):
        return f"ipc://{SERVICE_FOLDER}/commands"
    session = os.environ.get("XDG_RUNTIME_DIR")
    if session:
        folder = Path(session) / "vehicled"
    else:
        folder = Path(tempfile.gettempdir()) / f"vehicled-{os.geteuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        fault = ownership.find_fault(folder.lstat())
    except OSError as error:
        fault = error.strerror
    if fault is not None:
        raise UsageError(
            f"{folder}: {fault}; expected a folder of this user's own for the command socket, "
            "or publish.command_endpoint"
        )
    return f"ipc://{folder}/commands"
