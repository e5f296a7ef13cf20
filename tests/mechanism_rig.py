"""Shared by the tests of the multibody library."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from vehicled.multibody.compiled import CompiledMechanism
from vehicled.multibody.description import Description, load_description
from vehicled.multibody.formulations import make_stepper
from vehicled.multibody.mechanism import Mechanism
from vehicled.reading import settings

G = 9.81
SHIPPED = ("pendulum", "four_bar", "five_bar", "slider_crank", "suspension_corner")
FITTING = [("ali3p", "trapezoidal", 2)] + [
    (formulation, integrator, order)
    for formulation in ("matrix_r", "penalty", "lagrange")
    for integrator, order in (("trapezoidal", 2), ("forward_euler", 1), ("runge_kutta_4", 4))
]
"""Formulation, integrator and order."""


def describe(text: str) -> Description:
    return settings.loads(text, Description, "test.yaml")


# Cached: building the expressions of a mechanism takes longer than most tests.
@lru_cache(maxsize=16)
def _compile(text: str) -> CompiledMechanism:
    return CompiledMechanism(describe(text))


@lru_cache(maxsize=16)
def compiled(name: str) -> CompiledMechanism:
    """A shipped mechanism, compiled."""
    return CompiledMechanism(load_description(name))


def mechanism(text: str) -> Mechanism:
    """A new mechanism from this description."""
    return Mechanism(_compile(text))


def shipped(name: str) -> Mechanism:
    """A new instance of a shipped mechanism."""
    return Mechanism(compiled(name))


def advance(m: Mechanism, h: float, duration: float, formulation: str = "ali3p", *rule: str) -> Mechanism:
    stepper = make_stepper(formulation, *rule)
    for _ in range(round(duration / h)):
        stepper.step(m, h).require(formulation)
    return m


def energy(m: Mechanism) -> float:
    return m.calc_kinetic_energy() + m.calc_potential_energy()


def disturb(m: Mechanism, rng: np.random.Generator, size: float = 0.05) -> None:
    """Set a random state near the present one, without regard to constraints."""
    for array in (m.q, m.qd, m.qdd):
        array += size * rng.normal(size=array.shape)
    m.multipliers[:] = rng.normal(size=m.multipliers.shape)
    m.inputs[:] = 0.01 * rng.normal(size=m.inputs.shape)
