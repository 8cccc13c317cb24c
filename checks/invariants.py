"""Invariants of decisions: what must hold for any cluster and any scheduler. Every violation is a sentence.

``check`` verifies one cycle: the tasks before it, its decisions, and the resulting state. ``run_rounds`` runs cycles
until nothing happens any more. ``undetermined`` repeats a decision and compares.

Two faults of KAI, which the engine can imitate (``EngineConfig.imitate_faults``), are excused with ``strict=False``.
Both concern *split victims*: elastic jobs of which a search took surplus pods first and the core later. KAI may leave
such a job's surplus running on another node below the gang's minimum (until stalegangeviction evicts it), and it
subtracts the surplus twice from the queue's account, so that a queue may pass its limit by as much. docs/conformance.md
describes how each comes about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction

import msgspec

from checks.case_input import ACTIVE, NOW, PLACED, CaseInput
from checks.simulated_cluster import ClaimedDeviceCounter, SimulatedCluster, mig_gpus
from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions, QueueState
from kailab.engine.queueing.fairshare import Amounts, sum_up
from kailab.engine.snapshot.records import GPU, PodGroup, PodSet, Queue, ResourceShare, Status, SubGroup, Task
from kailab.engine.working.workingset import WorkingSet

Decide = Callable[[WorkingSet, EngineConfig, float], Decisions]

HOLDING = PLACED - {Status.PIPELINED}
COMING = ACTIVE | {Status.PIPELINED, Status.STUCK_RELEASING}
COUNTED = ACTIVE | {Status.PIPELINED}


def check(case_input: CaseInput, before: Mapping[str, Task], decisions: Decisions, strict: bool = True) -> list[str]:
    """Violations by the decisions of one cycle, with the tasks in the state ``before`` (uid -> task)."""
    table = SimulatedCluster(case_input)
    table.tasks = dict(before)
    faults = table.apply(decisions)
    after = table.tasks
    split = {} if strict else split_victims(case_input, before, after, decisions)
    return [
        *faults,
        *_nodes(case_input, _holders(before, decisions), "now"),
        *_nodes(case_input, [t for t in after.values() if t.status in COMING], "once those leaving are gone"),
        *_queues(case_input, before, after, split),
        *[violation for uid, violation in _gangs(case_input, before, after) if uid not in split],
        *_victims(case_input, decisions),
        *_fair_shares(case_input, decisions.queues),
    ]


def split_victims(
    case_input: CaseInput, before: Mapping[str, Task], after: Mapping[str, Task], decisions: Decisions
) -> dict[str, list[Task]]:
    """Jobs with surplus pods of which an evicting action took some -> the tasks that it took or may have taken.

    For a job that lost what it was given in this same cycle, decisions do not name the pods, so all its pods without a
    place count.
    """
    robbed = {uid for uid, _ in decisions.robbed}
    evicted = {eviction.task for eviction in decisions.evictions if eviction.action != "stalegangeviction"}
    taken: dict[str, list[Task]] = {}
    for task in before.values():
        if task.uid in evicted or (task.podgroup in robbed and after[task.uid].status not in COUNTED):
            taken.setdefault(task.podgroup, []).append(task)
    placed = [task for task in before.values() if task.status in COUNTED]
    given = [
        msgspec.structs.replace(task, status=Status.ALLOCATED)
        for tasks in taken.values()
        for task in tasks
        if task.status not in COUNTED
    ]
    most = _counts([*placed, *given])
    return {
        group.uid: taken[group.uid]
        for group in case_input.podgroups
        if group.uid in taken and _surplus(group.root, most.get(group.uid, {}))
    }


def _surplus(group: SubGroup, counts: Mapping[str, int]) -> bool:
    """True if more pods are placed somewhere than the minimum."""
    podsets = any(counts.get(podset.name, 0) > podset.min_available for podset in group.podsets)
    optional = group.min_members is not None and group.min_members < len(group.podsets) + len(group.groups)
    return podsets or optional or any(_surplus(inner, counts) for inner in group.groups)


def _holders(before: Mapping[str, Task], decisions: Decisions) -> list[Task]:
    """Tasks that hold resources at this moment: leaving tasks still do, bound ones already do."""
    holders = [task for task in before.values() if task.status in HOLDING]
    bound = [bind for bind in decisions.binds if bind.task in before]
    return holders + [
        msgspec.structs.replace(before[bind.task], node=bind.node, gpu_groups=bind.gpu_groups) for bind in bound
    ]


def _nodes(case_input: CaseInput, tasks: Iterable[Task], when: str) -> list[str]:
    """No node gives out more than it has, and no device more than a whole."""
    on: dict[str, list[Task]] = {}
    for task in tasks:
        on.setdefault(task.node, []).append(task)
    claimed = {claim.name: claim.gpus for claim in case_input.claims}
    violations = []
    for node in case_input.nodes:
        claims = ClaimedDeviceCounter(claimed)
        on_node = on.get(node.name, [])
        devices, shares = 0, dict[str, Fraction]()
        extended: dict[str, int] = {}
        for task in on_node:
            gpu = task.shape.gpu
            if gpu.shared:
                part = (
                    Fraction(gpu.memory_mib, node.gpu_memory_mib or 1) if gpu.by_memory else Fraction(gpu.portion, GPU)
                )
                if len(task.gpu_groups) != gpu.devices:
                    violations.append(f"{task.uid} wants {gpu.devices} shared devices and has {len(task.gpu_groups)}")
                for group in task.gpu_groups:
                    shares[group] = shares.get(group, Fraction()) + part
            else:
                devices += claims.devices(task)
            for name, amount in (*task.shape.extended, *gpu.profiles):
                extended[name] = extended.get(name, 0) + amount
        used = {
            "GPUs": ((devices + len(shares)) * GPU, node.gpus),
            "CPU": (sum(task.shape.cpu for task in on_node), node.cpu),
            "memory": (sum(task.shape.memory for task in on_node), node.memory),
            "pods": (len(on_node), node.pods),
        }
        room = dict(node.extended)
        used |= {name: (amount, room.get(name, 0)) for name, amount in extended.items()}
        violations += [
            f"node {node.name} gives out {amount} of {most} {resource} {when}"
            for resource, (amount, most) in used.items()
            if amount > most
        ]
        violations += [
            f"GPU group {group} on {node.name} is given out {float(part):g} times {when}"
            for group, part in shares.items()
            if part > 1
        ]
    return violations


def held(case_input: CaseInput, tasks: Iterable[Task], preemptible_too: bool = True) -> dict[str, Amounts]:
    """What each queue holds, summed up the tree, promised places included."""
    groups = {group.uid: group for group in case_input.podgroups}
    memory = max((node.gpu_memory_mib for node in case_input.nodes), default=0)
    own: dict[str, Amounts] = {}
    for task in tasks:
        group = groups.get(task.podgroup)
        if group is None or task.status not in COUNTED or not (preemptible_too or not group.preemptible):
            continue
        gpu = task.accepted or task.shape.gpu
        milli = sum(count * mig_gpus(name) * GPU for name, count in gpu.profiles) + gpu.claimed_devices * GPU
        milli += gpu.devices * (gpu.memory_mib * GPU // memory if gpu.by_memory and memory else gpu.portion)
        present = own.get(group.queue, Amounts())
        own[group.queue] = Amounts(
            present.cpu + task.shape.cpu, present.memory + task.shape.memory, present.gpu + milli
        )
    return sum_up(case_input.queues, own)


def _shares(queue: Queue) -> tuple[tuple[str, ResourceShare], ...]:
    return (("cpu", queue.cpu), ("memory", queue.memory), ("gpu", queue.gpu))


def _queues(
    case_input: CaseInput, before: Mapping[str, Task], after: Mapping[str, Task], split: Mapping[str, Iterable[Task]]
) -> list[str]:
    """No queue grows beyond its limit, and its non-preemptible part not beyond its quota. What was over before may
    stay.
    """
    violations = []
    twice = held(
        case_input,
        [msgspec.structs.replace(task, status=Status.RUNNING) for tasks in split.values() for task in tasks],
    )
    for preemptible_too, bound_name in ((True, "limit"), (False, "quota")):
        was, now = held(case_input, before.values(), preemptible_too), held(case_input, after.values(), preemptible_too)
        for queue in case_input.queues:
            for resource, share in _shares(queue):
                bound = share.limit if preemptible_too else share.quota
                got = getattr(now[queue.name], resource)
                allowed = bound + getattr(twice[queue.name], resource) if preemptible_too else bound
                if bound >= 0 and allowed < got and got > getattr(was[queue.name], resource):
                    prefix = "" if preemptible_too else "non-preemptible "
                    violations.append(f"queue {queue.name}: {prefix}{resource} {got:g} beyond {bound_name} {bound}")
    return violations


def satisfied(group: SubGroup, counts: Mapping[str, int]) -> bool:
    """True if enough direct members of a subgroup have their minimum, given the placed tasks by pod set."""
    members: list[PodSet | SubGroup] = [*group.groups, *group.podsets]
    good = sum(
        counts.get(member.name, 0) >= member.min_available if isinstance(member, PodSet) else satisfied(member, counts)
        for member in members
    )
    return good >= (len(members) if group.min_members is None else group.min_members)


def _counts(tasks: Iterable[Task]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for task in tasks:
        if task.status in COUNTED:
            of_group = counts.setdefault(task.podgroup, {})
            of_group[task.subgroup or "default"] = of_group.get(task.subgroup or "default", 0) + 1
    return counts


def _gangs(case_input: CaseInput, before: Mapping[str, Task], after: Mapping[str, Task]) -> list[tuple[str, str]]:
    """A gang that a cycle changed is complete afterwards, or has nothing at all. Pairs of job and violation."""
    was, now = _counts(before.values()), _counts(after.values())
    return [
        (group.uid, f"gang {group.uid} is left in part: {now[group.uid]}")
        for group in case_input.podgroups
        if now.get(group.uid)
        and now[group.uid] != was.get(group.uid)
        and not satisfied(group.root, now[group.uid])
        and satisfied(group.root, was.get(group.uid, {})) >= satisfied(group.root, now[group.uid])
        and (
            satisfied(group.root, was.get(group.uid, {}))
            or sum(now[group.uid].values()) > sum(was.get(group.uid, {}).values())
        )
    ]


def _victims(case_input: CaseInput, decisions: Decisions) -> list[str]:
    """Only preemptible work is evicted, for a beneficiary that gets a place by it, and only if the action allows it."""
    groups: dict[str, PodGroup] = {group.uid: group for group in case_input.podgroups}
    served = {(p.podgroup, p.action) for p in decisions.pipelines if not p.moved}
    moved = [(p.task, p.action) for p in decisions.pipelines if p.moved]
    robbed = dict(decisions.robbed)
    violations = []
    for eviction in decisions.evictions:
        if eviction.action == "stalegangeviction":
            continue
        victim = groups[eviction.podgroup]
        beneficiary = groups.get(eviction.beneficiary)
        subject = f"{eviction.action} evicts {eviction.task}"
        if not victim.preemptible:
            violations.append(f"{subject}, which is not preemptible")
        if beneficiary is None:
            violations.append(f"{subject} for nobody")
            continue
        if beneficiary.uid in robbed:
            continue  # as in KAI, it lost the place of this eviction to another job within the cycle
        if (beneficiary.uid, eviction.action) not in served and beneficiary.uid not in robbed.values():
            violations.append(f"{subject} for {beneficiary.uid}, which gets no place by it")
        if eviction.action == "preempt" and (
            victim.queue != beneficiary.queue or victim.priority >= beneficiary.priority
        ):
            violations.append(f"{subject} for {beneficiary.uid}, which is not of higher priority in the same queue")
        if eviction.action == "reclaim" and victim.queue == beneficiary.queue:
            violations.append(f"{subject} for {beneficiary.uid} of the same queue")
        if eviction.action == "consolidation":
            if (eviction.task, eviction.action) in moved:
                moved.remove((eviction.task, eviction.action))
            elif victim.uid not in robbed:
                violations.append(f"{subject} without a new place for it")
    return violations


def _fair_shares(case_input: CaseInput, states: Iterable[QueueState]) -> list[str]:
    """The fair shares of siblings add up to no more than their parent's, unless quotas alone do."""
    by_name = {state.name: state for state in states}
    children: dict[str, list[QueueState]] = {}
    for state in by_name.values():
        children.setdefault(state.parent, []).append(state)
    totals = {
        "cpu": sum(node.cpu for node in case_input.nodes),
        "memory": sum(node.memory for node in case_input.nodes),
        "gpu": sum(
            node.gpus + sum(n * mig_gpus(m) * GPU for m, n in node.extended if "/mig-" in m)
            for node in case_input.nodes
        ),
    }
    violations = []
    for parent, siblings in children.items():
        for resource, total in totals.items():
            above = by_name.get(parent)
            most = getattr(above, resource).fair_share if above else total
            promised, given = 0.0, 0.0
            for state in siblings:
                share = getattr(state, resource)
                quota = most if share.quota < 0 else share.quota
                requestable = share.requested if share.limit < 0 else min(share.limit, share.requested)
                promised += min(quota, requestable)
                given += share.fair_share
            if given > max(most, promised) * (1 + 1e-9):
                where = f"below {parent}" if parent else "at the root"
                violations.append(f"fair shares of {resource} {where} add up to {given:g} of {most:g}")
    return violations


def undetermined(case_input: CaseInput, decide: Decide) -> list[str]:
    """The same cluster, decided twice and with its records in reverse order, gives the same decisions, byte for byte."""
    table = SimulatedCluster(case_input)
    working = table.working()
    first = decide(working, case_input.config, NOW)
    violations = _differing_fields(first, decide(working, case_input.config, NOW), "the same working set decided twice")
    reordered = WorkingSet()
    for task in reversed(case_input.tasks):
        reordered.set_task(table.tasks[task.uid])
    for podgroup in reversed(table.podgroups()):
        reordered.set_podgroup(podgroup)
    for claim in reversed(case_input.claims):
        reordered.set_claim(claim)
    for topology in reversed(case_input.topologies):
        reordered.set_topology(topology)
    for queue in reversed(case_input.queues):
        reordered.set_queue(queue)
    for node in reversed(case_input.nodes):
        reordered.set_node(node)
    reordered_decisions = decide(reordered, case_input.config, NOW)
    return violations + _differing_fields(first, reordered_decisions, "the same records told in another order")


def _differing_fields(first: Decisions, second: Decisions, situation: str) -> list[str]:
    differing = [
        name
        for name in Decisions.__struct_fields__
        if msgspec.json.encode(getattr(first, name)) != msgspec.json.encode(getattr(second, name))
    ]
    return [f"{situation}: {', '.join(differing)} differ"] if differing else []


def run_rounds(case_input: CaseInput, decide: Decide, most: int = 12, strict: bool = True) -> list[str]:
    """Run cycles, each checked, with the cluster updated in between, until one decides nothing. Returns all violations.

    As in the scheduler, each cycle gets the heirs of the one before. A cluster that still changes after ``most`` cycles
    is a violation.
    """
    return settle_violations(SimulatedCluster(case_input), decide, most, strict)


def settle_violations(table: SimulatedCluster, decide: Decide, most: int = 12, strict: bool = True) -> list[str]:
    """``run_rounds`` from the present state of a simulated cluster, which is left settled."""
    violations: list[str] = []
    case_input = table.case_input
    config = case_input.config
    for number in range(1, most + 1):
        decisions = decide(table.working_as_mirrored(), config, NOW)
        violations += [
            f"cycle {number}: {violation}" for violation in check(case_input, table.tasks, decisions, strict)
        ]
        if not decisions.changed and not decisions.again:
            return violations + _promises_at_rest(table, decisions)
        config = msgspec.structs.replace(config, promised=decisions.heirs)

        table.apply(decisions)
        table.settle_round()
    doing = [f"binds {bind.task}" for bind in decisions.binds] + [f"evicts {e.task}" for e in decisions.evictions]
    return [*violations, f"still changing after {most} cycles: {', '.join(doing)}"]


def _promises_at_rest(table: SimulatedCluster, decisions: Decisions) -> list[str]:
    if any(task.status == Status.RELEASING for task in table.tasks.values()):
        return []
    return [f"at rest {promise.task} is promised a place that nobody leaves" for promise in decisions.pipelines]
