"""Ranges of figures of cars, from karts to lorries of 8 t: quantities for the sections of a vehicle.

They are so wide that only a wrong unit or an extra digit is outside.
"""

from typing import Annotated

from vehicled.units import (
    Hertz,
    Kilograms,
    KilogramSquareMetres,
    Metres,
    MetresPerSecond,
    MetresPerSecondSquared,
    MetresVector,
    NewtonMetreSecondsPerRadian,
    NewtonMetresPerPascal,
    NewtonMetresPerRadian,
    Newtons,
    NewtonSecondsPerMetre,
    NewtonsPerMetre,
    NewtonsPerRadian,
    Radians,
    Range,
    SquareMetres,
    Unit,
)

MASS = Range(100.0, 8000.0)
WHEELBASE = Range(0.9, 5.0)
CENTER_OF_MASS_HEIGHT = Range(0.15, 2.0)
WHEEL_RADIUS = Range(0.1, 1.0)
GYRATION = Range(2e-3, 3.0)
"""Radius of gyration about the axis of a body's largest moment of inertia, m."""

Mass = Annotated[Kilograms, MASS]
"""Mass of the car."""
PartMass = Annotated[Kilograms, Range(0.0, MASS.high, above=True)]
Place = Annotated[MetresVector, Range(-20.0, 20.0)]
"""Place in the design frame; its origin is free along x and y."""
Wheelbase = Annotated[Metres, WHEELBASE]
Track = Annotated[Metres, Range(0.8, 2.4)]
CenterOfMassHeight = Annotated[Metres, CENTER_OF_MASS_HEIGHT]
WheelAngle = Annotated[Radians, Range(-0.3, 0.3)]
"""Toe or camber."""
WheelInertia = Annotated[KilogramSquareMetres, Range(1e-3, 100.0)]

SpringStiffness = Annotated[NewtonsPerMetre, Range(1e3, 5e6)]
Preload = Annotated[Newtons, Range(-2e5, 2e5)]
Damping = Annotated[NewtonSecondsPerMetre, Range(0.0, 1e5)]
"""Damping of a damper or a tyre."""
RideFrequency = Annotated[Hertz, Range(0.3, 15.0)]
DampingRatio = Annotated[float, Range(0.0, 10.0)]
Travel = Annotated[Metres, Range(0.0, 1.0, above=True)]
"""Travel to a stop of the suspension."""
StopStiffness = Annotated[NewtonsPerMetre, Range(0.0, 5e7)]
StopSoftness = Annotated[Metres, Range(0.0, 0.2, above=True)]
AntiRollBar = Annotated[NewtonsPerMetre, Range(0.0, 2e6)]
"""Vertical force per difference of heights."""
RollStiffness = Annotated[NewtonMetresPerRadian, Range(0.0, 5e6)]
RollCenterHeight = Annotated[Metres, Range(-2.0, 2.0)]

BrakeGain = Annotated[NewtonMetresPerPascal, Range(0.0, 0.01)]
BrakeStiffness = Annotated[NewtonMetresPerRadian, Range(0.0, 1e7, above=True)]
BrakeDamping = Annotated[NewtonMetreSecondsPerRadian, Range(0.0, 1e4)]
FinalDrive = Annotated[float, Range(0.5, 20.0)]
SteeringRatio = Annotated[float, Range(1.0, 35.0)]
"""Steering-wheel angle over road-wheel angle; 1 for a kart."""
RackRatio = Annotated[float, Unit("m/rad"), Range(5e-4, 0.2)]

WheelRadius = Annotated[Metres, WHEEL_RADIUS]
TyreStiffness = Annotated[NewtonsPerMetre, Range(1e4, 5e6)]
"""Stiffness along any axis."""
TyreLoad = Annotated[Newtons, Range(100.0, 1e5)]
SlipStiffness = Annotated[Newtons, Range(1e3, 5e6)]
"""Force of one tyre per slip."""
SlipStiffnessPair = Annotated[tuple[float, float], Unit("N"), Range(1e3, 5e6)]
"""Values at the nominal load of a tyre and at twice that, like the pairs below."""
ForcePair = Annotated[tuple[float, float], Unit("N"), Range(50.0, 2e5)]
SlipPair = Annotated[tuple[float, float], Unit("1"), Range(5e-3, 5.0)]
TrailSlip = Annotated[float, Range(0.0, 5.0, above=True)]
CorneringStiffness = Annotated[NewtonsPerRadian, Range(2e3, 1e6)]
"""Cornering stiffness of an axle."""
Friction = Annotated[float, Range(0.1, 2.5)]
"""Greatest force over wheel load."""
LeastSpeed = Annotated[MetresPerSecond, Range(0.0, 20.0, above=True)]
RollingResistance = Annotated[float, Range(0.0, 1.0)]
"""Force over wheel load."""
RelaxationLength = Annotated[Metres, Range(0.01, 5.0)]

DragArea = Annotated[SquareMetres, Range(0.0, 20.0)]
LiftArea = Annotated[SquareMetres, Range(-20.0, 20.0)]
DragHeight = Annotated[Metres, Range(-1.0, 5.0)]
Gravity = Annotated[MetresPerSecondSquared, Range(1.0, 30.0)]
