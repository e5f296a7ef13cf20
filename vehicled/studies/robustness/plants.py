"""Third-party plants, and their motion in each drive: simulated once and kept on the disk."""

from __future__ import annotations

import hashlib
import io
from functools import lru_cache, partial
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from vehicled import simulation
from vehicled.configuration import load_configuration
from vehicled.errors import UsageError
from vehicled.messages import WHEELS
from vehicled.simulation.commonroad import CommonRoadPlant
from vehicled.simulation.drive import drive_plant
from vehicled.simulation.random_course import RandomDrive, Temper
from vehicled.simulation.sensors import SensorPlaces, Track
from vehicled.studies.benchmarks import peers
from vehicled.studies.robustness.engine_plant import EnginePlant, MakeEngine
from vehicled.studies.robustness.wrongs import scale_cornering_stiffness, scale_mass
from vehicled.symbolic import cache
from vehicled.vehicle.parameters import Vehicle

PLANTS = {
    "commonroad 1": ("vehiclemodels", "commonroad-vehicle-models"),
    "commonroad 2": ("vehiclemodels", "commonroad-vehicle-models"),
    "commonroad 3": ("vehiclemodels", "commonroad-vehicle-models"),
    "mujoco": ("mujoco", "mujoco"),
    "exudyn": ("exudyn", "exudyn"),
}
"""For each name: the module and the distribution that it needs."""
DRIVES = {
    "gentle": RandomDrive(duration=70.0, number=1, temper=Temper(lateral=(1.0, 3.5), braking=(1.0, 2.5))),
    "mixed": RandomDrive(duration=70.0, number=2),
    "hard": RandomDrive(duration=70.0, number=3, temper=Temper(lateral=(4.5, 6.5), braking=(3.0, 6.0))),
}
"""Drives by the driver's demands on the car."""
OWN_CONTACTS = {"mujoco, own contact": "mujoco", "exudyn, own contact": "exudyn"}
"""Engines with their own contacts instead of the published tyres."""
PLACES = SensorPlaces(imu_position=(0.15, 0.05, -0.10), antenna=(-0.40, 0.0, 0.80))
"""Places of the sensors in all of these cars."""
_HEAVIER, _SOFTER = 0.05, -0.10
"""Differences of the car in MuJoCo and Exudyn from the published one: mass and cornering stiffness."""
_KEPT = (
    *("x", "y", "z", "roll", "pitch", "yaw", "vx", "vy", "vz", "wx", "wy", "wz", "sideslip"),
    *(f"wheel.{w}.{what}" for w in WHEELS for what in ("angle", "speed")),
    *("steer.fl", "steer.fr"),
)


def is_installed(plant: str) -> bool:
    """Whether the package of a plant is installed."""
    return find_spec(PLANTS[plant][0]) is not None


def is_driven(plant: str, drive: str) -> bool:
    """Whether the track of that drive is on the disk."""
    return cache.load(_make_key(plant, drive), "track") is not None


@lru_cache(maxsize=2)
def load_or_drive(plant: str, drive: str) -> Track:
    """Track of a plant in a drive, from the disk if this program has simulated it before.

    UsageError for unknown names.
    """
    if drive not in DRIVES:
        raise UsageError(f"expected one of {', '.join(DRIVES)}, got {drive!r}")
    key = _make_key(plant, drive)
    content = cache.load(key, "track")
    if content is not None:
        gravity, *rows = np.load(io.BytesIO(content), allow_pickle=False)
        t, *columns = rows
        return Track(t, dict(zip(_KEPT, columns, strict=True)), float(gravity[0]))
    track = _drive(plant, drive)
    kept = Track(track.t, {c: track.columns[c] for c in _KEPT}, track.gravity)
    buffer = io.BytesIO()
    np.save(buffer, np.array([np.full_like(kept.t, kept.gravity), kept.t, *kept.columns.values()]))
    cache.keep(key, "track", buffer.getvalue())
    return kept


def _drive(plant: str, drive: str) -> Track:
    kind, _, car = plant.partition(" ")
    if kind == "commonroad":
        return drive_plant(DRIVES[drive], CommonRoadPlant(int(car), PLACES), None)[0]
    engine = EnginePlant(make_other_vehicle(), PLACES, get_engine(kind))
    try:
        return drive_plant(DRIVES[drive], engine, None)[0]
    finally:
        engine.close()


def make_other_vehicle() -> Vehicle:
    """The car in MuJoCo and Exudyn, which differs from the published one."""
    published = load_configuration("reference_vehicle")
    return scale_cornering_stiffness(_SOFTER, scale_mass(_HEAVIER, published)).vehicle


def get_engine(name: str) -> MakeEngine:
    """The function that makes the car in that engine, whose package is imported only now."""
    own_contact = name in OWN_CONTACTS
    if OWN_CONTACTS.get(name, name) == "mujoco":
        from vehicled.studies.robustness.mujoco_engine import DrivenMujoco

        return partial(DrivenMujoco, own_contact=own_contact)
    from vehicled.studies.robustness.exudyn_engine import DrivenExudyn

    return partial(DrivenExudyn, own_contact=own_contact)


def _make_key(plant: str, drive: str) -> str:
    if plant not in PLANTS:
        raise UsageError(f"expected one of {', '.join(PLANTS)}, got {plant!r}")
    distribution = PLANTS[plant][1]
    if not is_installed(plant):
        raise UsageError(f"the plant {plant} needs {distribution}: pip install 'vehicled[bench]'")
    return cache.make_key("track", metadata.version(distribution), _hash_code(), plant, drive)


def _hash_code() -> str:
    """Hash of the code that makes a track, including this file with its drives."""
    folders = (Path(simulation.__path__[0]), Path(peers.__path__[0]))
    here = Path(__file__)
    paths = [here, *here.parent.glob("*engine*.py"), *(p for f in folders for p in sorted(f.glob("*.py")))]
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()
