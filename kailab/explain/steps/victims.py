"""Who may be whose victim: whether work may be taken back, its priority, and what keeps others from being evicted for it."""

from __future__ import annotations

from collections.abc import Iterator

from kailab.cluster.protocol import Object
from kailab.engine.relaxing.rules import DelayGone, MadePreemptible, PriorityGiven
from kailab.explain.steps.edits import annotated, in_spec, labelled, own_change
from kailab.explain.steps.naming import gpus_of
from kailab.explain.steps.proposal import After, Disturbance, Proposal, Way, patch
from kailab.explain.steps.setting import Setting
from kailab.model import labels
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

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
