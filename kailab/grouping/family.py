"""The form each workload family has: a function from owner and pod to a plan, and what of the pod it looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kailab.cluster.protocol import Object
from kailab.grouping.config import GroupingConfig
from kailab.grouping.fields import title
from kailab.grouping.reader import Reader
from kailab.grouping.records import GroupingError, Plan
from kailab.model.objects import labels_of, namespace_of


@dataclass(frozen=True, slots=True)
class Context:
    """What a family may use beside owner and pod. ``family_for(group, kind)`` finds the family of another owner."""

    reads: Reader
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
