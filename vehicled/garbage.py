"""Garbage collection switched off for code that has deadlines or is timed."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_off() -> Iterator[None]:
    """Context without automatic collection; earlier allocations are excluded from every collection.

    If the collector is off already, it remains off, also afterwards.
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
