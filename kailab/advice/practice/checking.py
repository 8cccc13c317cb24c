"""Check all rules on manifests that are to be applied together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kailab.advice.practice import checks
from kailab.advice.practice.checks import check_guaranteed, check_queues
from kailab.advice.practice.rules import MOST_CLASSES, RULES, PracticeFinding
from kailab.cluster.base_objects import KAI_PRIORITY_CLASSES
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.errors import InputErrors
from kailab.fleet import Fleet
from kailab.lab import advice, intake
from kailab.lab.unknown_fields import warn_unknown_fields
from kailab.model import labels
from kailab.model.labels import GPU_RESOURCE
from kailab.model.manifests import Manifest, Manifests, Notice
from kailab.model.queues import check_queue_tree, check_workload_queues
from kailab.model.validation.advice import pod_templates
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM
from kailab.undertest.translation import AppliedQueues


@dataclass(frozen=True)
class Linted:
    """Findings by place. ``unknown``: what could not be judged."""

    findings: list[PracticeFinding]
    unknown: list[str]


def lint(manifests: Manifests, fleet: Fleet | None = None) -> Linted:
    """``fleet``: the nodes of the cluster; without it rules about its size find nothing. Raises InputError for queues that no cluster takes."""
    cluster = EmbeddedCluster()
    nodes = fleet.nodes() if fleet is not None else []
    for node in nodes:
        cluster.create(node)
    given = {one.object["metadata"]["name"]: one for one in manifests if one.kind == "Queue"}
    errors, notices = check_queue_tree(given.values())
    if errors:
        raise InputErrors.of(errors)
    queues = AppliedQueues([one.object for one in given.values()], cluster)
    placed, unknown = checks.read(manifests, cluster)
    largest = max((_gpus(node) for node in nodes), default=0)
    found = [
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
        *check_guaranteed(given, queues),
        *_classes(manifests),
        *checks.check_room(placed, queues, largest),
        *checks.check_ends(placed),
        *checks.check_gang_labels(manifests),
    ]
    # A notice without a rule is about files, not about their content.
    found = list(dict.fromkeys(one for one in found if one.rule in RULES))
    found.sort(key=lambda one: (one.where.file, one.where.line, list(RULES).index(one.rule)))
    return Linted(found, unknown)


def _named(manifests: Manifests) -> list[Notice]:
    queues = [one for one in manifests if one.kind == "Queue"]
    return check_workload_queues(intake.named_queues(manifests), queues)


def _under_kai(manifests: Manifests, cluster: EmbeddedCluster) -> Iterator[Notice]:
    """Notices about PriorityClasses in the manifests are left out, because ``_classes`` checks them."""
    mine = {one.object["metadata"]["name"] for one in manifests if one.kind == "PriorityClass"}
    for notice in advice.advise_under_kai(cluster, manifests, "default", adopted=False):
        if notice.rule != "class-non-preemptible" or not any(f"{name!r} has" in notice.message for name in mine):
            yield notice


def _for_no_scheduler(manifests: Manifests) -> Iterator[Notice]:
    """GPU work that names neither KAI's scheduler nor a queue. ``_under_kai`` checks work with a queue; a named scheduler is taken as
    intended."""
    for one in manifests:
        pods = list(pod_templates(one.object))
        holders = [one.object, *(pod for _, pod in pods)]
        if any(labels.QUEUE in ((holder.get("metadata") or {}).get("labels") or {}) for holder in holders):
            continue
        for path, pod in pods:
            if not pod["spec"].get("schedulerName") and _asks_for_gpus(pod):
                text = f"is missing: KAI does not schedule these pods; set {labels.SCHEDULER_NAME}, and a queue with the label {labels.QUEUE}"
                yield Notice(text, one.where(f"{path}spec.schedulerName"), "no-scheduler")


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
    classes = [one for one in manifests if one.kind == "PriorityClass"]
    if len(classes) > MOST_CLASSES:
        yield PracticeFinding("many-classes", classes[-1].where(), f"is one of {len(classes)} PriorityClasses")
    for one in classes:
        value = one.object["value"]
        if value >= NON_PREEMPTIBLE_FROM and one.object["metadata"]["name"] not in KAI_PRIORITY_CLASSES:
            why = f"is {value}: from {NON_PREEMPTIBLE_FROM} on work is never evicted, and runs only within its queue's quota"
            yield PracticeFinding("class-non-preemptible", one.where("value"), why)


def _gpus(node: Object) -> int:
    return int((node["status"]["allocatable"]).get(GPU_RESOURCE, 0)) * 1000
