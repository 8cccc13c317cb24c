"""The form each workload family has: a function from owner and pod to a plan, and what of the pod it looks at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kailab.cluster.protocol import Object
from kailab.grouping.config import GroupingConfig
from kailab.grouping.reader import Reader
from kailab.grouping.records import Plan


@dataclass(frozen=True, slots=True)
class Context:
    """What a family may use beside owner and pod. ``family_for(group, kind)`` finds the family of another owner."""

    reads: Reader
    config: GroupingConfig
    family_for: Callable[[str, str], Family]


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
