"""Names of the elements of a car's arrays."""

CHART = ("x", "y", "z", "yaw", "v1z", "v2z")
ROOT_OUTPUTS = (
    *(
        "x",
        "y",
        "z",
        "roll",
        "pitch",
        "yaw",
        "vx",
        "vy",
        "vz",
        "wx",
        "wy",
        "wz",
        "ax",
        "ay",
        "az",
        "sideslip",
    ),
)
CORNER_OUTPUTS = (
    *("slip.angle", "slip.ratio", "tyre.fx", "tyre.fy", "tyre.fz"),
    *("suspension.deflection", "suspension.rate", "suspension.force", "wheel.angle", "wheel.speed"),
)
CORNER_CORRECTIONS = ("wheel.angle", "wheel.speed")
RATES = ("ahead", "left", "up", "wz", "-wy", "wx")
"""Rates that belong to the elements of CHART: horizontal velocity along and across the heading and vertical velocity,
m/s; angular velocity in vehicle axes, rad/s (of a level car, the rates of ψ, v1z and v2z)."""
POSE = (*CHART, *RATES, "ax", "ay", "az", "alpha.x", "alpha.y", "alpha.z")
"""Elements of the array `pose`: chart, rates, accelerations in vehicle axes."""
CHART_SIZE = 2 * len(CHART)
YAW, V1Z, V2Z, AHEAD, LEFT, UP, YAW_RATE = (
    POSE.index(n) for n in ("yaw", "v1z", "v2z", "ahead", "left", "up", "wz")
)
"""Indices of these elements in a pose."""
TYRE_CAUSES = ("ahead", "left", "wz", "steering", "stiffness.front", "stiffness.rear", "friction")
"""What tyre forces respond to: rates of the car, m/s and rad/s; the angle of the front wheels beside what is
measured, rad to the left; relative changes of an axle's cornering stiffness and of all friction."""
ADJUSTMENTS = ("rod", "stiffness", "friction", "wheel", "slip")
"""What a filter adds per corner to inputs and parameters: displacement of the tie rod (m);
relative changes of lateral tyre stiffness, of greatest tyre forces, and of the angle that the wheel turns over a
given distance; slip ratio beside the simulated one. Zero changes nothing."""
COMPONENTS = 3
"""Number of components of the largest sensor."""

MOUNTING = (
    *("antenna.x", "antenna.y", "antenna.z"),
    *("imu.x", "imu.y", "imu.z"),
    *(f"imu.r{i}{j}" for i in "123" for j in "123"),
)
"""Elements of the array `mounting`: lever arms (vehicle axes, m) and the rotation from vehicle axes to the IMU's,
by rows."""
