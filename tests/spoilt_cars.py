"""Copies of shipped cars, spoilt."""

from __future__ import annotations

import re
from pathlib import Path

from vehicled.reading.settings import config_path

COMPACT = config_path("compact").read_text(encoding="utf-8")


def spoil(folder: Path, *changes: tuple[str, str], text: str = COMPACT) -> Path:
    """A file `mine.yaml` of the text, in which the first lines of some keys are changed."""
    for old, new in changes:
        text, count = re.subn(rf"(?m)^( +)(.*)\b{old}", rf"\1\2{new}", text, count=1)
        assert count == 1, old
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path
