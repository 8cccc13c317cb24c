"""The present cost of a lab's GPUs by use: working, held without working, free, free but unusable.

Amounts are milli-GPU. The price of a GPU does not depend on its use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping

import msgspec

from kailab.engine.snapshot.records import NOT_READY
from kailab.evidence.model_use import model_of_node
from kailab.evidence.shares import QueueAmounts
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.family import GroupingConfig
from kailab.grouping.plans import PlanCache
from kailab.grouping.pod_grouping import owner_chain
from kailab.grouping.records import GroupingError
from kailab.lab.picture import Picture
from kailab.model.objects import is_terminating, spec_of
from kailab.model.prices import HOURS_OF_A_MONTH, Prices
from kailab.scheduler.reading.nodes import unavailable

WHOLE = 1000


class GpuUse(msgspec.Struct, frozen=True, kw_only=True):
    """Milli-GPU by use; the five add up to all GPUs.

    ``work``: held by running pods whose PodGroup runs at least its minMember. ``held``: held without work: by pods that do not run yet,
    are leaving or are on a node that is not ready, and by gangs of which too few run. ``idle``: free and available. ``scattered``: free,
    but too few on their node for any pending pod. ``closed``: free, on nodes that take no new pods."""

    work: int = 0
    held: int = 0
    idle: int = 0
    scattered: int = 0
    closed: int = 0

    @property
    def all(self) -> int:
        return self.work + self.held + self.wasted

    @property
    def wasted(self) -> int:
        """Free, for any reason."""
        return self.idle + self.scattered + self.closed

    def plus(self, other: GpuUse) -> GpuUse:
        return GpuUse(**{name: getattr(self, name) + getattr(other, name) for name in STATES})


STATES = GpuUse.__struct_fields__


class ModelCost(msgspec.Struct, frozen=True, kw_only=True):
    """The GPUs of one model ("": the nodes do not name it). ``per_hour``: price of one. ``kilowatts``: power of all; None: unknown."""

    model: str
    doing: GpuUse
    per_hour: float
    kilowatts: float | None


class QueueCost(msgspec.Struct, frozen=True, kw_only=True):
    """A queue, with those below it. ``quota`` None: unlimited. ``per_hour``: cost of the GPUs that it holds; ``borrowed_per_hour``: of those
    that it borrows; ``unused_per_hour``: of its quota that it does not use. The last two are at the mean price of a GPU."""

    queue: str
    parent: str
    quota: int | None
    held: int
    borrowed: int
    unused: int
    per_hour: float
    borrowed_per_hour: float
    unused_per_hour: float


class Costs(msgspec.Struct, frozen=True, kw_only=True):
    """``per_hour``: by use, in the order of ``STATES``. ``currency``: of all amounts of money."""

    currency: str
    doing: GpuUse
    per_hour: dict[str, float]
    models: tuple[ModelCost, ...]
    queues: tuple[QueueCost, ...]

    @property
    def whole(self) -> float:
        """The cost of all GPUs for an hour."""
        return sum(self.per_hour.values())

    @property
    def kilowatts(self) -> float | None:
        """None if the power of a model is unknown."""
        known = [cost.kilowatts for cost in self.models]
        return None if None in known else sum(power for power in known if power is not None)

    @staticmethod
    def month(per_hour: float) -> float:
        return per_hour * HOURS_OF_A_MONTH


def costs(picture: Picture, prices: Prices) -> Costs:
    """Raises InputError(s) for GPU models without a price."""
    doing = _by_model(picture)
    prices.check(doing)
    models = []
    for model, amounts in sorted(doing.items()):
        price = prices.of(model)
        used = (amounts.work + amounts.held) / WHOLE
        power = price.kilowatt_hours(used, amounts.wasted / WHOLE)
        models.append(ModelCost(model=model, doing=amounts, per_hour=price.per_hour, kilowatts=power))
    whole = GpuUse()
    for cost in models:
        whole = whole.plus(cost.doing)
    per_hour = {state: sum(cost.per_hour * getattr(cost.doing, state) / WHOLE for cost in models) for state in STATES}
    mean = sum(per_hour.values()) / (whole.all / WHOLE) if whole.all else 0.0
    return Costs(
        currency=prices.currency,
        doing=whole,
        per_hour=per_hour,
        models=tuple(models),
        queues=tuple(_queues(picture, prices, mean)),
    )


def _by_model(picture: Picture) -> dict[str, GpuUse]:
    closed = {
        name: unavailable(node.get("spec") or {}, node.get("status") or {}) for name, node in picture.nodes.items()
    }
    at_work = _at_work(picture, {name for name, why in closed.items() if NOT_READY in why})
    # A node is useful to some pending pod if it is useful to the smallest one.
    least = min(
        (row.milli_gpus for row in picture.rows if row.phase == "Pending" and not row.node and row.milli_gpus),
        default=0,
    )
    result: dict[str, GpuUse] = {}
    for name, node in picture.nodes.items():
        offered, used = picture.accounts.offered(node), picture.used.get(name, 0)
        if not offered:
            continue
        work, free = min(used, at_work[name]), max(0, offered - used)
        state = "closed" if closed[name] else "scattered" if 0 < free < least else "idle"
        here = GpuUse(work=work, held=used - work, **{state: free})
        model = model_of_node(node)
        result[model] = result.get(model, GpuUse()).plus(here)
    return result


def _at_work(picture: Picture, silent: Collection[str]) -> Counter[str]:
    """Node -> milli-GPU of running pods whose PodGroup runs at least its minMember. ``silent``: nodes that are not ready."""
    groups = dict(_groups(picture))
    running = [
        row
        for row in picture.rows
        if row.phase == "Running" and row.node not in silent and not is_terminating(picture.pods_by_name[row.name])
    ]
    alive = Counter(groups[row.name][0] for row in running)
    whole = [row for row in running if row.holds and alive[groups[row.name][0]] >= groups[row.name][1]]
    work: Counter[str] = Counter()
    for row, amount in zip(whole, picture.added(whole), strict=True):
        work[row.node] += amount
    return work


def _groups(picture: Picture) -> Iterator[tuple[str, tuple[str, int]]]:
    """Each pod with its PodGroup and that group's minMember. Without PodGroups in the cluster: those that KAI would make."""
    reads = ClusterReader(picture.cluster)
    plans = PlanCache(reads, GroupingConfig())
    try:
        for row in picture.rows:
            namespace, _, name = row.group.partition("/")
            written = picture.podgroups.get((namespace, name)) if row.podgroup else None
            if written is not None:
                yield row.name, (row.group, spec_of(written).get("minMember") or 1)
                continue
            pod = picture.pods_by_name[row.name]
            try:
                grouping = plans.plan(pod, owner_chain(pod, reads))[0].grouping
            except GroupingError:
                yield row.name, (row.name, 1)
                continue
            yield row.name, (f"{namespace}/{grouping.name}", grouping.min_member)
    finally:
        reads.close()


def _queues(picture: Picture, prices: Prices, mean: float) -> Iterator[QueueCost]:
    spent: defaultdict[str, float] = defaultdict(float)
    for row in picture.rows:
        if row.holds and row.node in picture.nodes:
            price = prices.of(model_of_node(picture.nodes[row.node])).cost(row.milli_gpus / WHOLE)
            for queue in picture.lines.get(row.queue, ()):
                spent[queue] += price
    standings: Mapping[str, QueueAmounts] = picture.shares.queues
    for name, amounts in sorted(standings.items()):
        yield QueueCost(
            queue=name,
            parent=amounts.parent,
            quota=None if amounts.quota < 0 else amounts.quota,
            held=amounts.allocated,
            borrowed=amounts.borrowed,
            unused=amounts.unused,
            per_hour=spent[name],
            borrowed_per_hour=spent[name] * amounts.borrowed / amounts.allocated if amounts.allocated else 0.0,
            unused_per_hour=mean * amounts.unused / WHOLE,
        )
