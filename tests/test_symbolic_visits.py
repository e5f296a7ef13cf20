"""Kernels over records that lie outside a workspace, in scripts and chains, which end at gates."""

import ctypes

import numpy as np
import pytest

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.record_code import Do
from vehicled.symbolic.scripts import RecordCopies, Script, make_visit
from vehicled.symbolic.visits import Chain, VisitTable


class Chained:
    """Plain, gated, plain, gated, plain: each adds 1 to `count`; gated ones keep that while `x` < `limit`."""

    def __init__(self) -> None:
        program = Program(Graph())
        (x,), (count,), _ = (program.array(name, 1) for name in ("x", "count", "limit"))
        add = program.kernel("add", [(count, count + 1.0), (x, x + 1.0)])
        (total,), (seen,) = program.array("total", 1), program.array("seen", 1)
        gather = program.kernel("gather", [(total, total + seen)])
        program.finish([])
        self._layout, self.workspace = program.layout, program.layout.allocate()
        self._functions = compile_program(program).functions.kernels
        address, self._gather = (
            ctypes.cast(self._functions[k], ctypes.c_void_p).value for k in (add, gather)
        )
        x, limit = (program.layout.places[name].offset for name in ("x", "limit"))
        self.table = VisitTable()
        links = [(address, 0), (address, 1), (address, 0), (address, 1), (address, 0)]
        self.chain = Chain(self.workspace, (x, limit), links)
        self.kept: list[tuple[np.ndarray, RecordCopies, RecordCopies, np.ndarray]] = []

    def __getitem__(self, name: str) -> np.ndarray:
        return self._layout.view(self.workspace, name)

    def run(self) -> int:
        """How many links are done."""
        records = []
        for _ in self.chain.records:
            numbers = np.zeros(1)
            now, then = (RecordCopies(self.workspace, [(numbers, [self[n]])]) for n in ("count", "seen"))
            visit = make_visit(then, [self._gather], changes=False)
            self.kept.append((numbers, now, then, visit))
            records.append((now, visit.ctypes.data))
        return self.chain.links_done[self.table.run_chain(self.chain, records)]

    def gather(self) -> float:
        """The sum of all records that the table lists."""
        self["total"][:] = 0.0
        Script(self.workspace, [(Do.VISIT, *self.table.locate(0), 0, 0)]).part(0, 1)()
        return self["total"].item()


@pytest.mark.parametrize(
    ("limit", "done", "total"), [(99.0, 5, 2.0 + 4.0), (4.0, 3, 2.0), (2.0, 1, 0.0), (np.nan, 1, 0.0)]
)
def test_a_chain_ends_at_the_first_gate_that_is_not_passed(limit, done, total):
    chained = Chained()
    chained["limit"][:] = limit
    assert chained.run() == done
    # The kernel of that gate has run.
    assert chained["count"].item() == min(done + 1, 5)
    assert chained.gather() == total


def test_records_of_many_chains_are_listed_in_their_order():
    chained = Chained()
    chained["limit"][:] = np.inf
    for _ in range(200):
        assert chained.run() == 5
    expected = [5.0 * k + n for k in range(200) for n in (2.0, 4.0)]
    assert [numbers.item() for numbers, *_ in chained.kept] == expected
    assert chained.gather() == sum(expected)
