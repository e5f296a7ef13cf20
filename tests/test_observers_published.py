"""Observers on linkages give the figures of a published toolbox: same algorithm, same noise, same options."""

import numpy as np
import pytest

from vehicled.multibody.mechanism import Mechanism
from vehicled.studies.benchmarks.observer_cases import STEPS, H, ObserverRun, calc_truth
from vehicled.studies.benchmarks.observers import run_case

FILTERS = ("errorEKF", "errorEKF_EJ", "errorEKF_FE", "DEKF", "UKF-TR", "UKF-FE")
FIGURES = ("position_rmse", "velocity_rmse", "position_rmse_second_half", "velocity_rmse_second_half", "nis")

PUBLISHED = {
    ("four_bar", "encoders", 200): """
        .00515/.0564/.00521/.0566/.952
        .0052/.0573/.00521/.0568/.952
        .00474/.048/.00442/.0474/.973
        .00523/.0553/.00524/.0557/.954
        .0052/.0571/.00522/.0568/.951
        .0053/.0562/.00524/.0554/.956
    """,
    ("four_bar", "encoders", 10): """
        .0257/.102/.0166/.103/.9
        .0256/.0943/.0158/.096/.886
        .026/.108/.017/.11/1.09
        .0258/.0996/.0164/.0969/.93
        .0256/.094/.0159/.0967/.881
        .0257/.0924/.0158/.0932/.932
    """,
    ("four_bar", "crank_gyros", 200): """
        .197/.000966/.197/.000963/.443
        .03/.000965/.0027/.000964/.0133
        .00891/.000652/.000721/.000645/.793
        .195/.000966/.194/.000963/.471
        .0304/.000965/.00281/.000964/.0132
        .0334/.000965/.00675/.000964/.0202
    """,
    ("four_bar", "crank_gyros", 10): """
        .182/.135/.173/.12/5.01
        .035/.0251/.00415/.0197/.181
        .0253/.0116/.000881/.00676/.688
        .179/.14/.168/.132/5.35
        .0355/.0251/.00469/.0196/.18
        .0376/.0314/.0105/.0269/.249
    """,
    ("four_bar", "coupler_gyros", 200): """
        .0464/.0257/.000532/.00854/.22
        .0276/.0175/.000526/.00842/.214
        .00678/.00477/.000468/.00382/.929
        .0469/.0672/.00714/.0769/.465
        .0279/.0218/.00253/.0204/.23
        .0284/.0554/.0055/.0594/.376
    """,
    ("four_bar", "coupler_gyros", 10): """
        .046/.0356/.00259/.0272/.302
        .0326/.0339/.00271/.0279/.202
        .0248/.0185/.0015/.0141/.935
        .0465/.0394/.00718/.0323/.41
        .0331/.0328/.00253/.027/.201
        .0334/.0353/.00548/.0309/.3
    """,
    ("five_bar", "encoders", 200): """
        .00697/.144/.00692/.144/1.97
        .00695/.142/.00691/.142/1.96
        .00685/.132/.00684/.13/2.0
        .0072/.12/.00721/.121/1.99
        .00694/.142/.0069/.142/1.96
        .00723/.12/.00728/.121/1.99
    """,
    ("five_bar", "encoders", 10): """
        .0344/.317/.0269/.309/2.62
        .0335/.3/.026/.297/2.37
        .0327/.304/.0256/.291/2.11
        .0346/.285/.0272/.276/2.71
        .0334/.299/.0259/.297/2.34
        .034/.27/.0265/.266/2.56
    """,
    ("five_bar", "crank_gyros", 200): """
        .197/.000976/.197/.000985/.875
        .0279/.000976/.00786/.000984/.08
        .0141/.000869/.00307/.000871/.991
        .224/.000976/.237/.000985/1.12
        .0293/.000976/.0126/.000985/.08
        .0322/.000976/.0193/.000985/.104
    """,
    ("five_bar", "crank_gyros", 10): """
        .145/.259/.122/.225/6.67
        .0327/.126/.00961/.109/1.51
        .0262/.065/.00558/.0513/2.19
        .159/.295/.142/.264/8.38
        .0333/.126/.0112/.11/1.51
        .0381/.143/.0217/.124/1.84
    """,
    ("five_bar", "coupler_gyros", 200): """
        .0234/.0416/.000762/.0208/.319
        .02/.0306/.000751/.0209/.307
        .00578/.0181/.000938/.0147/1.63
        3.87/7.6/3.1/8.26/24.8
        .02/.0427/.00223/.0391/.372
        3.86/7.63/3.09/8.33/51.8
    """,
    ("five_bar", "coupler_gyros", 10): """
        .0408/.259/.029/.25/3.62
        .0373/.243/.0307/.255/3.39
        .0231/.114/.00369/.069/2.49
        .0426/.259/.0292/.241/4.08
        .034/.23/.0215/.218/1.8
        .0362/.229/.0232/.211/2.17
    """,
}
"""By linkage, sensors and readings per second: position and velocity RMSE, those after 5 s, NIS, of each filter."""

# Those of few readings take as long as those of many, and differ from them in the number of updates alone; and sigma
# points take the longest.
CASES = [
    pytest.param(
        *setup, name, figures, marks=pytest.mark.slow if setup[2] == 10 or name.startswith("UKF") else ()
    )
    for setup, row in PUBLISHED.items()
    for name, figures in zip(FILTERS, row.split(), strict=True)
]


@pytest.mark.parametrize(("mechanism", "sensors", "rate", "name", "figures"), CASES)
def test_filters_give_the_published_figures(mechanism, sensors, rate, name, figures):
    row = run_case(ObserverRun(mechanism, sensors, rate, "L2", name, 10, literal=True))
    expected = [float(x) for x in figures.split("/")]
    assert [row[f] for f in FIGURES] == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(
    ("mechanism", "level", "figures"),
    [
        ("four_bar", "L2", [7.24]),
        ("four_bar", "L1", [2.85]),
        ("five_bar", "L2", [1.92, 1.22]),
        ("five_bar", "L1", [1.01, 0.70]),
    ],
)
def test_the_wrong_model_alone_goes_as_far_wrong_as_published(mechanism, level, figures):
    row = run_case(ObserverRun(mechanism, "encoders", 10, level, "none", 10))
    assert row["position_rmse"] == pytest.approx(np.mean(figures), rel=0.01)
    assert row["nis"] is None
    assert row["failed_at"] is None


@pytest.mark.parametrize(
    ("mechanism", "seconds", "z", "zd"),
    [
        ("four_bar", 5, [-2.3566429020], [6.5139719886]),
        ("four_bar", 10, [-4.9125774679], [0.0329274555]),
        ("five_bar", 5, [-1.2732066879, 4.3152559486], [-10.6928676494, 4.4420285747]),
        ("five_bar", 10, [-3.4635363421, 5.6758245402], None),
    ],
)
def test_the_true_motion_is_the_published_one(mechanism, seconds, z, zd):
    state = calc_truth(mechanism)[round(seconds / H) - 1]
    independent = Mechanism.load(mechanism).independent
    assert state.q[independent] == pytest.approx(z, abs=2e-7)
    if zd:
        assert state.qd[independent] == pytest.approx(zd, abs=1e-6)
    assert len(calc_truth(mechanism)) == STEPS
