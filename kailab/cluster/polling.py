"""Polling: read again until a condition holds or the time is up, and repeat writes until a slow server has answered them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kailab.cluster.writes import Chain, CreateWrite, DeleteWrite, WriteOutcome
from kailab.errors import AlreadyExists, NotFound, Unavailable

if TYPE_CHECKING:
    import tenacity

T = TypeVar("T")
POLL_SECONDS = 0.1


def poll_until(
    read: Callable[[], T],
    enough: Callable[[T], bool],
    seconds: float,
    *,
    pause: Callable[[tenacity.RetryCallState], float] | float = POLL_SECONDS,
    sleep: Callable[[float], object] | None = None,
) -> T:
    """The last result of ``read``: the first that is ``enough``, else the one when the time is up. Exceptions of
    ``read`` pass through.

    ``pause``: seconds between reads, or tenacity's function for them. ``sleep``: how to pass them; a live cluster's
    ``wait`` wakes early.
    """
    import tenacity  # slow to import, and an embedded cluster needs no patience

    how: dict[str, Any] = {} if sleep is None else {"sleep": sleep}
    return tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda result: not enough(result)),
        stop=tenacity.stop_after_delay(seconds),
        wait=pause if callable(pause) else tenacity.wait_fixed(pause),
        # When the time is up, the caller judges the last result; an exception would lose it.
        retry_error_callback=lambda state: state.outcome.result() if state.outcome is not None else None,
        **how,
    )(read)


def wait_until(
    done: Callable[[], bool],
    seconds: float,
    pause: float = POLL_SECONDS,
) -> bool:
    """True if ``done`` came true in time."""
    return bool(poll_until(done, bool, seconds, pause=pause))


def poll_while_fewer(
    read: Callable[[], list[str]], count: int, seconds: float, *, sleep: Callable[[float], object] | None = None
) -> list[str]:
    """Poll until ``read`` finds no name, as long as it finds fewer than before within every ``seconds``. Returns the names that remain.
    ``count``: how many there are at first."""

    def fewer(seen: list[str]) -> bool:
        return len(seen) < count

    while count:
        remaining = poll_until(read, fewer, seconds, sleep=sleep)
        if not fewer(remaining):
            return remaining
        count = len(remaining)
    return []


class BatchWriter(Protocol):
    """The part of a cluster that ``write_until_answered`` uses."""

    def write_all(self, chains: Sequence[Chain]) -> list[WriteOutcome]:
        """See ``kailab.cluster.protocol.Cluster``."""


def write_until_answered(
    cluster: BatchWriter,
    writes: Sequence[CreateWrite | DeleteWrite],
    seconds: float,
    *,
    pause: float = 0.5,
    sleep: Callable[[float], object] | None = None,
) -> list[WriteOutcome]:
    """Write, and repeat writes that got no answer for ``seconds``. Returns an outcome for each write.

    A repeated write may have been carried out the first time: then AlreadyExists for a create and NotFound for a delete
    count as success. An error that is left at the end is ``Unavailable``, or a refusal.
    """
    outcomes: dict[int, WriteOutcome] = {}
    waiting = list(range(len(writes)))
    unanswered: set[int] = set()

    def send() -> list[int]:
        nonlocal waiting
        # Only writes without an answer are repeated.
        for number, outcome in zip(waiting, cluster.write_all([[writes[n]] for n in waiting]), strict=True):
            # Only after an unanswered try; otherwise the same answer is a refusal.
            done = isinstance(outcome.error, AlreadyExists | NotFound) and number in unanswered
            outcomes[number] = WriteOutcome([None], None) if done else outcome
        waiting = [number for number in waiting if isinstance(outcomes[number].error, Unavailable)]
        unanswered.update(n for n in waiting if (error := outcomes[n].error) is not None and error.unanswered)
        return waiting

    if writes:
        poll_until(send, lambda left: not left, seconds, pause=pause, sleep=sleep)
    return [outcomes[number] for number in range(len(writes))]
