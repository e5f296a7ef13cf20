"""`vehicled bench codegen`: functions compared with each other and with energies, and their cost."""

from __future__ import annotations

import ast
import ctypes
import json
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from relative_rig import EXTENDED, Numbers, Real

from vehicled.cli import main
from vehicled.studies.benchmarks import algebras, codegen
from vehicled.studies.benchmarks.explicit import explicit
from vehicled.studies.benchmarks.linkages import SymbolicLinkage
from vehicled.studies.benchmarks.plain import Plain, measure_plain
from vehicled.symbolic import llvm, machine, python
from vehicled.symbolic.graph import Atom
from vehicled.symbolic.program import Program
from vehicled.symbolic.text import identifier

DERIVATIONS = {
    "operators": (codegen.with_operators, False),
    "atomised": (codegen.atomised, False),
    "operators, joined": (codegen.with_operators, True),
    "atomised, joined": (codegen.atomised, True),
}
"""Derivation, and whether it replaces products of sines and cosines by functions of sums of angles."""


class Function:
    """One of the functions, with random numbers to evaluate it."""

    def __init__(self, name: str):
        self.name = name
        self.linkages: dict[str, SymbolicLinkage] = {}
        self.outputs: dict[str, list[Atom]] = {}
        self.programs: dict[str, Program] = {}
        for how, (derive, joins_angles) in DERIVATIONS.items():
            linkage = self.linkages[how] = codegen.LINKAGES[name](joins_angles)
            self.outputs[how] = derive(linkage)
            self.programs[how] = codegen.program(linkage, self.outputs[how])
        random = np.random.default_rng(5)
        self.n = len(linkage.system.coordinates)
        self.values = dict(zip(linkage.parameters, random.uniform(0.5, 2.0, 10_000), strict=False))
        self.q, self.qd = random.uniform(-1.0, 1.0, (2, self.n))

    def workspace(self, how: str) -> np.ndarray:
        layout = self.programs[how].layout
        w = layout.allocate()
        layout.view(w, "parameters")[:] = [self.values[n] for n in self.linkages[how].parameters]
        layout.view(w, "q")[:], layout.view(w, "qd")[:] = self.q, self.qd
        return w

    def by_python(self, how: str) -> np.ndarray:
        program, w = self.programs[how], self.workspace(how)
        python.function(program.kernels[codegen.KERNEL], program.layout)(w)
        return program.layout.view(w, "MQ").copy()

    def by_machine_code(self, how: str) -> np.ndarray:
        program, w = self.programs[how], self.workspace(how)
        code = machine.MachineCode(
            machine.get_object(llvm.emit([program.kernels[codegen.KERNEL]], program.layout))
        )
        code.function(codegen.KERNEL.name, None, ctypes.c_void_p)(w.ctypes.data)
        return program.layout.view(w, "MQ").copy()

    def operations(self, how: str) -> Counter[str]:
        return Counter(self.programs[how].kernels[codegen.KERNEL].operations())


@pytest.fixture(scope="module")
def functions() -> dict[str, Function]:
    return {name: Function(name) for name in codegen.LINKAGES}


@pytest.fixture(params=codegen.LINKAGES)
def function(request, functions) -> Function:
    return functions[request.param]


def assert_equal(found: np.ndarray, expected: np.ndarray, n: int) -> None:
    """Compare to 1e-12 of the largest number, separately for mass matrix and forces."""
    for part in (slice(None, n * n), slice(n * n, None)):
        assert found[part] == pytest.approx(expected[part], abs=1e-12 * np.abs(expected[part]).max())


def test_back_ends_and_derivations_agree(function):
    expected = function.by_python("operators")
    assert_equal(function.by_machine_code("operators"), expected, function.n)
    for how in DERIVATIONS:
        # Machine code of the longer ones takes seconds to compile.
        run = function.by_machine_code if function.name == "four_bar" else function.by_python
        assert_equal(run(how), expected, function.n)


@pytest.mark.skipif(not EXTENDED, reason="differences need extended precision")
def test_functions_agree_with_lagranges_equations_from_energies(function):
    """Outputs are −∂²T/∂q̇² and the negative generalised forces of Lagrange's equations, here by differences."""
    linkage = function.linkages["operators"]
    at = {a: function.values[n] for n, a in linkage.parameters.items()}
    numbers = Numbers(linkage.system, at)
    q, qd = function.q.astype(Real), function.qd.astype(Real)
    matrix = numbers.mass_matrix(q)
    forces = numbers.generalised_forces(q, qd, linkage.gravity)
    expected = -np.concatenate([matrix.ravel(), forces]).astype(float)
    assert_equal(function.by_machine_code("operators"), expected, function.n)


@pytest.mark.parametrize("package", algebras.PEERS)
def test_peers_derive_the_same_function(package, functions):
    module = pytest.importorskip(package)
    four_bar = functions["four_bar"]
    peer = algebras.PEERS[package](module)
    linkage = four_bar.linkages["operators"]
    matrix, forces = explicit(linkage.system, linkage.gravity, peer)
    outputs = [-x for row in (*matrix, forces) for x in row]
    given = {peer.take(linkage.parameters[n]): v for n, v in four_bar.values.items()}
    for c, q, qd in zip(linkage.system.coordinates, four_bar.q, four_bar.qd, strict=True):
        given |= {peer.take(c.q): q, peer.take(c.qd): qd}
    if package == "sympy":
        found = np.array(module.lambdify(list(given), outputs)(*given.values()))
    else:
        run = module.Function("f", [module.vertcat(*given)], [module.vertcat(*outputs)])
        found = np.array(run(list(given.values()))).ravel()
    assert_equal(found, four_bar.by_python("operators"), four_bar.n)
    # The operators on trees need fewer operations than the peers after eliminating common subexpressions.
    assert sum(four_bar.operations("operators").values()) < peer.operations(outputs)


# -- cost ----------------------------------------------------------------------------------------------


def test_operations_are_those_of_the_generated_text(function):
    """Each operator and each call in the Python text counts once; squares count as multiplications."""
    program = function.programs["operators"]
    tree = ast.parse(python.source(program.kernels[codegen.KERNEL], program.layout))
    signs = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.USub: "neg"}
    counted: Counter[str] = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp | ast.UnaryOp):
            counted[signs[type(node.op)]] += 1
        elif isinstance(node, ast.Call):
            counted[ast.unparse(node.func).removeprefix("np.")] += 1
    assert counted == function.operations("operators")


BUDGETS = {
    ("four_bar", "operators"): (264, 125),
    ("four_bar", "atomised"): (285, 270),
    ("locomotive", "operators"): (36_695, 14_000),
    ("locomotive", "atomised"): (636_695, 57_000),
    ("four_bar", "operators, joined"): (264, 125),
    ("four_bar", "atomised, joined"): (285, 235),
    ("locomotive", "operators, joined"): (36_695, 13_900),
    ("locomotive", "atomised, joined"): (636_695, 56_500),
}
"""The published count (Plaza et al. 2017), and the largest count that this compiler may need."""


@pytest.mark.parametrize("how", DERIVATIONS)
def test_operations_stay_below_published_counts(function, how):
    published, reached = BUDGETS[function.name, how]
    assert sum(function.operations(how).values()) <= reached < published


def write_out(atom: Atom) -> str:
    """An expression in C, with brackets only around operands that need them."""
    if atom.op in ("symbol", "const"):
        return identifier(atom.name) if atom.op == "symbol" else repr(atom.value)

    def operand(a: Atom, weaker: tuple[str, ...]) -> str:
        return f"({write_out(a)})" if a.op in weaker else write_out(a)

    sums, products = ("add", "sub", "neg"), ("mul", "div")
    match atom.op:
        case "add" | "sub":
            left, right = operand(atom.args[0], ()), operand(atom.args[1], sums)
            return f"{left} {'+' if atom.op == 'add' else '-'} {right}"
        case "mul" | "div":
            left, right = operand(atom.args[0], sums), operand(atom.args[1], (*sums, *products))
            return f"{left} {'*' if atom.op == 'mul' else '/'} {right}"
        case "neg":
            return f"-{operand(atom.args[0], (*sums, *products))}"
    return f"{atom.op}({', '.join(write_out(a) for a in atom.args)})"


@pytest.mark.parametrize("how", ["operators", "atomised"])
def test_operations_and_characters_are_counted_without_writing_the_text(how, functions):
    outputs = functions["four_bar"].outputs[how]
    texts = [write_out(e) for e in outputs]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text, mode="eval"))]
    counted = sum(isinstance(node, ast.BinOp | ast.UnaryOp | ast.Call) for node in nodes)
    assert measure_plain(outputs) == Plain(counted, sum(map(len, texts)))


def test_the_locomotive_written_out_in_full_exceeds_the_published_size(functions):
    found = measure_plain(functions["locomotive"].outputs["atomised"])
    assert found.operations > 19_899_139
    assert found.characters > 250e6


def test_the_locomotive_is_of_the_published_size(functions):
    system = functions["locomotive"].linkages["operators"].system
    assert (len(system.bodies), len(system.coordinates)) == (21, 76)


# -- the command ---------------------------------------------------------------------------------------


def test_the_command_prints_one_object_or_a_table(monkeypatch, capsys):
    monkeypatch.setattr(algebras, "installed", dict)
    # The size of the locomotive's functions is checked above.
    monkeypatch.setattr(codegen, "LINKAGES", dict.fromkeys(codegen.LINKAGES, codegen.LINKAGES["four_bar"]))
    assert main(["bench", "codegen", "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    assert found["peers"] == {}
    for name in codegen.LINKAGES:
        result = found[name]
        assert sum(result["kinds"].values()) == result["operations"] < result["operations_atomised"]
        assert result["seconds"] > 0.0
    monkeypatch.setattr(codegen, "bench_codegen", lambda *_: found)
    assert main(["bench", "codegen"]) == 0
    out, _ = capsys.readouterr()
    for key in ("operations", "operations_plain", "operations_joined", "bytes_atomised", "bytes_plain"):
        assert f"{found['four_bar'][key]:,}" in out
        assert f"{found['locomotive'][key]:,}" in out
    for published in ("2,326", "19,899,139", "285", "636,695", "264", "36,695", "250,000,000"):
        assert published in out
    assert "sympy: not installed" in out
    assert "--all" not in out


def test_the_command_prints_the_function(capsys, functions):
    assert main(["bench", "codegen", "--print", "four_bar"]) == 0
    out, _ = capsys.readouterr()
    namespace: dict = {"np": np}
    exec(out, namespace)
    four_bar = functions["four_bar"]
    w, layout = four_bar.workspace("operators"), four_bar.programs["operators"].layout
    namespace[codegen.KERNEL.name](SimpleNamespace(**{name: layout.view(w, name) for name in layout.places}))
    found = layout.view(w, "MQ")
    assert_equal(found, four_bar.by_machine_code("operators"), 3)
    assert "sin_theta2 = np.sin(theta2)" in out


def test_options_of_codegen_are_refused_elsewhere(capsys):
    assert main(["bench", "step", "--print", "four_bar"]) == 2
    assert "--print" in capsys.readouterr().err
    assert main(["bench", "codegen", "--print", "tram"]) == 2
    assert "tram" in capsys.readouterr().err
