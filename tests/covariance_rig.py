"""A compiled covariance whose model is given as numbers, and a history of it."""

import ctypes
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from vehicled.filter.considered import Considered, add_considered
from vehicled.filter.covariance import Covariance, CovarianceKernels
from vehicled.filter.late import place_moment
from vehicled.filter.late_kernels import add_late
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.evaluate import FLOAT, evaluate
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import KernelHandle, Program, Span

COMPONENTS = 3
"""Number of components of the largest observation."""


class Dense:
    """A compiled covariance whose F, Q and observations are all inputs."""

    def __init__(
        self,
        n: int,
        coupling: tuple[tuple[int, int], ...] = (),
        considered: Sequence[int] = (),
        correlated: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """`coupling`, `correlated`: places of F and of Q beside the diagonal; values in `coupled`, `q_coupled`.

        `considered`: states that some observations do not correct.
        """
        program = Program(Graph())
        kernels = CovarianceKernels(program, n, COMPONENTS)
        diagonal, coupled = program.array("diagonal", n), program.array("coupled", max(len(coupling), 1))
        rows = [{i: d} for i, d in enumerate(diagonal)]
        for (i, j), value in zip(coupling, coupled, strict=False):
            rows[i][j] = value
        (count,) = program.array("count", 1)
        noise = {(i, i): q for i, q in enumerate(program.array("q", n))}
        noise |= zip(correlated, program.array("q_coupled", max(len(correlated), 1)), strict=False)
        propagate, places = kernels.propagate(rows, noise, [(count, count + 1.0)])
        given = program.array("given", COMPONENTS * n)
        predicted, more = program.array("predicted", COMPONENTS), program.array("more", COMPONENTS)
        observations, gated, considering = [], [], []
        for m in range(1, COMPONENTS + 1):
            h = [dict(enumerate(given[k * n : (k + 1) * n])) for k in range(m)]
            observations.append(kernels.observe(f"dense{m}", predicted[:m], h, noise=more[:m]))
            gated.append(program.sequence(f"gated{m}", observations[-1], kernels.gates[m - 1]))
            left_out = Considered(dict.fromkeys(considered, program.graph.one))
            added = add_considered(program, kernels, f"dense{m}", m, observations[-1], left_out)
            considering.append(program.sequence(f"considering{m}", added.evaluate, added.gate))
        angle = kernels.observe("angle", predicted[:1], [{0: program.graph.one}], angle=True)
        program.array("before.0", 1)
        program.array("after.0", 1)
        program.array("now", 1)
        program.array("estimates", 0)
        self.late = add_late(program, kernels, places)
        for name in ("age", "lead", "latency", "share"):
            program.array(name, 1)
        past_pose = program.kernel("past_pose", [])
        program.finish([])
        self.program = program
        self._functions = compile_program(program).functions.kernels
        self._layout, self.workspace = program.layout, program.layout.allocate()
        self.propagate, self._angle = self.bind(propagate), self.bind(angle)
        self.observations = [self.bind(kernel) for kernel in observations]
        self.observed = [self.address(kernel) for kernel in observations]
        """Addresses of the kernels in `observations`."""
        self.gated = [self.address(kernel) for kernel in gated]
        """Addresses of kernels that evaluate an observation and update with it if `nis` is less than `limit`."""
        self.considering = [self.address(kernel) for kernel in considering]
        """Addresses of kernels that do the same without correcting the states in `considered`."""
        self.gate = self._layout.places["nis"].offset, self._layout.places["limit"].offset
        self.moment = place_moment(self, past_pose)
        self.errors = Covariance(n, self, kernels.updates)
        self.view("diagonal")[:] = 1.0

    def view(self, name: str) -> np.ndarray:
        return self._layout.view(self.workspace, name)

    def tangent(self, name: str) -> np.ndarray:
        return np.zeros((self.view(name).size, 0))

    def bind(self, kernel: KernelHandle) -> Callable[[], None]:
        return partial(self._functions[kernel], self.workspace.ctypes.data)

    def span(self, first: str, last: str) -> tuple[Span, ...]:
        return (self._layout.span(first, last),)

    def address(self, kernel: KernelHandle) -> int:
        return ctypes.cast(self._functions[kernel], ctypes.c_void_p).value

    def randomise(self, rng: np.random.Generator) -> None:
        self.workspace[:] = rng.uniform(0.1, 1.0, size=len(self.workspace))
        self.errors.matrix = random_covariance(rng, self.errors.size)

    def calc_by_expressions(self, kernel: KernelHandle) -> dict[int, float]:
        """Values that a kernel stores, by place, evaluated from its expressions."""
        declared = self.program.kernels[kernel]
        known = {atom: float(self.workspace[place]) for atom, place in declared.loads.items()}
        values = evaluate([e for *_, e in declared.stores], known, FLOAT)
        return {place: value for (place, *_), value in zip(declared.stores, values, strict=True)}

    def run(self, kernel: KernelHandle) -> np.ndarray:
        """Run a kernel's code; returns the workspace."""
        self.bind(kernel)()
        return self.workspace

    def evaluate(self, rows: np.ndarray, noise: np.ndarray, innovation: np.ndarray) -> float:
        """Normalised innovation squared of an observation with these rows (m, n)."""
        m = len(rows)
        self.view("given")[: rows.size] = rows.ravel()
        self.view("predicted")[:m] = 10.0
        self.errors.value[:m], self.errors.noise[:m] = 10.0 + innovation, noise
        self.observations[m - 1]()
        return self.errors.nis.item()

    def evaluate_angle(self, value: float, predicted: float) -> float:
        """Innovation of an angle."""
        self.view("predicted")[0] = predicted
        self.errors.value[0], self.errors.noise[0], self.errors.x[:] = value, 1.0, 0.0
        self._angle()
        return self.errors.innovation[0].item()


def random_covariance(rng: np.random.Generator, n: int) -> np.ndarray:
    root = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-1, 1, size=n)
    return root @ root.T + 0.1 * np.eye(n)
