"""Rigid multibody systems in natural and in relative coordinates.

A `Description` (a file, `description`) is built into atoms (`building`: `model` with `bodies`, or `relative_model`
with `relative_bodies`; `joints`, `loads`) in one of two forms (`forms`), compiled once (`compiled`) and run in
any number of instances (`mechanism`), which the `problems` of kinematics and statics and the steppers of
`formulations` work on:

    m = Mechanism.load("four_bar")
    stepper = make_stepper("ali3p")
    stepper.step(m, 5e-3).require("step")
    m.z, m.calc_point_positions()["Q"]

Operations on a mechanism in its state: `operators` (the whole), `body_operators` (a body,
forces), `reactions` (joints), `projections` (estimates), `switches` (locked, prescribed, disabled).

The vehicle builds its `system` itself and takes `ali3p` directly.
"""
