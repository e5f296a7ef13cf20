"""The live view of `particle_live` in a window."""

from __future__ import annotations

import time

import matplotlib
import numpy as np
from matplotlib.backend_bases import KeyEvent
from matplotlib.figure import Figure

from vehicled.errors import UsageError
from vehicled.report.style import ALARM, ESTIMATE, STYLE, TRUTH
from vehicled.studies.benchmarks.particle_live import HELP, LiveFrame, LiveSession
from vehicled.studies.benchmarks.particle_tries import Experiment

_FRAME_S = 1 / 20


def watch(experiment: Experiment, seed: int) -> None:
    """Show the try until the window is closed or `q` is pressed. Raises UsageError without a display."""
    from matplotlib import pyplot

    with matplotlib.rc_context(
        STYLE | {"toolbar": "None", "keymap.quit": [], "keymap.save": [], "keymap.fullscreen": []}
    ):
        figure = pyplot.figure(figsize=(9.0, 5.4))
        if matplotlib.get_backend().lower() == "agg":
            raise UsageError("--window: expected a display; --live draws in a terminal")
        session = LiveSession(experiment, seed)
        pressed: list[str] = []

        def press(event: KeyEvent) -> None:
            if event.key is not None:
                pressed.append(" " if event.key == "space" else event.key)

        figure.canvas.mpl_connect("key_press_event", press)
        window = ParticleFigure(figure)
        try:
            while pyplot.fignum_exists(figure.number):
                session.follow(time.monotonic() + _FRAME_S)
                if not all(session.press(key) for key in pressed):
                    break
                pressed.clear()
                window.draw(session.frame())
                figure.canvas.draw_idle()
                figure.canvas.flush_events()
        finally:
            session.close()
            pyplot.close(figure)


class ParticleFigure:
    """The linkage with its particles on the left, the density of crank angles on the right."""

    def __init__(self, figure: Figure) -> None:
        self._linkage, self._angles = figure.subplots(1, 2)
        self._figure = figure

    def draw(self, frame: LiveFrame) -> None:
        """Update the figure."""
        ground, link, _, output = frame.lengths
        axes = self._linkage
        axes.clear()
        axes.plot(*frame.some[:2], ".", color=ESTIMATE, alpha=0.2)
        axes.plot(*frame.some[2:], ".", color=ESTIMATE, alpha=0.2)
        for q, style, color, label in (
            (frame.truth, "o-", ALARM, "truth"),
            (frame.estimate, "o--", TRUTH, "estimate"),
        ):
            axes.plot((0.0, q[0], q[2], ground), (0.0, q[1], q[3], 0.0), style, color=color, label=label)
        axes.set(
            xlim=(min(-link, ground - output) - 0.3, max(link, ground + output) + 0.3),
            ylim=(-max(link, output) - 0.3, max(link, output) + 0.3),
            title=f"{frame.t:.2f} s: {frame.count} particles, {100 * frame.effective:.0f} % effective",
        )
        axes.set_aspect("equal")
        axes.legend(loc="upper right")
        axes = self._angles
        axes.clear()
        edges = np.linspace(-180.0, 180.0, len(frame.density) + 1)
        axes.stairs(frame.density, edges, fill=True, color=ESTIMATE)
        axes.axvline(np.degrees(frame.true_angle), color=ALARM, label="truth")
        axes.axvline(np.degrees(frame.angle), color=TRUTH, linestyle="--", label="estimate")
        axes.set(
            title=f"error {np.degrees(frame.error):+.2f}°, gyroscope × {frame.multiplier:.3g}",
            xlabel="crank angle, °",
            ylabel="weight",
        )
        axes.set_xticks(range(-180, 181, 90))
        axes.legend(loc="upper right")
        self._figure.suptitle(HELP, fontsize=8, color="#666")
