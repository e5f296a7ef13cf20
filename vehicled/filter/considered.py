"""States that an observation does not correct, although it depends on them.

What an observation finds wrong may be due to a state, and as well to an error of the model that lasts and is no
state: where both have the same effect, it would falsify the state, and be certain of it after many samples. Such a
state is considered: its variance and its correlations count, it is not corrected (Schmidt 1966, *Application of
State-Space Methods to Navigation Problems*).

Of the gain K of the whole update, a considered state c has (1 − s_c) K_c, with the share s_c that is left out; all
others have theirs. Then P ← (I − K H) P (I − K H)ᵀ + K R Kᵀ differs from that of the whole update only in the block
of the considered states, by s_c s_d K_c S K_dᵀ.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.filter.covariance import CovarianceKernels
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom


@dataclass(frozen=True)
class Considered:
    """What an observation does not correct."""

    shares: Mapping[int, Atom]
    """Of the correction of a state, by its place, what is left out at the time of the observation: 0 to 1."""


@dataclass(frozen=True)
class ConsideredKernels:
    """The kernels of one kind of observation."""

    evaluate: KernelHandle
    """Evaluates it, and keeps the share of its time."""
    take_back: KernelHandle
    """After an update with it: takes back the correction of the considered states, and that of their variances."""
    gate: KernelHandle
    """Both, if `nis` is less than `limit`."""


def add_considered(
    program: Program,
    covariance: CovarianceKernels,
    name: str,
    components: int,
    evaluate: KernelHandle,
    considered: Considered,
) -> ConsideredKernels:
    """Add the kernels of what the observation `name`, which `evaluate` evaluates, does not correct."""
    shares, one = considered.shares, program.graph.one
    found = {id(share): share for share in shares.values() if share is not one}
    kept = program.array(f"{name}.considered", len(found))
    keep = program.kernel(f"share.{name}", zip(kept, found.values(), strict=True))
    left_out = dict(zip(found, kept, strict=True)) | {id(one): one}
    arrays, n = program.arrays, covariance.size
    white = [arrays["white"][k * n : (k + 1) * n] for k in range(components)]
    by_component = [*zip(white, arrays["left"], arrays["precision"], strict=False)]
    stores, zero = [], program.graph.zero
    states = [(i, left_out[id(share)]) for i, share in shares.items()]
    for a, (i, s_i) in enumerate(states):
        correction = sum((w[i] * precision * left for w, left, precision in by_component), zero)
        stores.append((covariance.x[i], covariance.x[i] - s_i * correction))
        for j, s_j in states[a:]:
            place, p = covariance.p[i, j], sum((w[i] * w[j] * d for w, _, d in by_component), zero)
            stores.append((place, place + s_i * s_j * p))
    take_back = program.kernel(f"take_back.{name}", stores)
    both = program.sequence(f"correct.{name}", covariance.updates[components - 1], take_back)
    (nis,), (limit,) = arrays["nis"], arrays["limit"]
    return ConsideredKernels(
        program.sequence(f"evaluate.{name}", evaluate, keep),
        take_back,
        program.condition(f"gate.{name}", nis, limit, both),
    )
