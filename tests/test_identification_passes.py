"""Identification from several drives: here, in processes, on a cluster, with the same results."""

import jobs_rig
import pytest
from drives_rig import TEXT, bend, changed, drive, prototype_file

from vehicled.configuration import configure
from vehicled.errors import RunError
from vehicled.identification.vehicle.estimate import fit
from vehicled.identification.vehicle.names import choose
from vehicled.identification.vehicle.noise import NOISE
from vehicled.identification.vehicle.passes import Passes
from vehicled.identification.vehicle.prediction_error import ScoredDrive
from vehicled.jobs.cluster import Cluster
from vehicled.jobs.failures import WorkerLostError
from vehicled.jobs.local import LocalProcesses


@pytest.fixture(scope="module")
def drives() -> list[ScoredDrive]:
    configuration = configure(prototype_file(), TEXT)
    return [
        ScoredDrive.of(configuration, drive(changed(mass=0.1), bend(1.5 + 0.5 * seed), seed=seed))
        for seed in (1, 2)
    ]


def found(drives, executor=None):
    parameters = choose("gyro.noise", prototype_file(), NOISE)
    reported = []
    estimate = fit(
        prototype_file(),
        TEXT,
        parameters,
        drives,
        lambda n, seconds, best: reported.append(seconds),
        keep_noise=True,
        executor=executor,
    )
    assert max(reported) == pytest.approx(sum(d.length for d in drives), abs=0.05)
    [one] = estimate.found
    return one.value, one.sigma, estimate.redundancy, estimate.passes


@pytest.fixture(scope="module")
def here(drives):
    return found(drives)


def test_processes_find_the_same(drives, here):
    with LocalProcesses(2) as executor:
        assert found(drives, executor) == here


def test_a_cluster_finds_the_same(drives, here):
    pytest.importorskip("distributed")
    with jobs_rig.start_cluster() as workers, Cluster(workers.scheduler_address) as executor:
        assert found(drives, executor) == here


def test_processes_that_are_killed_are_not_taken_for_a_filter_that_diverges(drives):
    assert not issubclass(WorkerLostError, RunError)
    with LocalProcesses(1) as executor, pytest.raises(WorkerLostError):
        Passes(drives[:1], executor).run(jobs_rig.die, lambda _: None)
