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
"""Number of elements of CHART and RATES: length of a change of the car (array `correction`), and of the first
part of a pose."""
X, Z, YAW, V1Z, V2Z, AHEAD, LEFT, UP, YAW_RATE, V1Z_RATE, V2Z_RATE, AX, AY, ALPHA_X, ALPHA_Y = (
    POSE.index(n)
    for n in (
        *("x", "z", "yaw", "v1z", "v2z", "ahead", "left", "up", "wz", "-wy", "wx"),
        *("ax", "ay", "alpha.x", "alpha.y"),
    )
)
"""Indices of these elements in a pose, and in a change of the car."""
PLACE, SPEEDS = slice(X, Z + 1), slice(AHEAD, UP + 1)
"""x, y, z in a pose and in a change of the car; and their rates."""
INPUTS = ("rack", "rack.rate", "rack.acceleration")
"""Elements of the array `inputs`: displacement of the rack, m to the left, and its derivatives by time."""
CORNER_INPUTS = (
    *("rod", "rod.rate", "rod.acceleration", "drive", "brake", "transfer_limit", "road", "road.rate"),
)
"""Rows of the array `corner_inputs`: displacement of the tie rod's inner end (m) and its derivatives by time, drive
torque (N·m), brake pressure (Pa), the largest torque (N·m) that the differential moves between the wheels of the
axle, the same for both; and height of the road under the wheel over the plane of the ground (m), with its derivative
by time."""
RACK, RACK_RATE = (INPUTS.index(n) for n in ("rack", "rack.rate"))
ROD, ROD_RATE, DRIVE_TORQUE, BRAKE_PRESSURE, TRANSFER_LIMIT, ROAD, ROAD_RATE = (
    CORNER_INPUTS.index(n)
    for n in ("rod", "rod.rate", "drive", "brake", "transfer_limit", "road", "road.rate")
)
RODS = slice(ROD, ROD + len(INPUTS))
"""Rows of `corner_inputs`: the tie rods' displacement and its derivatives, in the order of INPUTS."""
FRONT, REAR = slice(0, 2), slice(2, 4)
"""Wheels of an axle in the order of WHEELS."""
TYRE_CAUSES = ("ahead", "left", "wz", "steering", "stiffness.front", "stiffness.rear", "friction")
"""Causes of tyre forces: rates of the car, m/s and rad/s; the angle of the front wheels in addition to the
measured one, rad to the left; relative changes of an axle's cornering stiffness and of all friction."""
ADJUSTMENTS = ("rod", "stiffness", "friction", "wheel", "slip", "along")
"""Additions of a filter to inputs and parameters, per corner: displacement of the tie rod (m); relative
changes of lateral tyre stiffness, of greatest tyre forces, and of the angle that the wheel turns over a given
distance; slip ratio in addition to the simulated one, as if in proportion to force, and the longitudinal
force on the tyre that belongs to it but acts elsewhere (N). Zero changes nothing."""
COMPONENTS = 3
"""Number of components of the largest sensor."""

MOUNTING = (
    *("antenna.x", "antenna.y", "antenna.z"),
    *("imu.x", "imu.y", "imu.z"),
    *(f"imu.r{i}{j}" for i in "123" for j in "123"),
)
"""Elements of the array `mounting`: lever arms (vehicle axes, m) and the rotation from vehicle axes to the IMU's,
by rows."""
ANTENNA, IMU, R_IMU = slice(0, 3), slice(3, 6), slice(6, 15)
"""Places of antenna, IMU and rotation in MOUNTING."""

ADDED_FORCES = ("spring", "damper", "bar", "load", "along")
"""Added forces, N, by corner: of spring and damper on the bodies that they stand on, positive in compression;
of the anti-roll bar on the suspension, downwards; of the road on the tyre, normal to the road and in the
direction of the wheel. A force against that direction comes from the wheel's brake, a force in it from the
final drive."""
