"""The ring buffer of past poses: interpolation, later corrections, and its length."""

import numpy as np
import pytest
from history_rig import PastPoses

from vehicled.filter.history import FASTEST
from vehicled.symbolic.record_code import LAST_MOMENT

H = 4_000_000


def filled(steps: int, memory: float = 0.036) -> PastPoses:
    """Pose 10 k at step k, uncorrected."""
    history = PastPoses(memory, 1, 1)
    for k in range(steps):
        history.step(k * H, np.array([10.0 * k]))
    return history


def test_pose_is_linear_between_steps_and_exact_on_them():
    history = filled(8)
    for k in range(8):
        assert history.at(k * H)[0] == pytest.approx([10.0 * k])
    assert history.at(3 * H + H // 4)[0] == pytest.approx([32.5])


def test_a_time_after_the_last_step_counts_as_the_last_step():
    pose, (dz, dzd) = filled(8).at(100 * H)
    assert (pose[0], dz, dzd) == (70.0, 0.0, 0.0)


def test_a_time_before_the_first_step_is_too_old():
    history = filled(5)
    assert history.at(-1) is None
    assert history.at(0) is not None


def test_poses_older_than_the_memory_are_discarded():
    history = filled(25)
    assert history.at(15 * H - 1) is None
    assert history.at(15 * H)[0] == pytest.approx([150.0])
    for t in np.arange(15.0, 24.0, 0.25):
        assert history.at(int(t * H))[0] == pytest.approx([10.0 * t])


def test_more_steps_than_the_ring_holds_discard_the_oldest():
    memory, steps, h = 0.036, 1000, round(1e9 / FASTEST) // 10
    history = PastPoses(memory, 1, 1)
    for k in range(steps):
        history.step(k * h, np.array([10.0 * k]))
    room = round(memory * FASTEST) + 2
    assert steps > 2 * room
    assert history.at((steps - room) * h - 1) is None
    assert history.at(int((steps - room + 0.5) * h))[0] == pytest.approx([10 * (steps - room + 0.5)])


def test_at_the_highest_rate_the_memory_still_suffices():
    memory, h = 0.036, round(1e9 / FASTEST)
    history = PastPoses(memory, 1, 1)
    for k in range(1000):
        history.step(k * h, np.array([10.0 * k]))
    oldest = 999 - round(memory * FASTEST)
    assert history.at(oldest * h)[0] == pytest.approx([10.0 * oldest])
    assert history.at(oldest * h - 1) is None


def test_clearing_discards_all_past_poses():
    history = filled(5)
    history.correct(np.ones(3), np.zeros(1))
    history.history.clear()
    history.step(7 * H, np.array([3.0]))
    assert history.at(6 * H) is None
    pose, (dz, dzd) = history.at(7 * H)
    assert (pose[0], dz, dzd) == (3.0, 0.0, 0.0)


def test_between_steps_poses_are_interpolated_from_the_corrected_one_to_the_next():
    history = filled(4)
    history.correct(np.array([5.0, 0.0, 0.0]), np.array([35.0]))
    history.step(4 * H, np.array([45.0]))
    assert history.at(3 * H + H // 2)[0] == pytest.approx([40.0])
    # Exactly at the step: the pose before its correction, through which a late observation is propagated.
    assert history.at(3 * H)[0] == pytest.approx([30.0])


def test_corrections_of_the_last_step_are_added_up_with_the_drift_they_cause():
    rng = np.random.default_rng(0)
    history = PastPoses(0.4, 1, 2)
    history.step(0, np.zeros(1))
    history.correct(rng.normal(size=6), np.zeros(1))
    history.step(H, np.zeros(1))
    made = rng.normal(size=(3, 3, 2))
    for moved in made:
        history.correct(moved.ravel(), np.zeros(1))
    for t in (H // 4, H):
        _, corrected = history.at(t)
        dz, drift, dzd = made.sum(axis=0)
        assert corrected == pytest.approx(np.concatenate([dz + (t - H) * 1e-9 * drift, dzd]))


@pytest.mark.parametrize("later_steps", [0, 3])
def test_a_pose_lacks_the_last_correction_of_forces_the_more_the_nearer_it_is_to_the_step_before(later_steps):
    """Its accelerations lie between those that were calculated without that correction and those with it."""
    history = PastPoses(0.4, 1, 1, 1)
    history.step(0, np.zeros(1))
    history.correct(np.array([0.0, 0.0, 0.0, 9.0]), np.zeros(1))
    history.step(H, np.zeros(1))
    history.correct(np.array([0.0, 0.0, 0.0, 5.0]), np.zeros(1))
    history.correct(np.array([0.0, 0.0, 0.0, 3.0]), np.zeros(1))
    for k in range(1 + later_steps):
        history.step((2 + k) * H, np.zeros(1))
    for share in (0.25, 0.95, 1.0):
        history.at(H + round(share * H))
        assert history.view("lacking")[0] == pytest.approx(8.0 * (1.0 - share))
    history.at(H)
    assert history.view("lacking")[0] == 0.0


def test_a_pose_after_a_step_without_corrections_lacks_none():
    """As in three of five steps with an IMU of 100 Hz: the forces are those of the prediction."""
    history = PastPoses(0.4, 1, 1, 1)
    history.step(0, np.zeros(1))
    history.correct(np.array([0.0, 0.0, 0.0, 9.0]), np.zeros(1))
    history.step(H, np.zeros(1))
    for k in range(3):
        history.step((2 + k) * H, np.zeros(1))
    history.at(round(1.25 * H))
    assert history.view("lacking")[0] == 0.0
    history.at(round(0.25 * H))
    assert history.view("lacking")[0] == pytest.approx(9.0 * 0.75)


def test_only_times_up_to_the_previous_step_are_late():
    history = filled(8).history
    assert history.find(7 * H, 0.0) == LAST_MOMENT
    assert history.find(6 * H + 1, 0.0) == LAST_MOMENT
    assert history.find(6 * H, 0.0) == 6
