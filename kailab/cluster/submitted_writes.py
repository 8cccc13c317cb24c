"""Writes that were handed over to a cluster, and what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from kailab.cluster.protocol import SubmittedWrites
from kailab.cluster.writes import WriteOutcome

What = TypeVar("What")


class SubmittedBatch:
    """Implements ``SubmittedWrites``. ``done``: what is answered and not taken yet."""

    def __init__(self, done: Iterable[tuple[int, WriteOutcome]] = ()) -> None:
        self.done = list(done)

    def take(self) -> list[tuple[int, WriteOutcome]]:
        done, self.done = self.done, []
        return done


@dataclass
class _Batch(Generic[What]):
    """``left``: how many of its chains are not answered."""

    handed: SubmittedWrites
    whats: Sequence[What]
    left: int


class SubmittedItems(Generic[What]):
    """What each chain was for, of batches that were handed over."""

    def __init__(self) -> None:
        self._batches: list[_Batch[What]] = []

    def add(self, handed: SubmittedWrites, whats: Sequence[What]) -> None:
        """One of ``whats`` for each chain."""
        self._batches.append(_Batch(handed, whats, len(whats)))

    def answered(self) -> Iterator[tuple[What, WriteOutcome]]:
        """Those answered since the last call, each with what became of it."""
        for batch in self._batches:
            for number, outcome in batch.handed.take():
                batch.left -= 1
                yield batch.whats[number], outcome
        self._batches = [batch for batch in self._batches if batch.left]
