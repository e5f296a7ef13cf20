"""Routines as machine code, of one instance and of several side by side."""

import numpy as np
import pytest

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.loop import (
    Above,
    Below,
    Bound,
    Call,
    Count,
    IfAny,
    Iterate,
    Not,
    Repeat,
    Routine,
    StoreFlag,
)
from vehicled.symbolic.program import Program


class Halving:
    """Halves `x` until it is small; instances that are small stay unchanged.

    `large` counts iterations that leave any `x` above a limit, `ends` calls after the loop.
    """

    def __init__(self, width: int):
        g = Graph()
        self.program = program = Program(g, width=width)
        x, running, large, ends = program.array("state", 4)
        halve = program.kernel("halve", [(x, g.where_less(running, 0.5, x, 0.5 * x))])
        count = program.kernel("count", [(large, large + 1.0)])
        begin = program.kernel("begin", [(running, g.one)])
        end = program.kernel("end", [(ends, ends + 1.0)])
        twice = program.sequence("twice", end, end)
        program.finish([])
        limit, times, small, big = Count("limit"), Count("times"), Bound("small"), Bound("big")
        done = Below(x, small)
        body = (
            Call(begin),
            Iterate(
                (Call(halve),),
                until=done,
                limit=limit,
                between=(StoreFlag(running, Not(done)), IfAny(Above(x, big), (Call(count),))),
            ),
            Repeat(times, (Call(twice), Call(end))),
        )
        routine = Routine("run", (limit, small, big, times), body)
        self._run = compile_program(program, (routine,)).functions.routine(routine.handle)
        self.workspace = program.layout.allocate()
        self.state = program.layout.view(self.workspace, "state").reshape(4, width)

    def run(self, x: list[float], limit: int = 20, times: int = 3) -> int:
        self.state[:] = 0.0
        self.state[0] = x
        return self._run(self.workspace.ctypes.data, limit, 0.1, 1.5, times)


def test_one_instance_stops_at_its_condition_or_limit():
    halving = Halving(1)
    assert halving.run([8.0]) == 7  # 4, 2, 1, …, 0.0625
    assert halving.state[:, 0] == pytest.approx([0.0625, 1.0, 2.0, 9.0])
    assert halving.run([8.0], limit=4) == -4
    assert halving.state[0, 0] == 0.5
    # Both loops run at least once.
    assert halving.run([0.0], limit=0, times=0) == 1
    assert halving.state[3, 0] == 3.0


@pytest.mark.parametrize("width", [2, 8])
def test_each_of_several_instances_stops_at_its_own_condition(width):
    halving = Halving(width)
    x = list(np.linspace(0.15, 8.0, width))
    expected = []
    for one in x:
        one *= 0.5
        while one >= 0.1:
            one *= 0.5
        expected.append(one)
    assert halving.run(x) == 7
    assert halving.state[0] == pytest.approx(expected, rel=1e-15)
    assert halving.state[2] == pytest.approx(2.0)


def test_nan_does_not_satisfy_the_condition():
    assert Halving(2).run([np.nan, 1.0]) == -20
