"""MacPherson struts and swing arms: geometry by an independent solver, statics, energy, forces, estimates."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest
from suspension_rig import Placed, place
from vehicle_rig import G, Basics, Rig, sine, vehicle

from vehicled.messages import CORNER_LOADS, WHEELS
from vehicled.settings import SettingsError, config_path, loads
from vehicled.vehicle.hard_points import AnyPoints, calc_spin_axis
from vehicled.vehicle.kinematics import calc_strut_ratio
from vehicled.vehicle.loads import JointLoads
from vehicled.vehicle.parameters import BodyParameters, Vehicle
from vehicled.vehicle.topology import calc_topology

QUICK = [("macpherson", "swing_arm")]
OTHERS = [("macpherson", "macpherson"), ("macpherson", "double_wishbone")]
OTHERS += [("double_wishbone", "macpherson"), ("double_wishbone", "swing_arm")]
PAIRS = [*QUICK, *(pytest.param(pair, marks=pytest.mark.slow) for pair in OTHERS)]
LOSSLESS = {
    "damper__bump": 0.0,
    "damper__rebound": 0.0,
    "stop__stiffness": 0.0,
    "tyre__vertical_damping": 0.0,
    "tyre__slip_stiffness_x": 1e-9,
    "tyre__slip_stiffness_y": 1e-9,
}


@lru_cache
def car_of(front: str, rear: str) -> Vehicle:
    """The shipped compact car, with its own axles or those of the reference vehicle."""
    compact, reference = vehicle("compact"), vehicle("reference_vehicle")
    x, behind = (axle.hard_points.wheel_center[0] for axle in (compact.front, compact.rear))
    axles = {"macpherson": compact.front, "swing_arm": compact.rear, "double_wishbone": reference.rear}
    return replace(compact, front=shifted(axles[front], x), rear=shifted(axles[rear], behind))


def shifted(axle, x: float):
    """The same axle elsewhere."""
    ahead = x - axle.hard_points.wheel_center[0]

    def moved(part):
        places = {name: value for name, value in vars(part).items() if isinstance(value, tuple)}
        kept = {name for name in places if name.endswith(("axis", "inertia"))}
        return replace(part, **{n: (p[0] + ahead, *p[1:]) for n, p in places.items() if n not in kept})

    parts = {name: moved(p) for name, p in vars(axle).items() if isinstance(p, (AnyPoints, BodyParameters))}
    return replace(axle, **parts)


@lru_cache
def settled(pair: tuple[str, str]) -> Rig:
    """At rest; not to be changed."""
    return Rig(car_of(*pair))


def points_of(rig: Rig, n: int) -> AnyPoints:
    return rig.vehicle.axle(WHEELS[n]).hard_points


def mirror(n: int) -> np.ndarray:
    return np.array([1.0, 1.0 - 2.0 * (n % 2), 1.0])


@dataclass
class Carriers:
    """Wheel carriers as the model has them, in axes and places of the left design, and the chassis."""

    def __init__(self, rig: Rig, rates: str = "qd") -> None:
        self._rig, self._basics = rig, Basics(rig.car, rates)
        self.R_world_chassis = np.column_stack([self._basics(v, "now") for v in ("v1", "v2", "v3")])
        self.origin = rig.vehicle.center_of_mass()

    def _columns(self, n: int, when: str) -> np.ndarray:
        b = self._basics
        lower, upper = (b(f"{side}.joint", when, n) for side in ("lower", "upper"))
        return np.column_stack([upper - lower, b("knuckle.forward", when, n), b("wheel.axis", when, n)])

    def __call__(self, n: int) -> Placed:
        b, R, M = self._basics, self.R_world_chassis, np.diag(mirror(n))
        center = np.array(points_of(self._rig, n).wheel_center)
        turned = R.T @ self._columns(n, "now") @ np.linalg.inv(self._columns(n, "design"))
        design = b("lower.joint", "design", n)
        now = R.T @ (b("lower.joint", "now", n) - b("r1", "now"))
        place = now + turned @ (M @ center - self.origin - design) + self.origin
        return Placed(M @ turned @ M, M @ place, center)


@pytest.fixture(scope="module", params=PAIRS, ids="-".join)
def pair(request):
    return request.param


# -- geometry ----------------------------------------------------------------------------------------------


def test_wheels_are_where_distances_between_hard_points_put_them(pair):
    rig = Rig(car_of(*pair)).set(stop__stiffness=0.0).roll(12.0)
    change = np.zeros(12)
    change[[2, 4, 5]] = 0.05, 0.02, 0.03
    rig.car.correct(change)
    travels, rack = [], sine(0.02, 2.0)
    for k in range(8):
        rig.drive(0.06, rack=lambda t, begun=0.06 * k: rack(begun + t))
        carriers = Carriers(rig)
        for n in range(4):
            found, side = carriers(n), mirror(n)[1]
            travels.append(found.center[2] - found.design_center[2])
            moved = side * rig.car.inputs[0] if n < 2 else 0.0
            expected = place(points_of(rig, n), travels[-1], moved)
            assert found.center == pytest.approx(expected.center, abs=1e-7)
            # Camber, toe and caster together.
            assert found.R == pytest.approx(expected.R, abs=1e-6)
    assert min(travels) < -0.03
    assert max(travels) > 0.03

