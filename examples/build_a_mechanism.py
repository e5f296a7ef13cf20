"""A mechanism of one's own: a double pendulum, and how well its energy is kept over two seconds."""

import vehicled

DOUBLE_PENDULUM = """
space: planar
gravity: 0 -9.81 m/s²
ground: {points: {O: 0 0 m}}
points: {P: 1 0 m, Q: 2 0 m}
bodies:
  upper: {kind: bar, points: [O, P], length: 1 m, mass: 1 kg}
  lower: {kind: bar, points: [P, Q], length: 1 m, mass: 1 kg}
"""
pendulum = vehicled.Mechanism.parse(DOUBLE_PENDULUM)
stepper = vehicled.make_stepper("ali3p")
energy = pendulum.calc_kinetic_energy() + pendulum.calc_potential_energy()
for _ in range(1000):
    stepper.step(pendulum, 2e-3).require("double pendulum")

lost = energy - pendulum.calc_kinetic_energy() - pendulum.calc_potential_energy()
print(f"Q at {pendulum.calc_point_positions()['Q'][:2]} m after {pendulum.t:.3f} s, energy lost {lost:.2e} J")
