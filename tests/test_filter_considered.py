"""Considered states, which an observation does not correct, compared with an update in Joseph's form."""

from functools import partial

import numpy as np
import pytest
from covariance_rig import random_covariance

from vehicled.filter.considered import Considered, add_considered
from vehicled.filter.covariance import CovarianceKernels
from vehicled.symbolic.compiler import compile_program
from vehicled.symbolic.graph import Graph
from vehicled.symbolic.program import Program

N, PLACES, ALWAYS = 7, (1, 4), (3,)
CARRIED, BY = 5, 2.5
"""A state whose error is BY per unit of each of PLACES."""


class Filter:
    """A covariance with one kind of observation of m components: considers PLACES with CARRIED, and ALWAYS."""

    def __init__(self, m: int):
        program = Program(Graph())
        kernels = CovarianceKernels(program, N, 3)
        rows, (share,) = program.array("given", m * N), program.array("share", 1)
        h = [dict(enumerate(rows[k * N : (k + 1) * N])) for k in range(m)]
        observed = kernels.observe("seen", [program.graph.zero] * m, h)
        shares = dict.fromkeys(PLACES, share) | dict.fromkeys(ALWAYS, program.graph.one)
        considered = Considered(shares, {CARRIED: (PLACES, BY * share)})
        added = add_considered(program, kernels, "seen", m, observed, considered)
        update = program.sequence("update", added.evaluate, added.gate)
        by_hand = program.sequence("by_hand", added.evaluate, kernels.updates[m - 1], added.take_back)
        program.finish([])
        functions = compile_program(program).functions.kernels
        self._layout, self._workspace = program.layout, program.layout.allocate()
        pointer = self._workspace.ctypes.data
        self.update, self.by_hand = (partial(functions[k], pointer) for k in (update, by_hand))

    def view(self, name: str) -> np.ndarray:
        return self._layout.view(self._workspace, name)


def prepare(m: int, share: float, limit: float = np.inf):
    """A filter with an observation to be used; and P, H, R and ν."""
    rng = np.random.default_rng(m)
    tested, p = Filter(m), random_covariance(rng, N)
    h, r, value = rng.normal(size=(m, N)), rng.uniform(0.1, 1.0, m), rng.normal(size=m)
    tested.view("covariance")[:] = p[np.triu_indices(N)]
    tested.view("x")[:] = 0.0
    tested.view("given")[:] = h.ravel()
    tested.view("noise")[:m], tested.view("value")[:m] = r, value
    tested.view("share")[:], tested.view("limit")[:] = share, limit
    return tested, p, h, np.diag(r), value


def calc_joseph(p: np.ndarray, h: np.ndarray, r: np.ndarray, value: np.ndarray, share: float):
    """x and P with the gain of PLACES reduced by `share`, that of CARRIED accordingly, and that of ALWAYS zero."""
    gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
    gain[CARRIED] -= BY * share * gain[list(PLACES)].sum(axis=0)
    gain[list(PLACES)] *= 1.0 - share
    gain[list(ALWAYS)] = 0.0
    kept = np.eye(N) - gain @ h
    return gain @ value, kept @ p @ kept.T + gain @ r @ gain.T


@pytest.mark.parametrize("way", ["update", "by_hand"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("m", [1, 2, 3])
def test_the_update_equals_that_in_josephs_form(m, share, way):
    tested, *given = prepare(m, share)
    x, p = calc_joseph(*given, share)
    getattr(tested, way)()
    assert tested.view("x") == pytest.approx(x, abs=1e-12)
    assert tested.view("covariance") == pytest.approx(p[np.triu_indices(N)], abs=1e-12)


def test_fully_considered_states_keep_estimate_and_covariance():
    tested, before, *_ = prepare(2, 1.0)
    tested.update()
    after = np.zeros((N, N))
    after[np.triu_indices(N)] = tested.view("covariance")
    considered = sorted(PLACES + ALWAYS)
    assert tested.view("x")[considered] == pytest.approx(0.0, abs=1e-15)
    places = np.ix_(considered, considered)
    assert np.triu(after)[places] == pytest.approx(np.triu(before)[places], abs=1e-12)
    others = [i for i in range(N) if i not in (*considered, CARRIED)]
    assert (after.diagonal()[others] < before.diagonal()[others]).all()


def test_the_full_gain_is_kept_for_late_observations():
    """The information of a sample about an earlier time does not depend on the share that was used."""
    tested, p, h, *_ = prepare(1, 0.25)
    tested.update()
    assert tested.view("white")[:N] == pytest.approx((p @ h.T)[:, 0])


def test_an_innovation_beyond_the_limit_changes_nothing():
    tested, p, *_ = prepare(2, 0.5, limit=0.0)
    tested.update()
    assert not tested.view("x").any()
    assert tested.view("covariance") == pytest.approx(p[np.triu_indices(N)])
