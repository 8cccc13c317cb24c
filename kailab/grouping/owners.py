"""The chain of owners above a pod, by ownerReferences."""

from __future__ import annotations

from kailab.cluster.protocol import Object
from kailab.grouping.fields import title
from kailab.grouping.reader import Reader
from kailab.grouping.records import GroupingError
from kailab.model.labels import SKIP_PODGROUPER
from kailab.model.objects import annotations_of, namespace_of, uid_of


def owners_of(pod: Object, reads: Reader) -> list[Object]:
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


def asks_to_be_skipped(obj: Object) -> bool:
    """Whether an object is annotated to be left alone, with all pods below it."""
    return annotations_of(obj).get(SKIP_PODGROUPER) == "true"
