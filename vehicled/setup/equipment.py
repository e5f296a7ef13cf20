"""The devices of a first configuration: those found on the ports, and the signals of the bus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from drivers.can import CanSignal
from drivers.probe import SLCAN, ProbedPort, ask_adapter, find_can_interfaces, find_ports, probe_ports
from vehicled.setup.answers import DeviceAnswer
from vehicled.setup.bus import CHANNELS, Bus
from vehicled.setup.dialogue import Dialogue
from vehicled.setup.tyre_size import read_tyre
from vehicled.sources.inputs.steering import CHANNELS_BY_SOURCE

_ROLES = ("imu", "gnss")
"""Names of devices, by their measurements; the first that fits is used."""


def listen(dialogue: Dialogue, ports: Sequence[str]) -> list[ProbedPort]:
    """Identify the devices at this machine's serial ports and at those named; each is reported when found."""
    wanted = list(dict.fromkeys((*ports, *find_ports())))
    if wanted:
        dialogue.say(f"Listening to {', '.join(wanted)} …")
    found = probe_ports(wanted)
    for k, probed in enumerate(found):
        if probed.silent and dialogue.confirm(
            f"{probed.port} is silent. Ask it whether it is a CAN adapter? (sends the character V)", False
        ):
            is_adapter = ask_adapter(probed.port)
            text = "slcan (CAN adapter)" if is_adapter else "silent, no CAN adapter"
            found[k] = probed = ProbedPort(probed.port, text, SLCAN if is_adapter else None, probed.baud)
        at = "" if probed.baud is None else f" at {probed.baud} baud"
        dialogue.say(f"  {probed.port}: {probed.found}{at}")
    return found


def choose_devices(dialogue: Dialogue, found: Iterable[ProbedPort]) -> dict[str, DeviceAnswer]:
    """Devices to be used, by name: the first of each kind, if the answers include that kind."""
    devices: dict[str, DeviceAnswer] = {}
    for probed in found:
        role = next((r for r in _ROLES if any(c.startswith(f"{r}.") for c in probed.channels)), None)
        if role is None or probed.driver is None or not dialogue.known[role]:
            continue
        if role in devices:
            dialogue.say(f"  {probed.port}: not used, as {devices[role].port} is the {role}")
        elif dialogue.confirm(f"Use {probed.port} ({probed.driver}) as {role}?", True):
            devices[role] = DeviceAnswer(driver=probed.driver, port=probed.port, baud=probed.baud)
    return devices


def find_channels(found: Iterable[ProbedPort]) -> list[str]:
    """CAN buses: network interfaces, then adapters."""
    return [*find_can_interfaces(), *(probed.port for probed in found if probed.driver == SLCAN)]


def choose_signals(dialogue: Dialogue, dbc: Path, given: Mapping[str, str] | None) -> dict[str, CanSignal]:
    """The bus's signals by channel.

    Raises UsageError for a DBC file that cannot be read, and for a given signal that it does not have.
    """
    radii = (read_tyre(dialogue.known[f"{axle}_tyre"]).radius for axle in ("front", "rear"))
    bus = Bus(dbc, *radii)
    if given is not None:
        return {channel: bus.find(channel, name) for channel, name in given.items()}
    if dialogue.asks:
        dialogue.say("Signals of the bus as MESSAGE.SIGNAL; none: there is no such signal.")
    proposed = bus.propose()
    if dialogue.known["steering"] == "bicycle":  # the proposed signal is the angle of a steering wheel
        proposed.pop("steer.wheel", None)
    signals: dict[str, CanSignal] = {}
    wanted = [channel for channel in CHANNELS if _is_wanted(channel, dialogue)]
    for channel in wanted:
        signal = dialogue.ask_text(f"  {channel}", proposed.get(channel, ""), partial(bus.find, channel))
        if signal is not None:
            signals[channel] = signal
    lacking = [channel for channel in wanted if channel not in signals]
    if lacking and not dialogue.asks:
        dialogue.say(
            f"{dbc}: no signal, or several, for {', '.join(lacking)}: left out; `signals` names them"
        )
    return signals


def _is_wanted(channel: str, dialogue: Dialogue) -> bool:
    if channel.startswith("wheel."):
        return bool(dialogue.known["wheels"] == "speeds")
    source = "wheel" if dialogue.known["steering"] == "bicycle" else dialogue.known["steering"]
    return not channel.startswith("steer.") or channel in CHANNELS_BY_SOURCE[source]
