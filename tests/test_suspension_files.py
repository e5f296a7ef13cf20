"""A car with MacPherson struts and swing arms: its estimator, and mistakes in its file."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from vehicle_rig import vehicle

import vehicled
from vehicled.cli import main
from vehicled.messages import WHEELS
from vehicled.reading.settings import config_path
from vehicled.studies.benchmarks.peers.wishbones import get_axle


def test_the_estimator_follows_a_simulated_slalom(capsys):
    configuration = vehicled.load_configuration("compact")
    drive = vehicled.simulate("slalom", configuration, duration=2.5, seed=3)
    estimates = vehicled.estimate(drive, configuration)
    assert all(np.isfinite(estimates[c]).all() for c in estimates.columns if c not in ("lat", "lon", "alt"))
    assert np.ptp(estimates["wz"]) > 0.15
    error = {c: s.rmse for c, s in vehicled.score(estimates, drive.truth).quantities.items()}
    assert error["horizontal"] < 0.1
    assert max(error["yaw"], error["sideslip"], error["roll"]) < 5e-3
    assert max(error[f"suspension.{w}.deflection"] for w in WHEELS) < 3e-3
    assert max(error[f"tyre.{w}.fz"] for w in WHEELS) < 300.0

    assert main(["check", "compact"]) == 0
    described = capsys.readouterr().out
    assert re.search(r"^degrees of freedom +14 = 79 − 65$", described, re.MULTILINE)
    assert "arm rl rr" in described


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["DEKF", "UKF"])
def test_other_kinds_of_filter_follow_a_simulated_slalom(kind):
    configuration = vehicled.load_configuration("compact")
    configuration = replace(configuration, filter=replace(configuration.filter, kind=kind))
    drive = vehicled.simulate("slalom", configuration, duration=3.0, seed=3)
    estimator = vehicled.Estimator(configuration)
    for step in vehicled.read_log(drive, configuration):
        estimate = estimator.step(step.t, step.measurements)
        assert not [i for i in estimator.innovations() if i.reason == "gate" and i.t > 10**9]
    assert np.isfinite(estimate["vx"])
    error = {
        c: s.rmse
        for c, s in vehicled.score(vehicled.estimate(drive, configuration), drive.truth).quantities.items()
    }
    assert max(error["yaw"], error["sideslip"]) < 5e-3
    assert max(error[f"suspension.{w}.deflection"] for w in WHEELS) < 3e-3


COMPACT = config_path("compact").read_text(encoding="utf-8")
FRONT, REAR = re.findall(r"^  (?:front|rear):\n((?:    .*\n)+)", COMPACT, re.MULTILINE)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            r" +strut_top: .*\n",
            "",
            "vehicle.front.hard_points.strut_top: missing; expected 3 numbers and a unit (m)",
        ),
        (
            r"strut_top: .* m\b",
            "strut_top: 0 0.545 0.3 m",
            "vehicle.front.hard_points.strut_top: the strut cannot be assembled: its top must lie above strut_foot",
        ),
        (
            r"strut_top: .* m\b",
            "strut_top: 1.5 0.545 0.5 m",
            "vehicle.front.hard_points.strut_top: the strut lies: expected its axis within 60° of the vertical",
        ),
        (
            r"lower_ball_joint: .* m\b",
            "lower_ball_joint: 0 1.5 0.5 m",
            "vehicle.front.hard_points.strut_top: the strut cannot slide: its axis lies across the line to",
        ),
        (
            r"lower_ball_joint: .* m\b",
            "lower_ball_joint: 0.5 0.360 0.215 m",
            "vehicle.front.hard_points.lower_ball_joint: lies on the hinge axis: expected at least 20 mm from it",
        ),
        (
            r"tie_rod_outer: .* m\b",
            "tie_rod_outer: 0.005 0.690 0.190 m",
            "vehicle.front.hard_points.tie_rod_outer: the tie rod does not hold the knuckle",
        ),
        (
            r"hinge_axis: .* m\b",
            "hinge_axis: 0 0 1 m",
            "vehicle.rear.hard_points.hinge_axis: the wheel has no travel: wheel_center cannot move up or down",
        ),
        (
            r"hinge_axis: .* m\b",
            "hinge_axis: 0 0 0 m",
            "vehicle.rear.hard_points.hinge_axis: expected a direction",
        ),
        (
            r"spring_arm: .* m\b",
            "spring_arm: -2.420 0.560 0.620 m",
            "vehicle.rear.hard_points.spring_arm: expected at least 20 mm from spring_chassis",
        ),
        (
            re.escape(FRONT),
            REAR.replace("-2.", "0.").replace("*tyre", re.findall(r"tyre: (&tyre(?:\n      .*)+)", FRONT)[0]),
            "vehicle.front.suspension: swing arms cannot be steered; expected double_wishbone or macpherson",
        ),
        (
            r"      hinge: ",
            "      tie_rod_inner: 0 0 0 m\n      hinge: ",
            "rear.hard_points.tie_rod_inner: unknown key",
        ),
        (
            r"suspension: macpherson",
            "suspension: leaf",
            "expected double_wishbone, macpherson, swing_arm or live_axle, got 'leaf'",
        ),
        (r"    suspension: macpherson\n", "", "vehicle.front.hard_points.strut_top: unknown key"),
    ],
)
def test_messages_about_mistakes_name_part_key_and_reason(tmp_path, old, new, error):
    text, count = re.subn(old, lambda _: new, COMPACT, count=1)
    assert count == 1
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(vehicled.UsageError) as found:
        vehicled.load_configuration(path)
    assert error in str(found.value)
    assert "\n" not in str(found.value)


def test_benchmark_peers_with_wishbones_refuse_such_an_axle():
    with pytest.raises(vehicled.UsageError, match=r"vehicle\.front\.suspension: .* got macpherson"):
        get_axle(vehicle("compact"), "fr")
