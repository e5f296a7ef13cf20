"""A simulated slalom, its estimate, and a plot of sideslip against the truth."""

import matplotlib.pyplot as plt
import numpy as np

import vehicled

configuration = vehicled.load_configuration("prototype")
drive = vehicled.simulate("slalom", configuration, duration=3.0, gnss="conventional", seed=3)
estimates = vehicled.estimate(drive, configuration)

print(f"sideslip RMSE {np.degrees(vehicled.score(estimates, drive.truth).quantities['sideslip'].rmse):.3f}°")
for series, label in ((drive.truth, "truth"), (estimates, "estimate")):
    plt.plot(series.t, np.degrees(series["sideslip"]), label=label)
plt.xlabel("t in s"), plt.ylabel("sideslip in degrees"), plt.legend()
plt.savefig("sideslip.png")
