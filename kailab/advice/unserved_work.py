"""Pending pods that no cycle considers: kailab's grouping can make no PodGroup for them, or they name a scheduler that does not exist. The
module also finds node pools that the scheduler under test does not serve.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from kailab.cluster.protocol import Object
from kailab.grouping.pod_grouping import preview_grouping
from kailab.grouping.records import GroupingError
from kailab.lab.picture import Picture, group_of
from kailab.model import labels
from kailab.model.multimap import multimap
from kailab.model.objects import metadata_of, owner_references
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL, node_pool
from kailab.undertest.contract import SchedulerUnderTest


def ungrouped_pods(picture: Picture, schedulers: Collection[str]) -> dict[str, list[str]]:
    """Reason -> pods (``namespace/name``) that can't be grouped. ``schedulers``: the names of the scheduler; pods that name another one are left out.
    Only the first pod of each owner is tried, and its result holds for all."""
    result: dict[str, list[str]] = {}
    of_owner: dict[tuple[str, str], str] = {}
    for row in picture.rows:
        pod = picture.pods_by_name[row.name]
        name = pod["spec"].get("schedulerName") or labels.DEFAULT_SCHEDULER_NAME
        namespace = row.name.partition("/")[0]
        if (
            row.phase != "Pending"
            or row.node
            or name not in schedulers
            or (namespace, row.podgroup) in picture.podgroups
        ):
            continue
        owner = (namespace, row.owner or row.name)
        if owner not in of_owner:
            if row.podgroup and not owner_references(pod):
                of_owner[owner] = f"there is no PodGroup {group_of(row)}, which the annotation {labels.POD_GROUP} names"
            else:
                try:
                    preview_grouping(picture.cluster, pod)
                    of_owner[owner] = ""
                except GroupingError as error:
                    of_owner[owner] = str(error).rstrip(".")
        if why := of_owner[owner]:
            result.setdefault(why, []).append(row.name)
    return result


def unscheduled_pods(picture: Picture) -> dict[str, list[str]]:
    """Missing scheduler -> pods (``namespace/name``) that wait for it; empty if the existing schedulers are unknown."""
    return multimap(
        (name, row.name)
        for row in picture.rows
        if row.phase == "Pending" and not row.node and (name := picture.missing_scheduler(row.name))
    )


def served_pool(scheduler: SchedulerUnderTest) -> str | None:
    """The node pool that the scheduler under test serves; None if it is unknown, or the scheduler knows no pools."""
    # Labs run kailab's scheduler for the default pool. The shards of a real KAI are unknown here.
    return DEFAULT_NODE_POOL if scheduler.reports_shares else None


def in_other_pools(objects: Iterable[Object], served: str) -> dict[str, int]:
    """Node pool -> number of objects in it, for pools that are not served."""
    pools = Counter(node_pool(metadata_of(obj)) for obj in objects)
    return {pool: number for pool, number in sorted(pools.items()) if pool != served}
