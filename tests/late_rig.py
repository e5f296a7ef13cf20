"""A linear system with an error-state filter beside it, and observations of it that come late."""

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
"""A state that moves no other."""


@dataclass(frozen=True)
class Fix:
    """An observation H e + noise of a step, and in which step it arrives."""

    step: int
    arrival: int
    rows: np.ndarray
    noise: np.ndarray
    value: np.ndarray
    corrects_all: bool = True
    """Or else all but the state CONSIDERED; only for one that is in time."""


class LinearFilter:
    """A state (n,) beside the errors: the simulation of a linear system."""

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
        """The same system for every filter of the same number of steps."""
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
        """Update with it if its normalised innovation squared is less than a limit; whether it is."""
        m = len(fix.rows)
        self.dense.view("limit")[0] = limit
        self._give(fix)
        if fix.step == now:
            kernels = self.dense.gated if fix.corrects_all else self.dense.considering
            return self.history.make_chain([(kernels[m - 1], m)]).run() == 1
        return self.late.observe(*self._find(fix))

    def evaluate(self, fix: Fix, now: int) -> float:
        """Its normalised innovation squared."""
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
        """Its step, the address of the kernel that evaluates it, and the number of its components."""
        step, m = self.history.find(fix.step * H_NS, 0.0), len(fix.rows)
        assert step >= 0
        return step, self.dense.observed[m - 1], m

    def apply(self) -> None:
        """The state, corrected by what has been found; a step ends with it."""
        self.state = self.state + self.errors.x
        self.errors.x[:] = 0.0
        self.history.correct()

    def drive(self, fixes: list[Fix], after: Callable[[int], None] = lambda step: None) -> "LinearFilter":
        """All steps; `after` receives each one that has ended."""
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
    """Timely ones of 1 to 3 components, and late ones, of which the last one arrives in the last step."""
    rng = np.random.default_rng(seed)

    def make(step: int, delay: int) -> Fix:
        m = int(rng.integers(1, COMPONENTS + 1))
        rows = rng.normal(size=(m, N)) * (rng.random(size=(m, N)) < 0.6)
        return Fix(step, step + delay, rows, rng.uniform(0.05, 1.0, m), rng.normal(size=m))

    fixes = [make(step, 0) for step in range(1, STEPS) if rng.random() < 0.7]
    steps = np.linspace(2, STEPS - 1 - delays[-1], len(delays) + 1).astype(int)[1:]
    return fixes + [make(int(s), d) for s, d in zip(steps, delays, strict=True)]
