"""A linear system with an error-state filter, and late observations of the system."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from covariance_rig import COMPONENTS, Dense, random_covariance

from vehicled.filter.history import History
from vehicled.filter.late import LateObservations, keep_arrays

N, STEPS = 7, 60
H_NS = 4_000_000
COUPLING = ((0, 3), (1, 0), (2, 6), (4, 1), (3, 5))
CONSIDERED = 4
"""A state that influences no other state."""


@dataclass(frozen=True)
class Fix:
    """An observation H e + noise of the state at `step`, which arrives at the step `arrival`."""

    step: int
    arrival: int
    rows: np.ndarray
    noise: np.ndarray
    value: np.ndarray
    corrects_all: bool = True
    """If false, the state CONSIDERED is not corrected; only for an observation that is in time."""


class LinearFilter:
    """An error-state filter, and the nominal state (n,), which a linear system propagates."""

    def __init__(self, seed: int, memory: float = 1.0):
        self._rng = rng = np.random.default_rng(seed)
        self.dense = dense = Dense(N, COUPLING, (CONSIDERED,))
        self.errors = dense.errors
        before, after, events = keep_arrays(dense, dense.late, ["now"], [("estimates", "estimates")])
        self.history = History(memory, dense.workspace, before, after, dense.moment, events, dense.gate)
        self.late = LateObservations(dense, dense.late, self.errors, self.history, ["now"], "estimates")
        self.errors.past = self.late
        self.errors.matrix = random_covariance(rng, N)
        self.errors.x[:] = 0.0
        self.state, self.states = rng.normal(size=N), []
        self._keep(0)

    def _keep(self, step: int) -> None:
        self.history.step(step * H_NS)
        self.states.append(self.state.copy())

    def predict(self, step: int) -> None:
        """Predict one step; the system matrices depend on the step only, so they are equal for all filters."""
        rng, dense = np.random.default_rng(1000 + step), self.dense
        f = np.diag(rng.uniform(0.9, 1.0, N))
        dense.view("diagonal")[:] = np.diag(f)
        dense.view("q")[:] = rng.uniform(0.0, 0.1, N)
        for k, place in enumerate(COUPLING):
            f[place] = dense.view("coupled")[k] = 0.2 * rng.normal()
        self.state = f @ self.state + 0.01
        dense.propagate()
        self._keep(step)

    def observe(self, fix: Fix, now: int, limit: float = np.inf) -> bool:
        """Update if the normalised innovation squared (NIS) is below the limit; returns whether it is."""
        m = len(fix.rows)
        self.dense.view("limit")[0] = limit
        self._give(fix)
        if fix.step == now:
            kernels = self.dense.gated if fix.corrects_all else self.dense.considering
            return self.history.make_chain([(kernels[m - 1], m)]).run() == 1
        return self.late.observe(*self._find(fix))

    def evaluate(self, fix: Fix, now: int) -> float:
        """Normalised innovation squared of an observation."""
        self._evaluate(fix, now)
        return self.errors.nis.item()

    def _give(self, fix: Fix) -> None:
        m, dense = len(fix.rows), self.dense
        dense.view("given")[: fix.rows.size] = fix.rows.ravel()
        dense.view("predicted")[:m] = fix.rows @ self.states[fix.step]
        dense.view("more")[:] = 0.0
        self.errors.value[:m], self.errors.noise[:m] = fix.value, fix.noise

    def _evaluate(self, fix: Fix, now: int) -> None:
        m, dense = len(fix.rows), self.dense
        self._give(fix)
        if fix.step == now:
            dense.observations[m - 1]()
            return
        self.late.evaluate(*self._find(fix))

    def _find(self, fix: Fix) -> tuple[int, int, int]:
        """Step in the history, address of the kernel that evaluates the observation, number of its components."""
        step, m = self.history.find(fix.step * H_NS, 0.0), len(fix.rows)
        assert step >= 0
        return step, self.dense.observed[m - 1], m

    def apply(self) -> None:
        """Correct the state by the estimated error and reset the error, at the end of a step."""
        self.state = self.state + self.errors.x
        self.errors.x[:] = 0.0
        self.history.correct()

    def drive(self, fixes: list[Fix], after: Callable[[int], None] = lambda step: None) -> "LinearFilter":
        """Run all steps; `after` is called with the number of each completed step."""
        for step in range(1, STEPS):
            self.predict(step)
            for fix in fixes:
                if fix.arrival == step:
                    self.observe(fix, step)
            self.apply()
            after(step)
        self.covariance = self.errors.matrix
        return self


def make_fixes(seed: int, delays: list[int]) -> list[Fix]:
    """Timely and late observations of 1 to 3 components; the last late one arrives in the last step."""
    rng = np.random.default_rng(seed)

    def make(step: int, delay: int) -> Fix:
        m = int(rng.integers(1, COMPONENTS + 1))
        rows = rng.normal(size=(m, N)) * (rng.random(size=(m, N)) < 0.6)
        return Fix(step, step + delay, rows, rng.uniform(0.05, 1.0, m), rng.normal(size=m))

    fixes = [make(step, 0) for step in range(1, STEPS) if rng.random() < 0.7]
    steps = np.linspace(2, STEPS - 1 - delays[-1], len(delays) + 1).astype(int)[1:]
    return fixes + [make(int(s), d) for s, d in zip(steps, delays, strict=True)]
