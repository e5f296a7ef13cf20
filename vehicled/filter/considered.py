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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vehicled.filter.covariance import CovarianceKernels
from vehicled.symbolic.program import KernelHandle, Program

if TYPE_CHECKING:
    from vehicled.symbolic.graph import Atom


@dataclass(frozen=True)
class Considered:
    """What an observation does not correct."""

    places: Sequence[int]
    """Of the states."""
    share: Atom
    """Of their correction that is left out, 0 to 1, at the time of the observation."""
    always: Sequence[int] = ()
    """Places of others, whose correction is left out wholly."""


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
    """Of the kind of observation `name`, which the kernel `evaluate` evaluates."""
    (share,) = program.array(f"{name}.considered", 1)
    keep = program.kernel(f"share.{name}", [(share, considered.share)])
    arrays, n = program.arrays, covariance.size
    white = [arrays["white"][k * n : (k + 1) * n] for k in range(components)]
    found = [*zip(white, arrays["left"], arrays["precision"], strict=False)]
    stores, zero = [], program.graph.zero
    shares = [*((i, share) for i in considered.places), *((i, program.graph.one) for i in considered.always)]
    for a, (i, s_i) in enumerate(shares):
        correction = sum((w[i] * precision * left for w, left, precision in found), zero)
        stores.append((covariance.x[i], covariance.x[i] - s_i * correction))
        for j, s_j in shares[a:]:
            place, p = covariance.p[i, j], sum((w[i] * w[j] * d for w, _, d in found), zero)
            stores.append((place, place + s_i * s_j * p))
    take_back = program.kernel(f"take_back.{name}", stores)
    both = program.sequence(f"correct.{name}", covariance.updates[components - 1], take_back)
    (nis,), (limit,) = arrays["nis"], arrays["limit"]
    return ConsideredKernels(
        program.sequence(f"evaluate.{name}", evaluate, keep),
        take_back,
        program.condition(f"gate.{name}", nis, limit, both),
    )
