"""Identification from several drives: in this process, in others, and on a cluster, with the same results."""

from functools import partial

import jobs_rig
import numpy as np
import pytest
from drives_rig import TEXT, bend, changed, drive, prototype_file

from vehicled.configuration import configure
from vehicled.errors import RunError
from vehicled.identification.vehicle.names import apply, choose
from vehicled.identification.vehicle.noise import NOISE
from vehicled.identification.vehicle.observed import Change
from vehicled.identification.vehicle.passes import Passes
from vehicled.identification.vehicle.prediction_error import ScoredDrive, differentiate
from vehicled.identification.vehicle.tuning import tune
from vehicled.jobs.cluster import Cluster
from vehicled.jobs.failures import WorkerLostError
from vehicled.jobs.local import LocalProcesses


@pytest.fixture(scope="module")
def drives() -> list[ScoredDrive]:
    configuration = configure(prototype_file(), TEXT)
    return [
        ScoredDrive.of(configuration, drive(changed(mass=0.1), bend(1.2 + 0.2 * seed), seed=seed))
        for seed in (1, 2)
    ]


def found(drives, executor=None):
    parameters = choose("gyro.noise", prototype_file(), NOISE)
    reported = []
    estimate = tune(
        prototype_file(),
        TEXT,
        parameters,
        drives,
        lambda n, seconds, best: reported.append(seconds),
        start=np.zeros(1),
        unexcited={},
        executor=executor,
    )
    assert max(reported) == pytest.approx(sum(d.length for d in drives), abs=0.05)
    [one] = estimate.found
    return one.value, one.sigma, estimate.redundancy, estimate.passes


@pytest.fixture(scope="module")
def here(drives):
    return found(drives)


@pytest.mark.slow
def test_local_processes_find_the_same_noise(drives, here):
    with LocalProcesses(2) as executor:
        assert found(drives, executor) == here


@pytest.mark.slow
def test_a_cluster_gives_the_same_derivatives(drives):
    """A fit consists of such passes."""
    pytest.importorskip("distributed")
    file, one = prototype_file(), NOISE["gyro.noise"]
    change = Change(configure(apply(file, [one], [one.step]), TEXT), one.step)
    work = partial(differentiate, configure(file, TEXT), [change])
    with jobs_rig.start_cluster(1) as workers, Cluster(workers.scheduler_address) as executor:
        parts = Passes(drives, executor).run(work, lambda _: None)
    for (error, derivatives), (expected, others) in zip(parts, map(work, drives), strict=True):
        assert error == expected
        for name in ("gradient", "information", "blocks"):
            assert getattr(derivatives, name).tolist() == getattr(others, name).tolist()


def test_a_killed_process_is_not_taken_for_a_filter_that_diverges(drives):
    assert not issubclass(WorkerLostError, RunError)
    with LocalProcesses(1) as executor, pytest.raises(WorkerLostError):
        Passes(drives[:1], executor).run(jobs_rig.die, lambda _: None)
