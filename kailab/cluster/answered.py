"""Writes that are to be carried out however slow the server is: tried again while no answer says that they were."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from kailab.cluster.waiting import look_until
from kailab.cluster.writes import Chain, Create, Delete, Outcome
from kailab.errors import AlreadyExists, NotFound, Unavailable


class Writes(Protocol):
    """As much of a cluster as writes need."""

    def write_all(self, chains: Sequence[Chain]) -> list[Outcome]:
        """See ``kailab.cluster.protocol.Cluster``."""


def write_until_answered(
    cluster: Writes,
    writes: Sequence[Create | Delete],
    seconds: float,
    *,
    pause: float = 0.5,
    sleep: Callable[[float], object] | None = None,
) -> list[Outcome]:
    """What became of each write. One that got no answer is sent again for ``seconds``; what it did the first time is what was asked
    for: a deleted object that is not there, a created one that is. The error that is left after that is ``Unavailable``."""
    outcomes: dict[int, Outcome] = {}
    waiting = list(range(len(writes)))
    doubtful: set[int] = set()

    def send() -> list[int]:
        nonlocal waiting
        # A server that was too busy for all of them at once is asked for the rest only.
        for number, outcome in zip(waiting, cluster.write_all([[writes[n]] for n in waiting]), strict=True):
            # Without a doubtful try before it, the same answer is a refusal.
            done = isinstance(outcome.error, AlreadyExists | NotFound) and number in doubtful
            outcomes[number] = Outcome([None], None) if done else outcome
        waiting = [number for number in waiting if isinstance(outcomes[number].error, Unavailable)]
        doubtful.update(number for number in waiting if _may_be_done(outcomes[number]))
        return waiting

    if writes:
        look_until(send, lambda left: not left, seconds, pause=pause, sleep=sleep)
    return [outcomes[number] for number in range(len(writes))]


def _may_be_done(outcome: Outcome) -> bool:
    return outcome.error is not None and outcome.error.doubtful
