"""Samples of encoders that do not fit their neighbours, in logs for `vehicled identify --mechanism`."""

from dataclasses import replace

import numpy as np
import pytest
from mechanism_log_rig import ARM, record, write_log

from vehicled.commands.identify import read_motion
from vehicled.identification.mechanism.spikes import find_spikes
from vehicled.multibody.mechanism import Mechanism

T = 0.005 * np.arange(800)
RANDOM = np.random.default_rng(3)
SWING = np.sin(7.0 * T) + 1e-4 * RANDOM.normal(size=len(T))
MOTIONS = {
    "noise": SWING,
    "large noise": np.sin(7.0 * T) + 0.1 * RANDOM.normal(size=len(T)),
    "digits": np.round(np.sin(0.5 * T) * 500.0) / 500.0,
    "no noise": np.sin(60.0 * T),
    "a blow": SWING + 3.0 * np.maximum(T - 2.0, 0.0),
    "a stop": np.minimum(np.sin(7.0 * T), 0.5),
    "a step": SWING + 0.3 * (T > 2.0),
    "a turn of an encoder": np.where(T > 2.0, SWING - 2.0 * np.pi, SWING),
    "rest, then motion": np.maximum(T - 2.0, 0.0) ** 2,
}


@pytest.mark.parametrize("name", MOTIONS)
def test_motions_have_no_spikes(name):
    assert not len(find_spikes(T, MOTIONS[name]))


@pytest.mark.parametrize("off", [0.5, -0.02, 0.005])
@pytest.mark.parametrize("name", ["noise", "no noise", "a blow"])
def test_spikes_are_found(name, off):
    values = MOTIONS[name].copy()
    places = [100, 300, 620]
    values[places] += off * (30.0 if name == "no noise" else 1.0)
    assert find_spikes(T, values).tolist() == places


def test_gaps_have_no_spikes():
    kept = (T < 1.0) | (T > 1.04) & (T < 2.0) | (T > 2.05)
    assert not len(find_spikes(T[kept], SWING[kept]))


def test_a_spike_is_named_and_left_out(tmp_path, capsys):
    arm = Mechanism.parse(ARM)
    run = record(arm, 0)
    z = run.z.copy()
    z[200] += 0.5
    log = tmp_path / "log.csv"
    write_log(log, arm, replace(run, z=z))
    found = read_motion(log, arm)
    assert found.t.tolist() == pytest.approx(np.delete(run.t, 200), abs=1e-9)
    what = f"{log}: sample theta = {z[200, 0]:.6g} at t = {run.t[200]:.6g} s"
    assert capsys.readouterr().err == f"{what} does not fit those beside it, and is left out\n"
