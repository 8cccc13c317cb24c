"""Proposals about queues: name or create another, raise limits, quotas, weights and priorities, and change who may be evicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import DelayGone, MadePreemptible, PriorityGiven
from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.explain.causes.queue_limits import quota_words
from kailab.explain.steps.proposals import (
    ChangeData,
    Disturbance,
    ObjectsAfterChanges,
    Proposal,
    ProposalFamily,
    Words,
    apply_change,
    correction,
    edit_of_pods,
    own_change,
    patch_change,
    set_annotation,
    set_label,
    spec_patch,
)
from kailab.explain.steps.question_context import QuestionContext
from kailab.lab.answer import CauseCode
from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.model.objects import parent_of, share_of
from kailab.model.queues import share
from kailab.model.suggestions import meant_name
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM
from kailab.scheduler.reading.queues import queue_record

MOST_QUEUES = 4
"""Other queues that are tried at most."""


def change_queue(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Name another leaf queue: the one that was clearly meant by a name that does not exist, one below the named queue, then the most
    similar name, then the most unused quota."""
    named = context.named_queue
    meant = meant_name(named, context.leaves) if named and named not in context.queues else None
    below = {name for name in context.leaves if named in context.lines.get(name, ())[1:]}

    def order(name: str) -> tuple[bool, bool, float, int, str]:
        alike = SequenceMatcher(None, named, name).ratio()
        state = context.states.get(name)
        left = state.gpu.quota - state.gpu.allocated if state is not None and state.gpu.quota >= 0 else 0
        # Similarity is rounded, so that of about equally similar names the one with room comes first.
        return name != meant, name not in below, -round(alike, 1), -left, name

    for leaf in sorted((name for name in context.leaves if name != named), key=order)[:MOST_QUEUES]:
        do = f"Name queue {leaf} in the label {labels.QUEUE}"
        edit = set_label(labels.QUEUE, leaf)
        yield ProposalFamily.of(own_change(context, do, edit, spec_patch(queue=leaf)), corrects=correction(leaf, meant))


def name_scheduler(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Name the scheduler of this lab."""
    name = context.picture.scheduler.scheduler_name

    def edit(pod: Object) -> None:
        pod["spec"]["schedulerName"] = name

    yield ProposalFamily.of(own_change(context, f"Name the scheduler {name} (spec.schedulerName)", edit_of_pods(edit)))


def make_queue(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the missing queue under the parent of most leaf queues, with the requested quota."""
    name = context.named_queue or labels.DEFAULT_QUEUE
    if name in context.queues:
        return
    parents = Counter(parent_of(context.queues[leaf]) for leaf in context.leaves)
    parent = min(parents, key=lambda queue_name: (-parents[queue_name], queue_name), default="")
    quota = gpus_of(context.asked.gpu)
    under = f" under {parent}" if parent in context.queues else ""
    made = queue_object(name, quota, parent if under else "")
    yield ProposalFamily(
        (Proposal(lambda after: _made(after.of(made), under), (apply_change(made),), Disturbance.MADE),)
    )


def fix_queue_parent(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Create the missing parent, or give the queue an existing parent or none."""
    line = context.line
    if not line:
        return
    last = context.queues[line[-1]]
    missing = parent_of(last)
    if missing and missing not in context.queues:
        children = [queue for queue in context.queues.values() if parent_of(queue) == missing]
        quotas = [share_of(child).get("quota") or 0 for child in children]
        # The sum of its children's quotas: less would keep them from theirs.
        quota = -1 if any(amount < 0 for amount in quotas) else sum(quotas)
        made = queue_object(missing, quota)
        yield ProposalFamily((Proposal(lambda after: _made(after.of(made)), (apply_change(made),), Disturbance.MADE),))
    roots = sorted(
        name
        for name, queue in context.queues.items()
        if not parent_of(queue) and name not in context.leaves and name not in line
    )
    for root in roots[:2]:
        change = patch_change(last, {"spec": {"parentQueue": root}})
        yield ProposalFamily((Proposal(f"Give queue {line[-1]} the parent {root}", (change,), Disturbance.QUEUES),))
    change = patch_change(last, {"spec": {"parentQueue": None}})
    yield ProposalFamily((Proposal(f"Make queue {line[-1]} a root, without a parent", (change,), Disturbance.QUEUES),))


def _made(queue: Object, under: str = "") -> str:
    quota = queue["spec"]["resources"]["gpu"]["quota"]
    return f"Make queue {queue['metadata']['name']}{under} with {quota_words('gpu', quota * GPU if quota > 0 else quota)} and no limit"


def queue_object(name: str, quota: float, parent: str = "") -> Object:
    """A queue with a quota of GPUs and no limits."""
    # All three: a resource without a block has a limit of 0.
    spec: dict[str, Any] = {"resources": {"gpu": share(quota), "cpu": share(), "memory": share()}}
    if parent:
        spec = {"parentQueue": parent, **spec}
    return {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def gpus_of(milli: int) -> float:
    """Milli-GPU in the unit of a Queue."""
    return milli // GPU if milli % GPU == 0 else milli / GPU


RESOURCES = ("gpu", "cpu", "memory")
MEGABYTE = 10**6
WEIGHTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
AMOUNT_STEPS = 8
"""Amounts that are tried up to all that is requested."""


ShareChanges = dict[str, dict[str, dict[str, float]]]
"""Queue -> resource -> field -> amount in the unit of a Queue."""


def give_resources(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Add resources blocks that the queue, or one above it, lacks."""
    quotas = sorted({0, gpus_of(context.asked.gpu)})
    lacking_queues = [context.queues[name] for name in context.line if _lacks(context.queues[name])]

    def changes(quota: float) -> Iterator[ChangeData]:
        for queue in lacking_queues:
            lacking = {resource: share(quota if resource == "gpu" else -1) for resource in _lacks(queue)}
            yield patch_change(queue, {"spec": {"resources": lacking}})

    def words(after: ObjectsAfterChanges) -> str:
        names = " and ".join(queue["metadata"]["name"] for queue in lacking_queues)
        given = {
            float(after.of(queue)["spec"]["resources"]["gpu"]["quota"])
            for queue in lacking_queues
            if "gpu" in _lacks(queue)
        }
        of_gpus = f", GPUs with a quota of {max(given):g}" if given else ""
        return f"Give queue {names} the missing resources: no limits{of_gpus}"

    if lacking_queues:
        yield ProposalFamily.of(
            (Proposal(words, tuple(changes(quota)), Disturbance.QUEUES) for quota in quotas), grows=True
        )


def _lacks(queue: Mapping[str, Any]) -> list[str]:
    given = queue["spec"].get("resources") or {}
    return [resource for resource in RESOURCES if not given.get(resource)]


def raise_limits(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise limits of the queue and of those above it, as far as they are below what these would then hold; with quotas, where these refuse
    the work as well."""
    yield _raised(context, "limit", "allocated")
    if any(cause.code is CauseCode.NON_PREEMPTIBLE_OVER_QUOTA for cause in context.causes):
        yield from raise_quotas(context)


def raise_quotas(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise quotas, and limits in the way, for non-preemptible work, which must stay within them at every level."""
    yield _raised(context, "quota", "non_preemptible", with_limits=True)


def raise_quota_for_claim(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise quotas so that the queue, and those above it, have a claim on what it requests."""
    yield _raised(context, "quota", "allocated", by_steps=True)


def raise_weight(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise the over-quota weight: first of every level above that has none, then of the queue."""
    line = [context.queues[name] for name in context.line]
    weights = {queue["metadata"]["name"]: _weight(queue) for queue in line}
    if not line:
        return
    without = [queue for queue in line[1:] if weights[queue["metadata"]["name"]] == 0]
    opened = [patch_change(queue, {"spec": {"resources": {"gpu": {"overQuotaWeight": 1}}}}) for queue in without]
    above = " and ".join(queue["metadata"]["name"] for queue in without)
    name = context.line[0]
    proposals = []
    # If only levels above have no weight, its own may be large enough.
    if opened and weights[name]:

        def words_above(after: ObjectsAfterChanges) -> str:
            return f"Raise the over-quota weight of {above} from 0 to {_weight(after.of(without[0])):g}"

        proposals.append(Proposal(words_above, tuple(opened), Disturbance.QUEUES))

    def words(after: ObjectsAfterChanges) -> str:
        do = f"Raise the over-quota weight of queue {name} from {weights[name]:g} to {_weight(after.of(line[0])):g}"
        return f"{do}, and that of {above} to {_weight(after.of(without[0])):g}" if without else do

    for weight in WEIGHTS:
        if weight <= weights[name]:
            continue
        own = patch_change(line[0], {"spec": {"resources": {"gpu": {"overQuotaWeight": weight}}}})
        proposals.append(Proposal(words, (own, *opened), Disturbance.QUEUES))
    yield ProposalFamily(tuple(proposals), grows=True)


def _weight(queue: Mapping[str, Any]) -> float:
    return float(share_of(queue).get("overQuotaWeight") or 0)


def _raised(
    context: QuestionContext,
    field: str,
    held: str,
    *,
    with_limits: bool = False,
    by_steps: bool = False,
) -> ProposalFamily:
    """Raise a field of the queue and of those above it. ``field`` and ``held``, which counts against it: fields of ``QueueShare``. ``with_limits``: also raise
    limits in the way. ``by_steps``: try less than all that is requested. The last limit that is tried is unlimited."""
    increases: list[ShareChanges] = []
    for amounts in _amounts(context, by_steps):
        changes = _changes(context, field, held, amounts)
        if with_limits:
            # A quota above the limit has no effect.
            changes = _joined(changes, _changes(context, "limit", "allocated", amounts))
        if changes and changes not in increases:
            increases.append(changes)
    if field == "limit" and increases:
        # Other waiting work may need more than is known here.
        increases.append(
            {name: {resource: {field: UNLIMITED} for resource in amounts} for name, amounts in increases[-1].items()}
        )
    return ProposalFamily.of(
        (
            Proposal(_words(context, increase), _patches(context, increase), Disturbance.QUEUES)
            for increase in increases
        ),
        grows=True,
    )


def _amounts(context: QuestionContext, by_steps: bool) -> Iterator[dict[str, int]]:
    """Amounts to add, in engine units: what parts of a queue's work request, what the subject requests, then all that waits in its queue."""
    asked, parts = context.asked, context.asked_by_parts
    for part in parts[:: -(-len(parts) // AMOUNT_STEPS) or 1]:
        yield {"gpu": part.gpu, "cpu": part.cpu, "memory": part.memory}
    own = {"gpu": asked.gpu, "cpu": asked.cpu, "memory": asked.memory}
    if by_steps:
        # Whole GPUs, in ``AMOUNT_STEPS`` steps at most.
        step = GPU if asked.gpu <= AMOUNT_STEPS * GPU else -(-asked.gpu // (AMOUNT_STEPS * GPU)) * GPU
        for gpu in range(step, asked.gpu, step):
            yield {**own, "gpu": gpu}
    yield own
    state = context.states.get(context.named_queue)
    if state is not None:
        # Other work of the queue may be served first and take what was added.
        waiting = {
            resource: getattr(state, resource).requested - getattr(state, resource).allocated for resource in RESOURCES
        }
        if any(waiting[resource] > own[resource] for resource in RESOURCES):
            yield {resource: max(waiting[resource], own[resource]) for resource in RESOURCES}


def _changes(context: QuestionContext, field: str, held: str, amounts: Mapping[str, int]) -> ShareChanges:
    raised: ShareChanges = {}
    for name in context.line:
        state = context.states.get(name)
        for resource in RESOURCES if state is not None else ():
            share_now = getattr(state, resource)
            need = getattr(share_now, held) + amounts[resource]
            if amounts[resource] and getattr(share_now, field) != UNLIMITED and need > getattr(share_now, field):
                raised.setdefault(name, {})[resource] = {field: in_queue_units(resource, need)}
    return raised


def _joined(changes: ShareChanges, other: ShareChanges) -> ShareChanges:
    joined = {name: {key: dict(value) for key, value in resources.items()} for name, resources in changes.items()}
    for name, resources in other.items():
        for key, value in resources.items():
            joined.setdefault(name, {}).setdefault(key, {}).update(value)
    return joined


def _patches(context: QuestionContext, changes: ShareChanges) -> tuple[ChangeData, ...]:
    return tuple(
        patch_change(context.queues[name], {"spec": {"resources": resources}}) for name, resources in changes.items()
    )


def _words(context: QuestionContext, changes: ShareChanges) -> Words:
    def words(after: ObjectsAfterChanges) -> str:
        raised: Sequence[str] = [
            f"the {resource} {field} of queue {name} to {_amount(resource, float(after.of(context.queues[name])['spec']['resources'][resource][field]))}"
            for name, resources in changes.items()
            for resource, fields in resources.items()
            for field in fields
        ]
        return f"Raise {' and '.join(raised)}"

    return words


def _amount(resource: str, amount: float) -> str:
    if amount == UNLIMITED:
        return "-1 (unlimited)"
    return f"{amount:g}" if resource == "gpu" else f"{amount:.0f} {'millicores' if resource == 'cpu' else 'MB'}"


def in_queue_units(resource: str, amount: int) -> float:
    """Milli-GPU, millicores or bytes in the units of a Queue: GPUs, millicores, megabytes, rounded up."""
    if resource == "gpu":
        return gpus_of(amount)
    return amount if resource == "cpu" else -(-amount // MEGABYTE)


_RUNTIMES = ("reclaimMinRuntime", "preemptMinRuntime")


def make_preemptible(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Make the work preemptible, so that it may exceed the quota and be reclaimed."""
    do = f"Make it preemptible (label {labels.PREEMPTIBILITY}: preemptible), so that it may borrow and be reclaimed"
    edit = set_label(labels.PREEMPTIBILITY, "preemptible")
    yield ProposalFamily.of(own_change(context, do, edit, spec_patch(preemptibility="preemptible"), MadePreemptible()))


def raise_priority(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Set a higher priority class: first one that does not make it non-preemptible, then any."""
    classes = {
        priority_class["metadata"]["name"]: int(priority_class.get("value") or 0)
        for priority_class in context.lab.cluster.list("PriorityClass")
    }
    now = max((context.priority(group) for group in context.podgroups), default=0)
    higher = sorted((value, name) for name, value in classes.items() if value > now and not name.startswith("system-"))
    proposals: list[Proposal] = []
    for value, name in sorted(higher, key=lambda entry: (entry[0] >= NON_PREEMPTIBLE_FROM, entry))[:2]:
        do = f"Set the priority class {name} ({value}; it has {now})"
        if value >= NON_PREEMPTIBLE_FROM > now:
            do += ", which makes it non-preemptible"
        edit = set_label(labels.PRIORITY_CLASS, name)
        proposals += own_change(
            context, do, edit, spec_patch(priorityClassName=name), PriorityGiven(value), Disturbance.PRIORITY
        )
    yield ProposalFamily(tuple(proposals))


def remove_preemption_delay(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Remove its own preemption delay."""
    do = f"Remove its preemption delay (annotation {labels.PREEMPTION_DELAY})"
    edit = set_annotation(labels.PREEMPTION_DELAY, None)
    yield ProposalFamily.of(own_change(context, do, edit, spec_patch(preemptionDelay=None), DelayGone()))


def end_min_runtimes(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Remove the minimum runtimes of all queues."""
    changes, names = [], []
    for name, queue in sorted(context.queues.items()):
        spec = {field: "0s" for field in _RUNTIMES if queue["spec"].get(field)}
        if spec:
            changes.append(patch_change(queue, {"spec": spec}))
            names.append(name)
    if changes:
        do = f"End the protection by a minimum runtime in {', '.join(names)}"
        yield ProposalFamily((Proposal(do, tuple(changes), Disturbance.QUEUES),))


def lower_quotas_beside(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Lower the quota of a queue beside so far that it exceeds it by what is requested."""
    line = context.line
    asked = context.asked.gpu
    for level in line:
        parent = parent_of(context.queues[level])
        beside = sorted(
            name
            for name, queue in context.queues.items()
            if name not in line and parent_of(queue) == parent and name in context.states
        )
        for name in beside:
            gpu = context.states[name].gpu
            target = max(0, gpu.allocated - asked)
            if gpu.allocated and not 0 <= gpu.quota <= target:
                change = patch_change(
                    context.queues[name], {"spec": {"resources": {"gpu": {"quota": gpus_of(target)}}}}
                )

                def words(after: ObjectsAfterChanges, queue: Object = context.queues[name]) -> str:
                    quota = after.of(queue)["spec"]["resources"]["gpu"]["quota"]
                    return f"Lower the GPU quota of queue {queue['metadata']['name']} to {quota:g}"

                yield ProposalFamily((Proposal(words, (change,), Disturbance.OTHERS),))


def raise_queue_priority(context: QuestionContext) -> Iterator[ProposalFamily]:
    """Raise the priority of the queue above all others: such a queue is served first."""
    priorities = {name: queue_record(queue).priority for name, queue in context.queues.items()}
    for name in context.line[:1]:
        queue, highest = context.queues[name], max(priorities.values())
        if len(priorities) > 1:
            change = patch_change(queue, {"spec": {"priority": highest + 1}})

            def words(after: ObjectsAfterChanges, queue: Object = queue) -> str:
                return (
                    f"Raise the priority of queue {queue['metadata']['name']} to {after.of(queue)['spec']['priority']}"
                )

            yield ProposalFamily((Proposal(words, (change,), Disturbance.PRIORITY),))
