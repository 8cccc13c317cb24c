"""Ports of this machine for the processes of control planes.

They are taken below the range from which systems give ports to outgoing connections. A process that is started again
needs its old port, and one of that range may by then be somebody's, even a client's that tried to reach it.
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
    """Different ports that nobody listens on now. Raises StateError if there are none."""
    found: list[int] = []
    for _ in range(_TRIES):
        # At random, so that planes which are started side by side rarely meet.
        port = _chance.randrange(FIRST, LAST)
        if port not in found and is_free(port):
            found.append(port)
        if len(found) == count:
            return found
    raise StateError(f"no free port was found on {LOOPBACK} from {FIRST} to {LAST}")


def is_free(port: int) -> bool:
    with socket.socket() as one:
        # As servers ask for it: connections of an earlier server that wait out their time don't count.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((LOOPBACK, port))
        except OSError:
            return False
    return True


def is_free_everywhere(port: int) -> bool:
    """Whether the port can be had on all addresses, as Go's ``:8080`` asks for it."""
    family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET
    with socket.socket(family) as one:
        # As Go sets it: connections that are closing don't count.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True
