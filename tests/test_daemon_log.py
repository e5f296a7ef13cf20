"""The daemon's logging: complete, bounded, non-blocking, and in the journal's format."""

import logging
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

from vehicled.daemon.log import Logging


def test_lines_at_or_above_the_level_reach_stderr(capsys, monkeypatch):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    with Logging(logging.INFO):
        logging.getLogger("imu").info("connected at %d baud", 115200)
        logging.getLogger("imu").debug("a detail")
    logging.getLogger("imu").error("said too late")
    err = capsys.readouterr().err
    assert "INFO    imu: connected at 115200 baud\n" in err
    assert "detail" not in err
    assert "too late" not in err


def test_times_are_in_utc_in_every_time_zone(capsys, monkeypatch):
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        with Logging(logging.INFO):
            logging.getLogger("imu").info("connected")
    time.tzset()
    written = datetime.fromisoformat(capsys.readouterr().err.split()[0])
    assert written.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - written) < timedelta(minutes=10)


def test_the_journal_gets_priorities_on_every_line(capsys, monkeypatch):
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")
    with Logging(logging.INFO):
        logging.getLogger("imu").error("lost:\nthe cable")
        logging.getLogger("imu").warning("slow")
    assert capsys.readouterr().err == "<3>imu: lost:\n<3>the cable\n<4>imu: slow\n"


def test_logging_does_not_block_on_a_blocked_terminal(monkeypatch):
    class Stuck:
        def __init__(self):
            self.free = threading.Event()
            self.lines = 0

        def write(self, text):
            self.free.wait(5)
            self.lines += 1

        def flush(self):
            pass

    stuck = Stuck()
    monkeypatch.setattr(sys, "stderr", stuck)
    with Logging(logging.INFO) as log:
        for i in range(3000):
            logging.getLogger("imu").info("line %d", i)
        stuck.free.set()
        dropped = log.dropped
    assert dropped > 0
    assert stuck.lines + dropped == 3000
