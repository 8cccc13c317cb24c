"""Audit the whole queue tree at once: queues that lack GPUs and those that hold them, idle quota, work that can never run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from statistics import quantiles
from typing import Any, Literal

from kailab.advice.findings import AuditFinding, FindingCode, Severity
from kailab.advice.model_findings import full_models, quotas_beyond_models
from kailab.advice.orphans import orphans
from kailab.advice.unserved_work import served_pool, ungrouped_pods, unscheduled_pods
from kailab.cluster.protocol import Object
from kailab.engine.decisions import PendingCode, TaskAmounts, beyond_quota
from kailab.engine.queueing.order_records import ReclaimOption
from kailab.engine.working.queues import QueueResource
from kailab.evidence.shares import NOBODY, UNLIMITED, QueueAmounts, QueueTreeShares, queue_ancestry
from kailab.evidence.wording import amount_text, capitalized, count, gpus, is_or_are, some
from kailab.explain.queues import entitled_returns, return_blockers, return_data, returns_from
from kailab.explain.subject import PodsAtMoment, SubjectRef
from kailab.lab.inert_kinds import makes_no_pods
from kailab.lab.lab import Lab
from kailab.lab.owners import work_title
from kailab.lab.picture import Picture
from kailab.model.kinds import KINDS, kind_key
from kailab.model.objects import full_name, metadata_of, name_of, owner_references, parent_of, spec_of, uid_of
from kailab.model.validation.advice import described_pods
from kailab.scheduler.reading.podgroups import LAST_EVICTION, PriorityClasses, is_preemptible, node_pool
from kailab.scheduler.reading.queues import creation_time, timestamp_or_none


@dataclass(frozen=True)
class QueueWait:
    """Pending PodGroups of one queue and their waiting times in seconds, since they were created or last evicted as a whole. ``longest``: the
    name of the PodGroup that waits longest; ``workload``: the workload that it belongs to, as ``Job namespace/name``."""

    queue: str
    groups: int
    longest: str
    workload: str
    seconds: float
    p50: float
    p99: float


@dataclass(frozen=True)
class Audit:
    """Findings by severity, then code, then object; queues by their longest wait. ``unknown``: sentences about checks that were not possible."""

    queues: int
    findings: tuple[AuditFinding, ...]
    waits: tuple[QueueWait, ...]
    unknown: tuple[str, ...] = ()

    def at_least(self, severity: Severity) -> list[AuditFinding]:
        """Findings of at least this severity."""
        return [finding for finding in self.findings if finding.severity.rank <= severity.rank]

    def data(self) -> dict[str, Any]:
        """For programs."""
        counts = {
            str(severity): sum(finding.severity is severity for finding in self.findings) for severity in Severity
        }
        return {
            "queues": self.queues,
            "counts": counts,
            "findings": [asdict(finding) for finding in self.findings],
            "waits": [asdict(wait) for wait in self.waits],
            "unknown": list(self.unknown),
        }


def beyond_capacity(picture: Picture) -> Iterable[AuditFinding]:
    """Quotas that add up to more than the parent's quota, at the top to more than the fleet, per resource. Unlimited quotas at the top do
    not count, because they are meant to take everything."""
    totals = {division.resource: division.total for division in picture.present.divisions if not division.parent}
    for resource in RESOURCES:
        shares = amounts_of(picture, resource)
        for parent in ("", *sorted({queue.parent for queue in shares.queues.values()} & shares.queues.keys())):
            bound = totals.get(RESOURCES[resource]) if not parent else shares[parent].quota
            if bound is not None and bound != UNLIMITED:
                # A queue whose parent is missing is at the top but owns nothing there.
                yield from _beyond(
                    resource, parent, bound, [child for child in shares.children(parent) if child.parent == parent]
                )
        if not picture.scheduler.knows_queues:
            return


def _beyond(resource: Resource, parent: str, bound: float, children: list[QueueAmounts]) -> Iterable[AuditFinding]:
    named = RESOURCES[resource]
    promised = sum(queue.quota for queue in children if queue.quota != UNLIMITED)
    endless = [queue.name for queue in children if queue.quota == UNLIMITED] if parent else []
    if promised <= bound and not endless:
        return
    # Less than the nodes have by what pods hold that are not counted in a queue; on overcommitted nodes they may hold more than there is.
    whose = f"the quota of {parent}" if parent else "what the available nodes have for queues"
    largest = sorted(children, key=lambda queue: (queue.quota != UNLIMITED, -queue.quota, queue.name))
    each = [f"{queue.name} {amount_text(named, queue.quota)}" for queue in largest if queue.quota]
    total = "no bound" if endless else amount_text(named, promised)
    yield AuditFinding(
        FindingCode.QUOTA_BEYOND_CAPACITY,
        Severity.WARNING,
        f"{named} quotas {f'below {parent}' if parent else 'at the top'} add up to {total}; {whose} is "
        f"{amount_text(named, max(bound, 0))} ({some(each)}).",
        tuple(f"queue/{name}" for name in ((parent,) if parent else ()) + tuple(queue.name for queue in children)),
        {
            "resource": named,
            "promised": UNLIMITED if endless else promised,
            "bound": bound,
            "quotas": {queue.name: queue.quota for queue in children},
        },
    )


def fitting_nowhere(lab: Lab, picture: Picture) -> Iterable[AuditFinding]:
    """Pending work that would not fit on the empty cluster, with the cause that ``explain`` gives. The engine is loaded only if something
    waits."""
    if not picture.pending:
        return
    from kailab.engine.report import unplaceable
    from kailab.explain.cause_groups import causes_on_empty_cluster

    moment = picture.cycle_input
    titles = {record.uid: f"{record.namespace}/{record.name}" for record in moment.snapshot.podgroups}
    for shape in unplaceable.unplaceable_groups(moment.snapshot, moment.config, moment.now):
        names = sorted(titles[uid] for uid in shape.podgroups)
        size = f"{shape.pods} pods that start together" if shape.pods > 1 else "1 pod"
        work = list(dict.fromkeys(work_title(picture, name, namespaced=True) for name in names))
        alike = f"Each of {count(len(names), 'pod group')} ({some(work)}; " if len(names) > 1 else f"{work[0]} ("
        namespace, _, name = names[0].partition("/")
        causes = causes_on_empty_cluster(PodsAtMoment(SubjectRef("PodGroup", namespace, name), lab, picture))
        why = causes[0].sentence if causes else f"{capitalized(shape.message)}."
        yield AuditFinding(
            FindingCode.FITS_NOWHERE,
            Severity.ERROR,
            f"{alike}{size}, {gpus(shape.gpu)}) would not fit on the empty cluster either. {why}",
            tuple(f"podgroup/{name}" for name in names),
            {
                "pods": shape.pods,
                "gpu": shape.gpu,
                "placed": shape.placed,
                "groups": len(names),
                "cause": causes[0].code if causes else None,
            },
        )


def blocked_requests(picture: Picture, nowhere: Iterable[AuditFinding]) -> dict[str, TaskAmounts]:
    """Queue -> the requests of its work that a larger share would not help, because the work fits nowhere, lacks pods, or
    waits for a limit."""
    known = {name.partition("/")[2] for finding in nowhere for name in finding.objects}
    result: dict[str, TaskAmounts] = {}
    for name, entry in picture.pending.items():
        if name in known or entry.reason in (PendingCode.NOT_READY, PendingCode.OVER_LIMIT):
            sums = result.get(entry.queue, TaskAmounts())
            result[entry.queue] = TaskAmounts(
                gpu=sums.gpu + sum(amount.gpu for amount in entry.amounts),
                cpu=sums.cpu + sum(amount.cpu for amount in entry.amounts),
                memory=sums.memory + sum(amount.memory for amount in entry.amounts),
            )
    return result


def above_bounds(picture: Picture) -> Iterable[AuditFinding]:
    """Queues that hold more than their limit, or more non-preemptible work than their quota, in each resource. That happens if a bound is
    lowered while work runs; the scheduler evicts nothing for it."""
    for resource, named in RESOURCES.items():
        for name, queue in sorted(amounts_of(picture, resource).queues.items()):
            if queue.limit != UNLIMITED and queue.allocated > queue.limit:
                yield AuditFinding(
                    FindingCode.ABOVE_LIMIT,
                    Severity.WARNING,
                    f"{name} holds {amount_text(named, queue.allocated)}, above its limit of {amount_text(named, queue.limit)}: nothing is evicted for that, "
                    f"and nothing more of it starts until it holds less.{_largest(picture, name)}",
                    (f"queue/{name}",),
                    {"resource": named, "allocated": queue.allocated, "limit": queue.limit},
                    f"Raise its limit to {amount_text(named, queue.allocated)}, or delete or scale down work that holds "
                    f"{amount_text(named, queue.allocated - queue.limit)}.",
                )
            if beyond_quota(queue.non_preemptible, queue.quota):
                yield AuditFinding(
                    FindingCode.NON_PREEMPTIBLE_ABOVE_QUOTA,
                    Severity.WARNING,
                    f"{name} holds {amount_text(named, queue.non_preemptible)} of non-preemptible work, above its quota of "
                    f"{amount_text(named, queue.quota)}: nobody can take that back.{_largest(picture, name, non_preemptible=True)}",
                    (f"queue/{name}",),
                    {"resource": named, "non_preemptible": queue.non_preemptible, "quota": queue.quota},
                    f"Raise its quota to {amount_text(named, queue.non_preemptible)}, or delete, scale down or make preemptible work that holds "
                    f"{amount_text(named, queue.non_preemptible - queue.quota)}.",
                )
        if not picture.scheduler.knows_queues:
            return


def _largest(picture: Picture, queue: str, non_preemptible: bool = False) -> str:
    """A sentence about the work that holds most GPUs in a queue and the queues below it. ``non_preemptible``: only such work."""
    below, priorities = picture.below(queue), PriorityClasses()
    for priority_class in picture.cluster.list("PriorityClass"):
        priorities.set(priority_class)
    held: Counter[str] = Counter()
    for (namespace, name), group in picture.podgroups.items():
        spec, full = spec_of(group), f"{namespace}/{name}"
        preemptible = is_preemptible(spec, priorities.of(spec.get("priorityClassName") or ""))
        if spec.get("queue") in below and not (non_preemptible and preemptible):
            held[work_title(picture, full)] += sum(
                row.milli_gpus for row in picture.by_group.get(full, ()) if row.holds
            )
    most = [f"{work} ({gpus(amount)})" for work, amount in held.most_common() if amount]
    return f" The largest work in it: {some(most)}." if most else ""


SHOWN = 3
"""Queues in a sentence; the numbers have all."""

Resource = Literal["gpu", "cpu", "memory"]
RESOURCES: dict[Resource, QueueResource] = {"gpu": "GPU", "cpu": "CPU", "memory": "Memory"}


def amounts_of(picture: Picture, resource: Resource) -> QueueTreeShares:
    """The amounts of queues in one resource."""
    if resource == "gpu" or not picture.scheduler.knows_queues:
        return picture.shares
    return QueueTreeShares.counted(picture.present.queues, fair=picture.scheduler.reports_shares, resource=resource)


def starved(picture: Picture, blocked: Mapping[str, TaskAmounts]) -> Iterable[AuditFinding]:
    """Leaf queues that hold less than their due while work waits, judged by the first resource that it waits for. ``blocked``: requests that
    a larger share would not help."""
    if not picture.scheduler.knows_queues:
        return
    every: dict[Resource, QueueTreeShares] = {resource: amounts_of(picture, resource) for resource in RESOURCES}
    parents = {queue.parent for queue in picture.shares.queues.values()}
    options_of_queue = _reclaim_options(picture)
    reasons: dict[str, Counter[str]] = {}
    for entry in picture.pending.values():
        reasons.setdefault(entry.queue, Counter())[entry.reason] += 1
    for name in sorted(picture.shares.queues):
        short: Resource | None = next(
            (resource_name for resource_name in RESOURCES if every[resource_name][name].waiting), None
        )
        if name in parents or short is None:
            continue
        queue = every[short][name]
        if name in blocked:
            queue = replace(queue, requested=max(queue.allocated, queue.requested - getattr(blocked[name], short)))
        if queue.starving:
            resource = RESOURCES[short]
            claims = [
                option
                for level in picture.lines[name]
                for option in options_of_queue.get(level, ())
                if option.taker.resource == resource
            ]
            yield _starved(picture, queue, resource, claims, reasons.get(name, Counter()))


def _reclaim_options(picture: Picture) -> dict[str, list[ReclaimOption]]:
    """Queue -> the resources that it could reclaim, one option for each queue beside it, by name."""
    names = sorted(picture.shares.queues)
    options: dict[str, dict[str, ReclaimOption]] = {}
    for returns in returns_from(picture, *names).values():
        for option in entitled_returns(returns):
            options.setdefault(option.taker.queue, {})[option.taker.beside] = option
    return {name: [by_holder[holder] for holder in sorted(by_holder)] for name, by_holder in options.items()}


def _starved(
    picture: Picture,
    queue: QueueAmounts,
    resource: QueueResource,
    claims: list[ReclaimOption],
    reasons: Counter[str],
) -> AuditFinding:
    by_quota, due = queue.allocated < queue.entitled_to, queue.due
    which = f"its quota of {amount_text(resource, queue.quota)}" if by_quota else "its fair share"
    parts = [
        f"{queue.name} holds {amount_text(resource, queue.allocated)}; {which} entitles it to {amount_text(resource, due)}, "
        f"and its waiting work asks for {amount_text(resource, queue.waiting)}"
    ]
    largest = sorted(claims, key=lambda option: (-option.beyond, option.taker.beside))
    for option in largest[:SHOWN]:
        against = (
            "; ".join(return_blockers(picture, option))
            or f"up to {amount_text(resource, option.now)} could be taken now"
        )
        amount = amount_text(resource, option.beyond)
        more = (
            f"{amount} beyond its own" if option.over == resource else f"{amount} and more {option.over} than its own"
        )
        parts.append(f"{option.taker.beside} holds {more}: {against}")
    if len(claims) > SHOWN:
        parts.append(f"{len(claims) - SHOWN} more hold less than these beyond their own")
    if reasons:
        parts.append(
            "Its pod groups wait with " + ", ".join(f"{code} ({count})" for code, count in reasons.most_common())
        )
    numbers: dict[str, Any] = {
        "resource": resource,
        "owed": due - queue.allocated,
        "due": due,
        "allocated": queue.allocated,
        "requested": queue.requested,
        "quota": queue.quota,
        "fair_share": queue.fair_share,
        "from": [return_data(picture, option) for option in claims],
        "reasons": dict(reasons),
    }
    objects = (f"queue/{queue.name}", *(f"queue/{option.taker.beside}" for option in claims))
    severity = Severity.ERROR if by_quota else Severity.WARNING
    return AuditFinding(FindingCode.STARVED, severity, ". ".join(parts) + ".", objects, numbers)


def borrowing(picture: Picture) -> Iterable[AuditFinding]:
    """Queues that hold more than their quota, with the queues that lend it and the reasons that prevent its return."""
    if not picture.scheduler.knows_queues:
        return
    shares = picture.shares
    borrowers = [queue for _, queue in sorted(shares.queues.items()) if queue.borrowed]
    back = returns_from(picture, *(queue.name for queue in borrowers))
    for queue in borrowers:
        lenders = shares.unused_beside(queue.name)
        each = [f"{gpus(amount)} of the quota of {lender}" for lender, amount in lenders]
        own = [option for option in entitled_returns(back[queue.name]) if option.taker.beside == queue.name]
        against = list(dict.fromkeys(text for option in own for text in return_blockers(picture, option)))
        tail = f"; its return is prevented by: {'; '.join(against)}" if against else ""
        yield AuditFinding(
            FindingCode.BORROWING,
            Severity.INFO,
            f"{queue.name} holds {gpus(queue.borrowed)} beyond its quota of {gpus(queue.quota)}; unused beside it: {some(each) or 'nothing'}{tail}.",
            (f"queue/{queue.name}", *(f"queue/{lender}" for lender, _ in lenders if lender != NOBODY)),
            {
                "borrowed": queue.borrowed,
                "from": dict(lenders),
                "returns": [return_data(picture, option) for option in own],
            },
        )


def idle(picture: Picture) -> Iterable[AuditFinding]:
    """Leaf queues without waiting work, and with unused quota that other queues do not use in full."""
    shares = picture.shares
    parents = {queue.parent for queue in shares.queues.values()}
    for name, queue in sorted(shares.queues.items()):
        if name in parents or queue.waiting:
            continue
        lent = shares.lent(name)
        if queue.unused > lent:
            lent_text = f", of which others use {gpus(lent)}" if lent else ""
            yield AuditFinding(
                FindingCode.IDLE_QUOTA,
                Severity.INFO,
                f"{name} uses {gpus(queue.allocated)} of its quota of {gpus(queue.quota)} and asks for no more; "
                f"{gpus(queue.unused)} {is_or_are(gpus(queue.unused))} unused{lent_text}.",
                (f"queue/{name}",),
                {"quota": queue.quota, "allocated": queue.allocated, "lent": lent, "idle": queue.unused - lent},
            )


def unusable(picture: Picture) -> Iterable[AuditFinding]:
    """Queues in which nothing can run, and work that no queue or scheduler serves. Errors if work waits for it, else warnings."""
    if not picture.scheduler.knows_queues:
        return
    objects = {name_of(queue): queue for queue in picture.cluster.list("Queue")}
    waiting = Counter(entry.queue for entry in picture.pending.values())
    parents = {name: parent_of(queue) for name, queue in objects.items()}
    inner = set(parents.values())
    served = served_pool(picture.scheduler)
    for name in sorted(objects):
        line = queue_ancestry(name, parents)
        # A parent affects the work in all queues below it.
        below = sum(number for queue, number in waiting.items() if name in queue_ancestry(queue, parents))
        if name in inner and waiting[name]:
            yield _finding(FindingCode.QUEUE_NOT_LEAF, name, waiting[name], _not_leaf(name, parents))
        # The last queue of the line names a parent: one that does not exist, or one in a cycle.
        if (top := parents[line[-1]]) and (len(line) == 1 or name not in inner):
            yield _finding(FindingCode.QUEUE_PARENT_MISSING, name, below, _no_root(line, top, objects))
        elif served is not None and (pool := node_pool(metadata_of(objects[name]))) != served:
            text = f"belongs to node pool {pool}, which this scheduler does not serve (it serves {served})"
            yield _finding(FindingCode.NODE_POOL_NOT_SERVED, name, below, text)
        elif not any((spec_of(objects[name]).get("resources") or {}).values()):
            text = "has no resources block, so its limits are 0 and nothing in it can run"
            yield _finding(FindingCode.QUEUE_HAS_NO_RESOURCES, name, below, text)
        else:
            yield from _limits(picture, name, below)
    for name in sorted(waiting.keys() - objects.keys()):
        which = f"names queue {name}, which does not exist" if name else "names no queue"
        yield AuditFinding(
            FindingCode.QUEUE_MISSING,
            Severity.ERROR,
            f"Work of {count(waiting[name], 'pod group')} {which}.",
            (f"queue/{name}",) if name else (),
            {"waiting": waiting[name]},
        )
    # A picture does not have the lab's --adopt-default-scheduler, so only pods that name this scheduler are checked.
    for why, pods in ungrouped_pods(picture, picture.scheduler.scheduler_names(False)).items():
        yield AuditFinding(
            FindingCode.NOT_GROUPED,
            Severity.ERROR,
            f"{count(len(pods), 'pod')} ({some(pods)}) can't be grouped, so the scheduler never looks at {'it' if len(pods) == 1 else 'them'}: "
            f"{why}.",
            tuple(f"pod/{name}" for name in pods),
            {"pods": len(pods), "reason": why},
        )
    for scheduler, pods in unscheduled_pods(picture).items():
        yield AuditFinding(
            FindingCode.SCHEDULER_MISSING,
            Severity.ERROR,
            f"{count(len(pods), 'pod')} ({some(pods)}) {'waits' if len(pods) == 1 else 'wait'} for the scheduler {scheduler}, which does not "
            f"run here: {picture.scheduler.scheduler_name} leaves {'it' if len(pods) == 1 else 'them'} alone.",
            tuple(f"pod/{name}" for name in pods),
            {"pods": len(pods), "scheduler": scheduler},
        )


def _finding(code: FindingCode, name: str, waiting: int, text: str) -> AuditFinding:
    tail = f"; {count(waiting, 'pod group')} of it {'waits' if waiting == 1 else 'wait'}" if waiting else ""
    severity = Severity.ERROR if waiting else Severity.WARNING
    return AuditFinding(code, severity, f"{name} {text}{tail}.", (f"queue/{name}",), {"waiting": waiting})


def _not_leaf(name: str, parents: dict[str, str]) -> str:
    children = sorted(child for child, parent in parents.items() if parent == name)
    return f"has child queues ({some(children)}), so it runs no work itself"


def _no_root(line: list[str], top: str, objects: dict[str, Object]) -> str:
    if top in objects:
        return f"leads to no root: its parents form a cycle ({' < '.join([*line, top])})"
    via = f" of {line[-1]}" if len(line) > 1 else ""
    return f"leads to no root: the parent{via}, {top}, does not exist"


def _limits(picture: Picture, name: str, below: int) -> Iterable[AuditFinding]:
    """A limit of 0 of this queue; that of a parent is found for the parent."""
    none = [
        RESOURCES[resource_name]
        for resource_name in RESOURCES
        if name in (shares := amounts_of(picture, resource_name)) and shares[name].limit == 0
    ]
    if none:
        text = f"has a limit of 0 for {', '.join(none)}: nothing that asks for {'it' if len(none) == 1 else 'one of them'} can run"
        yield _finding(FindingCode.LIMIT_ZERO, name, below, text)


def waits(picture: Picture) -> Iterable[QueueWait]:
    """Queues by their longest wait. An evicted group waits since its eviction."""
    queues: dict[str, list[tuple[float, str]]] = {}
    for name, entry in picture.pending.items():
        namespace, _, bare = name.partition("/")
        group = picture.podgroups.get((namespace, bare))
        if group is None:
            continue
        metadata = metadata_of(group)
        since = max(
            creation_time(metadata), timestamp_or_none((metadata.get("annotations") or {}).get(LAST_EVICTION)) or 0.0
        )
        queues.setdefault(entry.queue, []).append((max(0.0, picture.now - since), name))
    result = [_wait(picture, queue, waiting) for queue, waiting in queues.items()]
    return sorted(result, key=lambda wait: (-wait.seconds, wait.queue))


def _wait(picture: Picture, queue: str, waiting: list[tuple[float, str]]) -> QueueWait:
    seconds = sorted(each for each, _ in waiting)
    longest, name = max(waiting, key=lambda wait: (wait[0], wait[1]))
    # ``quantiles`` needs two values.
    spread = quantiles(seconds, n=100, method="inclusive") if len(seconds) > 1 else seconds * 99
    workload = work_title(picture, name, namespaced=True)
    return QueueWait(queue, len(waiting), name, workload, longest, p50=spread[49], p99=spread[98])


_CHECKS: tuple[Callable[[Picture], Iterable[AuditFinding]], ...] = (
    above_bounds,
    borrowing,
    idle,
    beyond_capacity,
    unusable,
    full_models,
    quotas_beyond_models,
    orphans,
)


def audit(lab: Lab, picture: Picture | None = None) -> Audit:
    """All findings in a lab at one moment. ``picture``: of the lab, if the caller has one."""
    picture = picture or lab.picture()
    nowhere = list(fitting_nowhere(lab, picture))
    findings = [*nowhere, *(finding for check in _CHECKS for finding in check(picture))]
    findings += starved(picture, blocked_requests(picture, nowhere))
    findings.sort(key=lambda finding: (finding.severity.rank, list(FindingCode).index(finding.code), finding.objects))
    return Audit(
        queues=len(picture.shares.queues),
        findings=tuple(findings),
        waits=tuple(waits(picture)),
        unknown=(*_unknown(picture), *(_without_controller(lab) if lab.venue.exclusive else ())),
    )


def _unknown(picture: Picture) -> Iterable[str]:
    who = picture.scheduler.title
    if not picture.scheduler.knows_queues:
        yield f"{who} has no queues, so starvation and borrowing are not judged"
    elif not picture.scheduler.reports_shares:
        yield f"{who} reports no fair shares: starvation is judged by quotas, and returns by kailab's rules"


def _without_controller(lab: Lab) -> Iterable[str]:
    """Work for which nothing in an embedded lab makes pods. An object of an unknown kind counts if it describes pods."""
    inert = [obj for kind in sorted(lab.cluster.kinds()) if makes_no_pods(kind) for obj in lab.cluster.list(kind)]
    owners = {reference.get("uid") for obj in (*lab.cluster.list("Pod"), *inert) for reference in owner_references(obj)}
    names = [
        f"{obj['kind']} {full_name(obj)}"
        for obj in inert
        if not owner_references(obj)
        and uid_of(obj) not in owners
        and (kind_key(obj) in KINDS or any(True for _ in described_pods(obj)))
    ]
    if names:
        yield f"kailab makes no pods for {some(names)}, so whether that would run is not known here"
