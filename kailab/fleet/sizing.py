"""A fleet of another size: fewer or more nodes of each GPU model, of its kinds of nodes and in their proportion.

The GPU nodes of a fleet have one order, in which every kind of node is spread evenly. A smaller fleet is the beginning
of that order, a larger one repeats it, so each fleet is part of every larger one. Nodes without GPUs stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import accumulate
from typing import TypeVar

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Level, Pool

Member = TypeVar("Member")
UNNAMED = "GPU"
"""The model of GPUs without a model, as in a fleet's summary."""


@dataclass(frozen=True)
class Sizes:
    """The sizes that a fleet can have."""

    fleet: Fleet

    @cached_property
    def models(self) -> list[str]:
        return sorted({pool_gpu_model(pool) for pool in self.fleet.pools if pool.whole_gpus})

    @cached_property
    def given(self) -> dict[str, int]:
        """Model -> nodes, as in the fleet."""
        return {model: len(self._order(model)) for model in self.models}

    def gpus(self, nodes: Mapping[str, int]) -> dict[str, int]:
        """Model -> GPUs, for these numbers of nodes."""
        return {model: self._gpus_of(model, nodes[model]) for model in nodes}

    def nodes_for(self, gpus: Mapping[str, float]) -> dict[str, int]:
        """The fewest nodes with at least these GPUs of each model; other models stay as they are. Raises InputError."""
        nodes = dict(self.given)
        for model, wanted in gpus.items():
            if model not in nodes:
                raise InputError(
                    f"no GPUs of the fleet are of the model {model!r:.60}; there are: {', '.join(self.models) or 'none'}"
                )
            nodes[model] = _fewest(wanted, partial(self._gpus_of, model))
        return nodes

    def mixed_for(self, gpus: float) -> dict[str, int]:
        """Model -> nodes, the fewest with this many GPUs in total, mixed as in the fleet. Raises InputError if the
        fleet has no GPUs."""
        if not self.models:
            raise InputError("the fleet has no GPUs; expected one that has, to make it larger or smaller")
        return self.in_proportion(_fewest(gpus, lambda count: sum(self.gpus(self.in_proportion(count)).values())))

    def in_proportion(self, total: int) -> dict[str, int]:
        """Model -> nodes, for this total of GPU nodes, mixed as in the fleet."""
        order = self._mixed
        rounds, remainder = divmod(total, len(order))
        nodes = {model: rounds * count for model, count in self.given.items()}
        for model in order[:remainder]:
            nodes[model] += 1
        return nodes

    def of(self, nodes: Mapping[str, int]) -> Fleet:
        """The fleet with these numbers of nodes of each model."""
        # Nodes by the number of their pool: those that the fleet has, and those beyond its size.
        counts: dict[int, int] = {}
        more: dict[int, int] = {}
        for model, count in nodes.items():
            order = self._order(model)
            for place in range(count):
                number = order[place % len(order)]
                nodes_of_pool = counts if place < len(order) else more
                nodes_of_pool[number] = nodes_of_pool.get(number, 0) + 1
        pools: list[Pool] = []
        for number, pool in enumerate(self.fleet.pools):
            if not pool.whole_gpus:
                pools.append(pool)
                continue
            if number in counts:
                pools.append(replace(pool, count=counts[number]))
            if number in more:
                pools.append(_more(pool, number, more[number]))
        return replace(self.fleet, pools=tuple(pools))

    def _gpus_of(self, model: str, nodes: int) -> int:
        sums = self._sums[model]
        rounds, remainder = divmod(nodes, len(sums) - 1)
        return rounds * sums[-1] + sums[remainder]

    @cached_property
    def _sums(self) -> dict[str, list[int]]:
        pools = self.fleet.pools
        return {
            model: list(accumulate((pools[number].whole_gpus for number in self._order(model)), initial=0))
            for model in self.models
        }

    def _order(self, model: str) -> list[int]:
        """The number of the pool of each node of a model."""
        return self._orders[model]

    @cached_property
    def _orders(self) -> dict[str, list[int]]:
        orders: dict[str, list[int]] = {}
        for model in self.models:
            kinds: dict[str, list[int]] = {}
            for number, pool in enumerate(self.fleet.pools):
                if pool.whole_gpus and pool_gpu_model(pool) == model:
                    kinds.setdefault(_kind(pool), []).extend([number] * pool.count)
            orders[model] = _spread(list(kinds.values()))
        return orders

    @cached_property
    def _mixed(self) -> list[str]:
        return _spread([[model] * count for model, count in self.given.items()])


def pool_gpu_model(pool: Pool) -> str:
    return pool.gpu_model or UNNAMED


def _fewest(wanted: float, amount: Callable[[int], int]) -> int:
    """The least number whose amount, which grows with it, reaches ``wanted``."""
    low, high = 0, 1
    while amount(high) < wanted:
        high *= 2
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if amount(middle) >= wanted else (middle + 1, high)
    return low


def _spread(groups: list[list[Member]]) -> list[Member]:
    """All members of all groups, each group in its own order and spread evenly."""
    placed = [
        (Fraction(2 * place + 1, 2 * len(members)), group, member)
        for group, members in enumerate(groups)
        for place, member in enumerate(members)
    ]
    return [member for _, _, member in sorted(placed, key=lambda entry: entry[:2])]


def _kind(pool: Pool) -> str:
    """Equal for pools whose nodes differ only in name and place."""
    return repr(replace(pool, name="", count=1, name_template="", start_index=0, layout=()))


def _more(pool: Pool, number: int, count: int) -> Pool:
    """More nodes like those of a pool, in racks of their own."""
    layout = tuple(
        Level(label=level.label, nodes=level.nodes, name=f"more-{number}-{level.name}") for level in pool.layout
    )
    return replace(
        pool, name=f"more-{number}", count=count, name_template="{pool}-{index}", start_index=0, layout=layout
    )
