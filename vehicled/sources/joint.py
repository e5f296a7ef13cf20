"""Updates with several scalar observations of the same time, such as the angles of four wheels, in one call.

The updates are sequential, as single updates are. Compiled code passes each observation to its update and
keeps the results, as long as all are within their limits. This saves a call from Python for each observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vehicled.filter.boundary import ObservedFilter, UpdateLink
from vehicled.symbolic.plain_numbers import PlainNumbers
from vehicled.symbolic.program import KernelHandle

if TYPE_CHECKING:
    from vehicled.filter.error_model import ErrorModel
    from vehicled.symbolic.graph import Atom
    from vehicled.symbolic.past_moments import Chain
    from vehicled.symbolic.program import Program

_GIVEN, _RESULTS = ("value", "noise", "limit"), ("innovation", "variance", "nis")
"""Arrays with one number per observation."""
_SIZE = len(_GIVEN)


def add_joint_updates(model: ErrorModel, name: str, count: int) -> None:
    """Add kernels `name.0`, `name.1` … that pass up to `count` observations to their updates in turn."""
    program = model.program
    given, results = (program.array(f"{name}.{what}", _SIZE * count) for what in ("given", "results"))
    for k in range(count + 1):
        stores: list[tuple[Atom, Atom]] = []
        if k > 0:
            stores += zip(results[_SIZE * (k - 1) :], _find_numbers(program, _RESULTS), strict=False)
        if k < count:
            stores += zip(_find_numbers(program, _GIVEN), given[_SIZE * k :], strict=False)
        program.kernel(f"{name}.{k}", stores)


def _find_numbers(program: Program, names: Sequence[str]) -> list[Atom]:
    return [program.arrays[name][0] for name in names]


class JointUpdates:
    """Runs these kernels, with the updates in between."""

    def __init__(self, f: ObservedFilter, name: str, count: int) -> None:
        self._filter, self._name, car = f, name, f.car
        self._unused = [0.0] * (_SIZE * count)
        self._chains: dict[tuple[str, ...], Chain] = {}
        given, results = (
            PlainNumbers(car.layout, car.workspace, **{f"{name}.{what}": _SIZE * count})
            for what in ("given", "results")
        )
        self._write, self._read = given.write, results.read

    def run(self, t_ns: int, kinds: tuple[str, ...], given: Sequence[float]) -> Sequence[float]:
        """Update with observations of t_ns, up to the first one that is not within its limit.

        `given`: value, variance and limit of each. Returns innovation, its variance and NIS of each one
        within.
        """
        chain = self._chains.get(kinds)
        if chain is None:
            chain = self._chains[kinds] = self._make_chain(kinds)
        self._write(*given, *self._unused[len(given) :])
        # Two links per observation, and a last one.
        done = self._filter.run_chain(t_ns, chain) // 2
        return self._read()[: _SIZE * done]

    def _make_chain(self, kinds: Sequence[str]) -> Chain:
        links: list[KernelHandle | UpdateLink] = []
        for k, kind in enumerate(kinds):
            links += KernelHandle(f"{self._name}.{k}"), UpdateLink(kind, 1)
        return self._filter.make_chain([*links, KernelHandle(f"{self._name}.{len(kinds)}")])
