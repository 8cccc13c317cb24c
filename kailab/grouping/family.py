"""The interface of a workload family: a function from owner and pod to a plan, the grouping's settings, and its view of other objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kailab.cluster.protocol import Object
from kailab.grouping.fields import title
from kailab.grouping.records import GroupingError, Plan
from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.model.objects import labels_of, namespace_of


@dataclass(frozen=True, slots=True)
class GroupingConfig:
    """Settings with the defaults of KAI's podgrouper flags.

    ``scheduler_names``: pods with one of these schedulerNames are grouped. ``defaults_configmap``: (namespace, name) of a ConfigMap whose key
    ``types`` has priority class and preemptibility by kind (JSON, in KAI's form). ``knative_gang``: a Knative revision is one gang of its
    min-scale instead of a PodGroup per pod. ``legacy_pod_groups``: keep PodGroups that an older KAI made in another form. ``older_labels``:
    accept ``runai/queue`` and the gang labels ``kai.nvidia.com/job-*``.
    """

    scheduler_names: tuple[str, ...] = (labels.SCHEDULER_NAME,)
    queue_label: str = labels.QUEUE
    node_pool_label: str = labels.NODE_POOL
    defaults_configmap: tuple[str, str] | None = None
    knative_gang: bool = True
    legacy_pod_groups: bool = False
    older_labels: bool = True


class ObjectReader(Protocol):
    """Reads the objects that a pod's grouping depends on. Its results are read-only."""

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None if it does not exist."""

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a family uses besides owner and pod. ``family_for(group, kind)`` returns the family of another owner."""

    reads: ObjectReader
    config: GroupingConfig
    family_for: Callable[[str, str], Family]

    def legacy_pod_group(self, namespace: str, name: str) -> Object | None:
        """The PodGroup of this name that an older KAI may have made; None if it does not exist or ``legacy_pod_groups`` is off."""
        if not self.config.legacy_pod_groups:
            return None
        return self.reads.get(api_version_of("PodGroup"), "PodGroup", namespace, name)

    def labelled(self, pod: Object, label: str, api_version: str, kind: str) -> Object:
        """The object that a label of the pod names. Raises GroupingError without that label or object."""
        name, space = labels_of(pod).get(label), namespace_of(pod)
        if name is None:
            raise GroupingError(f"{title(pod)} lacks the label {label}")
        obj = self.reads.get(api_version, kind, space, name)
        if obj is None:
            raise GroupingError(f"{kind} {space}/{name} of {title(pod)} does not exist")
        return obj


MakePlan: TypeAlias = Callable[[Object, Object, Sequence[Object], Context], Plan]
"""Makes a plan from the top owner, the pod, its owners (nearest first, ending in the top owner; empty for a bare pod) and the context."""


@dataclass(frozen=True, slots=True)
class Family:
    """How one or several kinds of workloads are grouped.

    ``per_owner``: the plan depends only on the owner, on the labels and annotations of the pod that every family reads, and on
    ``pod_labels`` and ``pod_annotations``. Pods that agree in these share a plan. Otherwise each pod has a plan of its own.
    """

    name: str
    plan: MakePlan
    per_owner: bool = True
    pod_labels: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()
