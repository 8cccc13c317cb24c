"""The queue that work names: another one, or the one that is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

from kailab.cluster.protocol import Object
from kailab.engine.snapshot.records import GPU
from kailab.explain.causes.queue_words import quota_words
from kailab.explain.steps.edits import in_spec, labelled, of_pods, own_change
from kailab.explain.steps.proposal import Disturbance, Proposal, Way, apply, patch
from kailab.explain.steps.setting import Setting
from kailab.grouping.queues import DEFAULT_QUEUE
from kailab.model import labels
from kailab.model.kinds import api_version_of

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
