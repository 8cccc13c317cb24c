"""Why jobs never began: what the scheduler said of them last, as it stands at their PodGroups when a replay ends."""

from __future__ import annotations

import msgspec

from kailab.cluster.protocol import Cluster
from kailab.replay.work import Accounts

UNTOLD = "Untold"
"""Of a job that no cycle has looked at."""


class Unbegun(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that never began for one reason. ``example``: the name in the trace of the first of them, and ``message`` what was said of it."""

    reason: str
    jobs: int
    example: str
    message: str


def unbegun(cluster: Cluster, accounts: Accounts) -> list[Unbegun]:
    """By how many jobs; of as many, in the order of their arrival."""
    waiting = {name: work for name, work in accounts.unfinished.items() if work.began is None}
    if not waiting:
        return []
    told: dict[str, tuple[str, str]] = {}
    for group in cluster.list("PodGroup"):
        conditions = (group.get("status") or {}).get("schedulingConditions") or ()
        said = next((one for condition in conditions for one in condition.get("reasons") or ()), None)
        for owner in group["metadata"].get("ownerReferences") or ():
            if said is not None:
                told[owner["name"]] = said["reason"], said["message"]
    found: dict[str, Unbegun] = {}
    for name, work in waiting.items():
        reason, message = told.get(name, (UNTOLD, "no cycle has looked at it"))
        before = found.get(reason)
        if before is None:
            found[reason] = Unbegun(reason=reason, jobs=1, example=work.job.name, message=message)
        else:
            found[reason] = msgspec.structs.replace(before, jobs=before.jobs + 1)
    return sorted(found.values(), key=lambda one: -one.jobs)
