"""Kernels over records outside a workspace: in scripts, and in chains that end at gates."""

import ctypes

import numpy as np
import pytest

from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.kept_records import KeptLayout, ObservationKind
from vehicled.symbolic.past_moments import Limits, MomentPlaces, MomentRecord, PastMoments
from vehicled.symbolic.program import Program
from vehicled.symbolic.record_code import Do
from vehicled.symbolic.scripts import Script

SECOND = 1_000_000_000


class Chained:
    """Five links, alternately plain and gated. Each adds 1 to `count`; gated ones record it while `x` < `limit`."""

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
        whole = KeptLayout(self.workspace, [self["x"]])
        record = MomentRecord(whole, whole, whole, whole, 0, [])
        self.past = PastMoments(
            self.workspace, Limits(SECOND, 100, 1000), record, MomentPlaces(0, 0, 0, 0, self._gather, 0.0)
        )
        self.past.begin(0)
        self._kind = ObservationKind(self.workspace, [self["count"]], [self["seen"]], [self._gather], False)
        links = [(address, self._kind if k % 2 else None) for k in range(5)]
        self._chain = self.past.make_chain((x, limit), links)
        self.run = self._chain.run
        """Returns the number of links that are done."""

    def __getitem__(self, name: str) -> np.ndarray:
        return self._layout.view(self.workspace, name)

    def gather(self) -> float:
        """The sum of all records that are listed."""
        self["total"][:] = 0.0
        _, *visits = self.past.locate(0)
        Script(self.workspace, [(Do.VISIT, *visits, 0, 0)]).part(0, 1)()
        return self["total"].item()

    @property
    def kept(self) -> list[float]:
        """The values of all records."""
        rows = {row.ctypes.data: row for chunk in self._kind.store.chunks for row in chunk}
        return [rows[record].item() for _, record in self.past.list_events()]


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
    assert chained.kept == expected
    assert chained.gather() == sum(expected)


def test_records_of_forgotten_moments_are_used_again():
    chained = Chained()
    chained["limit"][:] = np.inf
    for k in range(1, 400):
        chained.past.begin(k * SECOND // 10)
        for _ in range(7):
            chained.run()
        # Eleven moments within the memory, and the one before them.
        assert chained.past.moments.count == min(k + 1, 11)
    assert len(chained.kept) == 11 * 14
    assert chained.kept == [
        chained["count"].item() - 5.0 * (77 - k) + n for k in range(77) for n in (2.0, 4.0)
    ]
    assert sum(map(len, chained.past.records.chunks)) == 64
    chained.past.clear()
    assert chained.kept == []
