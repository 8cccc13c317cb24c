"""How many requests are under way at once follows how the server bears them."""

from __future__ import annotations

import asyncio

from kailab.cluster.kubernetes.apiclient.transport import FIRST, LEAST, MOST, NARROW, RequestLimit


def test_it_widens_while_answers_come_as_fast_as_ever() -> None:
    async def run() -> float:
        pressure = RequestLimit()
        while pressure.under_way < int(pressure.limit):
            await pressure.enter()
        for number in range(20_000):
            pressure.answered(0.01, number / 1000)
            while pressure.under_way < int(pressure.limit):
                await pressure.enter()
        return pressure.limit

    assert asyncio.run(run()) == MOST


def test_a_server_with_two_at_work_is_not_given_a_long_queue() -> None:
    """One answer alone takes 10 ms; what is beyond two at work waits in the server."""

    async def run() -> list[float]:
        pressure = RequestLimit()
        await pressure.enter()
        pressure.answered(0.01, 0.0)
        now, found = 0.0, []
        for _ in range(40):
            under_way = int(pressure.limit)
            for _ in range(under_way):
                await pressure.enter()
            now += 0.2
            for _ in range(under_way):
                pressure.answered(0.01 * under_way / 2, now)
            found.append(pressure.limit)
        return found

    found = asyncio.run(run())
    assert min(found) >= NARROW
    assert min(found) < FIRST
    assert found[-1] < FIRST


def test_slow_answers_alone_leave_enough_under_way() -> None:
    async def run() -> float:
        pressure = RequestLimit()
        await pressure.enter()
        pressure.answered(0.001, 0.0)
        for number in range(20):
            await pressure.enter()
            pressure.answered(1.0, 10.0 * (number + 1))
        return pressure.limit

    assert asyncio.run(run()) == NARROW


def test_refusals_lead_further_down() -> None:
    async def run() -> float:
        pressure = RequestLimit()
        for number in range(20):
            await pressure.enter()
            pressure.record_overload(10.0 * (number + 1))
        return pressure.limit

    assert asyncio.run(run()) == LEAST
