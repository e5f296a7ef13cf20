"""The garbage collector is off within a block, and within blocks of that."""

import gc

from vehicled.garbage import collector_off


def test_it_is_off_within_a_block_and_on_after_it():
    with collector_off():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_block_within_another_collects_nothing_and_leaves_it_off():
    """As where a recording is read by what must not be held up."""
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
