"""Free ports of this machine for the processes of control planes.

They are below the range from which systems take ports for outgoing connections. A restarted process needs its old port
again, and one from that range may be in use by then, even by a client that tried to reach the process.
"""

from __future__ import annotations

import random
import socket

from kailab.errors import StateError

LOOPBACK = "127.0.0.1"
FIRST, LAST = 20_000, 30_000
_TRIES = 500
_chance = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """Different ports that nobody listens on now. Raises StateError if there are too few."""
    ports: list[int] = []
    for _ in range(_TRIES):
        # At random, so that control planes that start at the same time rarely collide.
        port = _chance.randrange(FIRST, LAST)
        if port not in ports and is_free(port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise StateError(f"no free port was found on {LOOPBACK} from {FIRST} to {LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as connection:
        # As servers set it: lingering connections of an earlier server don't count.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            connection.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def is_free_everywhere(port: int) -> bool:
    """True if the port is free on all addresses, as Go's ``:8080`` needs it."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as connection:
        # As Go sets it: closing connections don't count.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            connection.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            connection.bind(("", port))
        except OSError:
            return False
    return True
