"""What a replay cost by a price file, and the energy that it took: GPUs cost as much at work as idle, and draw other power."""

from __future__ import annotations

import msgspec
from msgspec import structs

from kailab.errors import KailabError
from kailab.fleet import Fleet
from kailab.model.prices import Prices
from kailab.replay.accounts import ReplayAccounts
from kailab.replay.job import HOUR, WHOLE


class ReplayModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of a model over the whole replay. ``used`` and ``idle``: GPU-hours bound and not. ``kwh``: None where a power that it takes has no figure."""

    model: str
    gpus: int
    used: float
    idle: float
    cost: float
    kwh: float | None


class ReplayQueueCost(msgspec.Struct, frozen=True, kw_only=True):
    """What a queue's pods held: GPU-hours, and their price."""

    name: str
    used: float
    cost: float


class ReplayCost(msgspec.Struct, frozen=True, kw_only=True):
    """``cost``: of the whole fleet, in ``currency``; ``idle_cost``: of GPU time that nobody held. ``per_done``: ``cost`` by GPU-hours of work that counts; None where
    there is none. ``kwh``: None where a model's is not known."""

    currency: str
    cost: float
    idle_cost: float
    per_done: float | None
    kwh: float | None
    models: list[ReplayModelCost]
    queues: list[ReplayQueueCost]


def replay_cost(prices: Prices, fleet: Fleet, accounts: ReplayAccounts, now: int, span: int, done: int) -> ReplayCost:
    """``now``: the lab's clock at the end, ``span``: seconds of the replay, ``done``: milli-GPU-seconds of work that counts. Nothing is rounded. Raises InputError for a model
    without a price; KailabError where what was held by model does not come to what was held."""
    used = accounts.used(now)
    if sum(used.values()) != accounts.held_time:
        raise KailabError(
            f"GPU time does not balance: {sum(used.values())} held by model and queue is not {accounts.held_time} held in all"
        )
    models, idle_cost = [], 0.0
    for model, gpus in gpus_by_model(fleet).items():
        price = prices.of(model)
        own = _hours(sum(amount for (_, its), amount in used.items() if its == model))
        idle = gpus * span / HOUR - own
        idle_cost += price.cost(idle)
        energy = price.kilowatt_hours(own, idle)
        models.append(
            ReplayModelCost(
                model=model, gpus=gpus, used=own, idle=idle, cost=price.cost(own + idle), kwh=energy,
            )
        )  # fmt: skip
    energies = [one.kwh for one in models]
    cost = sum(one.cost for one in models)
    return ReplayCost(
        currency=prices.currency,
        cost=cost,
        idle_cost=idle_cost,
        per_done=cost / _hours(done) if done else None,
        kwh=None if None in energies else sum(one for one in energies if one is not None),
        models=models,
        queues=[_queue(prices, name, used) for name in sorted({queue for queue, _ in used})],
    )


def rounded_cost(exact: ReplayCost) -> ReplayCost:
    """As it is told: to a hundredth of the currency, a thousandth of an hour. The whole cost is that of the models as they are told."""
    return structs.replace(
        exact,
        cost=round(sum(round(one.cost, 2) for one in exact.models), 2),
        idle_cost=round(exact.idle_cost, 2),
        per_done=None if exact.per_done is None else round(exact.per_done, 4),
        kwh=None if exact.kwh is None else round(exact.kwh, 3),
        models=[
            structs.replace(
                one,
                used=round(one.used, 3),
                idle=round(one.idle, 3),
                cost=round(one.cost, 2),
                kwh=None if one.kwh is None else round(one.kwh, 3),
            )
            for one in exact.models
        ],
        queues=[structs.replace(one, used=round(one.used, 3), cost=round(one.cost, 2)) for one in exact.queues],
    )


def gpus_by_model(fleet: Fleet) -> dict[str, int]:
    """GPUs that can be had whole; the model is empty where the fleet does not tell it."""
    found: dict[str, int] = {}
    for pool in fleet.pools:
        if pool.whole_gpus:
            found[pool.gpu_model] = found.get(pool.gpu_model, 0) + pool.count * pool.whole_gpus
    return dict(sorted(found.items()))


def _queue(prices: Prices, name: str, used: dict[tuple[str, str], int]) -> ReplayQueueCost:
    own = {model: _hours(amount) for (queue, model), amount in sorted(used.items()) if queue == name}
    cost = sum(prices.of(model).cost(hours) for model, hours in own.items() if hours)
    return ReplayQueueCost(name=name, used=sum(own.values()), cost=cost)


def _hours(milli_seconds: int) -> float:
    return milli_seconds / WHOLE / HOUR
