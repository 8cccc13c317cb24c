"""Finds the PodGroup of a pod: its chain of owners, the family of the top owner's kind, and the family's plan.

Each kind names its family for all of its versions (``Kind.grouping``); KAI decides which kinds have one of their own.
``preview_grouping`` answers for a pod of a cluster and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ApiError, InputError, Where
from kailab.grouping.cluster_reader import ClusterReader
from kailab.grouping.families.plain_workloads import DEFAULT
from kailab.grouping.family import Context, Family, GroupingConfig, ObjectReader
from kailab.grouping.fields import group_version, title
from kailab.grouping.records import Grouping, GroupingError, Plan
from kailab.model.kinds import KINDS, key_of_group, part
from kailab.model.labels import SKIP_PODGROUPER
from kailab.model.objects import annotations_of, name_of, namespace_of, owner_references, uid_of


def family_for(group: str, kind: str) -> Family:
    """The family of a kind of top owner; the default family for kinds without one. Raises InputError if ``Kind.grouping`` is no family."""
    key = key_of_group(group, kind)
    family = part(key, "grouping") if key is not None else None
    if family is None:
        return DEFAULT
    if not isinstance(family, Family):
        raise InputError(
            f"{family!r:.80} is not a kailab.grouping.family.Family", Where(object=f"kind {kind}", field="grouping")
        )
    return family


def families() -> Iterator[Family]:
    """All families, the default one first."""
    yield from dict.fromkeys((DEFAULT, *(family_for(kind.group, kind.kind) for kind in KINDS.values())))


def family_of(pod: Object, owners: Sequence[Object]) -> Family:
    """The family of a pod's top owner, or that of bare pods."""
    if not owners:
        return family_for("", "Pod")
    group, _ = group_version(owners[-1].get("apiVersion") or "")
    return family_for(group, owners[-1].get("kind") or "")


def group_pod(
    pod: Object, owners: Sequence[Object], reads: ObjectReader, config: GroupingConfig | None = None
) -> Grouping:
    """The grouping of ``pod``, with the pod in its subgroup. ``owners``: nearest first, ending in the top owner.

    Only ``reads`` accesses the cluster. Raises GroupingError if the owner or the pod is invalid.
    """
    context = Context(reads, config or GroupingConfig(), family_for)
    return with_pod(family_of(pod, owners).plan(owners[-1] if owners else pod, pod, owners, context), pod)


def with_pod(plan: Plan, pod: Object) -> Grouping:
    """The plan's grouping with ``pod`` listed in its subgroup."""
    name, pod_name = plan.sub_group_of(pod), name_of(pod)
    if not name:
        return plan.grouping
    # A copy, because the pods of the owner share the plan.
    sub_groups = [
        replace(each, pods=(*each.pods, pod_name)) if each.name == name and pod_name not in each.pods else each
        for each in plan.grouping.sub_groups
    ]
    return replace(plan.grouping, sub_groups=sub_groups)


def owner_chain(pod: Object, reads: ObjectReader) -> list[Object]:
    """The chain of owners from the pod's owner to the top owner; empty for a bare pod.

    As in KAI, the first of a pod's owners counts. Raises GroupingError if an owner does not exist, was replaced under its name, has several
    owners, or is its own owner.
    """
    chain: list[Object] = []
    namespace = namespace_of(pod)
    references = owner_references(pod)
    seen: set[str] = set()
    while references:
        # Only the pod itself may have several owners. Source: KAI getResourceOwners.
        if chain and len(references) > 1:
            names = ", ".join(f"{each.get('kind')} {each.get('name')}" for each in references)
            raise GroupingError(f"{title(chain[-1])} has several owners ({names}); it must have one")
        reference = references[0]
        kind, name, uid = reference["kind"], reference["name"], reference.get("uid") or ""
        owner = reads.get(reference["apiVersion"], kind, namespace, name)
        # By UID: an owner that was deleted and created again under its name is another one.
        if owner is None or uid_of(owner) != uid:
            raise GroupingError(f"the owner of the pod, {kind} {namespace}/{name} with uid {uid}, does not exist")
        # Kubernetes does not refuse a cycle, which this loop would follow forever.
        if uid in seen:
            raise GroupingError(f"{title(owner)} is among its own owners")
        seen.add(uid)
        chain.append(owner)
        references = owner_references(owner)
    return chain


def is_skipped(obj: Object) -> bool:
    """Whether an annotation excludes the object, and all pods below it, from grouping."""
    return annotations_of(obj).get(SKIP_PODGROUPER) == "true"


MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""Errors of reading a malformed owner: owners may be of any kind, so nothing has checked their fields."""


def malformed_message(problem: Exception) -> str:
    return f"an owner of the pod is not formed as its kind is: {problem!r}"


def preview_grouping(cluster: Cluster, pod: Object) -> Grouping | None:
    """The grouping that the pod would get; None if an annotation on it or an owner excludes it. Raises GroupingError."""
    if is_skipped(pod):
        return None
    # Items of a list have no kind, which a pod needs as owner of its PodGroup.
    pod = pod if "kind" in pod else {"apiVersion": "v1", "kind": "Pod", **pod}
    reads = ClusterReader(cluster)
    try:
        owners = owner_chain(pod, reads)
        return None if any(map(is_skipped, owners)) else group_pod(pod, owners, reads)
    except ApiError as problem:
        raise GroupingError(str(problem)) from problem
    except MALFORMED as problem:
        raise GroupingError(malformed_message(problem)) from problem
    finally:
        reads.close()
