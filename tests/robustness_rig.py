"""A drive made from formulas, for the kinematic filter and an independent implementation of the same filter."""

from __future__ import annotations

import math

import numpy as np

from vehicled.maths.geodesy import WorldOrigin
from vehicled.messages import Measurement

ORIGIN = WorldOrigin(45.0, 7.0, 0.0)
RATE = 100
REAR, UNDERSTEER, RADIUS, ANTENNA = 1.3, 0.003, 0.31, 0.4
"""Parameters given to the filter. RADIUS is 1 % larger than the true radius of the wheels."""


def truth(seconds: float = 60.0) -> dict[str, np.ndarray]:
    """Columns of an S-shaped drive at 100 Hz, whose sideslip is that of a steady turn."""
    t = np.arange(round(seconds * RATE) + 1) / RATE
    speed = 13.0 + 5.0 * np.sin(0.15 * t)
    wz = 0.25 * np.sin(0.3 * t) + 0.05
    beta = (REAR / speed - UNDERSTEER * speed) * wz
    yaw = 0.4 + np.concatenate([[0.0], np.cumsum(0.5 * (wz[1:] + wz[:-1]) / RATE)])
    along = np.stack([speed * np.cos(yaw + beta), speed * np.sin(yaw + beta)])
    x, y = np.concatenate(
        [np.zeros((2, 1)), np.cumsum(0.5 * (along[:, 1:] + along[:, :-1]) / RATE, axis=1)], axis=1
    )
    columns = {"t": t, "x": x, "y": y, "yaw": yaw, "wz": wz, "speed": speed}
    return columns | {"vx": speed * np.cos(beta), "vy": speed * np.sin(beta), "sideslip": beta}


def measurements(true: dict[str, np.ndarray], seed: int = 5) -> list[Measurement]:
    """Gyroscope, accelerometer and wheel angles at 100 Hz, GNSS at 5 Hz and 0.1 s late, with their errors."""
    random = np.random.default_rng(seed)
    t, yaw, speed = true["t"], true["yaw"], true["speed"]
    n = len(t)
    gyro = true["wz"] + 0.003 + 0.002 * random.standard_normal(n)
    accelerometer = np.gradient(true["vx"], t) + 0.3 * random.standard_normal(n)
    turned = np.concatenate([[0.0], np.cumsum(0.5 * (true["vx"][1:] + true["vx"][:-1]) / RATE)]) / (
        RADIUS / 1.01
    )
    counted = np.floor(turned / math.radians(7.5)) * math.radians(7.5)
    slow = np.cumsum(0.02 * random.standard_normal((n, 2)), axis=0)
    white = 0.4 * random.standard_normal((n, 2))
    velocity = 0.05 * random.standard_normal((n, 2))
    course = yaw + true["sideslip"]
    found = []
    for k in range(n):
        at = round(t[k] * 1e9)
        values = {"imu.wz": gyro[k], "imu.ax": accelerometer[k]}
        values |= {"wheel.rl.angle": counted[k], "wheel.rr.angle": counted[k]}
        found.append(Measurement("car", at, at, {c: float(v) for c, v in values.items()}))
        if k % 20 == 7:
            ahead = ANTENNA * np.array([math.cos(yaw[k]), math.sin(yaw[k])])
            east, north = np.array([true["x"][k], true["y"][k]]) + ahead + slow[k] + white[k]
            lat, lon, alt = ORIGIN.to_geodetic(np.array([east, north, 0.0]))
            across = ANTENNA * true["wz"][k] * np.array([-math.sin(yaw[k]), math.cos(yaw[k])])
            ve, vn = speed[k] * np.array([math.cos(course[k]), math.sin(course[k])]) + across + velocity[k]
            fix = {"gnss.lat": lat, "gnss.lon": lon, "gnss.alt": alt, "gnss.quality": 1.0}
            fix |= {"gnss.speed": math.hypot(ve, vn), "gnss.course": math.atan2(ve, vn) % (2 * math.pi)}
            found.append(Measurement("gnss", at, at + 100_000_000, fix))
    return found
