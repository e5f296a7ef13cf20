"""An estimate of a mechanism as one JSON object, and as a table."""

from __future__ import annotations

from typing import Any

from vehicled.identification.mechanism.session import MechanismSession, Validation


def as_json(session: MechanismSession) -> dict[str, Any]:
    """Contents of `--json`."""
    found = session.estimate
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
                "reason": c.reason or None,
            }
            for c in found.base
        ],
        "force_noise": dict(zip(session.coordinates, map(float, found.noise), strict=True)),
        "fit": {"before": found.before, "after": found.after},
        "validation": session.validation and _validation_as_json(session.validation),
        "notes": session.notes,
    }


def _validation_as_json(validation: Validation) -> dict[str, Any]:
    return {
        "before": validation.before,
        "after": validation.after,
        "left_because_of_it": validation.choices,
    }


def format_session(session: MechanismSession) -> list[str]:
    """Tables as text lines."""
    found = session.estimate
    lines = [f"{'parameter':<36} {'file':>11} {'estimate':>11} {'± 1 σ':>9}  unit"]
    for q in found.quantities:
        new = f"{q.value:>11.5g} {q.sigma:>9.2g}" if q.changes else f"{'left':>11} {'':>9}"
        lines.append(
            f"{q.quantity.name:<36} {q.prior:>11.5g} {new}  {q.quantity.unit:<10} {q.reason}".rstrip()
        )
    lines += ["", f"base parameters (kg, kg·m, kg·m²){'':<3} {'file':>11} {'estimate':>11} {'± 1 σ':>9}"]
    lines.append("with moments about the centres of mass that the file has")
    for c in found.base:
        new = f"{c.value:>11.5g} {c.sigma:>9.2g}" if c.identified else f"{'left':>11} {'':>9}"
        reason = f"  ({c.reason})" if c.reason else ""
        lines.append(f"{'':<36} {c.prior:>11.5g} {new}  {c.text}{reason}")
    noise = ", ".join(f"{name} {s:.3g}" for name, s in zip(session.coordinates, found.noise, strict=True))
    lines += ["", f"what is left of the forces, standard deviation: {noise}"]
    lines.append(
        f"error of the predicted forces: {100 * found.before:.1f} % with the file, {100 * found.after:.1f} % now"
    )
    if session.validation is not None:
        lines.append(_format_validation(session.validation))
    if not any(q.changes for q in found.quantities):
        lines.append("nothing was found: the values of the file stay")
    return [*lines, *session.notes]


def _format_validation(validation: Validation) -> str:
    used = "which chose what is left" if validation.choices else "not used"
    result = (
        "better" if validation.after < validation.before else "no improvement, the values of the file stay"
    )
    return (
        f"the same of {validation.name}, {used}: {100 * validation.before:.1f} %, "
        f"{100 * validation.after:.1f} % now: {result}"
    )
