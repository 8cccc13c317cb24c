"""Who may be whose victim: whether work may be taken back, its priority, and what keeps others from being evicted for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.decisions import QueueShare
from kailab.engine.relaxing.rules import DelayGone, MadePreemptible, PriorityGiven
from kailab.engine.snapshot.records import GPU, UNLIMITED
from kailab.explain.causes.queue_limits import quota_words
from kailab.explain.steps.proposals import (
    After,
    Change,
    Disturbance,
    Proposal,
    Way,
    Words,
    annotated,
    apply,
    in_spec,
    labelled,
    of_pods,
    own_change,
    patch,
)
from kailab.explain.steps.setting import Setting
from kailab.grouping.default import DEFAULT_QUEUE
from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

TRIED = 4
"""Other queues that are tried."""


def another_queue(setting: Setting) -> Iterator[Way]:
    """Name a queue that may run work: one below the queue named, the most alike by name, the one with most quota left."""
    named = setting.named_queue
    below = {name for name in setting.leaves if named in setting.lines.get(name, ())[1:]}

    def order(name: str) -> tuple[bool, float, int, str]:
        alike = SequenceMatcher(None, named, name).ratio()
        state = setting.states.get(name)
        left = state.gpu.quota - state.gpu.allocated if state is not None and state.gpu.quota >= 0 else 0
        # Likeness is rounded, so that among names that are about as alike the one with room comes first.
        return name not in below, -round(alike, 1), -left, name

    for leaf in sorted((name for name in setting.leaves if name != named), key=order)[:TRIED]:
        do = f"Name queue {leaf} in the label {labels.QUEUE}"
        edit = labelled(labels.QUEUE, leaf)
        yield Way.of(own_change(setting, do, edit, in_spec(queue=leaf)))


def name_scheduler(setting: Setting) -> Iterator[Way]:
    """Name the scheduler of this lab."""
    name = setting.picture.scheduler.scheduler_name

    def edit(pod: Object) -> None:
        pod["spec"]["schedulerName"] = name

    yield Way.of(own_change(setting, f"Name the scheduler {name} (spec.schedulerName)", of_pods(edit)))


def make_queue(setting: Setting) -> Iterator[Way]:
    """Make the queue that is named and not there, beside the others, with the quota that is asked for."""
    name = setting.named_queue or DEFAULT_QUEUE
    if name in setting.queues:
        return
    parents = Counter(setting.queues[leaf]["spec"].get("parentQueue") or "" for leaf in setting.leaves)
    parent = min(parents, key=lambda one: (-parents[one], one), default="")
    quota = gpus_of(setting.asked.gpu)
    under = f" under {parent}" if parent in setting.queues else ""
    made = queue_object(name, quota, parent if under else "")
    yield Way((Proposal(lambda after: _made(after.of(made), under), (apply(made),), Disturbance.MADE),))


def mend_parents(setting: Setting) -> Iterator[Way]:
    """Make the parent that is missing, or hang the queue under one that there is, or under none."""
    line = setting.line
    if not line:
        return
    last = setting.queues[line[-1]]
    missing = last["spec"].get("parentQueue") or ""
    if missing and missing not in setting.queues:
        children = [one for one in setting.queues.values() if one["spec"].get("parentQueue") == missing]
        quotas = [((one["spec"].get("resources") or {}).get("gpu") or {}).get("quota") or 0 for one in children]
        # As much as its children say they own: less would keep them from it.
        quota = -1 if any(one < 0 for one in quotas) else sum(quotas)
        made = queue_object(missing, quota)
        yield Way((Proposal(lambda after: _made(after.of(made)), (apply(made),), Disturbance.MADE),))
    roots = sorted(
        name
        for name, one in setting.queues.items()
        if not one["spec"].get("parentQueue") and name not in setting.leaves and name not in line
    )
    for root in roots[:2]:
        change = patch(last, {"spec": {"parentQueue": root}})
        yield Way((Proposal(f"Give queue {line[-1]} the parent {root}", (change,), Disturbance.QUEUES),))
    change = patch(last, {"spec": {"parentQueue": None}})
    yield Way((Proposal(f"Make queue {line[-1]} a root, without a parent", (change,), Disturbance.QUEUES),))


def _made(queue: Object, under: str = "") -> str:
    quota = queue["spec"]["resources"]["gpu"]["quota"]
    return f"Make queue {queue['metadata']['name']}{under} with {quota_words('gpu', quota * GPU if quota > 0 else quota)} and no limit"


def queue_object(name: str, quota: float, parent: str = "") -> Object:
    """A queue with a quota of GPUs and no limits."""
    # All three: a resource without a block has a limit of 0.
    spec: dict[str, Any] = {"resources": {"gpu": share(quota), "cpu": share(-1), "memory": share(-1)}}
    if parent:
        spec = {"parentQueue": parent, **spec}
    return {"apiVersion": api_version_of("Queue"), "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def share(quota: float) -> dict[str, float]:
    return {"quota": quota, "limit": -1, "overQuotaWeight": 1}


def gpus_of(milli: int) -> float:
    """Milli-GPU as a Queue says them."""
    return milli // GPU if milli % GPU == 0 else milli / GPU


RESOURCES = ("gpu", "cpu", "memory")
MEGABYTE = 10**6
WEIGHTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32, 64)
STEPS = 8
"""Amounts between none and all of what is asked for that are tried."""


Bound = Callable[[QueueShare], int]
Changes = dict[str, dict[str, dict[str, float]]]
"""Queue -> resource -> field -> amount as a Queue says it."""


def give_resources(setting: Setting) -> Iterator[Way]:
    """A resources block where the queue, or one above it, has none, or none for a resource."""
    quotas = sorted({0, gpus_of(setting.asked.gpu)})
    lacking_queues = [setting.queues[name] for name in setting.line if _lacks(setting.queues[name])]

    def changes(quota: float) -> Iterator[Change]:
        for queue in lacking_queues:
            lacking = {one: share(quota if one == "gpu" else -1) for one in _lacks(queue)}
            yield patch(queue, {"spec": {"resources": lacking}})

    def words(after: After) -> str:
        names = " and ".join(queue["metadata"]["name"] for queue in lacking_queues)
        given = {
            float(after.of(queue)["spec"]["resources"]["gpu"]["quota"])
            for queue in lacking_queues
            if "gpu" in _lacks(queue)
        }
        of_gpus = f", GPUs with a quota of {max(given):g}" if given else ""
        return f"Give queue {names} resources that it lacks: no limits{of_gpus}"

    if lacking_queues:
        yield Way.of((Proposal(words, tuple(changes(one)), Disturbance.QUEUES) for one in quotas), grows=True)


def _lacks(queue: Mapping[str, Any]) -> list[str]:
    given = queue["spec"].get("resources") or {}
    return [one for one in RESOURCES if not given.get(one)]


def raise_limits(setting: Setting) -> Iterator[Way]:
    """Limits of the queue and of those above it, as far as they are below what it would then hold."""
    yield _raised(setting, "limit", _limit, _allocated)


def raise_quotas(setting: Setting) -> Iterator[Way]:
    """Quotas for work that is not preemptible: it has to be inside of them at every level, and inside the limits."""
    yield _raised(setting, "quota", _quota, _non_preemptible, with_limits=True)


def raise_claim(setting: Setting) -> Iterator[Way]:
    """A quota that gives the queue, and those above it, a claim on what it asks for."""
    yield _raised(setting, "quota", _quota, _allocated, by_steps=True)


def raise_weight(setting: Setting) -> Iterator[Way]:
    """The over-quota weight: of every level that has none first, then of the queue."""
    line = [setting.queues[name] for name in setting.line]
    weights = {queue["metadata"]["name"]: _weight(queue) for queue in line}
    if not line:
        return
    without = [queue for queue in line[1:] if weights[queue["metadata"]["name"]] == 0]
    opened = [patch(queue, {"spec": {"resources": {"gpu": {"overQuotaWeight": 1}}}}) for queue in without]
    above = " and ".join(queue["metadata"]["name"] for queue in without)
    name = setting.line[0]
    proposals = []
    # Where those above it have none, its own may be large enough as it is.
    if opened and weights[name]:

        def words_above(after: After) -> str:
            return f"Raise the over-quota weight of {above} from 0 to {_weight(after.of(without[0])):g}"

        proposals.append(Proposal(words_above, tuple(opened), Disturbance.QUEUES))

    def words(after: After) -> str:
        do = f"Raise the over-quota weight of queue {name} from {weights[name]:g} to {_weight(after.of(line[0])):g}"
        return f"{do}, and that of {above} to {_weight(after.of(without[0])):g}" if without else do

    for weight in WEIGHTS:
        if weight <= weights[name]:
            continue
        own = patch(line[0], {"spec": {"resources": {"gpu": {"overQuotaWeight": weight}}}})
        proposals.append(Proposal(words, (own, *opened), Disturbance.QUEUES))
    yield Way(tuple(proposals), grows=True)


def _weight(queue: Mapping[str, Any]) -> float:
    gpu = (queue["spec"].get("resources") or {}).get("gpu") or {}
    return float(gpu.get("overQuotaWeight") or 0)


def _raised(
    setting: Setting, field: str, bound: Bound, held: Bound, *, with_limits: bool = False, by_steps: bool = False
) -> Way:
    """``bound`` and ``held`` of a queue, in engine units. A limit is at last no limit at all. ``with_limits``: limits that come in the
    way are raised too. ``by_steps``: less than all that is asked for may be enough."""
    found: list[Changes] = []
    for amounts in _amounts(setting, by_steps):
        changes = _changes(setting, field, bound, held, amounts)
        if with_limits:
            # A quota above the limit would be of no use.
            changes = _joined(changes, _changes(setting, "limit", _limit, _allocated, amounts))
        if changes and changes not in found:
            found.append(changes)
    if field == "limit" and found:
        # The last resort: what else waits may need more than can be foreseen here.
        found.append({name: {one: {field: UNLIMITED} for one in amounts} for name, amounts in found[-1].items()})
    return Way.of(
        (Proposal(_words(setting, one), _patches(setting, one), Disturbance.QUEUES) for one in found), grows=True
    )


def _limit(state: QueueShare) -> int:
    return state.limit


def _quota(state: QueueShare) -> int:
    return state.quota


def _allocated(state: QueueShare) -> int:
    return state.allocated


def _non_preemptible(state: QueueShare) -> int:
    return state.non_preemptible


def _amounts(setting: Setting, by_steps: bool) -> Iterator[dict[str, int]]:
    """What is to be added for the subject, in engine units: what it asks for, then all that waits in its queue."""
    asked = setting.asked
    own = {"gpu": asked.gpu, "cpu": asked.cpu, "memory": asked.memory}
    if by_steps:
        # Whole GPUs, and never more than ``STEPS`` tries however much is asked for.
        step = GPU if asked.gpu <= STEPS * GPU else -(-asked.gpu // (STEPS * GPU)) * GPU
        for gpu in range(step, asked.gpu, step):
            yield {**own, "gpu": gpu}
    yield own
    state = setting.states.get(setting.named_queue)
    if state is not None:
        # Others of the queue may be served first, and take what was added.
        waiting = {one: getattr(state, one).requested - getattr(state, one).allocated for one in RESOURCES}
        if any(waiting[one] > own[one] for one in RESOURCES):
            yield {one: max(waiting[one], own[one]) for one in RESOURCES}


def _changes(setting: Setting, field: str, bound: Bound, held: Bound, amounts: Mapping[str, int]) -> Changes:
    found: Changes = {}
    for name in setting.line:
        state = setting.states.get(name)
        for one in RESOURCES if state is not None else ():
            share_now: QueueShare = getattr(state, one)
            need = held(share_now) + amounts[one]
            if amounts[one] and bound(share_now) != UNLIMITED and need > bound(share_now):
                found.setdefault(name, {})[one] = {field: in_queue_units(one, need)}
    return found


def _joined(one: Changes, other: Changes) -> Changes:
    found = {name: {key: dict(value) for key, value in resources.items()} for name, resources in one.items()}
    for name, resources in other.items():
        for key, value in resources.items():
            found.setdefault(name, {}).setdefault(key, {}).update(value)
    return found


def _patches(setting: Setting, changes: Changes) -> tuple[Change, ...]:
    return tuple(patch(setting.queues[name], {"spec": {"resources": found}}) for name, found in changes.items())


def _words(setting: Setting, changes: Changes) -> Words:
    def words(after: After) -> str:
        told: Sequence[str] = [
            f"the {one} {field} of queue {name} to {_amount(one, float(after.of(setting.queues[name])['spec']['resources'][one][field]))}"
            for name, found in changes.items()
            for one, fields in found.items()
            for field in fields
        ]
        return f"Raise {' and '.join(told)}"

    return words


def _amount(resource: str, amount: float) -> str:
    if amount == UNLIMITED:
        return "-1 (unlimited)"
    return f"{amount:g}" if resource == "gpu" else f"{amount:.0f} {'millicores' if resource == 'cpu' else 'MB'}"


def in_queue_units(resource: str, amount: int) -> float:
    """Milli-GPU, millicores or bytes as a Queue says them: GPUs, millicores, megabytes, rounded up."""
    if resource == "gpu":
        return gpus_of(amount)
    return amount if resource == "cpu" else -(-amount // MEGABYTE)


_RUNTIMES = ("reclaimMinRuntime", "preemptMinRuntime")


def make_preemptible(setting: Setting) -> Iterator[Way]:
    """Preemptible work may borrow beyond the quota, and may be taken back."""
    do = f"Make it preemptible (label {labels.PREEMPTIBILITY}: preemptible), so that it may borrow, and be taken back"
    edit = labelled(labels.PREEMPTIBILITY, "preemptible")
    yield Way.of(own_change(setting, do, edit, in_spec(preemptibility="preemptible"), MadePreemptible()))


def raise_priority(setting: Setting) -> Iterator[Way]:
    """A higher priority class, of those that leave it as preemptible as it is, then of any."""
    classes = {one["metadata"]["name"]: int(one.get("value") or 0) for one in setting.lab.cluster.list("PriorityClass")}
    now = max((setting.priority(group) for group in setting.podgroups), default=0)
    higher = sorted((value, name) for name, value in classes.items() if value > now and not name.startswith("system-"))
    proposals: list[Proposal] = []
    for value, name in sorted(higher, key=lambda one: (one[0] >= NON_PREEMPTIBLE_FROM, one))[:2]:
        do = f"Give it the priority class {name} ({value}; it has {now})"
        if value >= NON_PREEMPTIBLE_FROM > now:
            do += ", which makes it non-preemptible"
        edit = labelled(labels.PRIORITY_CLASS, name)
        proposals += own_change(setting, do, edit, in_spec(priorityClassName=name), PriorityGiven(value))
    yield Way(tuple(proposals))


def drop_delay(setting: Setting) -> Iterator[Way]:
    """Without its own preemption delay it may have others evicted at once."""
    do = f"Remove its preemption delay (annotation {labels.PREEMPTION_DELAY})"
    edit = annotated(labels.PREEMPTION_DELAY, None)
    yield Way.of(own_change(setting, do, edit, in_spec(preemptionDelay=None), DelayGone()))


def end_protection(setting: Setting) -> Iterator[Way]:
    """The minimum runtimes of queues, ended before their time."""
    changes, said = [], []
    for name, queue in sorted(setting.queues.items()):
        spec = {field: "0s" for field in _RUNTIMES if queue["spec"].get(field)}
        if spec:
            changes.append(patch(queue, {"spec": spec}))
            said.append(name)
    if changes:
        do = f"End the protection by a minimum runtime in {', '.join(said)}"
        yield Way((Proposal(do, tuple(changes), Disturbance.QUEUES),))


def lower_others(setting: Setting) -> Iterator[Way]:
    """The quota of a queue beside, lowered by what is asked for, so that it holds more than its quota."""
    line = setting.line
    asked = setting.asked.gpu
    for level in line:
        parent = setting.queues[level]["spec"].get("parentQueue")
        beside = sorted(
            name
            for name, queue in setting.queues.items()
            if name not in line and queue["spec"].get("parentQueue") == parent and name in setting.states
        )
        for name in beside:
            gpu = setting.states[name].gpu
            target = max(0, gpu.allocated - asked)
            if gpu.allocated and not 0 <= gpu.quota <= target:
                change = patch(setting.queues[name], {"spec": {"resources": {"gpu": {"quota": gpus_of(target)}}}})

                def words(after: After, queue: Object = setting.queues[name]) -> str:
                    quota = after.of(queue)["spec"]["resources"]["gpu"]["quota"]
                    return f"Lower the GPU quota of queue {queue['metadata']['name']} to {quota:g}"

                yield Way((Proposal(words, (change,), Disturbance.OTHERS),))


def raise_queue_priority(setting: Setting) -> Iterator[Way]:
    """Queues of a higher priority are served first."""
    highest = max((int(one["spec"].get("priority") or 100) for one in setting.queues.values()), default=100)
    for name in setting.line[:1]:
        queue = setting.queues[name]
        if int(queue["spec"].get("priority") or 100) <= highest and len(setting.queues) > 1:
            change = patch(queue, {"spec": {"priority": highest + 1}})

            def words(after: After, queue: Object = queue) -> str:
                return (
                    f"Raise the priority of queue {queue['metadata']['name']} to {after.of(queue)['spec']['priority']}"
                )

            yield Way((Proposal(words, (change,), Disturbance.QUEUES),))
