"""The estimator step by step, with what it did with each observation: which ones were rejected, and why."""

from collections import Counter

import vehicled

configuration = vehicled.load_configuration("prototype")
drive = vehicled.simulate("sine_with_dwell", configuration, duration=2.0)
estimator = vehicled.Estimator(configuration)
outcomes = Counter()
for step in vehicled.read_log(drive, configuration):
    estimate = estimator.step(step.t, step.measurements)
    outcomes.update((i.sensor, i.reason) for i in estimator.innovations())

print(f"at {estimate.t * 1e-9:.3f} s: {estimate['vx']:.2f} m/s, yaw {estimate['yaw']:.3f} rad")
print(*(f"{sensor:16} {reason:8} {count}" for (sensor, reason), count in outcomes.items()), sep="\n")
