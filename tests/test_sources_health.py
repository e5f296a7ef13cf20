"""The health of a source, from its first measurement over gate failures to its time-out."""

import numpy as np
import pytest

from vehicled.sources.gate import Gate
from vehicled.sources.health import Health

SECOND = 1_000_000_000


ALL = [True]
"""Whether components are rejected: the only one is."""


def test_limits_are_squares_of_standard_deviations():
    """With the default gate good measurements are weighted rarely and never rejected."""
    assert Health(Gate(weigh_beyond=2.0, reject_beyond=7.0)).limits == (4.0, 49.0)
    weigh, reject = Health(Gate()).limits
    surprise = np.square(np.random.default_rng(1).normal(size=100_000))
    assert np.mean(surprise > weigh) == pytest.approx(0.0027, abs=0.0007)
    assert surprise.max() < reject / 2


def test_a_source_goes_from_waiting_over_active_to_lost_and_back():
    health = Health(Gate(timeout=1.0))
    assert health.state == "waiting"
    health.check_timeout(10 * SECOND)
    assert health.state == "waiting"
    health.note_arrival(10 * SECOND)
    health.accept()
    health.check_timeout(11 * SECOND)
    assert health.state == "active"
    health.check_timeout(11 * SECOND + 1)
    assert health.state == "lost"
    health.note_arrival(12 * SECOND)
    health.accept()
    assert health.state == "active"


@pytest.mark.parametrize("policy", ["reset", "distrust"])
def test_persistent_failures_in_a_row_make_the_policy_apply(policy):
    health = Health(Gate(persistent=3, policy=policy))
    health.accept()
    assert [health.fail(ALL, accepted=False), health.fail(ALL, accepted=False)] == [False, False]
    health.accept()  # restarts the count
    wanted = []
    for _ in range(6):
        wanted.append(health.fail(ALL, accepted=False))
        if wanted[-1]:
            health.count_reset()
    assert wanted == ([False, False, True] * 2 if policy == "reset" else [False] * 6)
    status = health.status()
    assert status["state"] == ("active" if policy == "reset" else "distrusted")
    assert status["resets"] == (2 if policy == "reset" else 0)
    assert (status["fused"], status["rejected"], status["reasons"]) == (2, 8, {"gate": 8})


def test_a_rejection_is_counted_with_its_reason_and_is_not_a_gate_failure():
    health = Health(Gate(persistent=1, policy="reset"))
    health.accept()
    for reason in ("too old", "no fix", "too old"):
        health.reject(reason)
    assert health.failures == 0
    assert health.status() == {
        "state": "active",
        "fused": 1,
        "rejected": 3,
        "resets": 0,
        "reasons": {"too old": 2, "no fix": 1},
    }


def test_a_time_out_restarts_the_count_of_failures():
    health = Health(Gate(persistent=3, timeout=1.0, policy="reset"))
    health.note_arrival(0)
    assert [health.fail(ALL, accepted=False), health.fail(ALL, accepted=False)] == [False, False]
    health.check_timeout(SECOND + 1)
    assert (health.state, health.failures) == ("lost", 0)
    assert [
        health.fail(ALL, accepted=False),
        health.fail(ALL, accepted=False),
        health.fail(ALL, accepted=False),
    ] == [False, False, True]


def test_a_component_that_keeps_failing_makes_the_policy_apply_even_if_others_are_fused():
    health = Health(Gate(persistent=3, policy="reset"))
    one, other = [True, False, False], [False, True, False]
    # Rejections of different components are not in a row.
    assert [
        health.fail(one, accepted=True),
        health.fail(other, accepted=True),
        health.fail(one, accepted=True),
    ] == [False] * 3
    assert (health.state, health.failures) == ("active", 1)
    assert [health.fail(one, accepted=True), health.fail(one, accepted=True)] == [False, True]
    health.count_reset()
    status = health.status()
    assert (status["fused"], status["rejected"], status["resets"]) == (5, 0, 1)
    assert health.failures == 0


def test_a_new_gate_keeps_the_counts():
    health = Health(Gate(weigh_beyond=3.0, timeout=1.0))
    health.note_arrival(0)
    health.accept()
    health.set_gate(Gate(weigh_beyond=4.0, reject_beyond=12.0, timeout=3.0))
    assert health.limits == (16.0, 144.0)
    assert health.status()["fused"] == 1
    health.check_timeout(2 * SECOND)
    assert health.state == "active"
    health.check_timeout(3 * SECOND + 1)
    assert health.state == "lost"


def test_a_sensor_slower_than_its_time_out_is_not_lost_between_its_measurements():
    health = Health(Gate(timeout=1.0))
    for k in range(1, 10):
        health.note_arrival(k * SECOND)
        health.accept()
        if k > 1:  # its interval is known
            assert health.check_timeout((k + 1) * SECOND + SECOND // 10) > (k + 2) * SECOND
            assert health.state == "active"
    health.check_timeout(9 * SECOND + 5 * SECOND // 2 + 1)
    assert health.state == "lost"


def test_pauses_are_not_taken_as_the_interval_of_a_sensor():
    health = Health(Gate(timeout=1.0))
    t = 0
    for pause in (1, 40, 1, 1, 30):  # tenths of a second
        t += pause * SECOND // 10
        health.note_arrival(t)
    assert health.check_timeout(t + 1) == t + SECOND


@pytest.mark.parametrize("is_over", [lambda h: h.check_timeout(60 * SECOND), Health.forget_contradictions])
def test_a_time_out_or_a_restart_ends_a_contradiction(is_over):
    health = Health(Gate(), over_ground=True)
    for t, agrees in ((0, True), (SECOND, False), (2 * SECOND, False)):
        health.note_arrival(t)
        health.note_agreement(t, agrees)
    assert health.is_contradicted(2 * SECOND)
    is_over(health)
    health.note_arrival(60 * SECOND)
    assert not health.is_contradicted(60 * SECOND)
