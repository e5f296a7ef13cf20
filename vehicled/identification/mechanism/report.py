"""An estimate of a mechanism as one JSON object, and as a table."""

from __future__ import annotations

from typing import Any

from vehicled.identification.mechanism.estimate import UnknownsEstimate


def as_json(
    found: UnknownsEstimate, coordinates: list[str], validation: list[float] | None
) -> dict[str, Any]:
    """`coordinates` (f,) that are independent; `validation`: error of another run with the file, and now."""
    return {
        "parameters": [
            {
                "name": q.quantity.name,
                "unit": q.quantity.unit,
                "prior": q.prior,
                "value": q.value,
                "sigma": q.sigma,
                "identified": q.identified,
                "reason": q.reason or None,
            }
            for q in found.quantities
        ],
        "base": [
            {
                "combination": c.text,
                "prior": c.prior,
                "value": c.value,
                "sigma": c.sigma,
                "identified": c.identified,
            }
            for c in found.base
        ],
        "force_noise": dict(zip(coordinates, map(float, found.noise), strict=True)),
        "fit": {"before": found.before, "after": found.after},
        "validation": validation and {"before": validation[0], "after": validation[1]},
        "notes": found.notes,
    }


def format_estimate(
    found: UnknownsEstimate, coordinates: list[str], validated: str, validation: list[float] | None
) -> list[str]:
    """Tables for people; `validated`: name of the run that `validation` is of, which is as in `as_json`."""
    lines = [f"{'parameter':<36} {'file':>11} {'estimate':>11} {'± 1 σ':>9}  unit"]
    for q in found.quantities:
        new = f"{q.value:>11.5g} {q.sigma:>9.2g}" if q.has_influence else f"{'left':>11} {'':>9}"
        lines.append(
            f"{q.quantity.name:<36} {q.prior:>11.5g} {new}  {q.quantity.unit:<10} {q.reason}".rstrip()
        )
    lines += ["", f"base parameters (kg, kg·m, kg·m²){'':<3} {'file':>11} {'estimate':>11} {'± 1 σ':>9}"]
    for c in found.base:
        left = "" if c.identified else "  not determined"
        lines.append(f"{'':<36} {c.prior:>11.5g} {c.value:>11.5g} {c.sigma:>9.2g}  {c.text}{left}")
    noise = ", ".join(f"{name} {s:.3g}" for name, s in zip(coordinates, found.noise, strict=True))
    lines += ["", f"what is left of the forces, standard deviation: {noise}"]
    lines.append(
        f"error of the predicted forces: {100 * found.before:.1f} % with the file, {100 * found.after:.1f} % now"
    )
    if validation is not None:
        before, after = validation
        result = "better" if after < before else "no improvement"
        lines.append(
            f"the same of {validated}, not used: {100 * before:.1f} %, {100 * after:.1f} % now: {result}"
        )
    return [*lines, *found.notes]
