"""Copies of shipped configurations with faults."""

from __future__ import annotations

import re
from pathlib import Path

from vehicled.reading.settings import config_path

COMPACT = config_path("compact").read_text(encoding="utf-8")


def spoil(folder: Path, *changes: tuple[str, str], text: str = COMPACT) -> Path:
    """Write the text to `mine.yaml`, with the first match of each pattern `old` replaced by `new`."""
    for old, new in changes:
        text, count = re.subn(rf"(?m)^( +)(.*)\b{old}", rf"\1\2{new}", text, count=1)
        assert count == 1, old
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path
