"""Estimates as a pandas frame: means over each half second. Needs the extra `pandas`."""

import vehicled

configuration = vehicled.load_configuration("prototype")
drive = vehicled.simulate("acceleration_and_braking", configuration, duration=3.0)
frame = vehicled.estimate(drive, configuration).to_pandas()

means = frame[["vx", "ax", "pitch", "suspension.fl.deflection"]].groupby(frame.index // 0.5 * 0.5).mean()
print(means.to_string(float_format="{:.4f}".format))
