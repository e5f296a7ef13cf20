"""Settings of all test processes, and the order of the test files."""

import gc
import os
import tempfile
from pathlib import Path

import hypothesis
import pytest

# One test process runs per core, and matrices are small: threads of linear algebra would only wait for each other.
# This must precede the import of NumPy. Programs that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A worker keeps the graphs of many models. At its default rate, the garbage collector traverses them too often.
gc.set_threshold(50_000, 20, 50)

# The time of an example depends on the machine's other load.
hypothesis.settings.register_profile("tests", hypothesis.settings.default, deadline=None)
hypothesis.settings.load_profile("tests")

LONG = (
    "test_replay_command.py",
    "test_log_check.py",
    "test_demo.py",
    "test_observers_noise.py",
    "test_smoothing_drives.py",
    "test_identification_passes.py",
    "test_filter_kinds.py",
    "test_estimator_units.py",
    "test_estimator_faults.py",
    "test_estimator_life.py",
    "test_batch.py",
    "test_bench_observers.py",
    "test_sources_receivers.py",
    "test_vehicle_mechanism.py",
    "test_check.py",
    "test_faults_rows.py",
    "test_identification_gradient.py",
    "test_view_browser.py",
    "test_docs_examples.py",
    "test_estimator_unmeasured_drive.py",
    "test_vehicle_blueprint.py",
    "test_robustness_plants.py",
    "test_suspension_exudyn.py",
)
"""Long files, which start first and in this order. If one started last, the other processes would be idle meanwhile.
Neighbours in this list run at the same time, so no two neighbours are files that run in real time."""


def pytest_collection_modifyitems(items):
    order = {name: k for k, name in enumerate(LONG)}
    items.sort(key=lambda item: order.get(item.path.name, len(LONG)))


@pytest.fixture(scope="module", autouse=True)
def heap():
    """Exclude objects of earlier files from garbage collection: to collect all objects of a worker takes a second."""
    gc.collect()
    gc.freeze()
    gc.unfreeze = lambda: None  # a loop or a benchmark, which freeze too, must not undo this


@pytest.fixture
def socket_folder():
    """A folder for sockets. The path of a socket is limited to 107 bytes; paths in `tmp_path` may be longer."""
    with tempfile.TemporaryDirectory(prefix="v") as folder:
        yield Path(folder)


@pytest.fixture
def connect():
    """Makes ZeroMQ sockets of a client and closes them."""
    import zmq

    context = zmq.Context()

    def make(kind, endpoint, server_key=None, keys=None):
        socket = context.socket(kind)
        socket.linger = 0
        socket.rcvtimeo = 5000
        if server_key is not None:
            socket.curve_serverkey = server_key
            socket.curve_publickey, socket.curve_secretkey = keys or zmq.curve_keypair()
        socket.connect(endpoint)
        return socket

    yield make
    context.destroy(linger=0)


@pytest.fixture
def publisher():
    """A publisher of results at a local port."""
    from vehicled.daemon.endpoints import Endpoints, PublishOptions
    from vehicled.daemon.publisher import Publisher

    options = PublishOptions(endpoint="tcp://127.0.0.1:*")
    endpoints = Endpoints(options)
    publisher = Publisher(endpoints, options)
    publisher.start()
    yield publisher
    publisher.close()
    endpoints.close()
