"""A model of one's own as machine code: the linear single-track car with its Jacobian, and a step steer."""

import numpy as np

import vehicled

g = vehicled.Graph()
beta, rate, steer = state = [g.symbol(name) for name in ("sideslip", "yaw_rate", "steer")]
m, inertia, a, b, c_front, c_rear, v = parameters = [
    g.symbol(n) for n in ("m", "I", "a", "b", "Cf", "Cr", "v")
]
front, rear = c_front * (steer - beta - a * rate / v), c_rear * (b * rate / v - beta)
slopes = [(front + rear) / (m * v) - rate, (a * front - b * rear) / inertia]
jacobian = [[g.derivative(slope, x) for x in state[:2]] for slope in slopes]
model = vehicled.CompiledFunction([state, parameters], [slopes, jacobian])

x, numbers = np.zeros(2), [1500.0, 2500.0, 1.2, 1.5, 8e4, 9e4, 25.0]
for _ in range(2000):
    x = x + 1e-3 * model([*x, 0.02], numbers)[0]
poles = np.linalg.eigvals(model([*x, 0.02], numbers)[1])
print(
    f"after 2 s: sideslip {np.degrees(x[0]):.3f}°, yaw rate {x[1]:.4f} rad/s; poles {np.round(poles, 2)} 1/s"
)
