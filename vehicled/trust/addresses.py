"""Which addresses only this machine can reach."""

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what is bound to an address. Names but localhost may resolve to anything."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_local(endpoint: str) -> bool:
    """Whether a ZeroMQ endpoint is on this machine, and only this machine can connect to it."""
    transport, _, address = endpoint.partition("://")
    return transport == "ipc" or is_loopback(address.rpartition(":")[0])
