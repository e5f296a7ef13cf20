"""States that an observation does not correct, although it depends on them.

What an observation finds wrong may be due to a state, and as well to an error of the model that lasts and is no
state: where both have the same effect, it would falsify the state, and be certain of it after many samples. Such a
state is considered: its variance and its correlations count, it is not corrected (Schmidt 1966, *Application of
State-Space Methods to Navigation Problems*).

Of the gain K of the whole update, a considered state c has (1 − s_c) K_c, with the share s_c that is left out; all
others have theirs. Then P ← (I − K H) P (I − K H)ᵀ + K R Kᵀ differs from that of the whole update only in the block
of the considered states, by s_c s_d K_c S K_dᵀ.

What a considered state explains of the errors of others has to stay with it. A place errs by a latency times the
speed: corrected without the latency, it would leave the fixes that both together agree with, and drift. Such a state
is carried: of its gain, m s_c K_c are left out as well, with what it errs by, m, for each unit of the considered one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
    carried: Mapping[int, tuple[Sequence[int], Atom]] = field(default_factory=dict)
    """Of carried states, by their place: the considered ones that carry it, and m times their share."""


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
    one = program.graph.one
    shares: dict[int, tuple[Sequence[int], Atom]] = {i: ([i], s) for i, s in considered.shares.items()}
    shares |= considered.carried
    found = {id(share): share for _, share in shares.values() if share is not one}
    kept = program.array(f"{name}.considered", len(found))
    keep = program.kernel(f"share.{name}", zip(kept, found.values(), strict=True))
    left_out = dict(zip(found, kept, strict=True)) | {id(one): one}
    arrays, n = program.arrays, covariance.size
    white = [arrays["white"][k * n : (k + 1) * n] for k in range(components)]
    precision, lefts = arrays["precision"], arrays["left"]
    stores, zero = [], program.graph.zero
    gains = {
        i: ([sum((w[c] for c in cause), zero) for w in white], left_out[id(share)])
        for i, (cause, share) in shares.items()
    }
    for a, (i, (w_i, s_i)) in enumerate(gains.items()):
        correction = sum((w * p * left for w, p, left in zip(w_i, precision, lefts, strict=False)), zero)
        stores.append((covariance.x[i], covariance.x[i] - s_i * correction))
        for j, (w_j, s_j) in [*gains.items()][a:]:
            explained = sum((v * w * p for v, w, p in zip(w_i, w_j, precision, strict=False)), zero)
            stores.append((covariance.p[i, j], covariance.p[i, j] + s_i * s_j * explained))
    take_back = program.kernel(f"take_back.{name}", stores)
    both = program.sequence(f"correct.{name}", covariance.updates[components - 1], take_back)
    (nis,), (limit,) = arrays["nis"], arrays["limit"]
    return ConsideredKernels(
        program.sequence(f"evaluate.{name}", evaluate, keep),
        take_back,
        program.condition(f"gate.{name}", nis, limit, both),
    )
