"""The reference vehicle in MuJoCo: joints as generalised coordinates, loops closed by soft constraints.

31 velocities: free chassis; per corner a hinge for each wishbone, a ball joint for the knuckle on the lower one,
a hinge for the wheel; a slide for the rack. Upper ball joints are `connect` equalities, tie rods tendons of
constant length, struts tendons with stiffness and damping, and the rack follows a joint equality: 17 equations,
as hard as MuJoCo's limit on their time constant (two steps) allows.

One step is `mj_step1`, the tyres in plain Python from the state at the beginning of the step, and `mj_step2`, with
the integrator `implicitfast` (explicit but for the struts' damping; no collision detection). The time of MuJoCo
alone, without the tyres, is recorded, too.

With `own_contact`, MuJoCo's own contacts take the tyres' place: thin ellipsoids on planes that move up and down with
the road. They are as stiff and as damped as the tyre, and their friction is viscous, as stiff as the tyre's lateral
slip at `CONTACT_SPEED`, up to the limit of friction.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import mujoco
import numpy as np

from vehicled.messages import WHEELS
from vehicled.studies.benchmarks.peers.tyre import make_tyre
from vehicled.studies.benchmarks.peers.wheels import Wheels
from vehicled.studies.benchmarks.peers.wishbones import get_axle
from vehicled.studies.benchmarks.published import SPEED, STEP, rack
from vehicled.vehicle.parameters import LEFT_RIGHT, Axle, BodyParameters, LinearTyre, Vehicle

CONTACT_SPEED = 15.0
"""m/s: speed at which the friction of MuJoCo's contacts is as stiff as the tyre."""
_IMPEDANCE = 0.01
"""Impedance of these contacts (MuJoCo's d): so small that the added mass of the wheels is negligible."""
_HALF_WIDTH = 0.02
"""m, half width of the ellipsoids: so thin that they touch the ground in the wheel's plane."""


def _hardness(step: float) -> tuple[float, float]:
    """Stiffness k and damping d of a critically damped constraint whose time constant is two steps.

    Its acceleration follows −d·rate − k·error.
    """
    return (2 * step) ** -2, 2 / (2 * step)


class MujocoVehicle:
    """The car, stepped from outside; see `reference.Engine`."""

    version = mujoco.__version__

    def __init__(
        self, vehicle: Vehicle, step: float = STEP, speed: float = SPEED, own_contact: bool = False
    ) -> None:
        """`step` in s; `speed` at the start, m/s, straight ahead in design position."""
        self._stiffness, self._damping = _hardness(step)
        self.model = model = mujoco.MjModel.from_xml_string(_ModelText(vehicle, step, own_contact).xml)
        self.data = data = mujoco.MjData(model)
        self._radii = np.array([vehicle.axle(w).tyre.radius for w in WHEELS])
        self._own_contact = own_contact
        if own_contact:
            _soften_contacts(model, vehicle)
        self.roads = np.zeros((2, len(WHEELS)))
        """Height of the road under each wheel in the next step (m), and its rate (m/s)."""
        self._chassis = model.body("chassis").id
        self._wheels = [(model.body(f"{w}.wheel").id, make_tyre(vehicle.axle(w))) for w in WHEELS]
        self._target = model.eq_data[model.equality("drive").id]
        data.qvel[0] = speed
        for w in WHEELS:
            spin = model.joint(f"{w}.spin").dofadr[0]
            data.qvel[spin] = speed / vehicle.axle(w).tyre.radius
        self.alone_ns: list[int] = []
        """For each step: time of `mj_step1` and `mj_step2`, ns."""

    @property
    def place(self) -> np.ndarray:
        """(3,) position of the chassis' centre of mass, m, world axes, a copy."""
        position: np.ndarray = self.data.qpos[:3].copy()
        return position

    def steer(self, t: float) -> None:
        """Set the rack's target for the step that begins at t (s) of the published drive."""
        self.set_rack(*rack(t))

    def set_rack(self, displacement: float, rate: float, acceleration: float) -> None:
        """Set the rack's target for the next step: m, m/s, m/s²."""
        # A soft constraint lags behind a moving target; this target is ahead by the same amount.
        self._target[0] = displacement + (self._damping * rate + acceleration) / self._stiffness

    def step(self) -> None:
        """Make one step with the tyre forces at its start; `alone_ns` has the engine's part of the time."""
        clock = time.perf_counter_ns
        begin = clock()
        if self._own_contact:
            self.data.mocap_pos[:, 2] = self.roads[0]
        mujoco.mj_step1(self.model, self.data)
        took = clock() - begin
        if not self._own_contact:
            self._press()
        begin = clock()
        mujoco.mj_step2(self.model, self.data)
        self.alone_ns.append(took + clock() - begin)

    def _press(self) -> None:
        """Apply the tyres' forces to the wheels."""
        data = self.data
        px, py, pz = data.subtree_com[self._chassis].tolist()
        for (body, wrench), height, rate in zip(self._wheels, *self.roads.tolist(), strict=True):
            x, y, z = data.xpos[body].tolist()
            # Velocities of all bodies are given at one point, the centre of mass of the whole car.
            wx, wy, wz, vx, vy, vz = data.cvel[body].tolist()
            x, y, up = x - px, y - py, z - pz
            _, ax, _, _, ay, _, _, az, _ = data.xmat[body].tolist()
            velocity = (vx + wy * up - wz * y, vy + wz * x - wx * up, vz + wx * y - wy * x - rate)
            data.xfrc_applied[body] = wrench(z - height, ax, ay, az, *velocity, wx, wy, wz)

    def read_wheels(self) -> Wheels:
        """The present state of the wheels; forces are those at the start of the last step."""
        model, data = self.model, self.data
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_comVel(model, data)
        bodies = [body for body, _ in self._wheels]
        rates, velocities = data.cvel[bodies, :3], data.cvel[bodies, 3:]
        places = data.xpos[bodies]
        velocities = velocities + np.cross(rates, places - data.subtree_com[self._chassis])
        forces, depths = data.xfrc_applied[bodies, :3], np.zeros(len(WHEELS))
        if self._own_contact:
            forces, depths = self._read_contacts()
        # MuJoCo's contact point is halfway between the two surfaces.
        radii = self._radii - 0.5 * depths
        return Wheels(places, data.xmat[bodies][:, 1::3], velocities, rates, forces, radii)

    def _read_contacts(self) -> tuple[np.ndarray, np.ndarray]:
        """(4, 3) N on the wheels, and (4,) m penetration into the ground."""
        forces, depths, force = np.zeros((len(WHEELS), 3)), np.zeros(len(WHEELS)), np.zeros(6)
        wheels = {self.model.geom(f"{w}.tread").id: k for k, w in enumerate(WHEELS)}
        for i, contact in enumerate(self.data.contact):
            mujoco.mj_contactForce(self.model, self.data, i, force)
            wheel = wheels[contact.geom2]
            forces[wheel] = contact.frame.reshape(3, 3).T @ force[:3]
            depths[wheel] = -contact.dist
        return forces, depths


def _soften_contacts(model: mujoco.MjModel, vehicle: Vehicle) -> None:
    """Give the contacts the tyre's stiffness, damping and limit of friction.

    A force is (reference acceleration − acceleration)/R with R = (1 − d)/d · A, where d is the impedance and A the
    inverse mass that MuJoCo approximates; reference accelerations are given divided by d. Friction has no stiffness.
    """
    model.opt.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    for k, w in enumerate(WHEELS):
        tyre = vehicle.axle(w).tyre
        assert isinstance(tyre, LinearTyre)
        scale = (1.0 - _IMPEDANCE) * model.body(f"{w}.wheel").invweight0[0]
        viscous = tyre.slip_stiffness_y / CONTACT_SPEED
        model.pair_solref[k] = -scale * tyre.vertical_stiffness, -scale * tyre.vertical_damping
        model.pair_solreffriction[k] = -1.0, -scale * viscous
        model.pair_solimp[k] = _IMPEDANCE, _IMPEDANCE, 1.0, 0.5, 2.0
        model.pair_friction[k, :2] = tyre.friction


def _numbers(values: np.ndarray) -> str:
    return " ".join(repr(float(v)) for v in values)


class _ModelText:
    """MuJoCo's model file; bodies' frames are parallel to the world's in design position."""

    def __init__(self, vehicle: Vehicle, step: float, own_contact: bool) -> None:
        """`step`: s; `own_contact`: whether tyres are MuJoCo's contacts."""
        stiffness, damping = _hardness(step)
        self._soft = f'solref="{-stiffness} {-damping}" solimp="0.9999 0.9999 0.001"'
        self._origin = np.array(vehicle.chassis.center_of_mass)
        self._guide = np.array(vehicle.rack.center_of_mass)
        self._vehicle = vehicle
        self._on_chassis: list[str] = []
        self._on_rack: list[str] = []
        self._tendons: list[str] = []
        self._equalities: list[str] = []
        self._roads: list[str] = []
        self._pairs: list[str] = []
        for w in WHEELS:
            axle, mirror = get_axle(vehicle, w), np.array([1.0, LEFT_RIGHT[w], 1.0])
            p = {
                name: mirror * place for name, place in vars(axle.hard_points).items() if np.size(place) == 3
            }
            if w[0] == "f":
                self._on_rack.append(_site(f"{w}.inner", p["tie_rod_inner"] - self._guide))
            else:
                self._on_chassis.append(_site(f"{w}.inner", p["tie_rod_inner"] - self._origin))
            self._add_bodies(w, axle, mirror, p, self._add_tread(w, axle) if own_contact else "")
            self._add_connections(w, axle, p)
        self.xml = self._join(step, own_contact)

    def _add_tread(self, w: str, axle: Axle) -> str:
        """The geometry of a wheel, and a road for it."""
        radius = axle.tyre.radius
        size = f"{radius} {_HALF_WIDTH} {radius}"
        # No contacts except those of the pairs: a wheel with the road under it.
        alone = 'contype="0" conaffinity="0"'
        self._roads.append(
            f'<body mocap="true"><geom name="{w}.road" type="plane" size="0 0 1" {alone}/></body>'
        )
        self._pairs.append(f'<pair geom1="{w}.road" geom2="{w}.tread" condim="3"/>')
        return f'<geom name="{w}.tread" type="ellipsoid" size="{size}" {alone}/>'

    def _add_bodies(
        self, w: str, axle: Axle, mirror: np.ndarray, p: Mapping[str, np.ndarray], tread: str
    ) -> None:
        """Both wishbones, knuckle and wheel; `p`: hard points by name, (3,) in the design frame."""
        origin = self._origin
        lower, upper, knuckle = (
            mirror * b.center_of_mass for b in (axle.lower_wishbone, axle.upper_wishbone, axle.knuckle)
        )
        hinge, joint, high = p["lower_hinge"], p["lower_ball_joint"], p["upper_hinge"]
        wheel = axle.wheel
        spun = np.array([wheel.transverse_inertia, wheel.axial_inertia, wheel.transverse_inertia])
        self._on_chassis.append(
            f"""
            {_site(f"{w}.top", p["spring_chassis"] - origin)}
            <body pos="{_numbers(hinge - origin)}">
              <joint type="hinge" axis="1 0 0"/> {_inertial(axle.lower_wishbone, lower - hinge)}
              {_site(f"{w}.foot", p["spring_wishbone"] - hinge)}
              <body pos="{_numbers(joint - hinge)}">
                <joint type="ball"/> {_inertial(axle.knuckle, knuckle - joint)}
                {_site(f"{w}.outer", p["tie_rod_outer"] - joint)}
                {_site(f"{w}.pin", p["upper_ball_joint"] - joint)}
                <body name="{w}.wheel" pos="{_numbers(p["wheel_center"] - joint)}">
                  <joint name="{w}.spin" type="hinge" axis="0 1 0"/>
                  <inertial pos="0 0 0" mass="{wheel.mass}" diaginertia="{_numbers(spun)}"/>
                  {tread}
                </body>
              </body>
            </body>
            <body pos="{_numbers(high - origin)}">
              <joint type="hinge" axis="1 0 0"/> {_inertial(axle.upper_wishbone, upper - high)}
              {_site(f"{w}.socket", p["upper_ball_joint"] - high)}
            </body>"""
        )

    def _add_connections(self, w: str, axle: Axle, p: Mapping[str, np.ndarray]) -> None:
        """Tie rod, spring, and the upper ball joint, which closes the loop."""
        spring = axle.spring
        strut = np.linalg.norm(p["spring_chassis"] - p["spring_wishbone"])
        free = strut + (spring.preload or 0.0) / spring.stiffness
        self._tendons.append(
            f"""
            <spatial name="{w}.rod"><site site="{w}.inner"/><site site="{w}.outer"/></spatial>
            <spatial stiffness="{spring.stiffness}" damping="{axle.damper.bump}" springlength="{free}">
              <site site="{w}.top"/><site site="{w}.foot"/>
            </spatial>"""
        )
        self._equalities.append(
            f"""
            <connect site1="{w}.socket" site2="{w}.pin" {self._soft}/>
            <tendon tendon1="{w}.rod" {self._soft}/>"""
        )

    def _join(self, step: float, own_contact: bool) -> str:
        vehicle = self._vehicle
        return f"""
    <mujoco>
      <option timestep="{step}" gravity="0 0 {-vehicle.gravity}" integrator="implicitfast">
        <flag contact="{"enable" if own_contact else "disable"}"/>
      </option>
      <worldbody>
        <body name="chassis" pos="{_numbers(self._origin)}">
          <freejoint/> {_inertial(vehicle.chassis, np.zeros(3))} {"".join(self._on_chassis)}
          <body pos="{_numbers(self._guide - self._origin)}">
            <joint name="rack" type="slide" axis="0 1 0"/> {_inertial(vehicle.rack, np.zeros(3))}
            {"".join(self._on_rack)}
          </body>
        </body>
        {"".join(self._roads)}
      </worldbody>
      <contact>{"".join(self._pairs)}</contact>
      <tendon>{"".join(self._tendons)}</tendon>
      <equality>{"".join(self._equalities)} <joint name="drive" joint1="rack" {self._soft}/></equality>
    </mujoco>"""


def _inertial(body: BodyParameters, place: np.ndarray) -> str:
    inertia = f'mass="{body.mass}" diaginertia="{_numbers(np.array(body.inertia))}"'
    return f'<inertial pos="{_numbers(place)}" {inertia}/>'


def _site(name: str, place: np.ndarray) -> str:
    return f'<site name="{name}" pos="{_numbers(place)}"/>'
