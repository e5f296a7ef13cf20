"""Style of this program's matplotlib figures, and the colours that pages share with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vehicled.terminal.output_files import open_output, writing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 9.5,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9.5,
    "axes.labelcolor": "#444",
    "axes.edgecolor": "#bbb",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e8e8e8",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.1,
    "lines.solid_joinstyle": "round",
    "xtick.color": "#666",
    "ytick.color": "#666",
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.handlelength": 1.4,
    "figure.constrained_layout.use": True,
    "savefig.dpi": 160,
    "svg.hashsalt": "vehicled",
}

ESTIMATE, TRUTH, GNSS, BAND, ALARM = "#1f5fa8", "#222222", "#e8963c", "#9fc1e6", "#c62f3d"
WHEEL_COLORS = {"fl": "#1f5fa8", "fr": "#7fb2e5", "rl": "#c2561a", "rr": "#f2ae72"}
RUN_COLORS = (ESTIMATE, "#c2561a", "#3a8f5c", "#8a56b0", "#b08a1f", "#3aa0a0")
"""Colours of runs, or configurations, that are drawn over each other."""
COMPONENT_COLORS = RUN_COLORS[:3]

WIDTH = 10.4
"""Width of figures, inches."""
DEG = 180 / np.pi

_POINTS = 1500
"""Number of points of a line in a figure of this width: more cannot be seen, and would only enlarge the file."""


def save(figure: Figure, path: Path, **options: Any) -> None:
    """Write a figure, in the format of the path's suffix; `options` as for `savefig`. Raises OSError."""
    with writing(path), open_output(path) as file:
        figure.savefig(file, format=path.suffix[1:].lower() or None, **options)


def thin(t: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same line (t, y), both (n,), with fewer points; see `choose_points`."""
    kept = choose_points([y], _POINTS)
    return t[kept], y[kept]


def choose_points(lines: list[np.ndarray], points: int) -> np.ndarray:
    """Indices of about `points` points per line that preserve the shape of all lines, each (n,).

    The least and the largest value of each interval are kept: no peak is lost. Gaps (NaN) remain gaps.
    """
    n = len(lines[0])
    if n <= 2 * points:
        return np.arange(n)
    stretch = -(-n // (points // 2))
    begin = np.arange(-(-n // stretch)) * stretch
    kept = []
    for y in lines:
        padded = np.concatenate([y, np.full(-n % stretch, np.nan)]).reshape(-1, stretch)
        finite = np.isfinite(padded)
        empty = ~finite.any(axis=1)
        for filled, extreme in ((np.inf, np.argmin), (-np.inf, np.argmax)):
            at = begin + extreme(np.where(finite, padded, filled), axis=1)
            kept.append(np.where(empty, begin, at))
    return np.unique(np.minimum(np.concatenate(kept), n - 1))
