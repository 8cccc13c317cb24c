"""Pods -> PodGroups, as KAI's podgrouper makes them.

``group`` says which PodGroup a pod belongs to, from its chain of owners alone; ``podgroup_object`` writes that as a
PodGroup; ``PodGrouper`` keeps a cluster grouped. Each family of workloads has a module in ``families``; a kind of
owner names its family (``Kind.grouping``), and ``registry`` looks it up.
"""

from kailab.grouping.config import GroupingConfig
from kailab.grouping.controller import PodGrouper
from kailab.grouping.group import group
from kailab.grouping.podgroup import podgroup_object, surviving
from kailab.grouping.records import Grouping, GroupingError, OwnerReference, SubGroup, TopologyConstraint

__all__ = [
    "Grouping",
    "GroupingConfig",
    "GroupingError",
    "OwnerReference",
    "PodGrouper",
    "SubGroup",
    "TopologyConstraint",
    "group",
    "podgroup_object",
    "surviving",
]
