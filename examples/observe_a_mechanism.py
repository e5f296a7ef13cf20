"""An observer on a four-bar linkage: its model has the wrong gravity and starts at the wrong angle."""

import numpy as np

import vehicled

encoder = vehicled.SensorSet([vehicled.Encoder("theta", np.radians(1.0))])
truth, model = (vehicled.Mechanism.load("four_bar", [encoder]) for _ in range(2))
model.set_parameters({"gravity.y": -8.81})
model.set_independent_state(model.z + np.radians(10.0), model.zd).require("start")
observer = vehicled.make_observer("errorEKF_FE", model, encoder, 5e-3, start_sigma=0.1, density=0.5)

stepper, rng = vehicled.make_stepper("ali3p"), np.random.default_rng(0)
for k in range(1, 301):
    stepper.step(truth, 5e-3).require("truth")
    observer.step(encoder.calc_readings(truth) + encoder.sigma * rng.standard_normal(1))
    if k % 50 == 0:
        error, sigma = np.degrees(observer.z - truth.z)[0], np.degrees(observer.z_deviation)[0]
        print(f"{truth.t:.1f} s: crank angle off by {error:+.3f}°, σ {sigma:.3f}°")
