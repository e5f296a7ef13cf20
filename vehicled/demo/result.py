"""The result of a drive: receiver alone beside estimate, consistency, timing; as a table and as JSON."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from vehicled.messages import WHEELS
from vehicled.rig.rig import DriveEnd
from vehicled.scoring.scores import Score, Scores


@dataclass(frozen=True)
class DemoResult:
    """A drive, its errors, and the counters at its end."""

    seconds: float
    receiver: dict[str, Score]
    scores: Scores
    end: DriveEnd

    @property
    def estimate(self) -> dict[str, Score]:
        """What the table shows; wheels together."""
        quantities = self.scores.quantities
        singles = ("horizontal", "yaw", "vx", "sideslip")
        result: dict[str, Score] = {n: quantities[n] for n in singles if n in quantities}
        for name, column in (
            ("slip.angle", "slip.{}.angle"),
            ("slip.ratio", "slip.{}.ratio"),
            ("suspension.deflection", "suspension.{}.deflection"),
        ):
            wheels = [quantities[c] for w in WHEELS if (c := column.format(w)) in quantities]
            if wheels:
                rmse = math.sqrt(sum(s.rmse**2 for s in wheels) / len(wheels))
                most = max(s.max for s in wheels)
                result[name] = Score(rmse, most, wheels[0].unit, sum(s.samples for s in wheels), None)
        return result

    @property
    def lost(self) -> dict[str, int]:
        """Counts of what was lost, by place; only those above 0."""
        c = self.end.counters
        lost = {
            f"{name}: measurements": n - c["devices"][name]["measurements"]
            for name, n in self.end.sent.items()
        }
        lost["bytes that no driver took"] = self.end.unread_bytes
        lost["queue: measurements"] = sum(c["queue"]["dropped"].values())
        lost["publisher: steps"] = c["publisher"]["dropped"]
        lost["recorder: messages"] = c["recorder"]["dropped"] + c["recorder"]["lost"]
        # A driver that was delayed may make two measurements of one message: nothing is lost by that.
        return {where: n for where, n in lost.items() if n > 0}

    def fault(self) -> str | None:
        """Why this was not a good run, in one line; None if it was one."""
        if self.lost:
            return "lost: " + ", ".join(f"{where} {n}" for where, n in self.lost.items())
        loop, estimator = self.end.counters["loop"], self.end.counters["estimator"]
        failed, restarts = loop["estimator_errors"], estimator["restarts"]
        if failed or restarts:
            return f"the filter failed {failed} times, and restarted {restarts} times"
        own, ours = self.receiver.get("horizontal"), self.scores.quantities.get("horizontal")
        if own is None or ours is None:
            return "no position to compare"
        if not ours.rmse < own.rmse:
            return f"the estimate's horizontal RMSE is {ours.rmse:.3g} m, the receiver's own {own.rmse:.3g} m"
        return None

    def as_json(self) -> dict[str, Any]:
        """What `vehicled demo --json` prints: SI units and radians, times in µs."""
        loop, queue = self.end.counters["loop"], self.end.counters["queue"]

        def plain(scores: dict[str, Score]) -> dict[str, Any]:
            return {name: {"rmse": s.rmse, "max": s.max, "unit": s.unit} for name, s in scores.items()}

        return {
            "seconds": self.seconds,
            "gnss": plain(self.receiver),
            "estimate": plain(self.estimate),
            "nis": {n: s.nis for n, s in self.scores.sensors.items() if math.isfinite(s.nis)},
            "steps": loop["steps"],
            "missed": loop["missed"],
            "on_time": 1 - loop["missed"] / loop["steps"],
            "step_us": loop["step_us"],
            "late_us": loop["late_us"],
            "scheduling": loop["scheduling"],
            "measurements": {
                "sent": sum(self.end.sent.values()),
                "received": queue["put"],
                "lost": self.lost,
            },
            "cpu": self.end.cpu,
        }

    def table(self) -> list[str]:
        """Lines for people."""
        lines = [
            f"{'':<26}{'GNSS alone':^24}{'estimate':^24}",
            f"{'error':<26}{'RMSE':>10}{'largest':>11}   {'RMSE':>10}{'largest':>11}",
        ]
        for name, s in self.estimate.items():
            label, factor, unit = _SHOWN[name]
            own = self.receiver.get(name)
            cells = [f"{label + ', ' + unit:<26}"]
            for score in (own, s):
                numbers = (
                    ("–", "–")
                    if score is None
                    else (_digits(score.rmse * factor), _digits(score.max * factor))
                )
                cells.append(f"{numbers[0]:>10}{numbers[1]:>11}   ")
            lines.append("".join(cells).rstrip())
        lines += ["", f"{'consistency':<26}{'NIS':>10}{'accepted':>11}   {'rejected':>10}"]
        for name, sensor in self.scores.sensors.items():
            nis = f"{sensor.nis:.2f}" if math.isfinite(sensor.nis) else "–"
            lines.append(f"{name:<26}{nis:>10}{sensor.fused:>11}   {sensor.rejected:>10}")
        c = self.end.counters
        loop, step, late = c["loop"], c["loop"]["step_us"], c["loop"]["late_us"]
        took = f"median {step['median']:.0f} µs, 99.9 % {step['p999']:.0f} µs, largest {step['max']:.0f} µs"
        woken = f"median {late['median']:.0f} µs, 99.9 % {late['p999']:.0f} µs, largest {late['max']:.0f} µs"
        lost = ", ".join(f"{where} {n}" for where, n in self.lost.items()) or "nothing lost"
        lines += [
            "",
            f"{'filter step':<26}{took}",
            f"{'begun late by':<26}{woken}",
            f"{'deadlines':<26}{loop['missed']} of {loop['steps']} missed",
            f"{'measurements':<26}{sum(self.end.sent.values())} sent, {c['queue']['put']} received, {lost}",
            f"{'processor':<26}{100 * self.end.cpu:.0f} % of one, recording included",
        ]
        return lines


_SHOWN = {
    "horizontal": ("position", 100.0, "cm"),
    "yaw": ("yaw", 180 / math.pi, "°"),
    "vx": ("speed", 1.0, "m/s"),
    "sideslip": ("sideslip", 180 / math.pi, "°"),
    "slip.angle": ("tyre slip angle", 180 / math.pi, "°"),
    "slip.ratio": ("tyre slip ratio", 100.0, "%"),
    "suspension.deflection": ("suspension deflection", 1000.0, "mm"),
}


def _digits(value: float) -> str:
    """Three significant digits, never in exponents."""
    return f"{value:.{max(0, min(3, 2 - math.floor(math.log10(value)) if value > 0 else 0))}f}"
