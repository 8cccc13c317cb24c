"""The interface of a workload family: a function from owner and pod to a plan, the grouping's settings, and its view of other objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from kailab.cluster.protocol import Object
from kailab.grouping.fields import title
from kailab.grouping.records import GroupingError, Plan
from kailab.model import labels
from kailab.model.objects import labels_of, namespace_of


@dataclass(frozen=True, slots=True)
class GroupingConfig:
    """How pods are grouped.

    ``scheduler_names``: pods with one of these schedulerNames are grouped. ``defaults_configmap``: (namespace, name)
    of a ConfigMap whose key ``types`` gives priority class and preemptibility by kind (JSON, as KAI reads it).
    ``knative_gang``: a Knative revision is one gang of its min-scale rather than a PodGroup per pod.
    ``legacy_pod_groups``: look for PodGroups that an older KAI made in another shape and keep to it.
    ``older_labels``: accept ``runai/queue`` and the ``kai.nvidia.com/job-*`` gang labels.
    """

    scheduler_names: tuple[str, ...] = (labels.SCHEDULER_NAME,)
    queue_label: str = labels.QUEUE
    node_pool_label: str = labels.NODE_POOL
    defaults_configmap: tuple[str, str] | None = None
    knative_gang: bool = True
    legacy_pod_groups: bool = False
    older_labels: bool = True


class ObjectReader(Protocol):
    """Reads the objects a pod's grouping depends on. What it returns is read-only."""

    def get(self, api_version: str, kind: str, namespace: str | None, name: str) -> Object | None:
        """The object, or None when there is none."""

    def list(
        self, api_version: str, kind: str, namespace: str, labels: Mapping[str, str] | None = None
    ) -> list[Object]: ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a family may use beside owner and pod. ``family_for(group, kind)`` finds the family of another owner."""

    reads: ObjectReader
    config: GroupingConfig
    family_for: Callable[[str, str], Family]

    def labelled(self, pod: Object, label: str, api_version: str, kind: str) -> Object:
        """The object that a label of the pod names. Raises GroupingError where there is no such label, or no such object."""
        name, space = labels_of(pod).get(label), namespace_of(pod)
        if name is None:
            raise GroupingError(f"{title(pod)} lacks the label {label}")
        found = self.reads.get(api_version, kind, space, name)
        if found is None:
            raise GroupingError(f"{kind} {space}/{name} of {title(pod)} does not exist")
        return found


# (top owner, pod, owner chain nearest first and ending in the top owner; empty for a bare pod, context)
MakePlan: TypeAlias = Callable[[Object, Object, Sequence[Object], Context], Plan]


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of workload, or several that are grouped alike.

    ``per_owner``: the plan depends on the pod only through the labels and annotations that every family reads and those
    named here, so pods that agree in them share it. Otherwise it is made for each pod.
    """

    name: str
    plan: MakePlan
    per_owner: bool = True
    pod_labels: tuple[str, ...] = ()
    pod_annotations: tuple[str, ...] = ()
