"""The faults of KAI that the engine can imitate, each declared once (docs/conformance.md, "Faults of KAI").

A rule that differs because of a fault asks ``Session.imitates``. Whoever compares cycles with and without imitated
faults, such as ``kailab.explain.kai_faults``, goes through ``FAULTS``, so a new fault is named there too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kailab.engine.config import EngineConfig


class KaiFault(NamedTuple):
    """``number``: in docs/conformance.md. ``does``: what KAI does, as a predicate without its subject."""

    number: int
    does: str


SURPLUS_LEFT = KaiFault(1, "evicts the core of an elastic job and leaves surplus pods that cannot run on without it")
COUNTED_TWICE = KaiFault(2, "evicts a victim twice in its search, so that a queue looks emptier than it is")
PROMISES_FORGOTTEN = KaiFault(3, "forgets from cycle to cycle for which job it evicted others")
GPU_LOST = KaiFault(4, "loses shared GPUs from its count of idle ones on nodes with promises")
FLOAT_SUMS = KaiFault(9, "adds parts of GPUs as floats, so that what a search frees may seem too little by a hair")
PROMISE_KEPT = KaiFault(10, "gives a victim back the promise of a place that another pod has been promised since")
COPY_LEFT = KaiFault(11, "goes on counting the old place of a share whose move was undone")
MULTIPLE_OF_MEMORY = KaiFault(12, "binds a request for a whole multiple of a GPU's memory to one GPU")
NOT_DISCARDED = KaiFault(13, "keeps the moves of a search that it has given up until the cycle ends")
LACKING_GPUS = KaiFault(14, "refuses pods without GPUs on nodes whose count of GPUs is below zero")
CLAIM_PER_POD = KaiFault(15, "counts a claim that is allocated in the cycle once for each of its pods")
DEVICE_PASSED_ON = KaiFault(16, "leaves a promised device out of the count that another pod is leaving")
HELD_GPU = KaiFault(17, "binds a share to a new GPU that pods are still leaving")
UNBACKED_PROMISE = KaiFault(18, "promises places that no pod has to leave")
ACROSS_KINDS = KaiFault(19, "does not search for a share after a search for whole GPUs has failed")

FAULTS: tuple[KaiFault, ...] = (
    SURPLUS_LEFT,
    COUNTED_TWICE,
    PROMISES_FORGOTTEN,
    GPU_LOST,
    FLOAT_SUMS,
    PROMISE_KEPT,
    COPY_LEFT,
    MULTIPLE_OF_MEMORY,
    NOT_DISCARDED,
    LACKING_GPUS,
    CLAIM_PER_POD,
    DEVICE_PASSED_ON,
    HELD_GPU,
    UNBACKED_PROMISE,
    ACROSS_KINDS,
)
"""All faults. Each can be imitated apart from the others."""


def imitated_faults(config: EngineConfig) -> frozenset[KaiFault]:
    """The faults that a configuration imitates. Numbers of faults that cannot be imitated are ignored."""
    wanted = config.imitate_faults
    if isinstance(wanted, bool):
        return frozenset(FAULTS) if wanted else frozenset()
    return frozenset(fault for fault in FAULTS if fault.number in wanted)


class FaultsBehind(NamedTuple):
    """The faults on which an outcome rests. ``together``: only all of them together lead to it; otherwise each of them
    alone does. ``faults`` is empty if the outcome needs none of them.
    """

    faults: tuple[KaiFault, ...]
    together: bool = False


def faults_behind(imitated: Iterable[KaiFault], same: Callable[[frozenset[KaiFault]], bool]) -> FaultsBehind:
    """Find the faults on which an outcome rests that shows while ``imitated`` are imitated, and not without faults.

    ``same``: True if the outcome also shows while only these faults are imitated. Each fault is tried alone; if none
    suffices, faults are left out one after the other as long as the outcome stays.
    """
    given = tuple(sorted(imitated))
    alone = tuple(fault for fault in given if same(frozenset({fault})))
    if alone:
        # What follows from any one fault follows from none of them: it is the order of equally full devices.
        return FaultsBehind(() if len(alone) == len(given) > 1 else alone)
    needed = frozenset(given)
    for fault in given:
        if same(needed - {fault}):
            needed -= {fault}
    return FaultsBehind(tuple(sorted(needed)), together=True)
