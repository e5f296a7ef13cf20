"""`vehicled run` on a disk that stalls, as a card that wears out or a network file system that hangs.

`python -m vehicled.studies.faults.slow_disk SECONDS run --config FILE`: every write of the recording takes SECONDS.
"""

import runpy
import sys
import time

from replay.mcap_writer import McapWriter


def _stall(seconds: float) -> None:
    sync = McapWriter.sync

    def sync_slowly(self: McapWriter) -> None:
        time.sleep(seconds)
        sync(self)

    McapWriter.sync = sync_slowly  # type: ignore[method-assign]


if __name__ == "__main__":
    _stall(float(sys.argv.pop(1)))
    runpy.run_module("vehicled", run_name="__main__", alter_sys=True)
