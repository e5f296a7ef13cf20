"""Cost of late fixes: errors in a slalom compared with an oracle's, and the time of a step.

    python tests/lateness.py              fixes at 10 Hz
    python tests/lateness.py --rate 50 --late 300 500

The oracle is the same estimator with the same fixes without delay. It must not use fixes that the late estimator
does not have yet. So there is one oracle for each instant at which a late fix has just been fused: it gets only the
fixes that have arrived by then, each without delay.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Iterator
from functools import lru_cache

import msgspec
import numpy as np
from estimator_rig import PERIOD, Drive, Run, prototype, rms, steps

from vehicled.estimator import Estimator
from vehicled.messages import Measurement
from vehicled.simulation.scenario import find_scenario

BEGIN = 3.0
"""s: until then, all fixes arrive without delay."""
MS = 1_000_000
DELAYS = 50, 100, 200, 300, 400, 500
"""ms"""


@lru_cache
def slalom() -> Drive:
    return Drive(find_scenario("slalom"))


def is_fix(m: Measurement) -> bool:
    return "gnss.lat" in m.values


@lru_cache
def measured(interval: float, seed: int = 0) -> list[Measurement]:
    """Measurements with RTK. After BEGIN, fixes are at least `interval` s apart and arrive without delay."""
    kept, last = [], -np.inf
    for m in slalom().measurements(seed, gnss="rtk"):
        if is_fix(m) and m.t > BEGIN * 1e9:
            if m.t - last < interval * 1e9 - MS:
                continue
            last = m.t
            kept.append(msgspec.structs.replace(m, arrival=m.t))
        else:
            kept.append(m)
    return kept


def delay(given: list[Measurement], late: int) -> list[Measurement]:
    """Delay fixes after BEGIN by `late` ms."""
    return [
        msgspec.structs.replace(m, arrival=m.arrival + late * MS) if is_fix(m) and m.t > BEGIN * 1e9 else m
        for m in given
    ]


def find_fixes(given: list[Measurement]) -> np.ndarray:
    """Times of the fixes after BEGIN, ns."""
    return np.array([m.t for m in given if is_fix(m) and m.t > BEGIN * 1e9])


def compare(interval: float, late: int, instants: int, seed: int = 0) -> np.ndarray:
    """(2, instants, 3) errors of x, y (m) and yaw (rad): of the late estimator, and of the oracle of each instant."""
    drive, given = slalom(), measured(interval, seed)
    run = Run(prototype(), steps(delay(given, late)))
    fixes = find_fixes(given)
    fixes = fixes[(fixes > 5e9) & (fixes < 15e9)]
    chosen = fixes[np.linspace(0, len(fixes) - 1, instants).astype(int)]

    def errors() -> Iterator[list[np.ndarray]]:
        for last in chosen.tolist():
            now = -(-(last + late * MS) // PERIOD) * PERIOD
            known = [m for m in given if m.arrival <= now and not (is_fix(m) and m.t > last)]
            for one in (run, Run(prototype(), steps(known))):
                (at,) = np.flatnonzero(one.t == now)
                yield [one.error(drive, column)[at] for column in ("x", "y", "yaw")]

    return np.array(list(errors())).reshape(instants, 2, 3).swapaxes(0, 1)


def time_steps(interval: float, late: int) -> tuple[float, float]:
    """Median processor times of steps with a fix, and of the others, s."""
    estimator, with_fix, others = Estimator(prototype()), [], []
    gc.disable()
    for step in steps(delay(measured(interval), late)):
        begin = time.thread_time()
        estimator.step(step.t, step.measurements)
        took = time.thread_time() - begin
        if step.t > (BEGIN + 2.0) * 1e9:
            (with_fix if any(map(is_fix, step.measurements)) else others).append(took)
    gc.enable()
    return float(np.median(with_fix)), float(np.median(others))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=10.0, help="of fixes, Hz")
    parser.add_argument(
        "--late", type=int, nargs="+", default=(0, *DELAYS), metavar="MS", help="all when left out"
    )
    parser.add_argument("--instants", type=int, default=24)
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    interval = 1.0 / arguments.rate
    print("late  place, mm        yaw, °            step with a fix, µs")
    print("ms    late    oracle   late    oracle   (without)")
    for late in arguments.late:
        both = [compare(interval, late, arguments.instants, seed) for seed in range(arguments.seeds)]
        found = np.concatenate(both, axis=1)
        place = np.sqrt(np.mean(np.sum(found[..., :2] ** 2, axis=-1), axis=1)) * 1e3
        yaw = [np.degrees(rms(errors)) for errors in found[..., 2]]
        with_fix, others = (1e6 * t for t in time_steps(interval, late))
        errors = f"{place[0]:5.1f}   {place[1]:5.1f}    {yaw[0]:.3f}   {yaw[1]:.3f}"
        print(f"{late:3d}   {errors}    {with_fix:.0f} ({others:.0f})", flush=True)


if __name__ == "__main__":
    main()
