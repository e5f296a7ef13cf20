"""A history with its kernels compiled, of poses that are given."""

import numpy as np

from vehicled.filter.history import History, Kept
from vehicled.filter.history_kernels import add_history
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program


class PastPoses:
    """A history of poses of so many numbers, with `pairs` of corrections (Δz, Δż)."""

    def __init__(self, memory: float, size: int, pairs: int):
        program = Program(Graph())
        program.array("now", size)
        pose, since = program.array("pose", size), program.array("since", 2 * pairs)
        (age,) = program.array("age", 1)
        kernels = add_history(program, [pose], since, pairs, age)
        program.finish([])
        self._functions, self._kernels = compile_program(program).functions.kernels, kernels
        self._layout, self._workspace = program.layout, program.layout.allocate()
        now, before, after = ((self.view(name),) for name in ("now", "before.0", "after.0"))
        self.history = History(memory, self._workspace, [Kept(now, before)], Kept(now, after))

    def view(self, name: str) -> np.ndarray:
        return self._layout.view(self._workspace, name)

    def step(self, t_ns: int, pose: np.ndarray) -> None:
        self.view("now")[:] = pose
        self.view("sums")[:] = 0.0
        self.history.step(t_ns)

    def correct(self, moved: np.ndarray, pose: np.ndarray) -> None:
        """`moved`: of z, the drift of z that it makes, and of the rates."""
        self.view("now")[:], self.view("moved")[:] = pose, moved
        self._functions[self._kernels.sum_corrections](self._workspace.ctypes.data)
        self.history.correct()

    def at(self, t_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Pose then, and the corrections (Δz, Δż) that have been made of the last step; None when too old."""
        moment = self.history.find(t_ns)
        if moment is None:
            return None
        self.view("share")[0], self.view("age")[0] = moment.share, max(moment.age_ns, 0) * 1e-9
        self._functions[self._kernels.past_pose](self._workspace.ctypes.data)
        return self.view("pose").copy(), self.view("since").copy()
