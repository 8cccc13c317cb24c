"""Cost and energy of a replay by a price file. An idle GPU costs as much as a busy one but draws less power."""

from __future__ import annotations

import msgspec
from msgspec import structs

from kailab.errors import KailabError
from kailab.fleet.fleet import Fleet
from kailab.model.prices import Prices
from kailab.replay.accounts import ReplayAccounts
from kailab.replay.job import HOUR, WHOLE


class ReplayModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """All GPUs of one model over the whole replay. ``used`` and ``idle``: GPU-hours bound and unbound. ``kwh``: None if
    the price file lacks a power figure."""

    model: str
    gpus: int
    used: float
    idle: float
    cost: float
    kwh: float | None


class ReplayQueueCost(msgspec.Struct, frozen=True, kw_only=True):
    """GPU-hours that a queue's pods held, and their cost."""

    name: str
    used: float
    cost: float


class ReplayCost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a replay in ``currency``.

    ``cost``: the whole fleet. ``idle_cost``: unbound GPU time. ``per_done``: ``cost`` per GPU-hour of work that counts,
    None if there is none. ``kwh``: None if it is unknown for a model.
    """

    currency: str
    cost: float
    idle_cost: float
    per_done: float | None
    kwh: float | None
    models: list[ReplayModelCost]
    queues: list[ReplayQueueCost]


def replay_cost(prices: Prices, fleet: Fleet, accounts: ReplayAccounts, now: int, span: int, done: int) -> ReplayCost:
    """Compute the cost without rounding.

    ``now``: the lab's clock at the end. ``span``: length of the replay in seconds. ``done``: work that counts, in
    milli-GPU-seconds. Raises InputError for a model without a price, KailabError if the time held by model does not add
    up to all time held.
    """
    used = accounts.used(now)
    if sum(used.values()) != accounts.held_time:
        raise KailabError(
            f"GPU time does not balance: {sum(used.values())} held by model and queue is not the total of {accounts.held_time}"
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
    energies = [entry.kwh for entry in models]
    cost = sum(entry.cost for entry in models)
    return ReplayCost(
        currency=prices.currency,
        cost=cost,
        idle_cost=idle_cost,
        per_done=cost / _hours(done) if done else None,
        kwh=None if None in energies else sum(entry for entry in energies if entry is not None),
        models=models,
        queues=[_queue(prices, name, used) for name in sorted({queue for queue, _ in used})],
    )


def rounded_cost(exact: ReplayCost) -> ReplayCost:
    """Round for output: money to 0.01, hours to 0.001. The total is the sum of the rounded costs of the models."""
    return structs.replace(
        exact,
        cost=round(sum(round(entry.cost, 2) for entry in exact.models), 2),
        idle_cost=round(exact.idle_cost, 2),
        per_done=None if exact.per_done is None else round(exact.per_done, 4),
        kwh=None if exact.kwh is None else round(exact.kwh, 3),
        models=[
            structs.replace(
                entry,
                used=round(entry.used, 3),
                idle=round(entry.idle, 3),
                cost=round(entry.cost, 2),
                kwh=None if entry.kwh is None else round(entry.kwh, 3),
            )
            for entry in exact.models
        ],
        queues=[structs.replace(entry, used=round(entry.used, 3), cost=round(entry.cost, 2)) for entry in exact.queues],
    )


def gpus_by_model(fleet: Fleet) -> dict[str, int]:
    """Map each model to its GPUs that can be allocated whole. The key is empty if the fleet does not name the model."""
    counts: dict[str, int] = {}
    for pool in fleet.pools:
        if pool.whole_gpus:
            counts[pool.gpu_model] = counts.get(pool.gpu_model, 0) + pool.count * pool.whole_gpus
    return dict(sorted(counts.items()))


def _queue(prices: Prices, name: str, used: dict[tuple[str, str], int]) -> ReplayQueueCost:
    own = {model: _hours(amount) for (queue, model), amount in sorted(used.items()) if queue == name}
    cost = sum(prices.of(model).cost(hours) for model, hours in own.items() if hours)
    return ReplayQueueCost(name=name, used=sum(own.values()), cost=cost)


def _hours(milli_seconds: int) -> float:
    return milli_seconds / WHOLE / HOUR
