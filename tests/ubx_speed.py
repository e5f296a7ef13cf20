"""Processor time of a UBX message in drivers/ubx.py and in pyubx2: `python tests/ubx_speed.py`.

Epochs of NAV-PVT, NAV-HPPOSLLH, NAV-RELPOSNED and NAV-EOE, as a serial port gives them: ours from bytes to
measurements, pyubx2's from bytes to messages. The result is the best of five runs.
"""

import io
import time
from collections.abc import Callable

from pyubx2 import ERR_RAISE, UBXReader

from drivers.ubx import UbxDecoder, UbxOptions
from replay.ubx_encoder import UbxEncoder
from vehicled.messages import Measurement

EPOCHS = 500
RUNS = 5
PERIOD_NS = 100_000_000
VALUES = {
    **{"gnss.lat": 47.376886, "gnss.lon": -8.541694, "gnss.alt": 412.5, "gnss.quality": 4.0},
    **{"gnss.h_acc": 0.014, "gnss.v_acc": 0.021, "gnss.speed": 12.5, "gnss.course": 3.0},
    **{"gnss.vn": -12.375, "gnss.ve": 1.764, "gnss.vd": 0.25, "gnss.s_acc": 0.05},
    **{"gnss.heading": 3.1, "gnss.heading_acc": 0.004},
}


def decode(epochs: list[bytes]) -> int:
    """Feeds the epochs to our decoder; returns the number of messages that it has read."""
    decoder = UbxDecoder("gnss", UbxOptions(port="none"))
    for i, data in enumerate(epochs):
        assert len(decoder.feed(data, i * PERIOD_NS)) == 1
    return decoder.counters["messages"]


def read(epochs: list[bytes]) -> int:
    """Reads the epochs with pyubx2; returns the number of messages that it has read."""
    return sum(1 for _ in UBXReader(io.BytesIO(b"".join(epochs)), quitonerror=ERR_RAISE))


def measure(run: Callable[[list[bytes]], int], epochs: list[bytes]) -> float:
    """µs of processor time per message."""
    best = float("inf")
    for _ in range(RUNS):
        before = time.process_time()
        count = run(epochs)
        best = min(best, (time.process_time() - before) / count)
    return best * 1e6


def main() -> None:
    encoder = UbxEncoder()
    times = [i * PERIOD_NS for i in range(EPOCHS)]
    epochs = [encoder.encode(Measurement("gnss", t, t, VALUES)) for t in times]
    ours, theirs = measure(decode, epochs), measure(read, epochs)
    print(f"vehicled {ours:.1f} µs, pyubx2 {theirs:.1f} µs of processor time for a message")


if __name__ == "__main__":
    main()
