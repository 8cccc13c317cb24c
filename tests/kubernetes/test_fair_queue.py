"""Batches that nobody waits for are sent in turn, as much at once as the server takes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

from kubernetes.aio.client import Configuration

from kailab.cluster.kubernetes.apiclient.connection import Connection
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.cluster.kubernetes.writer import FairQueue


class Worked:
    """Works that pass the gate as requests do. ``order``: of their begins; ``most``: at once. Their answers come once ``answer`` was called."""

    def __init__(self, transport: Transport) -> None:
        self.order: list[str] = []
        self.most = 0
        self._transport = transport
        self._left = 0
        self._all_done = threading.Event()
        self._answered = asyncio.Event()

    def answer(self) -> None:
        self._transport.soon(self._answered.set)

    def works(self, name: str, count: int) -> list[Callable[[], Awaitable[None]]]:
        self._left += count

        async def work() -> None:
            pressure = self._transport.pressure
            await pressure.enter()
            self.order.append(name)
            self.most = max(self.most, pressure.under_way)
            await self._answered.wait()
            pressure.answered(0.001, 0.0)
            self._left -= 1
            if not self._left:
                self._all_done.set()

        return [work] * count

    def wait(self) -> None:
        assert self._all_done.wait(120)


def unused() -> Transport:
    """Its loop and its gate; nothing is sent."""
    return Transport(Connection("https://127.0.0.1:1", "nobody", Configuration()))


def test_a_small_batch_does_not_wait_for_the_end_of_a_large_one() -> None:
    transport = unused()
    try:
        worked, in_turn = Worked(transport), FairQueue(transport)
        large, small = worked.works("large", 2000), worked.works("small", 5)
        in_turn.add(large)
        in_turn.add(small)
        worked.answer()
        worked.wait()
        assert worked.order.count("large") == 2000
        assert worked.order.count("small") == 5
        # As many of the large one as are begun at once come before it, and then one of each in turn.
        last = len(worked.order) - 1 - worked.order[::-1].index("small")
        assert last < 200
        assert worked.most <= int(transport.pressure.limit)
    finally:
        transport.close()


def test_it_goes_on_after_the_gate_has_become_narrow() -> None:
    transport = unused()
    try:
        worked, in_turn = Worked(transport), FairQueue(transport)
        worked.answer()
        works = worked.works("some", 500)
        shrunk = transport.pressure.record_overload

        async def narrowing() -> None:
            await transport.pressure.enter()
            shrunk(1000.0 * len(worked.order) + 1000.0)

        in_turn.add([work for pair in zip([narrowing] * 500, works, strict=True) for work in pair])
        worked.wait()
        assert worked.order == ["some"] * 500
    finally:
        transport.close()


def test_nothing_is_left_under_way_when_all_is_done() -> None:
    transport = unused()
    try:
        worked, in_turn = Worked(transport), FairQueue(transport)
        worked.answer()
        for _ in range(3):
            in_turn.add(worked.works("some", 50))
        worked.wait()
        done = threading.Event()
        transport.soon(lambda: transport.soon(done.set))
        assert done.wait(60)
        assert transport.pressure.under_way == 0
    finally:
        transport.close()
