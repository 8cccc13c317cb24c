"""What of a pod's metadata decides about its PodGroup: its labels and annotations."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.model.labels import GPU_GROUP, GPU_MULTI_GROUP_PREFIX
from kailab.model.objects import annotations_of, labels_of


def tags_of(pod: Object) -> tuple[Any, Any]:
    metadata = pod["metadata"]
    return metadata.get("labels"), metadata.get("annotations")


def only_devices(before: Object, pod: Object) -> bool:
    """Whether nothing but the shared GPUs that an owned pod sits on is new in its tags: nothing is grouped by those. (A bare pod's labels
    are its PodGroup's, too.)"""
    if not pod["metadata"].get("ownerReferences") or annotations_of(before) != annotations_of(pod):
        return False
    old, new = labels_of(before), labels_of(pod)
    changed = [label for label in {**old, **new} if old.get(label) != new.get(label)]
    return all(label == GPU_GROUP or label.startswith(GPU_MULTI_GROUP_PREFIX) for label in changed)
