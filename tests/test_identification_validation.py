"""A parameter that does not hold on the held-out drive keeps its prior."""

import dataclasses

import pytest
from drives_rig import prototype_file

from vehicled.identification.vehicle.estimate import FitResult, FoundParameter
from vehicled.identification.vehicle.names import PARAMETERS, apply
from vehicled.identification.vehicle.prediction_error import PredictionError, SensorError
from vehicled.identification.vehicle.session import find_validated

NAMES = ("mass", "front.friction", "rear.friction", "drag_area")
UNKNOWN = "drag_area"
FITTED = {"mass": 0.1, "front.friction": -0.1, "rear.friction": -0.2, UNKNOWN: 0.0}


class Bench:
    """Fits with fixed results, and a held-out drive of a known car."""

    def __init__(self, truth: dict[str, float]):
        self.file = prototype_file()
        self.truth = apply(self.file, [PARAMETERS[n] for n in truth], truth.values())
        self.asked: list[tuple[str, ...]] = []

    def find(self, parameters) -> FitResult:
        self.asked.append(tuple(p.name for p in parameters))
        found_file = apply(self.file, parameters, [FITTED[p.name] for p in parameters])
        found = [
            FoundParameter(
                p,
                p.get(self.file),
                p.get(found_file),
                0.01,
                p.name != UNKNOWN,
                "not identified" * (p.name == UNKNOWN),
            )
            for p in parameters
        ]
        return FitResult(found, [], found_file, plant_noise=0.1, passes=3, redundancy=1.0)

    def validate(self, file) -> PredictionError | None:
        off = [PARAMETERS[n].get(file) / PARAMETERS[n].get(self.truth) - 1.0 for n in NAMES]
        if off[NAMES.index("rear.friction")] < -0.25:
            return None  # the car spins
        return PredictionError({"imu.gyro": SensorError(count=10, likelihood=sum(x * x for x in off))})

    def run(self):
        return find_validated(self.file, [PARAMETERS[n] for n in NAMES], self.find, self.validate)


def identified(estimate: FitResult) -> set[str]:
    return {f.parameter.name for f in estimate.found if f.identified}


def test_estimates_that_improve_the_prediction_are_kept():
    bench = Bench({"mass": 0.1, "front.friction": -0.1, "rear.friction": -0.2})
    estimate, before, after, choices = bench.run()
    assert choices == 0
    assert bench.asked == [NAMES]
    assert identified(estimate) == {"mass", "front.friction", "rear.friction"}
    assert after.mean < before.mean


@pytest.mark.parametrize("rear", [0.05, 0.2])
def test_a_parameter_that_makes_the_prediction_worse_is_left_and_reported(rear):
    """Also if the filter diverges with it."""
    bench = Bench({"mass": 0.1, "front.friction": -0.1, "rear.friction": rear})
    estimate, before, after, choices = bench.run()
    assert choices == 1
    assert bench.asked[-1] == ("mass", "front.friction")
    assert identified(estimate) == {"mass", "front.friction"}
    assert [f.parameter.name for f in estimate.found] == list(NAMES)
    left = {f.parameter.name: f for f in estimate.found}
    assert "does not hold" in left["rear.friction"].reason
    assert left["rear.friction"].value == left["rear.friction"].prior
    assert left[UNKNOWN].reason == "not identified"
    assert PARAMETERS["rear.friction"].get(estimate.file) == PARAMETERS["rear.friction"].get(bench.file)
    assert after.mean < before.mean
    assert estimate.passes == 6


def test_all_parameters_may_be_left():
    bench = Bench({"mass": -0.2, "front.friction": 0.2, "rear.friction": 0.1})
    estimate, before, after, choices = bench.run()
    assert choices == 3
    assert not identified(estimate)
    assert estimate.file == bench.file
    assert dataclasses.asdict(after) == dataclasses.asdict(before)


def test_sensors_of_which_the_filter_rejects_much_put_the_result_in_doubt():
    error = PredictionError(
        {
            "imu.gyro": SensorError(count=1564, rejected=1090),
            "imu.accel": SensorError(count=1564, rejected=100),
        }
    )
    (note,) = error.describe_rejected()
    assert note.startswith("imu.gyro: 1090 of 1564 observations are rejected with these values")
