"""Places of the files that describe mechanisms."""

from __future__ import annotations

from pathlib import Path

from vehicled.errors import SettingsError
from vehicled.reading import settings


def mechanisms_folder() -> Path:
    """Folder of the mechanisms that come with the program."""
    return Path(__file__).parent / "mechanisms"


def mechanism_path(name_or_path: str | Path) -> Path:
    """Path of a mechanism, given as a path or by the name of a shipped one. Raises SettingsError."""
    return settings.config_path(name_or_path, [mechanisms_folder()], "mechanism")


def is_mechanism(name_or_path: str | Path) -> bool:
    """Whether this is a shipped mechanism's name, or a file with a mechanism's key `space` or `bodies`.

    Raises SettingsError for a word that is neither a file nor the name of a shipped mechanism or
    configuration.
    """
    folders = [settings.shipped_folder(), mechanisms_folder()]
    path = settings.config_path(name_or_path, folders, "configuration or mechanism")
    if path.parent == mechanisms_folder():
        return True
    try:
        return any(line.startswith(("space:", "bodies:")) for line in settings.read(path).splitlines())
    except SettingsError:
        return False
