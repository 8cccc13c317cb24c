"""LeaderWorkerSets: one gang per group of a leader and its workers, with a subgroup for each of the two.

With ``startupPolicy: LeaderReady`` the workers are made once the leader runs, so an unbound leader is a gang of one. With a sub-group size
the group is split into segments. The leader is an extra member of the first segment if the workers divide evenly, else one of its members;
policy ``LeaderExcluded`` gives it a subgroup of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from kailab.cluster.protocol import Object
from kailab.grouping.default import default_grouping
from kailab.grouping.families.segments import SEGMENT_SIZE, check_count, segment_topology
from kailab.grouping.family import Context, Family
from kailab.grouping.fields import integer, mapping, string, title, whole_number
from kailab.grouping.records import GroupingError, Plan, PlannedSubGroup
from kailab.model.objects import annotations_of, labels_of, node_of
from kailab.model.quantities import parse_count

_SIZE = "leaderworkerset.sigs.k8s.io/size"
_GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"
_WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
_TEMPLATE = ("spec", "leaderWorkerTemplate")


def _leader_worker_set(top: Object, pod: Object, chain: Sequence[Object], context: Context) -> Plan:
    grouping = default_grouping(top, pod, (), context)
    size = integer(top, *_TEMPLATE, "size")
    if size is None or size <= 0:
        raise GroupingError(f"{title(top)}: spec.leaderWorkerTemplate.size must be 1 or more")
    policy = string(top, "spec", "startupPolicy") or "LeaderCreated"
    labels = labels_of(pod)
    if _WORKER_INDEX in labels:
        whole_number(labels[_WORKER_INDEX], f"{title(pod)}: label {_WORKER_INDEX}", least=0)
    if policy == "LeaderReady":
        size = _size_when_leader_ready(pod, size)
    elif policy != "LeaderCreated":
        raise GroupingError(f"{title(top)}: startupPolicy {policy!r} is neither LeaderReady nor LeaderCreated")
    grouping.min_member = size
    segment = _segment_size(top, size)
    if segment is None:
        grouping.sub_groups, member_of = _leader_and_workers(size, pod)
    else:
        grouping.sub_groups, member_of = _segments(top, pod, size, segment)
    group_index = labels.get(_GROUP_INDEX, "")
    # Pods without the operator's label share one PodGroup.
    if (number := parse_count(group_index, -1)) >= 0:
        grouping.name += f"-group-{number}"
    return Plan(grouping, lambda member: member_of)


def _size_when_leader_ready(pod: Object, size: int) -> int:
    # Its workers do not exist before it is ready. Source: KAI calcLeaderReadyMinAvailable.
    if _is_leader(pod) and not node_of(pod):
        return 1
    text = annotations_of(pod).get(_SIZE, "")
    return parse_count(text, size)


def _leader_and_workers(size: int, pod: Object) -> tuple[list[PlannedSubGroup], str]:
    groups = [PlannedSubGroup("leader", 1)]
    if size > 1:
        groups.append(PlannedSubGroup("workers", size - 1))
    if _is_leader(pod):
        return groups, "leader"
    return groups, "workers" if size > 1 else ""


def _segment_size(top: Object, size: int) -> int | None:
    """The size of subGroupPolicy, else of the annotation on the LeaderWorkerSet or its worker template; None without any."""
    segment = integer(top, *_TEMPLATE, "subGroupPolicy", "subGroupSize")
    if segment is None:
        text = annotations_of(top).get(SEGMENT_SIZE)
        if text is None:
            text = string(top, *_TEMPLATE, "workerTemplate", "metadata", "annotations", SEGMENT_SIZE)
        if text is None:
            return None
        segment = whole_number(text, f"{title(top)}: annotation {SEGMENT_SIZE}")
    if not 1 < segment <= size:
        raise GroupingError(f"{title(top)}: segment size {segment} is not between 2 and the group's size {size}")
    return segment


def _segments(top: Object, pod: Object, size: int, segment: int) -> tuple[list[PlannedSubGroup], str]:
    leader_is_extra = (size - 1) % segment == 0
    count = _segment_of(size - 1, size, segment) + 1
    check_count(count)
    template = mapping(top, *_TEMPLATE, "workerTemplate")
    topology = None if template is None else segment_topology(pod, template, top)
    index = whole_number(labels_of(pod).get(_WORKER_INDEX, ""), f"{title(pod)}: label {_WORKER_INDEX}", least=0)
    if index >= size:
        raise GroupingError(f"{title(pod)}: worker index {index} is beyond the group's size {size}")
    groups = [PlannedSubGroup(f"segment-{i}", segment, topology=topology) for i in range(count)]
    # As in KAI, a single segment counts the leader too, which is added again below.
    groups[-1].min_member = sum(1 for i in range(size) if _segment_of(i, size, segment) == count - 1)
    own = groups[_segment_of(index, size, segment)].name
    policy = string(top, *_TEMPLATE, "subGroupPolicy", "subGroupPolicyType") or "LeaderWorker"
    if policy == "LeaderExcluded":
        if not leader_is_extra:
            raise GroupingError(
                f"{title(top)}: LeaderExcluded needs the workers ({size - 1}) to divide into segments of {segment}"
            )
        groups.insert(0, PlannedSubGroup("leader", 1))
        return groups, "leader" if _is_leader(pod) else own
    if policy == "LeaderWorker":
        first = groups[0]
        members = first.min_member + 1 if leader_is_extra else first.min_member
        # A parent counts its children; KAI's webhook refuses minMember on it.
        first.min_member, first.min_sub_group = 0, 2
        groups.append(PlannedSubGroup("leader", 1, parent=first.name))
        groups.append(PlannedSubGroup("workers", members - 1, parent=first.name))
        if _is_leader(pod):
            own = "leader"
        elif own == first.name:
            own = "workers"
    return groups, own


def _segment_of(index: int, size: int, segment: int) -> int:
    if index == 0:
        return 0
    return (index - 1) // segment if (size - 1) % segment == 0 else index // segment


def _is_leader(pod: Object) -> bool:
    return labels_of(pod).get(_WORKER_INDEX) == "0"


LEADER_WORKER_SET = Family("leaderworkerset", _leader_worker_set, per_owner=False)
