"""A cluster between cycles: its records, decisions carried out on them, and what nodes have left."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from checks.case_input import ACTIVE, NOW, PLACED, CaseInput
from kailab.engine.decisions import Decisions, Pipeline
from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuRequest
from kailab.engine.snapshot.records import GPU, Node, PodGroup, ResourceClaim, Status, Task, ZoneShare
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.engine.working.numa import Zones
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels
from kailab.scheduler.mirror import GpuReservations

LAST_START_AGE = 60.0
_ORDER = {Status.RELEASING: 1, Status.STUCK_RELEASING: 1, Status.PIPELINED: 2}  # after those that stay


class SimulatedCluster:
    """The present tasks. ``vacated``: places that tasks evicted in this cycle are leaving."""

    def __init__(self, case_input: CaseInput) -> None:
        self.case_input = case_input
        self.tasks: dict[str, Task] = {task.uid: task for task in case_input.tasks}
        self.nodes: dict[str, Node] = {node.name: node for node in case_input.nodes}
        self.vacated: list[Task] = []
        self.claims: dict[str, ResourceClaim] = {claim.name: claim for claim in case_input.claims}

    def working(self) -> WorkingSet:
        """A new working set of the present state: only objects survive between cycles."""
        return WorkingSet.of(
            Snapshot(
                nodes=self.case_input.nodes,
                queues=self.case_input.queues,
                podgroups=tuple(self.podgroups()),
                tasks=tuple(self.tasks.values()),
                topologies=self.case_input.topologies,
                claims=tuple(self.claims.values()),
            )
        )

    def working_as_mirrored(self) -> WorkingSet:
        """The same as a scheduler sees it in a cluster, where each shared GPU has a reservation pod, or a stand-in for
        one.
        """
        working = self.working()
        reservations = GpuReservations(working, lambda uid: None)
        for uid, task in self.tasks.items():
            if task.status in ACTIVE or task.status == Status.RELEASING:
                reservations.set_sharing(uid, task.node, task.gpu_groups)
        return working

    def podgroups(self) -> list[PodGroup]:
        """PodGroups. As in KAI's test set-up, those with placed tasks started a minute ago."""
        started = {task.podgroup for task in self.tasks.values() if task.status in ACTIVE}
        return [
            msgspec.structs.replace(group, last_start=NOW - LAST_START_AGE if group.uid in started else None)
            for group in self.case_input.podgroups
        ]

    def apply(self, decisions: Decisions) -> list[str]:
        """Carry decisions out as KAI's session does. Returns a sentence for each decision that cannot be carried out.

        One session may give a task a place and evict it again by a later action, or for another job of the same action.
        The order follows from the actions and from ``Pipeline.moved``.
        """
        faults: list[str] = []
        self.vacated = []
        for bind in decisions.binds:
            task = self.tasks.get(bind.task)
            if task is None or task.status not in (Status.PENDING, Status.PIPELINED):
                faults.append(f"binds {bind.task}, which is not pending")
                continue
            self._place(task, Status.BINDING, bind.node, bind.gpu_groups, bind.numa_zones, faults)
        for action in self.case_input.config.actions:
            moves: dict[str, list[Pipeline]] = {}
            for pipeline in decisions.pipelines:
                if pipeline.action == action and pipeline.moved:
                    moves.setdefault(pipeline.task, []).append(pipeline)
                elif pipeline.action == action:
                    self._pipeline(pipeline, (Status.PENDING, Status.PIPELINED), faults)
            for eviction in decisions.evictions:
                if eviction.action != action:
                    continue
                self._evict(eviction.task, faults)
                if moves.get(eviction.task):
                    self._pipeline(moves[eviction.task].pop(0), (Status.RELEASING,), faults)
            faults += [f"moves {uid} without evicting it" for uid, rest in moves.items() if rest]
        return faults

    def _evict(self, uid: str, faults: list[str]) -> None:
        task = self.tasks.get(uid)
        if task is None or task.status not in PLACED:
            faults.append(f"evicts {uid}, which holds nothing")
            return
        leaving = msgspec.structs.replace(task, status=Status.RELEASING)
        if task.status in ACTIVE:
            self.vacated.append(leaving)
        self.tasks[uid] = leaving

    def _pipeline(self, pipeline: Pipeline, waiting: tuple[Status, ...], faults: list[str]) -> None:
        task = self.tasks.get(pipeline.task)
        if task is None or task.status not in waiting:
            faults.append(f"pipelines {pipeline.task}, which is not waiting")
            return
        self._place(task, Status.PIPELINED, pipeline.node, pipeline.gpu_groups, pipeline.numa_zones, faults)

    def _place(
        self,
        task: Task,
        status: Status,
        node: str,
        groups: tuple[str, ...],
        zones: tuple[ZoneShare, ...],
        faults: list[str],
    ) -> None:
        if node not in self.nodes:
            faults.append(f"places {task.uid} on {node!r}, which does not exist")
            return
        accepted = accepted_share(task.shape.gpu, self.nodes[node].gpu_memory_mib)
        self.tasks[task.uid] = msgspec.structs.replace(
            task, status=status, node=node, gpu_groups=groups, accepted=accepted, numa_zones=zones
        )

    def settle_round(self) -> None:
        """Prepare the next cycle: bound tasks run, promised ones wait again, evicted ones are created again. Claims
        keep their allocations.
        """
        self._settle_claims()
        for uid, task in self.tasks.items():
            if task.status == Status.BINDING:
                self.tasks[uid] = msgspec.structs.replace(task, status=Status.RUNNING)
            elif task.status == Status.PIPELINED or (
                task.status == Status.RELEASING and task.podgroup not in self.case_input.deleted_for_good
            ):
                self.tasks[uid] = msgspec.structs.replace(
                    task, status=Status.PENDING, node="", gpu_groups=(), accepted=None, numa_zones=()
                )
        self.vacated = []

    def _settle_claims(self) -> None:
        holders: dict[str, list[Task]] = {}
        for task in self.tasks.values():
            if task.status in ACTIVE or task.status == Status.PIPELINED:
                for name in task.shape.claims:
                    holders.setdefault(name, []).append(task)
        for name, claim in self.claims.items():
            claim_holders = holders.get(name, [])
            # Consumers that are no tasks of the case keep their reservation.
            others = tuple(uid for uid in claim.reserved if uid not in self.tasks)
            kept_by_others = claim.allocated and bool(others)
            self.claims[name] = msgspec.structs.replace(
                claim,
                allocated=bool(claim_holders) or kept_by_others,
                reserved=(*others, *(task.uid for task in claim_holders)),
                node=claim_holders[0].node if claim_holders else claim.node if kept_by_others else "",
            )

    def zones_left(self, node: Node) -> Zones | None:
        """What the NUMA zones of a node have left after the decisions; None for a node without zones."""
        if node.numa is None:
            return None
        zones = Zones(node.numa)
        for task in self.tasks.values():
            if task.node == node.name and (task.status in ACTIVE or task.status == Status.PIPELINED):
                zones.change(task.numa_zones, 1)
        return zones

    def gpus_left(self) -> dict[str, tuple[float, float]]:
        """Node -> devices (idle, releasing) after the decisions, counted as in KAI.

        A shared device is subtracted from ``idle`` as a whole. Pipelined tasks are subtracted from ``releasing``, which
        may fall below zero.
        """
        left: dict[str, tuple[float, float]] = {}
        for node in self.case_input.nodes:
            idle, releasing = node.gpus, 0
            groups: dict[str, set[str]] = {}
            claims = ClaimedDeviceCounter({name: claim.gpus for name, claim in self.claims.items()})
            moved = [t for t in self.vacated if self.tasks[t.uid].status == Status.PIPELINED]
            on_node = [t for t in (*self.tasks.values(), *moved) if t.node == node.name and t.status in PLACED]
            # A device whose tasks stay is not free for others.
            for task in sorted(on_node, key=lambda task: _ORDER.get(task.status, 0)):
                gpu = task.accepted or task.shape.gpu
                if gpu.shared or task.shape.gpu.shared:
                    kind = (
                        "pipelined"
                        if task.status == Status.PIPELINED
                        else "leaving"
                        if task.status == Status.RELEASING
                        else "staying"
                    )
                    for group in task.gpu_groups or (f"own of {task.uid}",):
                        groups.setdefault(group, set()).add(kind)
                    continue
                amount = claims.devices(task) * GPU
                if task.status == Status.PIPELINED:
                    releasing -= amount
                else:
                    idle -= amount
                    releasing += amount if task.status == Status.RELEASING else 0
            for kinds in groups.values():
                if kinds & {"leaving", "staying"}:
                    idle -= GPU
                if kinds == {"leaving"}:
                    releasing += GPU
                elif kinds == {"pipelined"}:
                    releasing -= GPU
            left[node.name] = (idle / GPU, releasing / GPU)
        return left


def accepted_share(gpu: GpuRequest, device_mib: int) -> GpuRequest | None:
    """What a request for GPU memory holds of devices of this size, rounded up to a hundredth as in KAI; None for other
    requests.
    """
    if not gpu.by_memory or not device_mib:
        return None
    return GpuFraction.of(gpu.devices, -(-gpu.memory_mib * 100 // device_mib) * GPU // 100)


def whole_devices(gpu: GpuRequest) -> int:
    """Whole devices of a task, plain or through resource claims."""
    if gpu.claimed:
        return gpu.claimed_devices
    return 0 if gpu.shared else gpu.devices


class ClaimedDeviceCounter:
    """Counts whole devices of the tasks of one node. Devices that several tasks have through one claim count once."""

    def __init__(self, gpus: Mapping[str, int]) -> None:
        self._gpus = gpus  # claim -> devices that count
        self._seen: set[str] = set()

    def devices(self, task: Task) -> int:
        """The task's devices that no earlier task had."""
        again = sum(self._gpus.get(name, 0) for name in task.shape.claims if name in self._seen)
        self._seen.update(task.shape.claims)
        return max(0, whole_devices(task.accepted or task.shape.gpu) - again)


def mig_gpus(profile: str) -> int:
    """What one instance of a MIG profile counts for in quotas: the number before its ``g``."""
    return int(profile.removeprefix(labels.MIG_PREFIX).split("g", 1)[0])


def sharing(tasks: dict[str, tuple[str, tuple[str, ...]]]) -> dict[str, frozenset[str]]:
    """Task -> all tasks that share a device with it, from task -> (node, GPU groups). Names of groups do not matter."""
    members: dict[tuple[str, str], set[str]] = {}
    for uid, (node, groups) in tasks.items():
        for group in groups:
            members.setdefault((node, group), set()).add(uid)
    shared: dict[str, set[str]] = {}
    for together in members.values():
        for uid in together:
            shared.setdefault(uid, set()).update(together)
    return {uid: frozenset(together) for uid, together in shared.items()}
