"""The garbage collector kept out of what has deadlines or is timed."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Within it, nothing is collected by itself, and what was allocated before is left out of every collection.

    Where the collector is off already, it stays so, also afterwards.
    """
    if not gc.isenabled():
        yield
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
