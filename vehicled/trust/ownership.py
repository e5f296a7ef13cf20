"""Whether files and folders can have been written by somebody else, as ssh checks it of keys."""

import os
import stat


def find_fault(status: os.stat_result) -> str | None:
    """Why a file or folder cannot be trusted: others own it, or can write to it. None if nothing is wrong."""
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"others can write to it (mode {stat.S_IMODE(status.st_mode):04o})"
    return None
