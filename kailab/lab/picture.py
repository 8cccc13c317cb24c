"""The state of a lab at one moment: rows of its objects, joined with the decisions. Explanations, expectations and tables read it.

A picture computes each part at its first use, lists each kind once, and is thrown away after use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from kailab.cluster.protocol import Cluster, Object
from kailab.engine.decisions import Decisions, LabelDemand, ServingPosition
from kailab.evidence.cluster_state import RowCache, pod_row
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.entries import PendingReason, PodRow
from kailab.evidence.model_use import ModelUse, use_by_model
from kailab.evidence.shares import QueueTreeShares, queue_ancestry
from kailab.lab.answer import CauseCode
from kailab.lab.model_shortages import ModelShortage, model_shortages
from kailab.model.labels import DEFAULT_SCHEDULER_NAME, RESERVATION_NAMESPACE
from kailab.model.multimap import multimap
from kailab.model.objects import full_name, name_of, namespace_of, spec_of, uid_of
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.scheduler.reading.podgroups import last_condition
from kailab.scheduler.saved_state import SavedSchedulingState
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.selection import choose_scheduler

if TYPE_CHECKING:
    from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles
    from kailab.scheduler.scheduling_state import CycleInput, SchedulingState


class Picture:
    """``log``: the decisions so far; ``scheduler``: the scheduler under test; ``present``: gives the present state as the scheduler sees it."""

    def __init__(
        self,
        cluster: Cluster,
        log: DecisionLog,
        present: Callable[[tuple[str, ...]], SchedulingState],
        scheduler: SchedulerUnderTest | None = None,
        like: Picture | None = None,
        rows: RowCache | None = None,
    ) -> None:
        """``like``: a picture of the lab of which this lab is a fork; unchanged rows are taken from it. ``rows``: a cache with the rows of
        earlier pictures of the same lab."""
        self.cluster = cluster
        self.log = log
        self.scheduler = scheduler or choose_scheduler("kailab")
        self.now = cluster.now()
        self._present = present
        self._code = self.scheduler.code
        self._like = like
        self._rows = rows or RowCache()
        self.schedulers: frozenset[str] | None = None
        """The scheduler names in pods that some scheduler here serves; None: unknown."""
        self.owner_lines: dict[tuple[str, str], list[str]] = {}
        """(namespace, owner) -> that owner and its owners, as ``Kind/name``; a cache."""

    @cached_property
    def podgroups(self) -> dict[tuple[str, str], Object]:
        """(namespace, name) -> PodGroup."""
        return {(namespace_of(group), name_of(group)): group for group in self.cluster.list("PodGroup")}

    @cached_property
    def nodes(self) -> dict[str, Object]:
        return {name_of(node): node for node in self.cluster.list("Node")}

    @cached_property
    def pods(self) -> list[Object]:
        return self.cluster.list("Pod")

    @cached_property
    def pods_by_name(self) -> dict[str, Object]:
        """``namespace/name`` -> pod."""
        return {full_name(pod): pod for pod in self.pods}

    @cached_property
    def accounts(self) -> GpuAccounts:
        """Amounts of pods and nodes."""
        return GpuAccounts(self.cluster, self.pods, self.nodes)

    @cached_property
    def used(self) -> dict[str, int]:
        """Node -> milli-GPU in use."""
        return self.accounts.used_by(self.rows)

    @cached_property
    def models(self) -> dict[str, ModelUse]:
        """The use of GPUs by model, those with most GPUs first."""
        return use_by_model(self.nodes, self.used, self.accounts.offered)

    @cached_property
    def model_demands(self) -> tuple[LabelDemand, ...]:
        """The models that the work of queues can use; empty if the lab has at most one model, or the scheduler knows no queues."""
        if len(self.models) < 2 or not self.scheduler.knows_queues:
            return ()
        return self.present.model_demands

    @cached_property
    def model_shortages(self) -> list[ModelShortage]:
        """Waiting work that takes only models of which too few GPUs are free, while others are free; the largest first. Work whose queue does
        not exist is left out, because it waits for the queue."""
        return self.shortages_of({name for name, entry in self.pending.items() if entry.queue in self.shares})

    def shortages_of(self, podgroups: Collection[str]) -> list[ModelShortage]:
        """As ``model_shortages``, of these PodGroups (``namespace/name``) only."""
        demands = [demand for demand in self.model_demands if demand.podgroup]
        names = {demand.podgroup: self.present.podgroup(demand.podgroup) for demand in demands}
        chosen = [demand for demand in demands if names[demand.podgroup] in podgroups]
        return model_shortages(self.models, chosen, names.__getitem__)

    def added(self, rows: Iterable[PodRow]) -> Iterator[int]:
        """The milli-GPU that each of these pods, one after the other, adds to the use of its node. A pod that shares a claim with an earlier one
        adds less than its own amount."""
        # Most labs have no claims, and then pods need not be looked up.
        if not self.accounts.know_claims:
            return (row.milli_gpus for row in rows)
        return self.accounts.added((self.pods_by_name[row.name], row.node, row.milli_gpus) for row in rows)

    @cached_property
    def rows(self) -> list[PodRow]:
        if self._like is None:
            return self._rows.of(self.pods, self.podgroups, self.nodes, self.accounts)
        known = _unchanged(self, self._like)
        return [known.get(id(pod)) or pod_row(pod, self.podgroups, self.accounts) for pod in self.pods]

    @cached_property
    def present(self) -> SchedulingState | SavedSchedulingState:
        return self.compute_present()

    def compute_present(self) -> SchedulingState:
        """Compute the present state from the objects."""
        # The next cycle serves first the groups that the last one made room for, so the serving order depends on them.
        return self._present(self.log.last.heirs if self.log.last is not None else ())

    @cached_property
    def cycle_input(self) -> CycleInput:
        """The input of the next cycle."""
        return self.compute_present().cycle_input()

    @cached_property
    def cycles(self) -> RelaxedCycles:
        """Relaxed cycles on that input, with no PodGroup chosen yet. All questions about this moment share their working set."""
        # This loads the engine, which most questions do not need.
        from kailab.engine.relaxing.relaxed_cycles import RelaxedCycles

        return RelaxedCycles(*self.cycle_input)

    @cached_property
    def next_cycle(self) -> Decisions:
        """What kailab's scheduler would decide next. Nothing is carried out."""
        from kailab.engine.cycle import repeat_cycle, run_cycle

        working, now = self.cycles.working, self.cycle_input.now
        return repeat_cycle(lambda config: run_cycle(working, config, now), self.cycle_input.config)[1]

    @cached_property
    def by_group(self) -> dict[str, list[PodRow]]:
        """``namespace/name`` of a PodGroup -> rows of its pods."""
        return multimap((group_of(row), row) for row in self.rows if row.podgroup)

    @cached_property
    def shares(self) -> QueueTreeShares:
        """What queues own, hold and request now."""
        if not self.scheduler.knows_queues:
            return QueueTreeShares.observed(self.cluster.list("Queue"), self.rows)
        return QueueTreeShares.counted(self.present.queues, fair=self.scheduler.reports_shares)

    @cached_property
    def lines(self) -> dict[str, frozenset[str]]:
        """Queue -> itself and its ancestors."""
        parents = {queue.name: queue.parent for queue in self.shares.queues.values()}
        return {name: frozenset(queue_ancestry(name, parents)) for name in parents}

    @cached_property
    def pending(self) -> dict[str, PendingReason]:
        """``namespace/name`` of each pending PodGroup -> its reason."""
        waiting = {entry.podgroup: entry for entry in self.log.pending_now()}
        # A scheduler in another process writes reasons to objects only: KAI to schedulingConditions of the PodGroup.
        for (namespace, name), group in self.podgroups.items():
            key = f"{namespace}/{name}"
            if key not in waiting and (entry := _from_status(key, group)) is not None:
                waiting[key] = entry
        # Without reported decisions only; kailab's own scheduler reports a reason for each group that stays pending.
        if self.log.last is None:
            for key, rows in self.by_group.items():
                if key not in waiting and (entry := _from_pods(key, rows, self._code)) is not None:
                    waiting[key] = entry
        return waiting

    def waiting(self) -> list[PendingReason]:
        """Everything pending, with its reason: PodGroups, and pods without a PodGroup. The reason is empty if no scheduler has given one yet."""
        known = self.pending
        unknown: dict[str, list[PodRow]] = {}
        for row in self.rows:
            if row.phase != "Pending" or row.node:
                continue
            key = group_of(row) if row.podgroup else ""
            if not key or key not in known:
                unknown.setdefault(key or row.name, []).append(row)
        return [
            *known.values(),
            *(
                PendingReason(
                    podgroup=group_of(rows[0]) if rows[0].podgroup else "",
                    pods=tuple(row.name for row in rows),
                    queue=rows[0].queue,
                    reason=rows[0].reason,
                    message=rows[0].message,
                )
                for rows in unknown.values()
            ),
        ]

    @cached_property
    def turns(self) -> dict[str, ServingPosition]:
        """``namespace/name`` of each pending PodGroup that could run in its queue -> its position in the serving order, in that order."""
        return {self.present.podgroup(turn.podgroup): turn for turn in self.present.order}

    def below(self, queue: str) -> frozenset[str]:
        """A queue and all queues below it."""
        return frozenset(name for name, line in self.lines.items() if queue in line)

    @cached_property
    def queue_of_group(self) -> dict[str, str]:
        """UID of a PodGroup -> its queue."""
        return {uid_of(group): str(spec_of(group).get("queue") or "") for group in self.podgroups.values()}

    def code_of(self, row: PodRow) -> str:
        """Why a pod is pending: the code of its PodGroup's reason, else the reason of its own condition."""
        entry = self.pending.get(group_of(row)) if row.podgroup else None
        return entry.reason if entry else (self._code(row.message) or row.reason)

    def is_grouped(self, row: PodRow) -> bool:
        """True if a pod has a PodGroup that exists. Files of a cluster may lack the PodGroup that a pod names."""
        return bool(row.podgroup) and (row.name.partition("/")[0], row.podgroup) in self.podgroups

    def missing_scheduler(self, pod: str) -> str:
        """The scheduler that a pod (``namespace/name``) names, if it does not exist here. Empty if it does, or if the existing schedulers are unknown."""
        name: str = self.pods_by_name[pod]["spec"].get("schedulerName") or DEFAULT_SCHEDULER_NAME
        return name if self.schedulers is not None and name not in self.schedulers else ""

    def no_reason(self, pod: str) -> str:
        """What to show of a pending pod for which no scheduler has given a reason."""
        return CauseCode.OTHER_SCHEDULER.value if self.missing_scheduler(pod) else "no reason yet"


def _unchanged(picture: Picture, like: Picture) -> dict[int, PodRow]:
    """Rows of unchanged pods, by ``id`` of the pod. Only pods whose row depends on nothing but themselves, their PodGroup and the nodes
    count."""
    nodes = picture.nodes
    if len(nodes) != len(like.nodes) or any(like.nodes.get(name) is not node for name, node in nodes.items()):
        return {}  # amounts of GPU memory depend on nodes
    pods, result = like.pods_by_name, {}
    for row in like.rows:
        pod = pods.get(row.name)
        if pod is None or pod["spec"].get("resourceClaims"):
            continue
        namespace = row.name.partition("/")[0]
        group = (namespace, row.podgroup)
        # The amount of a reservation pod depends on the pods that share its GPU.
        if namespace != RESERVATION_NAMESPACE and picture.podgroups.get(group) is like.podgroups.get(group):
            result[id(pod)] = row
    return result


def group_of(row: PodRow) -> str:
    """``namespace/name`` of the PodGroup of a pod row."""
    return f"{row.name.split('/', 1)[0]}/{row.podgroup}"


def _from_pods(name: str, rows: list[PodRow], code: Callable[[str], str]) -> PendingReason | None:
    """The reason of a PodGroup that runs in part: a real KAI writes it to each pending pod, not to the group."""
    waiting = [row for row in rows if row.phase == "Pending" and not row.node and row.message]
    if not waiting:
        return None
    first = waiting[0]
    return PendingReason(
        podgroup=name,
        pods=tuple(row.name for row in waiting),
        queue=first.queue,
        reason=code(first.message) or first.reason,
        message=first.message,
    )


def _from_status(name: str, group: Object) -> PendingReason | None:
    """The reason that a scheduler without reported decisions (a real KAI) wrote to a pending PodGroup."""
    last = last_condition(group)
    if last is None:
        return None
    reasons = last.get("reasons") or ()  # the last reason includes why no eviction helps
    queue = ((reasons[-1].get("details") or {}).get("queueDetails") or {}) if reasons else {}
    return PendingReason(
        podgroup=name,
        pods=(),
        queue=spec_of(group).get("queue", ""),
        reason=(reasons[-1].get("reason") or "") if reasons else "Unschedulable",
        message=reasons[-1].get("message", "") if reasons else last.get("message", ""),
        queue_context=queue.get("name", ""),
    )
