"""Where mechanisms are described."""

from __future__ import annotations

from pathlib import Path

from vehicled import settings


def mechanisms_folder() -> Path:
    """Where the mechanisms that come with the program are."""
    return Path(__file__).parent / "mechanisms"


def is_mechanism(name_or_path: str | Path) -> bool:
    """Whether that is a shipped mechanism's name, or a file that has a mechanism's key `space`."""
    path = Path(name_or_path)
    if len(path.parts) == 1 and (mechanisms_folder() / f"{path}.yaml").is_file():
        return True
    try:
        return any(line.startswith("space:") for line in settings.read(path).splitlines())
    except settings.SettingsError:
        return False
