"""The garbage collector is off within a block, and within nested blocks."""

import gc

from vehicled.garbage import collector_off


def test_the_collector_is_off_within_a_block_and_on_after_it():
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_nested_block_collects_nothing_and_leaves_the_collector_off():
    """Blocks are nested, for example, where time-critical code reads a recording."""
    collections: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    with collector_off():
        gc.callbacks.append(note)
        try:
            with collector_off():
                pass
        finally:
            gc.callbacks.remove(note)
        assert collections == []
        assert not gc.isenabled()
