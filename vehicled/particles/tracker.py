"""A mechanism followed by particles, as an estimator that daemon and replay step."""

from __future__ import annotations

import heapq
import math
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from vehicled.errors import UsageError
from vehicled.messages import (
    Condition,
    Innovation,
    Measurement,
    ParticleEstimate,
    SlowState,
    SourceFault,
)
from vehicled.multibody.checks import calc_topology, require_freedom
from vehicled.multibody.mechanism import Mechanism
from vehicled.multibody.model import MechanismError
from vehicled.particles.clusters import calc_covariance, describe_coordinate, find_heaviest
from vehicled.particles.configuration import CoordinateOptions, ParticlesConfiguration
from vehicled.particles.filter import MotionNoise, ParticleFilter
from vehicled.particles.forgetting import Forgetting
from vehicled.particles.live import Follower
from vehicled.particles.observability import find_unobservable
from vehicled.particles.pace import Pace
from vehicled.particles.sensors import MechanismSensors
from vehicled.particles.start import Moved, ParticleStart, StartCoordinate
from vehicled.particles.swarm import Swarm
from vehicled.particles.watch import Verdict, Watch

_LONGEST_GAP_NS = 2_000_000_000
"""After a longer time without readings, ns, the particles are drawn anew: integrating over it would delay the
next readings."""
_UNEXPLAINED = SourceFault(
    "mechanism",
    "its equations of motion do not explain the readings; expected its masses and forces, and scale and offset of "
    "the sensors, to be right, and no sensor to have failed",
    ("all that is not measured",),
)
_WIDER, _WIDEST = 2.0, 8.0
"""Standard deviations of rates at a restart, as multiples of the readings' recent rates of change: at the
first restart, and at most after several."""
_MORE, _MOST = 2, 4
"""Factor on the number of particles at the start, and again at each restart because readings do not fit;
upper limit of the product. It applies until readings fit: few particles may miss the only state that fits,
and contract near it again and again."""


class MechanismTracker:
    """Follows a mechanism from readings of its sensors; a `SteppedEstimator`.

    It does not extrapolate: its estimate is that at the time of the last reading. Reads no clock; the same
    measurements and commands in the same steps give the same estimates.
    """

    def __init__(self, mechanism: Mechanism, configuration: ParticlesConfiguration) -> None:
        """Compiles the particles' equations of motion, or takes the code from the cache.

        Raises UsageError, naming part and reason: an unsuitable mechanism, unknown coordinates, sensors of
        other quantities, unreachable initial positions, states that no sensor determines.
        """
        options = configuration.particles
        names = calc_topology(mechanism).independent
        try:
            swarm = Swarm(mechanism.description, options.count, names)
        except MechanismError as error:
            raise UsageError(str(error)) from None
        require_freedom(mechanism)
        for name in options.coordinates:
            if name not in names:
                raise UsageError(
                    f"particles.coordinates: {name} is not independent; expected {', '.join(names)}"
                )
        random = np.random.default_rng(options.seed)
        try:
            coordinates = [
                StartCoordinate(n, n in swarm.angles, options.coordinates.get(n, CoordinateOptions()))
                for n in names
            ]
            self._start = ParticleStart(swarm, mechanism, coordinates, random)
        except UsageError as error:
            raise UsageError(f"particles.coordinates: {error}") from None
        self._sensors = MechanismSensors(configuration.sensors, swarm)
        self._options = options
        self._find_hidden = partial(
            find_unobservable,
            mechanism.description,
            names,
            self._start.positions,
            np.array([1.0 if c.name in swarm.angles else c.high - c.low for c in coordinates]),
            step=options.longest_step,
        )
        hidden = self._find_hidden(measured=[s.measured for s in self._sensors.all])
        if hidden:
            raise UsageError(f"sensors: their readings do not determine {', '.join(hidden)}")
        self._sufficient: dict[frozenset[int], bool] = {}
        """By set of sensors: whether they alone determine the state."""
        self._watch = Watch(len(self._sensors.all), options.restart_after, self._suffice)
        self._shown = list(dict.fromkeys([*names, *swarm.angles, *swarm.distances]))
        memory = math.inf if options.memory is None or options.plant_noise else options.memory
        noise = MotionNoise(
            motion=[c.motion for c in coordinates],
            speed=[c.speed for c in coordinates],
            keeps_covariance=not options.plant_noise,
            memory=memory,
        )
        self._filter = ParticleFilter(swarm, [s.instrument for s in self._sensors.all], noise, random)
        size = self._start.size
        self._sizes = [1.0 if n in swarm.angles else size for n in names]
        """Change of each independent coordinate, rad or m, that is as large as a rotation by 1 rad."""
        self._forgetting = Forgetting(
            memory,
            [s.options.sigma * s.options.multiplier / (1.0 if s.angle else size) for s in self._sensors.all],
            [s.options.rate is not None for s in self._sensors.all],
        )
        self._assumed: list[str] = []
        """Coordinates for which the initial rates were assumed; empty once the readings fit."""
        self._follower: Follower | None = None
        """None until the particles are drawn."""
        self._held: list[tuple[int, int, Measurement]] = []
        """Heap of measurements held back for earlier ones that may still arrive."""
        self._order = count()
        self._distrusted: set[int] = set()
        """Sensors that contradict the others; their readings are rejected."""
        self._records: list[Innovation] = []
        self._t = 0
        """Time of the last reading, ns."""
        self._followed = 0
        """Time of the last readings that were taken into account completely, ns."""
        self._restarts = 0
        self._in_vain = 0
        """Number of restarts since the readings last fitted."""
        self._fits = False
        """Whether the recent readings fit."""
        self._fitted: tuple[int, dict[str, tuple[float, float]]] | None = None
        """Time of the last estimate whose readings fitted, ns, and its independent coordinates with their
        rates; none of them before the first one, with the time of the start."""
        self._late = 0
        self.condition = Condition()

    def step(self, t_ns: int, measurements: list[Measurement]) -> ParticleEstimate | None:
        """Take the readings that are due at `t_ns`; None without any.

        Raises FloatingPointError when no particle is left that can move.
        """
        self._records = []
        for m in measurements:
            if m.t <= t_ns:
                heapq.heappush(self._held, (m.t, next(self._order), m))
            else:  # No reading has a time after the step that takes it.
                self._reject(m.t, t_ns, self._sensors.find(m))
        due = t_ns - round(self._options.wait * 1e9)
        taken = False
        while self._held and self._held[0][0] <= due:
            t, _, m = heapq.heappop(self._held)
            values = self._sensors.find(m)
            while self._held and self._held[0][0] == t:
                values += self._sensors.find(heapq.heappop(self._held)[2])
            if values:
                taken |= self._take(t, t_ns, values)
        return self._describe() if taken else None

    def innovations(self) -> list[Innovation]:
        """Records of the last step, one for each reading."""
        return self._records

    def parameters(self) -> dict[str, SlowState]:
        """Empty: only the state is estimated."""
        return {}

    def status(self) -> dict[str, Any]:
        """Counters, and for each channel the outcome of its readings."""
        return {
            "particles": self._filter.swarm.count,
            "effective": self._filter.effective,
            "resamplings": self._filter.resamplings,
            "restarts": self._restarts,
            "memory": self._forgetting.memory if math.isfinite(self._forgetting.memory) else None,
            "late": self._late,
            "sensors": {f"{s.device}.{s.channel}": s.status() for s in self._sensors.all},
        }

    def find_silent(self) -> list[str]:
        """Sensors of which there have been no readings, as `device.channel`."""
        return [s.name for s in self._sensors.all if not s.counts.total()]

    def command(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """`reset`: begin anew with the next reading. Raises UsageError for any other."""
        del arguments
        if name != "reset":
            raise UsageError(f"unknown command {name!r}: expected reset")
        self._follower = None
        self._fits = False
        self._restarts += 1
        self.condition = Condition()
        return {}

    # -- readings --------------------------------------------------------------------------------------------

    def _take(self, t: int, step: int, values: list[tuple[int, float]]) -> bool:
        """Take the readings of one time; returns whether they have changed the particles."""
        sensors = self._sensors.all
        readings: list[float | None] = [None] * len(sensors)
        for k, value in values:
            readings[k] = sensors[k].read(value)
            if readings[k] is None:
                self._reject(t, step, [(k, value)])
        if all(reading is None for reading in readings):
            return False
        if self._follower is not None and t - self._t > _LONGEST_GAP_NS:
            self._restart(t, f"no readings for {(t - self._t) * 1e-9:.3g} s")
        if self._follower is None:
            self._begin(t, readings)
        assert self._follower is not None
        before = self._calc_rates()
        try:
            in_time = self._follower.advance(t)
        except FloatingPointError:
            self._restart(
                t, f"the motion is too fast for particles.longest_step of {self._options.longest_step:g} s"
            )
            return False
        self._late += not in_time
        moved = self._calc_rates()
        accepted: list[float | None] = [None] * len(sensors)
        innovations: list[tuple[int, float]] = []
        for k, reading in enumerate(readings):
            if reading is None:
                continue
            record = sensors[k].compare(self._filter.swarm, self._filter.weights, t, step, reading)
            record.test_ratio = record.nis / self._options.reject_beyond**2
            if not in_time:
                record.fused, record.reason = False, "too old"
            elif record.test_ratio > 1.0 or k in self._distrusted:
                record.fused, record.reason = False, "gate"
            else:
                accepted[k] = reading
            if in_time:
                sensors[k].follow(t, reading)
                self._watch.take(k, record)
                if record.fused:
                    innovations.append((k, math.copysign(math.sqrt(record.nis), record.innovation[0])))
            self._note(k, record)
        if not in_time:
            return False
        self._filter.update_gradually(accepted)
        if not self._filter.curtailed:
            self._followed = t
        interval = (t - self._t) * 1e-9
        acceleration = float(np.linalg.norm(moved - before)) / interval if interval > 0.0 else 0.0
        self._forgetting.take(innovations, interval, acceleration)
        self._filter.noise.unexplained = [x * self._forgetting.density for x in self._sizes]
        self._t = t
        self._judge(t)
        return True

    def _calc_rates(self) -> np.ndarray:
        """(independent,) mean rates, rad/s or sizes of the mechanism in a second."""
        weights = self._filter.weights
        swarm, known = self._filter.swarm, weights > 0.0
        return np.array(
            [
                weights[known] @ swarm.get_rates(n)[known] / x
                for n, x in zip(swarm.noisy, self._sizes, strict=True)
            ]
        )

    def _reject(self, t: int, step: int, values: list[tuple[int, float]]) -> None:
        for k, value in values:
            self._note(k, self._sensors.all[k].refuse(t, step, value))

    def _note(self, k: int, record: Innovation) -> None:
        self._sensors.all[k].counts[record.reason] += 1
        self._records.append(record)

    def _begin(self, t: int, readings: list[float | None]) -> None:
        """Draw the particles anew; rates that are measured now have the measured values."""
        sensors = self._sensors.all
        rates = {
            s.options.rate: (reading, s.options.sigma * s.options.multiplier)
            for s, reading in zip(sensors, readings, strict=True)
            if s.options.rate is not None and reading is not None
        }
        # After a restart, the initial rates no longer hold. Each unsuccessful restart widens the next one.
        factor = min(_WIDER * 2.0**self._in_vain, _WIDEST)
        moved = self._describe_moved(t, readings, factor) if self._restarts else None
        self._filter.begin()
        self._filter.resize(self._options.count * min(_MORE ** (1 + self._in_vain), _MOST))
        self._start.begin(self._filter.swarm, rates, moved)
        self._follower = Follower(
            self._filter, self._options.longest_step, Pace(self._filter.swarm, self._start.size)
        )
        self._t = self._followed = t
        self._watch.begin(t)
        self._distrusted = set()
        self._forgetting.begin(self._in_vain)
        self._filter.noise.unexplained = 0.0
        self._assumed = [
            c.name
            for c in self._start.coordinates
            if c.rate == 0.0 and c.name not in rates and not (moved and moved.shown)
        ]
        if self.condition.state == "waiting":
            self.condition = Condition("running", t)
        if self._fitted is None:
            self._fitted = t, {}

    def _describe_moved(self, t: int, readings: list[float | None], factor: float) -> Moved:
        """What is known of the motion at a restart; `factor` widens the rates."""
        sensors = self._sensors.all
        since, last = self._fitted or (t, {})
        shown: dict[str, float] = {}
        for s in sensors:
            if s.change is not None:
                shown[s.options.measured] = max(shown.get(s.options.measured, 0.0), factor * s.change)
        values = {
            s.options.measured: reading
            for s, reading in zip(sensors, readings, strict=True)
            if s.options.rate is None and reading is not None
        }
        return Moved(shown, values, last, (t - since) * 1e-9, factor)

    def _restart(self, t: int, reason: str) -> None:
        self._follower = None
        self._fits = False
        self._restarts += 1
        self.condition = Condition("recovering", t, reason)

    # -- condition -------------------------------------------------------------------------------------------

    def _suffice(self, sensors: frozenset[int]) -> bool:
        """Whether these sensors alone determine the state."""
        if sensors not in self._sufficient:
            measured = [self._sensors.all[k].measured for k in sorted(sensors)]
            self._sufficient[sensors] = bool(measured) and not self._find_hidden(measured=measured)
        return self._sufficient[sensors]

    def _judge(self, t: int) -> None:
        """Restart if the particles contradict the readings; find the sensors that contradict the others."""
        verdict = self._watch.judge(t)
        if verdict is None:
            return
        if verdict.misfits and not verdict.are_faults:
            self._restart(t, self._explain(verdict))
            self._in_vain += 1
            return
        if t - self._followed >= self._options.restart_after * 1e9:
            self._restart(
                t, f"{self._filter.swarm.count} particles do not contract to where the readings are"
            )
            self._in_vain += 1
            return
        self._in_vain, self._assumed = 0, []
        self._fits = not verdict.misfits
        self._filter.resize(self._options.count)
        self._distrusted = {m.sensor for m in verdict.misfits}
        misfits = [self._sensors.all[k] for k in sorted(self._distrusted)]
        faults = tuple(
            SourceFault(s.name, "its readings do not fit the others", (s.options.measured,)) for s in misfits
        )
        if not self._forgetting.explains:
            faults += (_UNEXPLAINED,)
        if faults != self.condition.faults or self.condition.state == "recovering":
            self.condition = Condition("degraded" if faults else "running", t, None, faults)

    def _explain(self, verdict: Verdict) -> str:
        counts = ", ".join(
            f"{m.beyond} of {m.readings} readings of {self._sensors.all[m.sensor].name}"
            for m in verdict.misfits
        )
        reason = f"{counts} do not fit"
        if self._assumed:
            keys = ", ".join(f"particles.coordinates.{name}.rate" for name in self._assumed)
            reason += f"; expected {keys} unless it starts at the rate in the mechanism's file"
        elif self._in_vain:
            limited = [f"particles.coordinates.{c.name}" for c in self._start.coordinates if c.limited]
            limits = f", low and high of {' and '.join(limited)}," if limited else ""
            reason += (
                f", after {self._in_vain} restart{'s' * (self._in_vain > 1)}; expected sigma, scale and offset of "
                f"the sensors{limits} and the mechanism's parameters to be right, or particles.count above "
                f"{self._filter.swarm.count}"
            )
        return reason

    # -- estimate --------------------------------------------------------------------------------------------

    def _describe(self) -> ParticleEstimate:
        swarm, weights = self._filter.swarm, self._filter.weights
        cluster = find_heaviest(swarm, weights)
        found = {name: describe_coordinate(swarm, name, weights, cluster) for name in self._shown}
        if self._fits:
            self._fitted = self._t, {name: (found[name].value, found[name].rate) for name in swarm.noisy}
        return ParticleEstimate(
            self._t,
            found,
            float(np.sum(weights[cluster])),
            self._filter.effective,
            list(swarm.noisy),
            calc_covariance(swarm, weights, cluster).tolist(),
        )
