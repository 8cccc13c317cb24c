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
from kailab.model.objects import annotations_of, name_of, namespace_of, uid_of


def family_for(group: str, kind: str) -> Family:
    """The family of a kind of top owner; kinds that have none are grouped by the default rules. Raises InputError where what the kind
    names is no family."""
    key = key_of_group(group, kind)
    found = part(key, "grouping") if key is not None else None
    if found is None:
        return DEFAULT
    if not isinstance(found, Family):
        raise InputError(
            f"{found!r:.80} is not a kailab.grouping.family.Family", Where(object=f"kind {kind}", field="grouping")
        )
    return found


def families() -> Iterator[Family]:
    """Every family once, the default one first."""
    yield from dict.fromkeys((DEFAULT, *(family_for(kind.group, kind.kind) for kind in KINDS.values())))


def family_of(pod: Object, owners: Sequence[Object]) -> Family:
    """The family of a pod: that of its top owner, or of bare pods."""
    if not owners:
        return family_for("", "Pod")
    group, _ = group_version(owners[-1].get("apiVersion") or "")
    return family_for(group, owners[-1].get("kind") or "")


def group_pod(
    pod: Object, owners: Sequence[Object], reads: ObjectReader, config: GroupingConfig | None = None
) -> Grouping:
    """The grouping of ``pod``, listed in its subgroup. ``owners``: nearest first, ending in the top owner.

    Pure but for what it reads through ``reads``. Raises GroupingError when the owner or the pod can't be made sense of.
    """
    context = Context(reads, config or GroupingConfig(), family_for)
    return with_pod(family_of(pod, owners).plan(owners[-1] if owners else pod, pod, owners, context), pod)


def with_pod(plan: Plan, pod: Object) -> Grouping:
    """The plan's grouping with ``pod`` listed in its subgroup."""
    name, pod_name = plan.sub_group_of(pod), name_of(pod)
    if not name:
        return plan.grouping
    # A copy with this pod in it: the plan is shared with the other pods of the owner.
    sub_groups = [
        replace(each, pods=(*each.pods, pod_name)) if each.name == name and pod_name not in each.pods else each
        for each in plan.grouping.sub_groups
    ]
    return replace(plan.grouping, sub_groups=sub_groups)


def owners_of(pod: Object, reads: ObjectReader) -> list[Object]:
    """The pod's owner, that one's owner, and so on to the top owner; empty for a bare pod.

    A pod with several owners goes by the first, as in KAI. Raises GroupingError when an owner is gone, was replaced by
    another of its name, or has several owners itself.
    """
    chain: list[Object] = []
    namespace = namespace_of(pod)
    references = pod["metadata"].get("ownerReferences") or ()
    seen: set[str] = set()
    while references:
        # Only the pod itself may have several (getResourceOwners).
        if chain and len(references) > 1:
            names = ", ".join(f"{each.get('kind')} {each.get('name')}" for each in references)
            raise GroupingError(f"{title(chain[-1])} has several owners ({names}); it must have one")
        reference = references[0]
        kind, name, uid = reference["kind"], reference["name"], reference.get("uid") or ""
        owner = reads.get(reference["apiVersion"], kind, namespace, name)
        # By UID: an owner that was deleted and made again under its name is another one.
        if owner is None or uid_of(owner) != uid:
            raise GroupingError(f"the owner of the pod, {kind} {namespace}/{name} with uid {uid}, does not exist")
        # Nothing in Kubernetes refuses such a circle, and following it would never end.
        if uid in seen:
            raise GroupingError(f"{title(owner)} is among its own owners")
        seen.add(uid)
        chain.append(owner)
        references = owner["metadata"].get("ownerReferences") or ()
    return chain


def is_skipped(obj: Object) -> bool:
    """Whether an object is annotated to be left alone, with all pods below it."""
    return annotations_of(obj).get(SKIP_PODGROUPER) == "true"


MALFORMED = (AttributeError, LookupError, TypeError, ValueError)
"""What reading an owner raises that is not formed as its kind is: owners may be of any kind, so nobody checks their fields before."""


def malformed_message(problem: Exception) -> str:
    """What is told of such an owner."""
    return f"an owner of the pod is not formed as its kind is: {problem!r}"


def preview_grouping(cluster: Cluster, pod: Object, config: GroupingConfig | None = None) -> Grouping | None:
    """The grouping that the pod would get; None where it, or an owner of it, asks to be left alone.

    Raises GroupingError where it can't be grouped.
    """
    if is_skipped(pod):
        return None
    # Items of a list have no kind, but a pod may become the owner of its PodGroup.
    pod = pod if "kind" in pod else {"apiVersion": "v1", "kind": "Pod", **pod}
    reads = ClusterReader(cluster)
    try:
        owners = owners_of(pod, reads)
        return None if any(map(is_skipped, owners)) else group_pod(pod, owners, reads, config)
    except ApiError as problem:
        raise GroupingError(str(problem)) from problem
    except MALFORMED as problem:
        raise GroupingError(malformed_message(problem)) from problem
    finally:
        reads.close()
