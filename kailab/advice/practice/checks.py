"""The checks of good practice: quotas and limits of queues, and the fields of workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.advice.practice.rules import GUARANTEED_PERCENT, PracticeFinding
from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import UNLIMITED
from kailab.lab.wording import count, gpus
from kailab.model import labels
from kailab.model.manifests import Manifest
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation import AppliedQueues, TemplateWork, WorkReader

_GPU = "spec.resources.gpu"


def check_queues(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[PracticeFinding]:
    """``given``: the manifests, by name. The loader reports a limit of 0."""
    for queue in queues.leaves:
        if (one := given.get(queue.name)) is None or queue.gpu.limit == 0:
            continue
        if queue.gpu.quota == 0:
            why = "has no GPU guaranteed: it runs only what others leave idle, and gives that back"
            yield PracticeFinding("queue-no-quota", one.where(f"{_GPU}.quota"), why)
        if queue.gpu.quota == UNLIMITED:
            why = "is unlimited: all that the queue takes counts as its own"
            yield PracticeFinding("queue-endless-quota", one.where(f"{_GPU}.quota"), why)
        if all(queues.by_name[name].gpu.limit == UNLIMITED for name in queues.line(queue.name)):
            why = "has no limit, nor has any queue above it: it may hold all GPUs while others need none"
            yield PracticeFinding("queue-no-limit", one.where(f"{_GPU}.limit"), why)


def check_guaranteed(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[PracticeFinding]:
    """All guaranteed GPUs against those of the cluster, if they are known. An unlimited queue guarantees what the queues below it do."""
    there = queues.capacity("gpu")
    top = list(queues.below(""))
    counted = []
    while top:
        queue = top.pop()
        if queue.gpu.quota == UNLIMITED:
            top += queues.below(queue.name)
        else:
            counted.append(queue)
    promised = sum(queue.gpu.quota for queue in counted)
    if (
        there
        and promised * 100 > there * GUARANTEED_PERCENT
        and (ours := [one for one in counted if one.name in given])
    ):
        largest = max(ours, key=lambda queue: (queue.gpu.quota, queue.name))
        why = f"quotas guarantee {gpus(promised)}, more than {GUARANTEED_PERCENT} % of {gpus(there)}"
        yield PracticeFinding("quotas-over-share", given[largest.name].where(f"{_GPU}.quota"), why)


_FAILURES = 6
"""Kubernetes' default for backoffLimit."""


@dataclass(frozen=True, slots=True)
class TemplatePods:
    """The pods of one template of a manifest. ``milli``: milli-GPU of each."""

    manifest: Manifest
    work: TemplateWork
    spec: dict[str, Any]
    milli: int

    def field(self, path: str) -> Any:
        return self.manifest.where(f"{self.work.path}{path}")


def read(manifests: Sequence[Manifest], cluster: Cluster) -> tuple[list[TemplatePods], list[str]]:
    """All work that KAI is to schedule, and names of work that can't be judged, with the reason."""
    reading = WorkReader([one.object for one in manifests], cluster, "kailab lint")
    pods = [(one, path, _pod(one.object, pod)) for one in manifests for path, pod in pod_templates(one.object)]
    accounts = GpuAccounts(cluster, [pod for _, _, pod in pods], {})
    found: list[TemplatePods] = []
    unknown: list[str] = []
    for one in manifests:
        try:
            works = {work.path: work for work in reading.of(one.object)}
        except NotExpressible as error:
            unknown.append(f"{one.name}: not judged as a gang: {error.concept}")
            continue
        mine = [(path, pod) for other, path, pod in pods if other is one and path in works]
        found += [TemplatePods(one, works[path], pod["spec"], accounts.gpus(pod)) for path, pod in mine]
    return found, unknown


def check_room(placed: Sequence[TemplatePods], queues: AppliedQueues, largest: int) -> Iterator[PracticeFinding]:
    """``largest``: milli-GPU of the largest node; 0 if no nodes are known."""
    capacity = queues.capacity("gpu")
    for one in placed:
        if largest and one.milli > largest:
            why = f"a pod asks for {gpus(one.milli)}; the largest node has {gpus(largest)}"
            yield PracticeFinding("pod-over-node", one.field("spec.containers"), why)
    for one, needed in _gangs(placed):
        many = one.work.min_member > 1
        who = f"{one.work.min_member} pods that start together ask for" if many else "a pod asks for"
        who = f"{who} {gpus(needed)}"
        if capacity and needed > capacity:
            yield PracticeFinding(
                "gang-over-cluster", one.field("spec.containers"), f"{who}; the cluster has {gpus(capacity)}"
            )
        line = (
            [queues.by_name[name] for name in queues.line(one.work.queue)] if one.work.queue in queues.by_name else []
        )
        for queue in line:
            if queue.gpu.limit != UNLIMITED and needed > queue.gpu.limit:
                why = f"{who}; queue {queue.name} has a limit of {gpus(queue.gpu.limit)}"
                yield PracticeFinding("gang-over-limit", one.field("spec.containers"), why)
            elif not one.work.preemptible and queue.gpu.quota != UNLIMITED and needed > queue.gpu.quota:
                why = f"{who}, non-preemptible; queue {queue.name} has a quota of {gpus(queue.gpu.quota)}"
                yield PracticeFinding("non-preemptible-over-quota", one.field("spec.containers"), why)


def check_ends(placed: Sequence[TemplatePods]) -> Iterator[PracticeFinding]:
    """GPU work that loses its state, or fails, if it is evicted."""
    for one in placed:
        if not one.milli or not one.work.preemptible:
            continue
        hooks = any(((c.get("lifecycle") or {}).get("preStop")) for c in one.spec.get("containers") or ())
        if not hooks and one.spec.get("terminationGracePeriodSeconds") is None:
            why = "may be evicted, and has neither a preStop hook nor a grace period of its own: what it did is lost"
            yield PracticeFinding("no-grace", one.field("spec.terminationGracePeriodSeconds"), why)
        spec = one.manifest.object.get("spec") or {}
        if one.manifest.kind == "Job" and not spec.get("podFailurePolicy"):
            pods, limit = spec.get("parallelism", 1), spec.get("backoffLimit", _FAILURES)
            if isinstance(pods, int) and isinstance(limit, int) and pods > limit:
                why = f"is {limit}: each evicted pod counts as a failure, and the Job has {pods} at a time"
                yield PracticeFinding("evictions-end-job", one.manifest.where("spec.backoffLimit"), why)


def check_gang_labels(manifests: Sequence[Manifest]) -> Iterator[PracticeFinding]:
    """Bare pods with the same job-id label, as the documents use it."""
    gangs: dict[tuple[str, str], list[Manifest]] = {}
    for one in manifests:
        meta = one.object["metadata"]
        if one.kind == "Pod" and (name := (meta.get("labels") or {}).get(labels.JOB_ID)):
            gangs.setdefault((meta.get("namespace") or "", name), []).append(one)
    for (_, name), pods in gangs.items():
        sizes = Counter(_label(pod, labels.JOB_SIZE) for pod in pods)
        usual = sizes.most_common(1)[0][0]
        for pod in pods:
            if (size := _label(pod, labels.JOB_SIZE)) != usual:
                why = f"is {size or 'missing'}; other pods of {name} say {usual or 'none'}"
                yield PracticeFinding("gang-labels", pod.where(f"metadata.labels[{labels.JOB_SIZE}]"), why)
        if len(sizes) == 1 and usual.isdigit() and int(usual) != len(pods):
            why = f"is {usual}, but {name} has {count(len(pods), 'pod')}"
            yield PracticeFinding("gang-labels", pods[0].where(f"metadata.labels[{labels.JOB_SIZE}]"), why)
        first: dict[str, Manifest] = {}
        for pod in pods:
            index = _label(pod, labels.JOB_INDEX)
            if index and first.setdefault(index, pod) is not pod:
                why = f"is {index}, as that of {first[index].name}"
                yield PracticeFinding("gang-labels", pod.where(f"metadata.labels[{labels.JOB_INDEX}]"), why)


def _gangs(placed: Sequence[TemplatePods]) -> Iterator[tuple[TemplatePods, int]]:
    """Each gang once, by its first template, with the GPUs that it needs at least."""
    gangs: dict[tuple[str, str], list[TemplatePods]] = {}
    for number, one in enumerate(placed):
        key = (one.work.namespace, one.work.gang) if one.work.gang else ("", str(number))
        gangs.setdefault(key, []).append(one)
    for parts in gangs.values():
        yield parts[0], parts[0].work.min_member * min(part.milli for part in parts)


def _label(pod: Manifest, key: str) -> str:
    return str((pod.object["metadata"].get("labels") or {}).get(key) or "")


def _pod(obj: Object, template: Object) -> Object:
    meta = {"namespace": obj["metadata"].get("namespace") or "default", **(template.get("metadata") or {})}
    return {"metadata": meta, "spec": template["spec"]}
