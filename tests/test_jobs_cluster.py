"""Jobs on a Dask cluster of two local workers: results, errors, killed workers and missing schedulers."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jobs_rig
import pytest
from jobs_rig import square

from vehicled.errors import UsageError
from vehicled.jobs import cluster as jobs_cluster
from vehicled.jobs.cluster import Cluster
from vehicled.jobs.failures import ExecutorError
from vehicled.jobs.run import run_jobs

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def workers():
    with jobs_rig.start_cluster() as cluster:
        yield cluster


@pytest.fixture
def executor(workers):
    with Cluster(workers.scheduler_address) as executor:
        yield executor


def test_results_are_in_order_and_made_by_both_workers(executor):
    reported = []
    rows = run_jobs(jobs_rig.square_slowly, range(20), executor, reported.append)
    assert [row["square"] for row in rows] == [n * n for n in range(20)]
    assert reported == list(range(1, 21))
    assert len({row["process"] for row in rows} - {os.getpid()}) == 2


def test_an_error_in_a_job_is_raised_by_the_run(executor):
    with pytest.raises(UsageError, match="not 7"):
        run_jobs(jobs_rig.refuse, [7], executor, print)


def test_killing_a_worker_during_the_run_loses_no_result(executor, workers):
    def kill(n):
        if n == 2:
            first = next(iter(workers.workers.values()))
            os.kill(first.process.pid, signal.SIGKILL)

    rows = run_jobs(jobs_rig.square_slowly, range(12), executor, kill)
    assert [row["square"] for row in rows] == [n * n for n in range(12)]


def test_the_job_of_a_killed_worker_is_run_again(tmp_path, executor):
    rows = run_jobs(partial(jobs_rig.die_once, str(tmp_path)), range(6), executor, lambda _: None)
    assert [row["square"] for row in rows] == [n * n for n in range(6)]
    assert (tmp_path / "3-1").exists()


def test_a_job_that_kills_its_worker_each_time_is_an_error_after_all_others_are_done(
    executor, workers, monkeypatch
):
    monkeypatch.setattr(workers.scheduler, "allowed_failures", 1)  # not 3: a worker takes a second to start
    done = []
    with pytest.raises(ExecutorError, match="its process was killed each time"):
        run_jobs(jobs_rig.die_by_number, [2, 3, 4, 6], executor, lambda _: None, done.append)
    assert sorted(row["n"] for row in done) == [2, 4, 6]


def test_a_shared_value_reaches_its_jobs_after_all_workers_were_killed(executor, workers):
    shared = executor.share(list(range(1000)))
    assert executor.submit(sum, shared, 1).result(60) == 499501
    for worker in tuple(workers.workers.values()):
        os.kill(worker.process.pid, signal.SIGKILL)
    assert executor.submit(sum, shared, 2).result(60) == 499502


def test_leaving_the_context_cancels_jobs_that_have_not_started(tmp_path, workers):
    def interrupt(n):
        raise KeyboardInterrupt

    work = partial(jobs_rig.leave_mark, str(tmp_path))
    with pytest.raises(KeyboardInterrupt), Cluster(workers.scheduler_address) as executor:
        run_jobs(work, range(40), executor, interrupt)
    time.sleep(1.0)
    assert len(list(tmp_path.iterdir())) < 10
    with Cluster(workers.scheduler_address) as executor:
        assert executor.submit(square, 3).result(30)["square"] == 9


def test_different_package_versions_are_reported_in_one_line(monkeypatch, workers):
    here = jobs_cluster.describe_installation()
    older = tuple((n, "1.0" if n == "numpy" else v) for n, v in here.versions)
    monkeypatch.setattr(jobs_cluster, "describe_installation", lambda: here._replace(versions=older))
    with Cluster(workers.scheduler_address) as executor:
        pattern = r"^tcp://\S+: numpy [\d.]+ on the worker and 1.0 here; expected the same versions$"
        with pytest.raises(ExecutorError, match=pattern):
            run_jobs(square, [1], executor, print)


def test_an_unreachable_scheduler_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr(jobs_cluster, "_CONNECT_S", 0.5)
    with pytest.raises(ExecutorError, match=r"^tcp://127.0.0.1:9: no Dask scheduler: [^\n]+$"):
        Cluster("tcp://127.0.0.1:9")


def test_tls_without_certificates_is_reported():
    with pytest.raises(
        UsageError, match=r"^--scheduler tls://127.0.0.1:9: expected certificates in Dask's settings"
    ):
        Cluster("tls://127.0.0.1:9")


def test_a_scheduler_without_workers_is_reported(monkeypatch):
    monkeypatch.setattr(jobs_cluster, "_CONNECT_S", 2.0)
    with (
        jobs_rig.start_cluster(0) as empty,
        pytest.raises(ExecutorError, match="the scheduler has no workers"),
    ):
        Cluster(empty.scheduler_address)


def test_unfinished_jobs_fail_when_the_scheduler_shuts_down():
    with jobs_rig.start_cluster(1) as cluster, Cluster(cluster.scheduler_address) as executor:
        assert executor.submit(square, 2).result(60)["square"] == 4
        futures = [executor.submit(time.sleep, 60) for _ in range(2)]
        with ThreadPoolExecutor(1) as thread:
            thread.submit(cluster.close)
        for future in futures:
            with pytest.raises(ExecutorError, match="the scheduler has gone"):
                future.result(60)
