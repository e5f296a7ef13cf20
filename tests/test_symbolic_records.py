"""Programs over records: every instance is computed, inputs stay, instances are selected."""

import numpy as np
import pytest

from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program
from vehicled.symbolic.records import RecordCode, lay_out

COUNT = 30


def make(width):
    """A program and its sequence: x ← 2 x + rate, then total ← total + x."""
    program = Program(Graph(), width=width)
    (x,), (total,), (rate,) = (program.array(name, 1) for name in ("x", "total", "rate"))
    double = program.kernel("double", [(x, x + x + rate)])
    add = program.kernel("add", [(total, total + x)])
    both = program.sequence("both", double, add)
    program.finish([])
    return program, both


def test_instances_are_advanced_and_selected():
    program, both = make(8)
    record, rows = lay_out(program.layout, ("x", "total"), ("rate",))
    assert (record.rows, record.state, record.size) == (3, 2, 24)
    assert rows["rate"] == slice(2, 3)
    records, chosen = record.allocate(COUNT), record.allocate(COUNT)
    blocks = len(records)
    records[:, 0, :] = np.arange(blocks * 8).reshape(blocks, 8)
    records[:, 2, :] = 0.5
    before = records.copy()

    code = RecordCode(program, record)
    code.run(both, program.layout.allocate(), records)
    assert np.array_equal(records[:, 0], 2.0 * before[:, 0] + 0.5)
    assert np.array_equal(records[:, 1], records[:, 0])
    assert np.array_equal(records[:, 2], before[:, 2])

    indices = np.random.default_rng(1).integers(0, COUNT, blocks * 8)
    code.select(chosen, records, indices)
    flat, selected = (r.transpose(1, 0, 2).reshape(3, -1) for r in (records, chosen))
    assert np.array_equal(selected[:2], flat[:2, indices])
    assert np.all(selected[2] == 0.0)


@pytest.mark.parametrize(
    ("width", "state", "inputs"), [(2, ("x", "total"), ("rate",)), (8, ("x", "rate"), ("total",))]
)
def test_arrays_that_are_not_contiguous_are_refused(width, state, inputs):
    program, _ = make(width)
    with pytest.raises(ValueError, match="expected the place after the one before"):
        lay_out(program.layout, state, inputs)
