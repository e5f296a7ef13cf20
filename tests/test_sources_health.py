"""The health of a source, from its first measurement over gate failures to its time-out."""

import numpy as np
import pytest

from vehicled.sources.gate import Gate
from vehicled.sources.health import Health

SECOND = 1_000_000_000


def test_thresholds_let_the_configured_share_of_good_measurements_pass():
    rng = np.random.default_rng(1)
    health = Health(Gate(probability=0.99))
    for m in (1, 2, 3):
        nis = np.square(rng.normal(size=(100_000, m))).sum(axis=1)
        assert np.mean(nis <= health.thresholds[m - 1]) == pytest.approx(0.99, abs=0.002)


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
    assert [health.fail(), health.fail()] == [False, False]
    health.accept()  # one good one, and counting begins anew
    wanted = [health.fail() for _ in range(6)]
    assert wanted == ([False, False, True] * 2 if policy == "reset" else [False] * 6)
    status = health.status()
    assert status["state"] == ("active" if policy == "reset" else "distrusted")
    assert status["resets"] == (2 if policy == "reset" else 0)
    assert (status["fused"], status["rejected"], status["reasons"]) == (2, 8, {"gate": 8})


def test_a_rejection_is_counted_with_its_reason_and_is_no_gate_failure():
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


def test_silence_ends_a_row_of_failures():
    health = Health(Gate(persistent=3, timeout=1.0, policy="reset"))
    health.note_arrival(0)
    assert [health.fail(), health.fail()] == [False, False]
    health.check_timeout(SECOND + 1)
    assert (health.state, health.failures) == ("lost", 0)
    assert [health.fail(), health.fail(), health.fail()] == [False, False, True]


def test_other_limits_keep_what_was_counted():
    health = Health(Gate(probability=0.99, timeout=1.0))
    health.note_arrival(0)
    health.accept()
    before = health.thresholds
    health.set_gate(Gate(probability=0.999, timeout=3.0))
    assert all(new > old for new, old in zip(health.thresholds, before, strict=True))
    assert health.status()["fused"] == 1
    health.check_timeout(2 * SECOND)
    assert health.state == "active"
    health.check_timeout(3 * SECOND + 1)
    assert health.state == "lost"
