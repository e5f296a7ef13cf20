"""States that an observation does not correct, although it depends on them.

An innovation may be due to a state, or to a lasting error of the model that is not among the states. If both
have the same effect, observations would falsify the state, and make it seem certain after many samples. Such
a state is considered: its variance and correlations count, but it is not corrected (Schmidt 1966,
*Application of State-Space Methods to Navigation Problems*).

From the gain K of the whole update, a considered state c gets (1 − s_c) K_c, where s_c is the share left out;
all other states get their full gain. Then P ← (I − K H) P (I − K H)ᵀ + K R Kᵀ differs from that of the whole
update only in the block of the considered states, by s_c s_d K_c S K_dᵀ.

If a considered state causes errors of others, these must not be corrected without it. For example, a latency
causes an error of position of latency times speed. A correction of the position alone would move it away from
fixes that agree with position and latency together, and it would drift. Such a state is carried: m s_c K_c of
its gain is left out as well, where m is its error per unit of the considered state.
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
    """States that an observation does not correct, or only in part."""

    shares: Mapping[int, Atom]
    """By place of a state: share of its correction, 0 to 1, that is left out at the time of the
    observation."""
    carried: Mapping[int, tuple[Sequence[int], Atom]] = field(default_factory=dict)
    """By place of a carried state: the considered states that carry it, and m times their share."""


@dataclass(frozen=True)
class ConsideredKernels:
    """The kernels of one kind of observation."""

    evaluate: KernelHandle
    """Evaluates the observation, and keeps the shares of its time."""
    take_back: KernelHandle
    """After an update with it: undoes the correction of the considered states and of their variances."""
    gate: KernelHandle
    """Update and `take_back`, if `nis` is less than `limit`."""


def add_considered(
    program: Program,
    covariance: CovarianceKernels,
    name: str,
    components: int,
    evaluate: KernelHandle,
    considered: Considered,
) -> ConsideredKernels:
    """Add the kernels for the states that observation `name`, evaluated by `evaluate`, does not correct."""
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
