"""The one question of this package: which PodGroup does this pod belong to?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kailab.cluster.protocol import Object
from kailab.grouping.config import GroupingConfig
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import group_version
from kailab.grouping.reader import Reader
from kailab.grouping.records import Grouping, Plan
from kailab.grouping.registry import family_for
from kailab.model.objects import name_of


def family_of(pod: Object, owners: Sequence[Object]) -> Family:
    """The family of a pod: that of its top owner, or of bare pods."""
    if not owners:
        return family_for("", "Pod")
    group, _ = group_version(owners[-1].get("apiVersion") or "")
    return family_for(group, owners[-1].get("kind") or "")


def group(pod: Object, owners: Sequence[Object], reads: Reader, config: GroupingConfig | None = None) -> Grouping:
    """The grouping of ``pod``, listed in its subgroup. ``owners``: nearest first, ending in the top owner.

    Pure but for what it reads through ``reads``. Raises GroupingError when the owner or the pod can't be made sense of.
    """
    context = Context(reads, config or GroupingConfig(), family_for)
    return placed(family_of(pod, owners).plan(owners[-1] if owners else pod, pod, owners, context), pod)


def placed(plan: Plan, pod: Object) -> Grouping:
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
