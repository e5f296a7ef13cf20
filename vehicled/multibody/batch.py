"""Several instances of a mechanism evaluated together, for example as sigma points of a filter.

Each instance has its own state; all share parameters, inputs and applied forces with the mechanism that they
are made from. Kernels run on all of them side by side; the small linear systems are solved as a stack.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vehicled.multibody import problems
from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.mechanism import Mechanism
from vehicled.symbolic.program import KernelHandle


class MechanismBatch:
    """`count` instances; arrays (count, …) have one row each."""

    def __init__(self, mechanism: Mechanism, count: int) -> None:
        width = next(w for w in (2, 4, *range(8, count + 8, 8)) if w >= count)
        self._mechanism, self.count = mechanism, count
        self._compiled = _compile(mechanism.compiled, width)
        self._kernels = self._compiled.kernels
        self.layout = self._compiled.layout
        self.workspace = self.layout.allocate()
        self._pointer = self.workspace.ctypes.data
        m, n = len(mechanism.constraint_names), len(mechanism.coordinate_names)
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("q", "qd", "qdd", "constraints", "drift", "gamma", "forces"), (-1, width)),
            "jacobian": (m, n, width),
            "mass": (n, n, width),
        }
        # The axis of instances comes first, as for stacks of matrices.
        self._arrays = {
            name: np.moveaxis(self.view(name).reshape(shape), -1, 0) for name, shape in shapes.items()
        }
        self._q, self._qd, self._qdd = (self._arrays[name] for name in ("q", "qd", "qdd"))
        self._time = self.view("time")
        shared = ("time", "inputs", "applied", "q", "qd", "qdd")
        self._shared = [(self.view(name), mechanism.view(name)[:, None]) for name in shared]
        self._parameters = self.view("parameters"), mechanism.view("parameters")[:, None]
        self.renew_parameters()
        self.copy_state_from_mechanism()

    def view(self, name: str) -> np.ndarray:
        """An array of the program, as a view, with a last axis (width,) if that is above 1. Raises KeyError."""
        return self.layout.view(self.workspace, name)

    def call(self, kernel: KernelHandle) -> None:
        """Run a kernel for all instances; it releases the interpreter's lock."""
        self._compiled.functions[kernel](self._pointer)

    def renew_parameters(self) -> None:
        """Copy the mechanism's parameters again."""
        ours, its = self._parameters
        ours[...] = its
        self.call(self._kernels.prepare)
        self.call(self._kernels.mass)

    def copy_state_from_mechanism(self) -> None:
        """Set every instance to the mechanism's present q, q̇, q̈, time, inputs and applied forces."""
        for ours, its in self._shared:
            ours[...] = its

    def advance_time(self, h: float) -> None:
        """Add h (s) to the time of all instances."""
        self._time += h

    def set_independent_state(self, z: np.ndarray, zd: np.ndarray, limit: int = 30) -> bool:
        """Set z, ż (count, f) of the instances; find the resulting q, q̇, q̈ by Newton from their present positions.

        Returns whether all positions were found.
        """
        independent, dependent = self._mechanism.independent, self._mechanism.dependent
        used = slice(self.count)
        self._q[used, independent] = z
        self._q[self.count :] = self._q[0]
        bound, units = problems.tolerance(self._mechanism), self._mechanism.constraint_units
        for _ in range(limit):
            phi = self._calc(self._kernels.constraints)
            residual = np.abs(phi / units).max(initial=0.0)
            jacobian = self._calc(self._kernels.jacobian)
            if not residual > bound:
                break
            change = _solve(jacobian[:, :, dependent], phi[..., None])[..., 0]
            self._q[:, dependent] -= change
        if not residual <= bound:
            return False
        m = jacobian.shape[1]
        right = np.concatenate(
            [jacobian[:, :, independent], np.eye(m)[None].repeat(len(jacobian), 0)], axis=2
        )
        solved = _solve(jacobian[:, :, dependent], right)
        f = len(independent)
        r = np.zeros((len(jacobian), jacobian.shape[2], f))
        r[:, independent] = np.eye(f)
        r[:, dependent] = -solved[:, :, :f]
        s = solved[:, :, f:]
        self._qd[used, independent] = zd
        self._qd[self.count :, independent] = self._qd[0, independent]
        self._qd[...] = (r @ self._qd[:, independent, None])[..., 0]
        self._qd[:, dependent] -= (s @ self._calc(self._kernels.drift)[..., None])[..., 0]
        self._accelerate(r, s)
        return True

    def _accelerate(self, r: np.ndarray, s: np.ndarray) -> None:
        """Solve for q̈ by matrix R."""
        rest = np.zeros(self._qdd.shape)
        rest[:, self._mechanism.dependent] = (s @ self._calc(self._kernels.gamma)[..., None])[..., 0]
        mass, transposed = self._arrays["mass"], r.transpose(0, 2, 1)
        if self._compiled.model.varies:
            self.call(self._kernels.mass)
        net = self._calc(self._kernels.forces)[..., None] - mass @ rest[..., None]
        zdd = np.linalg.solve(transposed @ mass @ r, transposed @ net)
        self._qdd[...] = (r @ zdd)[..., 0] + rest

    @property
    def zdd(self) -> np.ndarray:
        """(count, f) accelerations z̈, a copy."""
        return self._qdd[: self.count, self._mechanism.independent]

    def _calc(self, kernel: KernelHandle) -> np.ndarray:
        self.call(kernel)
        return self._arrays[kernel.name]


def _solve(blocks: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve a stack of systems; by least squares if constraints are redundant."""
    if blocks.shape[1] == blocks.shape[2]:
        return np.linalg.solve(blocks, right)
    solution: np.ndarray = np.linalg.pinv(blocks, rcond=problems.RANK_TOLERANCE) @ right
    return solution


@lru_cache(maxsize=8)
def _compile(compiled: CompiledMechanism, width: int) -> CompiledMechanism:
    return CompiledMechanism(
        compiled.description, compiled.extensions, angle_form=compiled.angle_form, width=width
    )
