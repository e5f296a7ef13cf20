"""Latency of the IMU relative to a precise receiver, from these two sensors alone.

With a tyre model, late gyroscopes cannot be told from a displaced antenna or from stiffer tyres: at constant
speed all three have the same effect on the heading. Gyroscope and accelerometers, integrated over a few
seconds, give the path of the antenna without tyres. It is compared with the fixes: a time shift moves the
path along its changes of velocity, a displaced antenna moves it with the heading. Both are estimated together
by least squares, window by window (after Skog and Händel, "Time synchronization errors in loosely coupled
GPS-aided inertial navigation systems", IEEE Trans. ITS 12(4), 2011).

As for fixes (`fix_time.py`), the configured latency is either right or far off: the mean of both hypotheses
is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from vehicled.filter.kept import fade
from vehicled.messages import SlowState
from vehicled.sources.gnss.fix_time import Latency
from vehicled.sources.imu.common_lateness import Configured, find_common_lateness
from vehicled.sources.imu.path_hypotheses import MODEL_ERROR, Given, PathHypotheses
from vehicled.sources.imu.path_sums import FEWEST_FIXES, PathSums

PRECISE = 0.1
"""m: only fixes with at most this standard deviation have information on milliseconds."""
_WINDOW, _LONGEST_WINDOW = 4.0, 10.0
"""s: time over which samples are integrated, and longest time for enough fixes to come."""
_LONGEST_GAP = 0.1
"""Longest time between means, s."""
_SETTLING = 5.0
"""Time after a start for which roll and pitch are still being found, s."""
_MOST_SAMPLES = 20_000
_LATENESS = 0.5
"""s: largest delay of the arrival of fixes after samples of the same time."""
_INFORMED = 0.99
"""Share of σ without any measurement above which a result of an earlier drive shows nothing."""
_LARGEST = 0.1
"""s: a larger latency has another cause, such as a receiver whose latency has not been found yet."""
_SETTLED = 0.002
"""s: the receiver's own latency has been found once it changes by less than this from window to window."""
_REACHING = 0.2
"""Share of an error of the samples' time by which the latency of fixes is wrong beside a speed of known time:
±20 ms changed it by 3 to 4 ms."""
LARGE_CHANGE = 0.008
"""s: a larger change of the latency has falsified other parameters."""


class ImuTiming:
    """Finds the latency of samples, s. Times are in s, places in the world frame."""

    def __init__(self) -> None:
        self.sigma = 0.0
        """s: σ of the configured latency; 0: it is known."""
        self.configured = 0.0
        """s: the configured latency."""
        self.fix_sigma = 0.0
        """s: σ of the receiver's configured latency; 0: it is known."""
        self.place: Sequence[float] = (0.0, 0.0, 0.0)
        self.antenna: Sequence[float] = (0.0, 0.0, 0.0)
        """Places of IMU and antenna, m, vehicle axes."""
        self.is_levelled = False
        """Whether gravity is subtracted with an attitude from the gyroscopes of the same samples, and not
        with the estimated one."""
        self.has_reference: Callable[[], bool] = lambda: True
        """Whether the receiver's time is known, or found relative to a speed of known time. Without that,
        fixes only show the time of samples relative to the receiver's latency, which the filter has found by
        these samples."""
        self.forget()

    def forget(self) -> None:
        """Return to the configured latency."""
        self.latency = 0.0
        """s: latency of samples relative to the configured one, as far as found."""
        self._suspected, self._alike_most = 0.0, math.inf
        """s: largest wrong time that may explain an antenna that seems to be elsewhere; and m/s: largest
        displacement per time."""
        self.place_doubt = 0.0
        """σ of the place of an antenna that is estimated with these samples, due to their latency, m."""
        self.moved: tuple[complex, complex] | None = None
        """Place where the antenna has just been found relative to the configured one, and its σ, m, ahead + i
        left."""
        self.fixes: Latency | None = None
        """Latency of fixes relative to the configured one as it has just been found, if that of the filter is
        wrong."""
        self.restored = 0.0
        """s: change of the latency that came with it."""
        self.common = 0.0
        """s: unknown latency of the whole estimate, as `find_common` found it last."""
        self._found = False
        self._sums = PathSums()
        self._earlier = SlowState(0.0, 0.0, "s")
        self.has_precise_fixes = False
        """Whether any fixes of at most `PRECISE` have come."""
        self._hypotheses: PathHypotheses | None = None
        self._doubt: tuple[tuple[float, ...], float] = (), 0.0
        """Everything that `doubt` depended on when last calculated, and its value, s."""
        self._fix_latency = self._latency_before = 0.0
        """Latency of the receiver, now and at the end of the last window."""
        self._settling_until: float | None = None
        self._comparison: Iterator[None] | None = None
        """The comparison of the last window while it is running."""
        self.interrupt()

    def interrupt(self) -> None:
        """Begin another window, as samples or the estimate have jumped."""
        self._means: list[tuple[float, ...]] = []
        """Time, yaw rate, accelerations and rises."""
        self._fixes: list[tuple[float, float, float, float]] = []
        self._yaw = 0.0

    def set(self, found: SlowState, age: float) -> None:
        """Start with the latency that measurements have shown, `age` seconds ago.

        A result that is no better than the prior odds alone shows nothing, and is not used: as a result, it would
        count these odds again.
        """
        unshown = self.doubt
        if not (abs(found.value) < _LARGEST and found.sigma < _INFORMED * unshown):
            return
        value, variance = fade(found.value, found.sigma**2, unshown**2, age)
        self._earlier = SlowState(value, math.sqrt(variance), found.unit)
        self.latency, self._found = value, True

    @property
    def state(self) -> SlowState | None:
        """The latency with its σ; None if it is not estimated.

        Without a window, it is no more certain than what an earlier drive has found.
        """
        if self.sigma == 0.0:
            return None
        least = 0.0 if self._sums.freedom else self._earlier.sigma
        return SlowState(self.latency, math.hypot(max(self.doubt, least), self.common), "s")

    @property
    def doubt(self) -> float:
        """σ of the latency, s; 0 if it is known. Cheap enough to be read in every step."""
        if self.sigma == 0.0:
            return 0.0
        # The windows' information changes only when their degrees of freedom do.
        by = self.sigma, self._earlier.sigma, self._sums.freedom, self._found
        if by != self._doubt[0]:
            change, sigma = self.hypotheses.explain()
            # A latency that windows only suspect is not used: it is an error of the one in use.
            self._doubt = by, math.hypot(sigma, MODEL_ERROR, 0.0 if self._found else change)
        return self._doubt[1]

    @property
    def found_doubt(self) -> float:
        """By how much the latency of fixes is less certain, s, as the samples' time has been found to be wrong.

        Beside a speed of known time, no more than what the whole error of that time would do.
        """
        if not (self._found or self.latency):
            return 0.0
        doubt = self.doubt
        return min(doubt, _REACHING * math.hypot(self.latency, doubt)) if self.has_reference() else doubt

    def take_fix(self, t: float, place: complex, sigma: float, latency: float) -> None:
        """Take a fix: x + i y (m), its σ (m), and the receiver's latency that the filter has found (s)."""
        if self.sigma == 0.0 or sigma > PRECISE:
            return
        self._fix_latency, self.has_precise_fixes = latency, True
        if len(self._fixes) < _MOST_SAMPLES:
            self._fixes.append((t, place.real, place.imag, sigma))

    def take_means(
        self, means: tuple[float, float, float, float], rises: complex, yaw: float, bias: float
    ) -> float:
        """Take means of samples over a short time.

        `means`: time (s), yaw rate (rad/s), forward and lateral acceleration without gravity (m/s²). `rises`:
        of the forward axis (real part) and left axis (imaginary part), rad.

        Biases are not subtracted: those of accelerometers are among the unknowns; for the gyroscope, `bias`
        (rad/s) at the end of a window is used. `yaw`: estimated, rad.

        Returns the resulting change of the latency, s.
        """
        t, change = means[0], 0.0
        self.moved, self.fixes, self.restored = None, None, 0.0
        if self._settling_until is None:
            self._settling_until = t + _SETTLING
        if not self._fixes or t < self._settling_until:
            return 0.0
        if self._comparison is not None and next(self._comparison, self) is self:
            self._comparison = None
            change = self._decide()
            if self.restored:
                return 0.0
        if self._means and not 0.0 < t - self._means[-1][0] < _LONGEST_GAP:
            self.interrupt()
            return change
        if not self._means:
            self._yaw = yaw
        self._means.append((*means, rises.real, rises.imag))
        begin = self._means[0][0]
        lasted, come = t - begin, self._fixes[-1][0] - begin
        if lasted < _WINDOW or (come < _WINDOW and lasted < _WINDOW + _LATENESS):
            return change
        if len(self._fixes) >= FEWEST_FIXES:
            fixes, path = np.array(self._fixes), np.array(self._means)
            fixes[:, 0] -= self._fix_latency
            path[:, 1] -= bias
            x, y, height = (a - b for a, b in zip(self.antenna, self.place, strict=True))
            self._comparison = self._sums.add(
                path, fixes, self._yaw, self._fix_latency, complex(x, y), height, self.is_levelled
            )
            self.interrupt()
        elif lasted > _LONGEST_WINDOW:
            self.interrupt()
        return change

    def denies(self, change: float) -> bool:
        """Whether windows contradict samples that are `change` (s) older; see `PathHypotheses.denies`."""
        return self.hypotheses.denies(change)

    def find_common(self, fixes: Latency | None, configured: Configured) -> float:
        """Unknown latency of the whole estimate, s, given that of fixes relative to the `configured` one."""
        self.common = 0.0
        if fixes is not None and self.sigma > 0.0 and not self.has_reference():
            samples = Configured(self.configured + self.latency, self.sigma)
            self.common = find_common_lateness(fixes, configured, samples)
        return self.common

    @property
    def hypotheses(self) -> PathHypotheses:
        """Explanations of the present windows."""
        sums = self._sums
        given = Given(
            self.sigma, self._earlier, self.latency, self._fix_latency, self.is_levelled, sums.freedom
        )
        if self._hypotheses is None or self._hypotheses.given != given:
            self._hypotheses = PathHypotheses(sums, given)
        return self._hypotheses

    def _decide(self) -> float:
        settled = abs(self._fix_latency - self._latency_before) < _SETTLED
        self._latency_before = self._fix_latency
        hypotheses = self.hypotheses
        self._suspected, self._alike_most = hypotheses.find_suspected(), self._sums.alike
        self.moved = hypotheses.find_antenna()
        self.place_doubt = self._sums.alike * self.doubt
        if self.is_levelled and self.fix_sigma > 0.0 and not self.has_reference():
            found = hypotheses.find_fixes(self.fix_sigma)
            if found is not None:
                self.fixes, self.restored = found
            if self.restored:
                self.set_by_others(self.restored)
                return 0.0
        change, _ = hypotheses.explain()
        if not (settled and self._is_certain()) or abs(self.latency + change) > _LARGEST:
            return 0.0
        self._found = True
        self._move(change)
        return change

    def _is_certain(self) -> bool:
        """Whether the latency found from windows is to be used."""
        if not (self.hypotheses.is_told_apart and self.has_reference()):
            return False
        return self.is_levelled or self._found or self.hypotheses.is_wrong()

    def find_offset(self, speed: float) -> float:
        """m: apparent displacement of the antenna that a wrong time of samples may cause at a speed (m/s)."""
        return min(abs(speed), self._alike_most) * self._suspected

    def set_by_others(self, change: float) -> None:
        """Increase the latency by `change`, s, as other sensors than receivers show; begin another window.

        They know it better than windows: as before, only a clear contradiction by windows changes it.
        """
        self._move(change)
        self._comparison = None
        self.interrupt()

    def _move(self, change: float) -> None:
        self.latency += change
        self._sums.move(change)
