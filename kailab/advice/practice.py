"""Check manifests against rules of good practice. Each finding has its rule, its place, a reason and a cure.

Sources of the rules: good practices and pitfalls in documents about KAI, KAI's own webhooks and warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kailab.cluster.base_objects import KAI_PRIORITY_CLASSES
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Cluster, Object
from kailab.engine.snapshot.records import UNLIMITED
from kailab.errors import InputErrors, Where
from kailab.evidence.wording import count, gpus
from kailab.fleet.fleet import Fleet
from kailab.lab import advice, intake
from kailab.lab.unknown_fields import warn_unknown_fields
from kailab.model import labels
from kailab.model.labels import GPU_RESOURCE
from kailab.model.manifests import Manifest, Manifests, Notice
from kailab.model.multimap import multimap
from kailab.model.objects import controller_of, labels_of, metadata_of, name_of, namespace_of, priority_of
from kailab.model.queues import check_queue_tree, check_workload_queues
from kailab.model.validation.advice import described_pods, pod_templates
from kailab.scheduler.reading.accounts import GpuAccounts
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM
from kailab.undertest.contract import NotExpressible
from kailab.undertest.translation import AppliedQueues, TemplateWork, WorkReader

GUARANTEED_PERCENT = 70
"""At most this part of a cluster's GPUs should be guaranteed; the rest is for borrowing."""

MOST_CLASSES = 5
"""More PriorityClasses than this are hard to tell apart."""


@dataclass(frozen=True, slots=True)
class PracticeRule:
    """``asks``: the requirement. ``cure``: what to do about a finding."""

    asks: str
    cure: str


RULES: Mapping[str, PracticeRule] = {
    "no-queue": PracticeRule(
        "work names its queue", "set the label kai.scheduler/queue, on the work or on its pod template"
    ),
    "queue-missing": PracticeRule(
        "the queue of work exists", "correct the name, or check the Queue's manifest together with the work"
    ),
    "queue-not-leaf": PracticeRule("work is in a queue without others below it", "name one of the queues below it"),
    "parent-missing": PracticeRule("the parent of a queue exists", "correct spec.parentQueue, or add that Queue"),
    "no-scheduler": PracticeRule(
        "work with a queue names KAI's scheduler", "set schedulerName: kai-scheduler in the pod template"
    ),
    "kais-namespace": PracticeRule("work keeps out of KAI's own namespace", "use a namespace of the team"),
    "queue-no-quota": PracticeRule(
        "a queue that takes work has GPUs guaranteed",
        "set spec.resources.gpu.quota; with 0 other queues may hold all GPUs, and nothing is taken back for it",
    ),
    "queue-no-limit": PracticeRule(
        "a queue that takes work is bounded, by itself or by one above it",
        "set spec.resources.gpu.limit here or above; without one it may borrow all that is idle",
    ),
    "queue-endless-quota": PracticeRule(
        "a quota is a number",
        "set spec.resources.gpu.quota to what is guaranteed: with -1 nothing can be taken back from it",
    ),
    "quota-over-parent": PracticeRule("a quota is within its parent's", "lower it, or raise the parent's"),
    "children-over-parent": PracticeRule(
        "quotas of the queues below add up to their parent's or less", "lower some of them, or raise the parent's quota"
    ),
    "quotas-over-share": PracticeRule(
        f"quotas guarantee at most {GUARANTEED_PERCENT} % of the GPUs",
        "lower quotas; what is idle is lent by weight anyway",
    ),
    "pod-over-node": PracticeRule("a pod fits on the largest node", "ask for fewer GPUs for each pod, with more pods"),
    "gang-over-cluster": PracticeRule(
        "pods that start together fit into the cluster", "make the gang smaller, or the fleet larger"
    ),
    "gang-over-limit": PracticeRule(
        "pods that start together fit within the limits of their queue",
        "raise the limit, make the gang smaller, or use another queue",
    ),
    "non-preemptible-over-quota": PracticeRule(
        "non-preemptible work fits within the quota of its queue",
        "raise the quota, or let the work be evicted: label kai.scheduler/preemptibility: preemptible",
    ),
    "class-non-preemptible": PracticeRule(
        "a PriorityClass of 100 and more is for work that is never evicted",
        "use a value below 100, or set the label kai.scheduler/preemptibility on the work",
    ),
    "many-classes": PracticeRule(
        f"there are at most {MOST_CLASSES} PriorityClasses", "keep few: production, interactive, background"
    ),
    "gang-labels": PracticeRule(
        "labels of a gang agree: one job-size, as many pods, each job-index once",
        "make them agree, or leave the grouping to KAI, which reads the workload itself",
    ),
    "no-grace": PracticeRule(
        "work that may be evicted saves its state",
        "add a preStop hook and terminationGracePeriodSeconds, or handle SIGTERM and set terminationGracePeriodSeconds",
    ),
    "evictions-end-job": PracticeRule(
        "a Job outlives the eviction of each of its pods",
        "raise spec.backoffLimit, or ignore disruptions with a podFailurePolicy (DisruptionTarget)",
    ),
    "ignored-by-kai": PracticeRule("work has no field that KAI ignores", "leave the field out, or use KAI's own"),
    "not-meant": PracticeRule("an accepted field has an effect", "see the finding"),
    "unknown-kind": PracticeRule("kinds are known", "correct apiVersion and kind"),
    "unknown-version": PracticeRule("versions are known", "use the version that the finding names"),
}


@dataclass(frozen=True, slots=True)
class PracticeFinding:
    """``rule``: its id in ``RULES``. ``where``: file, line, object and field."""

    rule: str
    where: Where
    why: str

    @classmethod
    def of(cls, notice: Notice) -> PracticeFinding:
        return cls(notice.rule, notice.where, notice.text)

    @property
    def cure(self) -> str:
        return RULES[self.rule].cure

    def data(self) -> dict[str, Any]:
        return {"rule": self.rule, **self.where.data(), "why": self.why, "cure": self.cure}


_GPU = "spec.resources.gpu"


def check_queues(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[PracticeFinding]:
    """``given``: the manifests, by name. The loader reports a limit of 0."""
    for queue in queues.leaves:
        if (manifest := given.get(queue.name)) is None or queue.gpu.limit == 0:
            continue
        if queue.gpu.quota == 0:
            why = "has no GPU guaranteed: it runs only what others leave idle, and gives that back"
            yield PracticeFinding("queue-no-quota", manifest.where(f"{_GPU}.quota"), why)
        if queue.gpu.quota == UNLIMITED:
            why = "is unlimited: all that the queue takes counts as its own"
            yield PracticeFinding("queue-endless-quota", manifest.where(f"{_GPU}.quota"), why)
        if all(queues.by_name[name].gpu.limit == UNLIMITED for name in queues.line(queue.name)):
            why = "has no limit, nor has any queue above it: it may hold all GPUs while others need none"
            yield PracticeFinding("queue-no-limit", manifest.where(f"{_GPU}.limit"), why)


def check_guaranteed_share(given: Mapping[str, Manifest], queues: AppliedQueues) -> Iterator[PracticeFinding]:
    """Compare all guaranteed GPUs with those of the cluster, if they are known. In place of an unlimited queue, the queues below it count."""
    capacity = queues.capacity("gpu")
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
        capacity
        and promised * 100 > capacity * GUARANTEED_PERCENT
        and (ours := [queue for queue in counted if queue.name in given])
    ):
        largest = max(ours, key=lambda queue: (queue.gpu.quota, queue.name))
        why = f"quotas guarantee {gpus(promised)}, more than {GUARANTEED_PERCENT} % of {gpus(capacity)}"
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


def read_pods(manifests: Sequence[Manifest], cluster: Cluster) -> tuple[list[TemplatePods], list[str]]:
    """Return the pods of all work that KAI is to schedule, and a sentence for each object that can't be judged."""
    reading = WorkReader([manifest.object for manifest in manifests], cluster, "kailab lint")
    pods = [
        (manifest, path, _pod(manifest.object, pod))
        for manifest in manifests
        for path, pod in pod_templates(manifest.object)
    ]
    accounts = GpuAccounts(cluster, [pod for _, _, pod in pods], {})
    pods_of_templates: list[TemplatePods] = []
    unknown: list[str] = []
    for manifest in manifests:
        try:
            works = {work.path: work for work in reading.of(manifest.object)}
        except NotExpressible as error:
            unknown.append(f"{manifest.name}: not judged as a gang: {error.concept}")
            continue
        mine = [(path, pod) for other, path, pod in pods if other is manifest and path in works]
        pods_of_templates += [
            TemplatePods(manifest, works[path], pod["spec"], accounts.gpus(pod)) for path, pod in mine
        ]
    return pods_of_templates, unknown


def check_room(placed: Sequence[TemplatePods], queues: AppliedQueues, largest: int) -> Iterator[PracticeFinding]:
    """``largest``: milli-GPU of the largest node; 0 if no nodes are known."""
    capacity = queues.capacity("gpu")
    for pod in placed:
        if largest and pod.milli > largest:
            why = f"a pod asks for {gpus(pod.milli)}; the largest node has {gpus(largest)}"
            yield PracticeFinding("pod-over-node", pod.field("spec.containers"), why)
    for pod, needed in _gangs(placed):
        many = pod.work.min_member > 1
        who = f"{pod.work.min_member} pods that start together ask for" if many else "a pod asks for"
        who = f"{who} {gpus(needed)}"
        if capacity and needed > capacity:
            yield PracticeFinding(
                "gang-over-cluster", pod.field("spec.containers"), f"{who}; the cluster has {gpus(capacity)}"
            )
        line = (
            [queues.by_name[name] for name in queues.line(pod.work.queue)] if pod.work.queue in queues.by_name else []
        )
        for queue in line:
            if queue.gpu.limit != UNLIMITED and needed > queue.gpu.limit:
                why = f"{who}; queue {queue.name} has a limit of {gpus(queue.gpu.limit)}"
                yield PracticeFinding("gang-over-limit", pod.field("spec.containers"), why)
            elif not pod.work.preemptible and queue.gpu.quota != UNLIMITED and needed > queue.gpu.quota:
                why = f"{who}, non-preemptible; queue {queue.name} has a quota of {gpus(queue.gpu.quota)}"
                yield PracticeFinding("non-preemptible-over-quota", pod.field("spec.containers"), why)


def check_ends(placed: Sequence[TemplatePods]) -> Iterator[PracticeFinding]:
    """GPU work that loses its state, or fails, if it is evicted."""
    for pod in placed:
        if not pod.milli or not pod.work.preemptible:
            continue
        hooks = any(((c.get("lifecycle") or {}).get("preStop")) for c in pod.spec.get("containers") or ())
        if not hooks and pod.spec.get("terminationGracePeriodSeconds") is None:
            why = "may be evicted, and has neither a preStop hook nor a grace period of its own: what it did is lost"
            yield PracticeFinding("no-grace", pod.field("spec.terminationGracePeriodSeconds"), why)
        spec = pod.manifest.object.get("spec") or {}
        if pod.manifest.kind == "Job" and not spec.get("podFailurePolicy"):
            pods, limit = spec.get("parallelism", 1), spec.get("backoffLimit", _FAILURES)
            if isinstance(pods, int) and isinstance(limit, int) and pods > limit:
                why = f"is {limit}: each evicted pod counts as a failure, and the Job has {pods} at a time"
                yield PracticeFinding("evictions-end-job", pod.manifest.where("spec.backoffLimit"), why)


def check_gang_labels(manifests: Sequence[Manifest]) -> Iterator[PracticeFinding]:
    """Bare pods with the same job-id label, as the documents use it."""
    gangs = multimap(
        ((namespace_of(manifest.object) or "", name), manifest)
        for manifest in manifests
        if manifest.kind == "Pod" and (name := labels_of(manifest.object).get(labels.JOB_ID))
    )
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
    gangs = multimap(
        ((pod.work.namespace, pod.work.gang) if pod.work.gang else ("", str(number)), pod)
        for number, pod in enumerate(placed)
    )
    for parts in gangs.values():
        yield parts[0], parts[0].work.min_member * min(part.milli for part in parts)


def _label(pod: Manifest, key: str) -> str:
    return str(labels_of(pod.object).get(key) or "")


def _pod(obj: Object, template: Object) -> Object:
    meta = {"namespace": namespace_of(obj) or "default", **(template.get("metadata") or {})}
    return {"metadata": meta, "spec": template["spec"]}


@dataclass(frozen=True)
class Linted:
    """Findings by place. ``unknown``: a sentence for each object that could not be judged."""

    findings: list[PracticeFinding]
    unknown: list[str]


def lint(manifests: Manifests, fleet: Fleet | None = None) -> Linted:
    """Check manifests against ``RULES``. ``fleet``: the nodes of the cluster; without it the rules about its size find nothing. If
    the manifests hold an object and what a controller made from it, as the output of ``kubectl get`` does, only the first is checked.
    Raises InputError for queues that a cluster would refuse."""
    manifests = _without_made(manifests)
    cluster = EmbeddedCluster()
    nodes = fleet.nodes() if fleet is not None else []
    for node in nodes:
        cluster.create(node)
    given = {name_of(manifest.object): manifest for manifest in manifests if manifest.kind == "Queue"}
    errors, notices = check_queue_tree(given.values())
    if errors:
        raise InputErrors.of(errors)
    queues = AppliedQueues([manifest.object for manifest in given.values()], cluster)
    placed, unknown = read_pods(manifests, cluster)
    largest = max((int(node["status"]["allocatable"].get(GPU_RESOURCE, 0)) * 1000 for node in nodes), default=0)
    findings = [
        *map(
            PracticeFinding.of,
            (
                *manifests.notices,
                *notices,
                *_named(manifests),
                *_under_kai(manifests, cluster),
                *_for_no_scheduler(manifests),
                *warn_unknown_fields(manifests),
            ),
        ),
        *check_queues(given, queues),
        *check_guaranteed_share(given, queues),
        *_classes(manifests),
        *check_room(placed, queues, largest),
        *check_ends(placed),
        *check_gang_labels(manifests),
    ]
    # A notice without a rule is about files, not about their content.
    findings = list(dict.fromkeys(finding for finding in findings if finding.rule in RULES))
    findings.sort(key=lambda finding: (finding.where.file, finding.where.line, list(RULES).index(finding.rule)))
    return Linted(findings, unknown)


def _without_made(manifests: Manifests) -> Manifests:
    uids = {uid for manifest in manifests if (uid := metadata_of(manifest.object).get("uid"))}
    made = {
        manifest.name
        for manifest in manifests
        if (controller := controller_of(manifest.object)) is not None and controller.get("uid") in uids
    }
    return Manifests(
        [manifest for manifest in manifests if manifest.name not in made],
        [notice for notice in manifests.notices if notice.where.object not in made],
    )


def _named(manifests: Manifests) -> list[Notice]:
    queues = [manifest for manifest in manifests if manifest.kind == "Queue"]
    return check_workload_queues(intake.named_queues(manifests), queues)


def _under_kai(manifests: Manifests, cluster: EmbeddedCluster) -> Iterator[Notice]:
    """The notices of a lab with KAI, without those about PriorityClasses in the manifests, which ``_classes`` checks."""
    mine = {name_of(manifest.object) for manifest in manifests if manifest.kind == "PriorityClass"}
    for notice in advice.advise_under_kai(cluster, manifests, "default", adopted=False):
        if notice.rule != "class-non-preemptible" or not any(f"{name!r} has" in notice.message for name in mine):
            yield notice


def _for_no_scheduler(manifests: Manifests) -> Iterator[Notice]:
    """Notices about GPU work that names neither a scheduler nor a queue. ``_under_kai`` checks work with a queue; another scheduler may be
    intended."""
    for manifest in manifests:
        pods = list(described_pods(manifest.object))
        holders = [manifest.object, *(described.pod for described in pods)]
        if any(labels.QUEUE in ((holder.get("metadata") or {}).get("labels") or {}) for holder in holders):
            continue
        for _, path, pod, _ in pods:
            if not pod["spec"].get("schedulerName") and _asks_for_gpus(pod):
                text = f"is missing: KAI does not schedule these pods; set {labels.SCHEDULER_NAME}, and a queue with the label {labels.QUEUE}"
                yield Notice(text, manifest.where(f"{path}schedulerName"), "no-scheduler")


def _asks_for_gpus(pod: Object) -> bool:
    notes = (pod.get("metadata") or {}).get("annotations") or {}
    asked = [
        name
        for container in pod["spec"].get("containers") or ()
        for amounts in (container.get("resources") or {}).values()
        for name in (amounts if isinstance(amounts, dict) else ())
    ]
    return bool(
        any(name in notes for name in labels.GPU_SHARES)
        or pod["spec"].get("resourceClaims")
        or any(name in labels.GPU_RESOURCES or name.startswith(labels.MIG_PREFIX) for name in asked)
    )


def _classes(manifests: Sequence[Manifest]) -> Iterator[PracticeFinding]:
    classes = [manifest for manifest in manifests if manifest.kind == "PriorityClass"]
    if len(classes) > MOST_CLASSES:
        yield PracticeFinding("many-classes", classes[-1].where(), f"is one of {len(classes)} PriorityClasses")
    for priority_class in classes:
        value = priority_of(priority_class.object)
        if value >= NON_PREEMPTIBLE_FROM and name_of(priority_class.object) not in KAI_PRIORITY_CLASSES:
            why = f"is {value}: from {NON_PREEMPTIBLE_FROM} on work is never evicted, and runs only within its queue's quota"
            yield PracticeFinding("class-non-preemptible", priority_class.where("value"), why)
