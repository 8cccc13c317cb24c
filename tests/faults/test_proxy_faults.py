"""A scheduler whose way to the API server is bad: refusals, lost answers, cut connections, watches that end, delays."""

from __future__ import annotations

import time

import pytest

from tests.faults import oracle, work
from tests.faults.conftest import Field
from tests.faults.proxy import Asked, Fault

pytestmark = pytest.mark.slow

SEED = 20
RESERVATIONS = f"/namespaces/{oracle.RESERVATIONS}/pods"
DRAIN_SECONDS = 240.0  # for events and status that had to wait
QUIET_SECONDS = 4.0
QUIET_REQUESTS_PER_SECOND = 3.0


def _writes(asked: Asked) -> bool:
    return asked.writes


def _reserves(asked: Asked) -> bool:
    return asked.method == "POST" and RESERVATIONS in asked.path


def _frees(asked: Asked) -> bool:
    return asked.method == "DELETE" and RESERVATIONS in asked.path


def _binds_halves(asked: Asked) -> bool:
    return asked.method == "POST" and "/pods/half-" in asked.path


FAULTS = {
    "conflicts": lambda: [Fault("conflicts", "refuse", 0.15, 409, on=_writes)],
    "too many requests": lambda: [Fault("too many requests", "refuse", 0.15, 429, headers={"Retry-After": "1"})],
    "errors": lambda: [Fault("errors", "refuse", 0.2, 500)],
    "time-outs": lambda: [Fault("time-outs", "refuse", 0.2, 504)],
    "lost answers": lambda: [Fault("lost answers", "lose", 0.3, 504, on=_writes)],
    "lost errors": lambda: [Fault("lost errors", "lose", 0.3, 500, on=_writes)],
    "vanished": lambda: [Fault("vanished", "vanish", 0.3)],
    "cut": lambda: [Fault("cut", "cut", 0.3)],
    "delays": lambda: [Fault("delays", "delay", 0.1, seconds=2.0)],
    "dropped watches": lambda: [Fault("dropped watches", "drop", 0.9, seconds=0.5)],
    "lost reservations": lambda: [
        Fault("lost reservations", "lose", 0.8, 500, on=_reserves),
        Fault("dropped watches", "drop", 1.0, seconds=0.2),
    ],
    "needless reservations": lambda: [
        Fault("refused bindings", "refuse", 1.0, 409, on=_binds_halves, most=10),
        Fault("kept reservations", "refuse", 1.0, 409, on=_frees, most=10),
    ],
    "gone watches": lambda: [Fault("gone watches", "gone", 0.5), Fault("dropped watches", "drop", 1.0, seconds=1.0)],
}


def _all() -> list[Fault]:
    """Each at a chance that leaves about half of the requests alone."""
    found = [fault for made in FAULTS.values() for fault in made()]
    for fault in found:
        fault.chance /= 4
    return found


@pytest.mark.parametrize("name", [*FAULTS, "all at once"])
def test_a_fill(field: Field, name: str) -> None:
    faults = FAULTS[name]() if name in FAULTS else _all()
    proxy = field.proxy(*faults, seed=SEED)
    field.scheduler(kubeconfig=proxy.kubeconfig)
    filling = work.filling()
    field.create(*filling.objects)
    field.settled(filling.owed, filling.full, quiet=0.5)
    assert sum(fault.done for fault in faults) > 3
    # In quiet, what fails is not tried without end.
    proxy.faults = []
    field.settled(filling.owed, filling.full)
    end = time.monotonic() + DRAIN_SECONDS
    while True:
        begun = time.monotonic()
        field.looks(QUIET_SECONDS)
        asked = proxy.since(begun)
        if len(asked) < QUIET_SECONDS * QUIET_REQUESTS_PER_SECOND:
            break
        assert begun < end, [(one.method, one.path) for one in asked]
    field.nobody_restarted()
