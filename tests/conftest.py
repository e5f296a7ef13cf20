"""Settings of all test processes."""

import gc
import os

# There is a process per core, and matrices are small: threads of the linear algebra would only wait for each other.
# Before NumPy is imported; programs that tests start inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# A worker keeps the graphs of many models; the collector, at its usual rate, looks through all of them too often.
gc.set_threshold(50_000, 20, 50)
