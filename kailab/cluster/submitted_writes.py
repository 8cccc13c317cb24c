"""Writes that were submitted to a cluster without waiting, and their outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from kailab.cluster.protocol import SubmittedWrites
from kailab.cluster.writes import WriteOutcome

What = TypeVar("What")


class SubmittedBatch:
    """Implements ``SubmittedWrites``. ``done``: answered and not collected yet."""

    def __init__(self, done: Iterable[tuple[int, WriteOutcome]] = ()) -> None:
        self.done = list(done)

    def collect(self) -> list[tuple[int, WriteOutcome]]:
        done, self.done = self.done, []
        return done


class SubmittedItems(Generic[What]):
    """Submitted batches with an item for each chain, so that each answer comes with its item."""

    def __init__(self) -> None:
        # Each with the items of its chains that are not answered.
        self._batches: list[tuple[SubmittedWrites, dict[int, What]]] = []

    def add(self, writes: SubmittedWrites, items: Sequence[What]) -> None:
        """``items``: one item for each chain."""
        self._batches.append((writes, dict(enumerate(items))))

    def answered(self) -> Iterator[tuple[What, WriteOutcome]]:
        """Items whose chains were answered since the last call, with the outcomes."""
        for writes, items in self._batches:
            for number, outcome in writes.collect():
                yield items.pop(number), outcome
        self._batches = [batch for batch in self._batches if batch[1]]
