"""Work that nobody waits for, from several batches in turn: a small batch does not wait for the end of a large one.

As much of it is begun as ``Pressure`` lets through and a little more, so that those who do wait find few before them at the
gate.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from kailab.cluster.kubernetes.apiclient.transport import Transport

Work = Callable[[], Awaitable[None]]
_MORE = 2  # than are let through: the gate widens only while somebody waits at it


class InTurn:
    """For one transport; ``add`` may be called from any thread."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._batches: deque[deque[Work]] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._at_work = 0  # counted at once, where a task ends a little later

    def add(self, works: Iterable[Work]) -> None:
        """``works`` must not raise."""
        batch = deque(works)
        if batch:
            self._transport.soon(lambda: self._take_up(batch))

    def _take_up(self, batch: deque[Work]) -> None:
        self._batches.append(batch)
        self._staff()

    def _staff(self) -> None:
        waiting = sum(map(len, self._batches))
        for _ in range(min(waiting, self._places() - self._at_work)):
            self._at_work += 1
            # Held, because the loop holds tasks weakly.
            worker = self._transport.loop.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)

    def _places(self) -> int:
        return int(self._transport.pressure.limit) + _MORE

    async def _work(self) -> None:
        try:
            with self._transport.urgently():
                while self._batches and self._at_work <= self._places():
                    batch = self._batches.popleft()
                    work = batch.popleft()
                    if batch:
                        self._batches.append(batch)
                    await work()
                    self._staff()
        finally:
            self._at_work -= 1
