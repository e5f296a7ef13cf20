"""Rows of disturbances of the daemon, its machine and its disk, and of actions of users."""

from __future__ import annotations

from functools import partial

from vehicled.studies.faults import disks
from vehicled.studies.faults.disturbances import (
    change_filter,
    configure_with_pipe,
    hog_processor,
    kill,
    limit_files,
    reset_filter,
    send_commands,
    send_hangups,
    subscribe_hostile,
    suspend,
)
from vehicled.studies.faults.drives import BEGIN, END
from vehicled.studies.faults.memory import squeeze
from vehicled.studies.faults.row import ALL, Row

_NEXT_ATTEMPT = 8.0
"""s: longest pause between attempts to record, after a failure of six seconds or more."""
_SLOW_DISK = "vehicled.studies.faults.slow_disk"

MACHINE_ROWS: tuple[Row, ...] = (
    Row(
        name="restart in a turn",
        scored_from=BEGIN + 3.0,
        disturbance=reset_filter,
        metres=2.0,
        recovery=3.0,
        offline=False,
    ),
    Row(
        name="kill -9 while recording",
        disturbance=kill,
        end=BEGIN + 4.0,
        scored_from=BEGIN + 7.0,
        honest_before=True,
        recovery=3.0,
        offline=False,
    ),
    Row(name="SIGHUP 100 times a second", disturbance=send_hangups, offline=False),
    Row(name="configuration replaced by a pipe", disturbance=configure_with_pipe, offline=False),
    Row(name="commands in a loop", disturbance=send_commands, offline=False),
    Row(
        name="changes of the filter in a loop",
        disturbance=change_filter,
        scored_from=END + 3.0,
        recovery=3.0,
        refused=ALL,
        offline=False,
    ),
    Row(name="hostile subscriptions", disturbance=subscribe_hostile, offline=False),
    Row(
        name="suspend and resume",
        disturbance=suspend,
        metres=20.0,
        degrees=40.0,
        recovery=3.0,
        refused=ALL,
        end=BEGIN + 4.0,
        offline=False,
    ),
    Row(name="processor busy at the same priority", disturbance=hog_processor, offline=False),
    Row(name="memory short", disturbance=squeeze, offline=False),
    Row(
        name="files cannot grow",
        disturbance=limit_files,
        unrecorded=END - BEGIN + _NEXT_ATTEMPT,
        offline=False,
    ),
    Row(
        name="disk full at start",
        disk=partial(disks.own_disk, full=True),
        disturbance=disks.free,
        begin=0.0,
        end=BEGIN,
        unrecorded=BEGIN + _NEXT_ATTEMPT,
        offline=False,
    ),
    Row(
        name="disk full",
        disk=disks.own_disk,
        disturbance=disks.fill,
        unrecorded=END - BEGIN + _NEXT_ATTEMPT,
        offline=False,
    ),
    Row(name="disk stalls for 100 ms", module=(_SLOW_DISK, "0.1"), offline=False),
    Row(name="disk stalls for 3 s", module=(_SLOW_DISK, "3"), offline=False),
    Row(name="file system hangs", disk=disks.own_disk, disturbance=disks.hang, offline=False),
)
