"""Drives of a hatchback, and the findings of `vehicled check --log` in them."""

from collections.abc import Iterable
from functools import lru_cache

import vehicled
from vehicled import Measurement
from vehicled.log_check.check import LogChecker
from vehicled.log_check.findings import Finding

CAR = "hatchback"
load = lru_cache(vehicled.load_configuration)
"""Cached: loading takes a second, and a drive is checked many times."""


@lru_cache
def simulate(scenario: str, duration: float | None) -> list[Measurement]:
    return vehicled.simulate(scenario, load(CAR), seed=4, gnss="rtk", duration=duration).measurements


def drive() -> list[Measurement]:
    return [m for m in simulate("mixed_drive", None) if m.arrival < 30 * 10**9]


def check(measurements: Iterable[Measurement], car: str | None = CAR) -> list[Finding]:
    checker = LogChecker(None if car is None else load(car))
    for m in measurements:
        checker.take(m)
    return checker.find().findings
