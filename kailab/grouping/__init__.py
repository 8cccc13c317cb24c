"""Pods to PodGroups, as KAI's podgrouper groups them.

``controller.PodGrouper`` keeps a cluster grouped. For each pod ``pod_grouping`` follows its owners and finds the family of the top owner's
kind (``Kind.grouping``, ``families/``); the family makes a plan from ``default.default_grouping``, and ``plans`` keeps it for the other
pods of that owner. ``podgroup`` writes a plan's ``records.Grouping`` as a PodGroup. ``stray_pods`` gives a PodGroup to bound pods whose
owners are missing; ``cluster_reader`` reads other objects and reports their changes.
"""

from kailab.grouping.controller import PodGrouper
from kailab.grouping.family import GroupingConfig
from kailab.grouping.pod_grouping import group_pod
from kailab.grouping.podgroup import keep_foreign_fields, podgroup_object
from kailab.grouping.records import Grouping, GroupingError, GroupOwner, PlannedSubGroup, PlannedTopology

__all__ = [
    "Grouping",
    "GroupingConfig",
    "GroupingError",
    "GroupOwner",
    "PodGrouper",
    "PlannedSubGroup",
    "PlannedTopology",
    "group_pod",
    "podgroup_object",
    "keep_foreign_fields",
]
