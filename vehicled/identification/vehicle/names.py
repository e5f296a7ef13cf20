"""Parameters of a car by name: the place of each in the configuration, and its prior.

Most are positive, and estimated as logarithms of their ratio to the value in the file; the others as
differences from it. A parameter also changes the values that depend on it: an axle's tyre stiffness changes
the slips of its greatest forces, the centre of mass the sensors' positions, which are measured from there.
"""

from __future__ import annotations

import difflib
import fnmatch
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from vehicled.configuration import File
from vehicled.errors import UsageError
from vehicled.vehicle.handbook import Handbook
from vehicled.vehicle.parameters import LinearTyre, Vehicle

Path = tuple[str | int, ...]
Getter = Callable[[File], float | None]
Setter = Callable[[File, float], File]

_SIGMA = 0.2
"""Relative prior standard deviation of most figures."""
_WEIGHED = 0.05
"""Relative prior standard deviation of a mass, which can be weighed. If no forces are measured, all other
parameters scale with the mass."""


@dataclass(frozen=True)
class Parameter:
    """One number that may be found from drives."""

    name: str
    meaning: str
    unit: str
    get: Getter
    """Reads the parameter; None if a configuration does not have it."""
    set: Setter
    sigma: float = _SIGMA
    """Prior standard deviation: of the logarithm if positive, else in its unit."""
    positive: bool = True
    key: str = ""
    """Key in the file, if it has another name there: a handbook car has other figures."""

    @property
    def full_name(self) -> str:
        """Name with the key of the file: `front.spring (ride_frequency)`."""
        return f"{self.name} ({self.key})" if self.key else self.name

    def value(self, prior: float, theta: float) -> float:
        """The parameter from its value in the file and the estimated `theta`."""
        return prior * math.exp(theta) if self.positive else prior + theta

    @property
    def step(self) -> float:
        """A small change of `theta`."""
        return 1e-4 if self.positive else 1e-3 * self.sigma

    def calc_deviation(self, value: float, sigma: float) -> float:
        """Standard deviation in the parameter's unit from that of `theta`."""
        return abs(value) * sigma if self.positive else sigma


def get_at(data: Any, path: Path) -> Any:
    """Value at a path of field names and indices; None if a part of the path is missing."""
    for part in path:
        if data is None:
            return None
        data = data[part] if isinstance(part, int) else getattr(data, part)
    return data


def put_at(data: Any, path: Path, value: Any) -> Any:
    """A copy with another value at a path."""
    if not path:
        return value
    part, below = path[0], path[1:]
    if isinstance(part, int):
        return (*data[:part], put_at(data[part], below, value), *data[part + 1 :])
    return replace(data, **{part: put_at(getattr(data, part), below, value)})


def at(*path: str | int) -> tuple[Getter, Setter]:
    """Reader and writer of the number at a path."""
    return (lambda file: get_at(file, path)), (lambda file, value: put_at(file, path, value))


def _scaled(first: Path, *others: Path) -> tuple[Getter, Setter]:
    """Access to the first of several numbers that keep their ratios."""

    def put(file: File, value: float) -> File:
        factor = value / get_at(file, first)
        for path in (first, *others):
            file = put_at(file, path, get_at(file, path) * factor)
        return file

    return (lambda file: get_at(file, first)), put


def _either(hard_points: tuple[Getter, Setter], handbook: tuple[Getter, Setter]) -> tuple[Getter, Setter]:
    """Access by the kind of vehicle in the file."""

    def pick(file: File) -> tuple[Getter, Setter]:
        return handbook if isinstance(file.vehicle, Handbook) else hard_points

    return (lambda file: pick(file)[0](file)), (lambda file, value: pick(file)[1](file, value))


# -- the whole car --------------------------------------------------------------------------------------------


def _mass() -> tuple[Getter, Setter]:
    def put(file: File, value: float) -> File:
        path = ("vehicle", "chassis", "mass")
        changed: File = put_at(file, path, get_at(file, path) + value - get_mass(file))
        return changed

    def get_mass(file: File) -> float:
        return file.vehicle.mass

    return _either((get_mass, put), at("vehicle", "mass"))


def _center_of_mass(axis: int) -> tuple[Getter, Setter]:
    """Centre of mass of the whole car: distance behind the front axle, or height over the ground.

    Sensors stay where they are in the car.
    """

    def get(file: File) -> float:
        v = file.vehicle
        if isinstance(v, Handbook):
            return v.front_to_center_of_mass if axis == 0 else v.center_of_mass_height
        place = float(v.center_of_mass()[axis])
        return v.front.hard_points.wheel_center[0] - place if axis == 0 else place

    def put(file: File, value: float) -> File:
        v, change = file.vehicle, value - get(file)
        moved = -change if axis == 0 else change
        if isinstance(v, Handbook):
            name = "front_to_center_of_mass" if axis == 0 else "center_of_mass_height"
            file = put_at(file, ("vehicle", name), value)
        else:
            path = ("vehicle", "chassis", "center_of_mass", axis)
            file = put_at(file, path, get_at(file, path) + moved * v.mass / v.chassis.mass)
        for sensor in (("sensors", "imu", "position", axis), ("sensors", "gnss", "antenna", axis)):
            place = get_at(file, sensor)
            if place is not None:
                file = put_at(file, sensor, place - moved)
        return file

    return get, put


def _inertia(axis: int, alone: bool = False) -> tuple[Getter, Setter]:
    """Moment of inertia. Yaw also changes pitch, as masses in front and behind contribute to both, unless `alone`."""
    paths: tuple[Path, Path] = ("vehicle", "chassis", "inertia"), ("vehicle", "inertia")

    def put_yaw(path: Path) -> Setter:
        def put(file: File, value: float) -> File:
            roll, pitch, yaw = get_at(file, path)
            changed: File = put_at(file, path, (roll, pitch + value - yaw, value))
            return changed

        return put

    found = [
        (get, put_yaw(path) if axis == 2 and not alone else put)
        for path in paths
        for get, put in [at(*path, axis)]
    ]
    return _either(found[0], found[1])


# -- axles --------------------------------------------------------------------------------------------------------


def _first_present(*names: Path) -> tuple[Getter, Setter]:
    """Access to the key that is given, of several alternatives."""

    def pick(file: File) -> Path:
        return next((p for p in names if get_at(file, p) is not None), names[0])

    return (lambda f: get_at(f, pick(f))), (lambda f, value: put_at(f, pick(f), value))


def _tyre_path(axle: str, *rest: str | int) -> Path:
    return ("vehicle", axle, "tyre", *rest)


def _scale_characteristic(file: File, axle: str, factors: dict[str, float]) -> File:
    for direction in ("longitudinal", "lateral"):
        for name, factor in factors.items():
            for n in (0, 1):
                path = _tyre_path(axle, direction, name, n)
                file = put_at(file, path, get_at(file, path) * factor)
    return file


def _tyre_stiffness(axle: str) -> tuple[Getter, Setter]:
    """Slip stiffness in both directions; the slip of the greatest force changes inversely."""

    def linear(file: File) -> bool:
        return isinstance(get_at(file, _tyre_path(axle)), LinearTyre)

    def path(file: File) -> Path:
        own = ("slip_stiffness_y",) if linear(file) else ("lateral", "df0", 0)
        return _tyre_path(axle, *own)

    def put(file: File, value: float) -> File:
        factor = value / get_at(file, path(file))
        if linear(file):
            for name in ("slip_stiffness_x", "slip_stiffness_y"):
                own = _tyre_path(axle, name)
                file = put_at(file, own, get_at(file, own) * factor)
            return file
        return _scale_characteristic(file, axle, {"df0": factor, "sm": 1 / factor})

    return _either(((lambda f: get_at(f, path(f))), put), at("vehicle", axle, "cornering_stiffness"))


def _friction(axle: str) -> tuple[Getter, Setter]:
    """Greatest force over load, at the nominal load."""

    def get(file: File) -> float:
        tyre = get_at(file, _tyre_path(axle))
        return tyre.friction if isinstance(tyre, LinearTyre) else tyre.lateral.fm[0] / tyre.nominal_load

    def put(file: File, value: float) -> File:
        if isinstance(get_at(file, _tyre_path(axle)), LinearTyre):
            changed: File = put_at(file, _tyre_path(axle, "friction"), value)
            return changed
        factor = value / get(file)
        return _scale_characteristic(file, axle, {"fm": factor, "fs": factor, "sm": factor})

    return _either((get, put), at("vehicle", axle, "friction"))


def _relaxation(axle: str) -> tuple[Getter, Setter]:
    """Relaxation length of the tyres' lateral force."""

    def get(file: File) -> float | None:
        tyre = get_at(file, _tyre_path(axle))
        return None if isinstance(tyre, LinearTyre) else tyre.lateral.df0[0] / tyre.lateral.stiffness

    def put(file: File, value: float) -> File:
        here = get(file)
        assert here is not None
        for direction in ("longitudinal", "lateral"):
            path = _tyre_path(axle, direction, "stiffness")
            file = put_at(file, path, get_at(file, path) * here / value)
        return file

    return _either((get, put), at("vehicle", axle, "relaxation_length"))


def _of_axle(axle: str) -> list[Parameter]:
    def p(
        name: str, meaning: str, unit: str, access: tuple[Getter, Setter], sigma: float = _SIGMA
    ) -> Parameter:
        return Parameter(f"{axle}.{name}", f"{axle} axle: {meaning}", unit, *access, sigma)

    v, a = "vehicle", axle
    springs = _first_present((v, a, "wheel_rate"), (v, a, "ride_frequency"))
    dampers = _scaled((v, a, "damper", "bump"), (v, a, "damper", "rebound"))
    own_dampers = _first_present((v, a, "damping"), (v, a, "damping_ratio"))
    bars = _either(at(v, a, "anti_roll_bar"), at(v, a, "roll_stiffness"))
    radius = _either(at(v, a, "tyre", "radius"), at(v, a, "wheel_radius"))
    gain = _either(at(v, a, "brake", "gain"), at(v, a, "brake_gain"))
    return [
        p("spring", "spring rate", "N/m", _either(at(v, a, "spring", "stiffness"), springs)),
        p("damper", "damping, bump and rebound alike", "N·s/m", _either(dampers, own_dampers)),
        p("anti_roll_bar", "rate of the anti-roll bar", "N/m", bars),
        p("tyre_stiffness", "slip stiffness of the tyres", "N", _tyre_stiffness(a)),
        p("friction", "greatest tyre force over load", "", _friction(a)),
        p("relaxation", "relaxation length of the tyres", "m", _relaxation(a), 0.5),
        p("wheel_radius", "radius of the undeformed tyres", "m", radius, 0.02),
        p("brake_gain", "brake torque per pressure", "N·m/Pa", gain),
    ]


def _brake_gain() -> tuple[Getter, Setter]:
    def paths(*rest: str) -> tuple[Path, Path]:
        return ("vehicle", "front", *rest), ("vehicle", "rear", *rest)

    return _either(_scaled(*paths("brake", "gain")), _scaled(*paths("brake_gain")))


# -- sensors --------------------------------------------------------------------------------------------------------


def _mounted() -> list[Parameter]:
    found = []
    imu: Path = ("sensors", "imu")
    groups = (
        ("imu.{}", "place of the IMU", "m", (*imu, "position"), "xyz", 0.1),
        ("imu.{}", "rotation of the IMU", "rad", (*imu, "rotation"), ("roll", "pitch", "yaw"), 0.03),
        ("antenna.{}", "place of the GNSS antenna", "m", ("sensors", "gnss", "antenna"), "xyz", 0.1),
        ("gyro_offset.{}", "known bias of a gyroscope", "rad/s", (*imu, "gyroscopes", "offset"), "xyz", 0.01),
        (
            "accel_offset.{}",
            "known bias of an accelerometer",
            "m/s²",
            (*imu, "accelerometers", "offset"),
            "xyz",
            0.1,
        ),
    )
    for pattern, meaning, unit, path, axes, sigma in groups:
        for n, axis in enumerate(axes):
            access = at(*path, n)
            name = pattern.format(axis)
            found.append(Parameter(name, f"{meaning}, {axis}", unit, *access, sigma, positive=False))
    return found


def _steering_ratio() -> tuple[Getter, Setter]:
    def used(get: Getter) -> Getter:
        return lambda file: get(file) if file.sensors.steering.source == "wheel" else None

    get, put = _either(at("vehicle", "steering", "ratio"), at("vehicle", "steering_ratio"))
    return used(get), put


PARAMETERS = {
    p.name: p
    for p in (
        Parameter("mass", "of the whole car", "kg", *_mass(), _WEIGHED),
        Parameter(
            "center_of_mass.x", "behind the front axle", "m", *_center_of_mass(0), 0.05, positive=False
        ),
        Parameter("center_of_mass.z", "over the ground", "m", *_center_of_mass(2)),
        Parameter("inertia.roll", "moment of inertia about x", "kg·m²", *_inertia(0)),
        Parameter("inertia.pitch", "moment of inertia about y", "kg·m²", *_inertia(1)),
        Parameter("inertia.yaw", "moment of inertia about z", "kg·m²", *_inertia(2)),
        *_of_axle("front"),
        *_of_axle("rear"),
        Parameter("brake_gain", "brake torque per pressure, both axles alike", "N·m/Pa", *_brake_gain()),
        Parameter(
            "drag_area",
            "drag coefficient times frontal area",
            "m²",
            *at("vehicle", "aerodynamics", "drag_area"),
        ),
        Parameter("steering.ratio", "of the steering wheel", "", *_steering_ratio(), 0.1),
        Parameter(
            "torque_gain", "true over measured wheel torque", "", *at("sensors", "wheel_torques", "gain")
        ),
        Parameter(
            "steering.offset",
            "of the steering signal, straight on",
            "m or rad",
            *at("sensors", "steering", "offset"),
            2e-3,
            positive=False,
        ),
        *_mounted(),
    )
}
"""Parameters by name, in the order of listings."""

USUAL = "mass,center_of_mass.x,inertia.yaw,*.tyre_stiffness,*.spring,steering.offset"
"""Parameters that are identified by default, without those that a configuration does not have. Friction is not
among them: with other errors of the model, gentle driving can give a friction so low that the model spins at higher
speed."""


def with_defaults(file: File) -> File:
    """The configuration with a handbook's default values written out, so that they can be varied."""
    v = file.vehicle
    if isinstance(v, Vehicle):
        return file
    car = v.to_vehicle()

    def axle(name: str) -> Any:
        own = getattr(v, name)
        if own.wheel_rate is None and own.ride_frequency is None:
            own = replace(own, ride_frequency=1.4)
        if own.damping is None and own.damping_ratio is None:
            own = replace(own, damping_ratio=0.3)
        if own.relaxation_length is None:
            own = replace(own, relaxation_length=1.3 * own.wheel_radius)
        found = getattr(car, name)
        return replace(
            own,
            roll_stiffness=v.calc_roll_stiffness(name),
            unsprung_mass=v.calc_unsprung_mass(own),
            wheel_inertia=found.wheel.axial_inertia,
            brake_gain=found.brake.gain,
        )

    complete = replace(v, inertia=v.calc_inertia(), front=axle("front"), rear=axle("rear"))
    return replace(file, vehicle=complete)


def choose(names: str, file: File, known: Mapping[str, Parameter] = PARAMETERS) -> list[Parameter]:
    """Parameters by names and patterns with `*`, separated by commas.

    Raises UsageError for a name that is unknown, or not in this configuration.
    """
    chosen: dict[str, Parameter] = {}
    for wanted in filter(None, (n.strip() for n in names.split(","))):
        found = fnmatch.filter(known, wanted)
        if not found:
            near = difflib.get_close_matches(wanted, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise UsageError(f"parameter '{wanted}': {hint}")
        present = [n for n in found if known[n].get(file)]
        present += [n for n in found if known[n].get(file) == 0.0 and not known[n].positive]
        if not present:
            raise UsageError(f"parameter '{wanted}': {_absence(known[found[0]], file)}")
        chosen |= {n: known[n] for n in known if n in present}
    if not chosen:
        raise UsageError("no parameter is named")
    own = {"front.brake_gain", "rear.brake_gain"}
    if "brake_gain" in chosen and not own.isdisjoint(chosen):
        if not own <= chosen.keys():
            raise UsageError(
                f"parameters 'brake_gain' and '{min(own & chosen.keys())}': expected one of them, or both axles"
            )
        del chosen["brake_gain"]  # it stands for the two together
    if {"inertia.yaw", "inertia.pitch"} <= chosen.keys():
        chosen["inertia.yaw"] = replace(chosen["inertia.yaw"], set=_inertia(2, alone=True)[1])
    return [for_file(chosen[n], file) for n in known if n in chosen]


_HANDBOOK_KEYS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "spring": (
        ("wheel_rate", "N/m", "stiffness of the springs at the wheel"),
        ("ride_frequency", "Hz", "of the sprung mass on its springs"),
    ),
    "damper": (
        ("damping", "N·s/m", "of a damper at the wheel"),
        ("damping_ratio", "", "damping of the sprung mass over the critical one"),
    ),
    "anti_roll_bar": (("roll_stiffness", "N·m/rad", "of the anti-roll bar"),),
    "tyre_stiffness": (("cornering_stiffness", "N/rad", "of both tyres"),),
}
"""Keys of handbook cars in place of those of hard points, with unit and meaning; one of them is given."""


def for_file(p: Parameter, file: File) -> Parameter:
    """A parameter with prior, unit and key for the file: a steering offset by source, a handbook's figures."""
    axle, _, name = p.name.rpartition(".")
    if isinstance(file.vehicle, Handbook) and name in _HANDBOOK_KEYS:
        keys = _HANDBOOK_KEYS[name]
        given = (k for k in keys if get_at(file, ("vehicle", axle, k[0])) is not None)
        key, unit, meaning = next(given, keys[0])
        return replace(p, key=key, unit=unit, meaning=f"{axle} axle: {meaning}")
    if p.name == "steering.offset":
        source = file.sensors.steering.source
        sigmas = {"rack": 2e-3, "wheel": 0.05, "road_wheels": 5e-3}
        return replace(p, sigma=sigmas[source], unit="m" if source == "rack" else "rad")
    if p.name == "torque_gain":
        return replace(p, sigma=max(file.sensors.wheel_torques.scale, 1e-9))
    return p


def _absence(p: Parameter, file: File) -> str:
    if p.get(file) is None:
        return "this configuration does not have it"
    return "is 0 in this configuration; expected a value to begin from"


def apply(file: File, parameters: Sequence[Parameter], theta: Iterable[float]) -> File:
    """The configuration `file` with its parameters changed by the estimated `theta`."""
    result = file
    for p, t in zip(parameters, theta, strict=True):
        prior = p.get(file)
        assert prior is not None
        # Another parameter may already have changed it.
        here = p.get(result)
        assert here is not None
        result = p.set(result, p.value(here, t))
    return result
