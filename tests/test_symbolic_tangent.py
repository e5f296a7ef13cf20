"""Tangents made by the compiler, compared with finite differences of the kernels."""

import numpy as np
import pytest

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.differentiation import Differentiation
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.tangent import Tangents

DIRECTIONS = 8


class Compiled:
    """A program with every operation, plain and differentiated, and a workspace."""

    def __init__(self, directions: int = DIRECTIONS):
        g = Graph()
        self.program = program = Program(g, 4)
        a, b, c = program.array("plain", 3)
        u, v = program.array("lanes", 2, 1)
        (p,) = program.array("parameter", 1)
        (fixed,) = program.array("fixed", 1)
        out = program.array("out", 3)
        lane_out = program.array("lane_out", 3, 1)
        mixed = g.tanh(u * a) / (2.0 + v * v) + g.lane_swap(v * g.exp(u)) * g.sqrt(1.0 + b * b)
        turned = g.atan2(g.sin(u), 2.0 + g.cos(v * p)) - g.abs(u - v) * g.where_less(u, v, a, b * u)
        stores = [
            (out[0], g.lane_sum(mixed) + g.atan(a * b) / (1.0 + c * c) * g.sin(p)),
            (out[1], g.lane_sum(turned * a) + g.max(a, b) * c),
            # Read and written by one kernel: the value before counts.
            (a, a * b + fixed * c),
            (lane_out[0], mixed * turned),
            (lane_out[1], u + p * a),
            (u, g.lane_swap(u) * v),
        ]
        first = program.kernel("first", stores)
        second = program.kernel(
            "second", [(out[2], a * out[0] * g.sqrt(2.0 + g.sin(p))), (lane_out[2], u / (2.0 + v))]
        )
        untouched = program.kernel("untouched", [(fixed, fixed + 1.0)])
        self.both = program.sequence("both", first, untouched, second)
        program.finish([p])
        self.tangents = Tangents(program, Differentiation(directions, ("fixed",), (untouched,)))
        self.code = compile_program(program, tangents=self.tangents)

    def workspace(self, random: np.random.Generator) -> np.ndarray:
        w = self.program.layout.allocate()
        for name in ("plain", "lanes", "parameter", "fixed"):
            view = self.program.layout.view(w, name)
            view[...] = random.uniform(0.3, 1.7, view.shape)
        return w

    def run(self, w: np.ndarray, differentiated: bool = False) -> dict[str, np.ndarray]:
        functions = self.code.differentiated if differentiated else self.code.functions
        for handle in (self.program.prepare, self.both):
            functions.kernels[handle](w.ctypes.data)
        return {
            n: self.program.layout.view(w, n).copy() for n in ("plain", "lanes", "out", "lane_out", "fixed")
        }


@pytest.mark.parametrize("directions", [2, 8, 16])
def test_tangents_agree_with_finite_differences(directions):
    compiled = Compiled(directions)
    random = np.random.default_rng(4)
    w = compiled.workspace(random)
    seeds = {}
    for name in ("plain", "lanes", "parameter"):
        view = compiled.tangents.layout.view(w, name)
        view[...] = seeds[name] = random.standard_normal(view.shape)
    begin = w.copy()
    values = compiled.run(w, differentiated=True)
    step = 1e-6
    for k in range(directions):
        ends = []
        for sign in (1.0, -1.0):
            there = begin.copy()
            for name, seed in seeds.items():
                compiled.program.layout.view(there, name)[...] += sign * step * seed[..., k]
            ends.append(compiled.run(there))
        for name in ("plain", "lanes", "out", "lane_out"):
            difference = (ends[0][name] - ends[1][name]) / (2 * step)
            tangent = compiled.tangents.layout.view(w, name)[..., k]
            np.testing.assert_allclose(tangent, difference, rtol=1e-6, atol=1e-7, err_msg=f"{name}, {k}")
    assert values["fixed"].item() == compiled.program.layout.view(begin, "fixed").item() + 1.0


def test_differentiated_kernels_compute_the_same_values():
    compiled = Compiled()
    w = compiled.workspace(np.random.default_rng(5))
    plain = compiled.run(w.copy())
    for name, value in compiled.run(w, differentiated=True).items():
        np.testing.assert_allclose(value, plain[name], rtol=1e-14)


def test_directions_do_not_mix():
    compiled = Compiled()
    w = compiled.workspace(np.random.default_rng(6))
    compiled.tangents.layout.view(w, "plain")[1, 3] = 1.0
    compiled.run(w, differentiated=True)
    out = compiled.tangents.layout.view(w, "out")
    assert out[:, 3].any()
    assert not np.delete(out, 3, axis=1).any()


def test_only_one_instance_can_be_differentiated():
    program = Program(Graph(), 4, 8)
    program.finish([])
    with pytest.raises(ValueError, match="one instance"):
        Tangents(program, Differentiation(8))
