"""Why a pod or pod group is where it is: from the engine's decisions where there are any, else from the objects.

An explanation is a few lines: what is, why (code, message, nodes counted by reason, what was tried), what would
let it run, and who is ahead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.engine.decisions import Ground
from kailab.engine.snapshot.amounts import quantity_text
from kailab.engine.working.queues import NAMES
from kailab.errors import InputError, NotFound
from kailab.evidence.canonical import plain
from kailab.evidence.entries import Evicted, PodRow, Reason
from kailab.evidence.standing import condition
from kailab.lab.explain.explanation import Explanation, count, gpus
from kailab.lab.explain.policies import policy_lines, saving_lines
from kailab.lab.explain.remedies import Case, remedy
from kailab.lab.explain.serving_order import order_data, order_lines
from kailab.lab.picture import Picture, group_of
from kailab.model import labels

if TYPE_CHECKING:
    from kailab.lab.lab import Lab


def about_pod(lab: Lab, kind: str, name: str, namespace: str) -> list[Explanation]:
    """The question about a pod."""
    return [explain_pod(lab.picture(), name, namespace)]


def about_podgroup(lab: Lab, kind: str, name: str, namespace: str) -> list[Explanation]:
    """The question about a PodGroup."""
    return [explain_podgroup(lab.picture(), name, namespace)]


def about_workload(lab: Lab, kind: str, name: str, namespace: str) -> list[Explanation]:
    """The question about a workload: each of its PodGroups, or each pod where it has none."""
    picture = lab.picture()
    return explain_workload(picture, lab.workload(kind, name, namespace).pods(picture), f"{kind} {name!r}", namespace)


def explain_pod(picture: Picture, name: str, namespace: str = "default") -> Explanation:
    """A pod that is gone is explained from the decision log. Raises NotFound for one that never was."""
    full = f"{namespace}/{name}"
    row = next((row for row in picture.rows if row.name == full), None)
    eviction = next((entry for entry in reversed(picture.log.evictions) if entry.pod == full), None)
    # A pod that was evicted is gone, and its controller's new one mostly has another name: the decision log is all that knows
    # it.
    if row is None:
        if eviction is None:
            raise NotFound(f'pods "{name}" not found in namespace "{namespace}"')
        lines = (f"Pod {full} is gone.", *_eviction(eviction))
        return Explanation("pod", full, lines, {"phase": "Gone", "eviction": plain(eviction)})
    data: dict[str, Any] = plain(row)
    if row.phase == "Terminating":
        saving = saving_lines(picture.cluster.get("Pod", name, namespace))
        lines = (f"Pod {full}: leaving {row.node or 'without having run'}.", *saving, *_eviction(eviction))
    elif row.node:
        lines = (f"Pod {full}: {row.phase} on {row.node}, {gpus(row.milli_gpus)}{_in(row)}.",)
    elif row.phase != "Pending":
        lines = (f"Pod {full}: {row.phase}.",)
    else:
        lines, entry = _pending_pod(picture, row)
        data["pending"] = plain(entry)
        data |= order_data(picture, group_of(row)) if data["pending"] else {"ahead": []}
    return Explanation("pod", full, lines, data)


def explain_eviction(entry: Evicted) -> Explanation:
    """Why a pod was evicted, from an entry of the decision log, whatever has become of its name since."""
    return Explanation(
        "pod", entry.pod, (f"Pod {entry.pod} was evicted.", *_eviction(entry)), {"eviction": plain(entry)}
    )


def explain_podgroup(picture: Picture, name: str, namespace: str = "default") -> Explanation:
    """Raises NotFound."""
    try:
        group = picture.cluster.get("PodGroup", name, namespace)
    except NotFound:
        raise NotFound(f'podgroups.scheduling.run.ai "{name}" not found in namespace "{namespace}"') from None
    full = f"{namespace}/{name}"
    pods = picture.by_group.get(full, [])
    running = sum(row.phase == "Running" for row in pods)
    least = group["spec"].get("minMember", 1)
    queue = group["spec"].get("queue", "")
    head = f"PodGroup {full} in queue {queue or '(none)'}: {running} of {count(len(pods), 'pod')} running"
    if least and least > 1:
        head += f"; {least} run together or none"
    entry = picture.pending.get(full)
    lines = [head + ".", *(_why(picture, entry, pods) if entry else ())]
    if entry is None and running < len(pods):
        lines += _starting(pods)
    lines += _lost(picture, full)
    data = {"queue": queue, "min_member": least, "pods": plain(pods), "pending": plain(entry)}
    data |= order_data(picture, full)
    return Explanation("podgroup", full, tuple(lines), data)


def explain_workload(picture: Picture, pods: list[PodRow], name: str, namespace: str) -> list[Explanation]:
    """``pods``: of the workload. Raises InputError where there are none."""
    # Pods of one PodGroup wait for the same reason: it is told once, not once for each of them.
    groups = dict.fromkeys(row.podgroup for row in pods if row.podgroup)
    if groups:
        return [explain_podgroup(picture, group, namespace) for group in groups]
    if pods:
        return [explain_pod(picture, row.name.partition("/")[2], namespace) for row in pods]
    raise InputError(f"{name} has no pods, so nothing of it waits or runs")


def _pending_pod(picture: Picture, row: PodRow) -> tuple[tuple[str, ...], Reason | None]:
    head = f"Pod {row.name}: Pending, wants {gpus(row.milli_gpus)}{_in(row)}."
    key = group_of(row)
    entry = picture.pending.get(key) if row.podgroup else None
    if entry is not None:
        return (head, *_why(picture, entry, picture.by_group[key])), entry
    namespace, _, name = row.name.partition("/")
    pod = picture.cluster.get("Pod", name, namespace)
    return (head, *_without_decision(pod, row)), None


def _without_decision(pod: Object, row: PodRow) -> Iterable[str]:
    if gates := pod["spec"].get("schedulingGates"):
        names = ", ".join(gate["name"] for gate in gates)
        yield f"It has scheduling gates ({names}): nobody considers it until they go."
        return
    scheduled = condition(pod, "PodScheduled")
    if scheduled and scheduled.get("message"):
        yield f"Why: {scheduled.get('reason', '')}: {scheduled['message']}"
    elif not row.podgroup and pod["spec"].get("schedulerName") == labels.SCHEDULER_NAME:
        yield "No PodGroup was made for it yet; it has not been considered."
    else:
        theirs = pod["spec"].get("schedulerName", labels.DEFAULT_SCHEDULER_NAME)
        yield f"Its scheduler is {theirs}, which has not considered it."
        if not row.podgroup:
            yield f"kailab's own scheduler takes pods that say schedulerName: {labels.SCHEDULER_NAME}."


def _why(picture: Picture, entry: Reason, pods: list[PodRow]) -> Iterable[str]:
    yield f"Why: {entry.reason}: {_one_line(entry.message)}"
    yield from policy_lines(entry.numbers)
    if entry.fits:
        fit = entry.fits[0]
        reasons = "; ".join(f"{number} {reason}" for reason, number in fit.reasons)
        pod = fit.pod.partition("/")[2]
        yield f"Nodes: of {fit.nodes}, none takes {pod}: {reasons}."
    for action, outcome in entry.tried:
        yield f"Tried {action}: {outcome}"
    if help := remedy(Case(picture, entry, pods)):
        yield help
    yield from order_lines(picture, entry.podgroup)


def _starting(pods: list[PodRow]) -> Iterable[str]:
    placed = [row for row in pods if row.node and row.phase == "Pending"]
    if placed:
        yield f"{count(len(placed), 'pod')} placed and starting."


def _lost(picture: Picture, full: str) -> Iterable[str]:
    evicted = [entry for entry in picture.log.evictions if entry.podgroup == full]
    if evicted:
        yield f"{count(len(evicted), 'pod')} of it evicted so far. The last: {' '.join(_eviction(evicted[-1]))}"


def _eviction(entry: Evicted | None) -> tuple[str, ...]:
    if entry is None:
        return ()
    lines = [f"Evicted at {entry.time} (cycle {entry.cycle}) from {entry.node} by {entry.action}."]
    if entry.beneficiary:
        lines.append(f"In favour of {entry.beneficiary} of queue {entry.beneficiary_queue}.")
    if entry.reason:
        lines.append(_one_line(entry.reason))
    lines += _ground(entry.ground)
    for queue, moment in entry.shares.items():
        before, after = moment.before, moment.after
        lines.append(
            f"{queue}: {gpus(before.allocated)} -> {gpus(after.allocated)} "
            f"(quota {gpus(before.quota)}, fair share {gpus(before.fair_share)})."
        )
    return tuple(lines)


def _ground(ground: Ground | None) -> Iterable[str]:
    if ground is None:
        return
    if ground.priorities:
        victim, beneficiary = ground.priorities
        yield f"Decided by priority in queue {ground.queue}: {beneficiary} over {victim}."
    if ground.resource:
        r = NAMES.index(ground.resource)
        held, bound, left = (quantity_text(r, amount) for amount in (ground.before, ground.bound, ground.after))
        yield (
            f"Decided between {ground.queue} and {ground.beside}: {ground.queue} held {held}, beyond its {ground.rule} of "
            f"{bound}; {left} without what was taken."
        )


def _in(row: PodRow) -> str:
    return f", queue {row.queue}" if row.queue else ", no queue"


def _one_line(text: str) -> str:
    return " ".join(text.split())
