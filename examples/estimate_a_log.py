"""The estimator over a recorded log: a real drive of a car without GNSS, scored against its own instruments."""

from pathlib import Path

import vehicled

FOLDER = Path(__file__).parent.parent / "samples" / "ferrari_250lm"

configuration = vehicled.load_configuration("ferrari_250lm")
estimates = vehicled.estimate(FOLDER / "drive.csv", configuration)
truth = vehicled.Estimates.read(FOLDER / "drive_truth.csv")

print(estimates)
for column, score in vehicled.score(estimates, truth).quantities.items():
    print(f"{column:10} RMSE {score.rmse:.4f} {score.unit}")
