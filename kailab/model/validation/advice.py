"""Advise on valid objects that KAI treats differently from what their author probably expects.

``advise_work`` and its siblings look at KAI's labels and annotations: KAI ignores an unreadable preemptibility, preemption delay or
staleness grace period, and it can't group a batch Job whose minimum of members is unreadable. ``advise_ignored`` looks at fields that
kube-scheduler uses and no release of KAI (v0.2 to v0.17) does: ``preemptionPolicy``, preferred node affinity and topology spread
constraints. ``advise_old_label`` looks at the label ``runai/queue``, which KAI has not read since v0.6 and kailab still reads.

No API server refuses such objects. ``described_pods`` finds the pods that an object describes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NamedTuple

from kailab.errors import InputError
from kailab.model import labels, times
from kailab.model.kinds import kind_key, part
from kailab.model.objects import content_key, labels_of, pods_of_job
from kailab.model.validation import core, shapes
from kailab.model.validation.fields import Fault, Faults, shown
from kailab.model.validation.shapes import Check

_MOST_KNOWN = 1024
_sound: set[bytes] = set()
"""Pod specs known to be readable: objects are checked many times, and most equal an earlier one."""
_PREEMPTIBILITY = ("", "preemptible", "non-preemptible")


def advise_work(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on the metadata of an object and of its pod templates."""
    for path, pod in _descriptions(obj):
        for field, message in _faults_of(pod):
            faults.add(f"{path}{field}", f"{message}, if it is a pod's: kailab can't read this as a pod")
    for path, meta in _metadata(obj):
        named = _texts(meta, "labels")
        value = named.get(labels.PREEMPTIBILITY)
        if value is not None and value not in _PREEMPTIBILITY:
            text = f"{shown(value)} is neither preemptible nor non-preemptible: KAI ignores it"
            faults.add(f"{path}.labels[{labels.PREEMPTIBILITY}]", text)
        noted = _texts(meta, "annotations")
        for key, signed in ((labels.PREEMPTION_DELAY, False), (labels.STALENESS_GRACE, True)):
            if key in noted:
                _advise_duration(faults, noted[key], signed, f"{path}.annotations[{key}]")
        least = noted.get(labels.BATCH_MIN_MEMBER)
        if least is not None and not _is_count(least):
            text = f"{shown(least)} is not a whole number of 0 or more: KAI can't group the pods, they stay pending"
            faults.add(f"{path}.annotations[{labels.BATCH_MIN_MEMBER}]", text)


def advise_scheduler(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on work that names a queue but no scheduler. It is a mistake only if another scheduler takes pods without a schedulerName,
    so it is not part of ``advise_work``."""
    if not any(labels.QUEUE in _texts(meta, "labels") for _, meta in _metadata(obj)):
        return
    for _, spec, pod, _ in described_pods(obj):
        name = pod["spec"].get("schedulerName")
        # An explicit default scheduler is intended.
        if name in (labels.SCHEDULER_NAME, labels.DEFAULT_SCHEDULER_NAME):
            continue
        text = f"is {shown(name)}" if name else "is missing"
        faults.add(f"{spec}schedulerName", f"{text}: only pods that say {labels.SCHEDULER_NAME} here go by their queue")


def pod_templates(obj: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each pod that an object is or describes, at any depth, with its path and a final dot: ``""`` for a Pod, ``spec.template.`` for a
    Job. Its fields have the types of a pod's. Unchecked kinds may contain templates that can't be read as pods; these are left out, and
    ``advise_work`` reports them."""
    for path, pod in _descriptions(obj):
        if not _faults_of(pod):
            yield path, pod


class DescribedPod(NamedTuple):
    """A pod that an object is or describes. ``metadata``, ``spec``: the paths of the fields with its labels and with its spec, with a final
    dot: ``spec.template.metadata.`` and ``spec.template.spec.`` in a Job. ``itself``: the object is the pod."""

    metadata: str
    spec: str
    pod: dict[str, Any]
    itself: bool = False


def described_pods(obj: dict[str, Any]) -> Iterator[DescribedPod]:
    """Each pod that an object is or describes, in the form of a pod template or in one of its kind's own (``Kind.describes``). Pods that can't
    be read are left out. The pods are for reading: a change of one may not change the object."""
    found = _found_pods.get()
    if found is None:
        return _described(obj)
    # The object is kept with its pods, so that its id stays its own.
    entry = found.get(id(obj))
    if entry is None:
        entry = found[id(obj)] = (obj, tuple(_described(obj)))
    return iter(entry[1])


_found_pods: ContextVar[dict[int, tuple[dict[str, Any], tuple[DescribedPod, ...]]] | None] = ContextVar(
    "found_pods", default=None
)


@contextmanager
def pods_found_once() -> Iterator[None]:
    """Find the pods of each object once in the block, although many checks ask for them. No object may change in it."""
    token = _found_pods.set({})
    try:
        yield
    finally:
        _found_pods.reset(token)


def _described(obj: dict[str, Any]) -> Iterator[DescribedPod]:
    describes = part(kind_key(obj), "describes")
    if describes is None:
        for path, pod in pod_templates(obj):
            yield DescribedPod(f"{path}metadata.", f"{path}spec.", pod, not path)
        return
    for described in describes(obj):
        if not _faults_of(described.pod):
            yield described


def _descriptions(obj: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """As ``pod_templates``, without the check that they can be read."""
    spec = obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        yield path, obj
        return
    for key, value in obj.items():
        if isinstance(value, dict) and key not in ("metadata", "status"):
            yield from _descriptions(value, f"{path}{key}.")
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield from _descriptions(item, f"{path}{key}[{index}].")


def _faults_of(pod: dict[str, Any]) -> list[Fault]:
    """Faults that prevent reading a value as a pod or pod template."""
    meta, spec = _template_shapes()
    faults = meta(pod) or []
    content = content_key(pod["spec"])
    if content not in _sound:
        faults += spec(pod) or ()
        if content is not None and not faults:
            if len(_sound) >= _MOST_KNOWN:
                _sound.clear()
            _sound.add(content)
    return faults


@cache
def _template_shapes() -> tuple[Check, Check]:
    return shapes.record({"metadata": core.shape("V1ObjectMeta")}), shapes.record(
        {"spec": core.shape(core.LOOSE_POD_SPEC)}
    )


def advise_gang(faults: Faults, job: dict[str, Any]) -> None:
    """Advise on a batch Job with a minimum of members above its parallelism."""
    least = _texts(job["metadata"], "annotations").get(labels.BATCH_MIN_MEMBER)
    if least is None or not _is_count(least):
        return
    most = pods_of_job(job["spec"])
    if 0 < most < int(least):
        text = f"is {int(least)}, but the Job makes {most} pod{'' if most == 1 else 's'} at a time: it can't start unless that is raised"
        faults.add(f"metadata.annotations[{labels.BATCH_MIN_MEMBER}]", text)


def _advise_duration(faults: Faults, value: str, signed: bool, path: str) -> None:
    try:
        times.duration_seconds(value, signed=signed)
    except InputError as error:
        faults.add(path, f"{error.message}: KAI ignores it")


def _is_count(text: str) -> bool:
    # As Go's ParseInt with 32 bits, which KAI uses. Twenty digits suffice to recognize a number that is too large.
    return text.isascii() and text.removeprefix("+").isdigit() and int(text[:20]) < 2**31


def _metadata(obj: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "metadata", obj["metadata"]
    for described in described_pods(obj):
        meta = described.pod.get("metadata")
        if not described.itself and isinstance(meta, dict):
            yield described.metadata.removesuffix("."), meta


def _texts(meta: dict[str, Any], key: str) -> dict[str, str]:
    value = meta.get(key)
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


# --- fields that KAI ignores ------------------------------------------------------------------------------------------

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_POLICY = (
    "is Never, but KAI's reclaim, preempt and consolidation do not look at it: work with it evicts others all the same; "
    f"{labels.PREEMPTION_DELAY} holds it back for a while"
)
_NODES = "has no effect: KAI does not score preferred node affinity, only preferred pod affinity and anti-affinity"

_SPREAD = (
    "has no effect: KAI does not spread pods by it, whether they must be spread or should be; pod anti-affinity by the same topologyKey keeps "
    "them apart"
)
_OLD_LABEL = f"KAI reads it no longer (since v0.6), so there the work goes to the queue default-queue; kailab goes by it still: say {labels.QUEUE}"


def advise_ignored(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on fields that KAI, and kailab's scheduler, ignore."""
    if obj["kind"] == "PriorityClass":
        _advise_policy(faults, obj, "")
    for _, path, pod, _ in described_pods(obj):
        spec = pod["spec"]
        _advise_policy(faults, spec, path)
        if spec.get("topologySpreadConstraints"):
            faults.add(f"{path}topologySpreadConstraints", _SPREAD)
        affinity = spec.get("affinity")
        nodes = affinity.get("nodeAffinity") if isinstance(affinity, dict) else None
        if isinstance(nodes, dict) and nodes.get(_PREFERRED):
            faults.add(f"{path}affinity.nodeAffinity.{_PREFERRED}", _NODES)


def advise_old_label(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on work or namespaces that name their queue only by the label of an older KAI."""
    pods = list(described_pods(obj))
    holders = [("metadata.", obj), *((described.metadata, described.pod) for described in pods if not described.itself)]
    if not pods and obj["kind"] != "Namespace":
        return
    named = [(path, labels_of(holder)) for path, holder in holders]
    if any(name in found for _, found in named for name in (labels.QUEUE, "project")):
        return
    for path, found in named:
        if labels.QUEUE_RUNAI in found:
            faults.add(f"{path}labels[{labels.QUEUE_RUNAI}]", _OLD_LABEL)
            return


def _advise_policy(faults: Faults, block: dict[str, Any], prefix: str) -> None:
    if block.get("preemptionPolicy") == "Never":
        faults.add(f"{prefix}preemptionPolicy", _POLICY)
