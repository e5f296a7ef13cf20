"""A history with compiled kernels, whose poses the test gives."""

import ctypes

import numpy as np

from vehicled.filter.history import History, Kept
from vehicled.filter.history_kernels import add_history
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.past_moments import MomentPlaces
from vehicled.symbolic.program import Program
from vehicled.symbolic.record_code import NO_MOMENT


class PastPoses:
    """A history of poses of `size` numbers, with `pairs` of corrections (Δz, Δż), and of `more` states."""

    def __init__(self, memory: float, size: int, pairs: int, more: int = 0):
        program = Program(Graph())
        program.array("now", size)
        pose, since = program.array("pose", size), program.array("since", 2 * pairs + more)
        (age,), _, _ = (program.array(name, 1) for name in ("age", "lead", "latency"))
        kernels = add_history(program, [pose], since, pairs, age)
        program.finish([])
        self._functions, self._kernels = compile_program(program).functions.kernels, kernels
        self._layout, self._workspace = program.layout, program.layout.allocate()
        now, before = (self.view("now"),), (self.view("before.0"),)
        corrected = (self.view("now"), self.view("forces")), (self.view("after.0"), self.view("after.forces"))
        places = (self._layout.places[name].offset for name in ("age", "lead", "latency", "share"))
        past_pose = ctypes.cast(self._functions[kernels.past_pose], ctypes.c_void_p).value or 0
        moment = MomentPlaces(*places, past_pose, longest=0.2)
        clear = ctypes.cast(self._functions[kernels.clear], ctypes.c_void_p).value or 0
        self.history = History(
            memory, self._workspace, [Kept(now, before)], Kept(*corrected), moment, begin=clear
        )

    def view(self, name: str) -> np.ndarray:
        return self._layout.view(self._workspace, name)

    def step(self, t_ns: int, pose: np.ndarray) -> None:
        self.view("now")[:] = pose
        self.history.step(t_ns)

    def correct(self, moved: np.ndarray, pose: np.ndarray) -> None:
        """`moved`: corrections of z, resulting drifts of z, and corrections of the rates and of more states."""
        self.view("now")[:], self.view("moved")[:] = pose, moved
        self._functions[self._kernels.sum_corrections](self._workspace.ctypes.data)
        self.history.correct()

    def at(self, t_ns: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Pose at that time, and the corrections (Δz, Δż) of the last step since then; None if too old."""
        if self.history.find(t_ns, 0.0) == NO_MOMENT:
            return None
        return self.view("pose").copy(), self.view("since").copy()
