"""A lab as explanations and expectations see it: rows of what there is, joined with what was decided.

Taken at one moment and thrown away; asking costs one look through the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.evidence import kai_words
from kailab.evidence.decision_log import DecisionLog
from kailab.evidence.standing import gpus_of_node, pod_row
from kailab.lab.shares import Shares, lineage
from kailab.model.times import parse_time

Row = dict[str, Any]


class Picture:
    """``log`` is what the scheduler under test decided so far, ``scheduler`` its name."""

    def __init__(self, cluster: Cluster, log: DecisionLog, scheduler: str = "kailab") -> None:
        self.cluster = cluster
        self.log = log
        self.scheduler = scheduler
        self.now = cluster.now()

    @cached_property
    def podgroups(self) -> dict[tuple[str, str], Object]:
        """(namespace, name) -> PodGroup."""
        return {
            (group["metadata"].get("namespace", ""), group["metadata"]["name"]): group
            for group in self.cluster.list("PodGroup")
        }

    @cached_property
    def nodes(self) -> dict[str, Object]:
        return {node["metadata"]["name"]: node for node in self.cluster.list("Node")}

    @cached_property
    def rows(self) -> list[Row]:
        """A row for each pod, see kailab.evidence.standing."""
        return [pod_row(pod, self.podgroups, self.nodes) for pod in self.cluster.list("Pod")]

    @cached_property
    def by_group(self) -> dict[str, list[Row]]:
        """``namespace/name`` of a PodGroup -> its pods."""
        groups: dict[str, list[Row]] = {}
        for row in self.rows:
            if row["podgroup"]:
                groups.setdefault(group_of(row), []).append(row)
        return groups

    @cached_property
    def shares(self) -> Shares:
        last = self.log.last
        if last is not None and last.queues:
            return Shares.decided(last.queues)
        return Shares.observed(self.cluster.list("Queue"), self.rows)

    @cached_property
    def lines(self) -> dict[str, frozenset[str]]:
        """Queue -> itself and its ancestors."""
        parents = {queue.name: queue.parent for queue in self.shares.queues.values()}
        return {name: frozenset(lineage(name, parents)) for name in parents}

    @cached_property
    def pending(self) -> dict[str, dict[str, Any]]:
        """``namespace/name`` of each PodGroup that waits -> the decision log's entry about it."""
        waiting = {entry["podgroup"]: entry for entry in self.log.pending_now()}
        for (namespace, name), group in self.podgroups.items():
            key = f"{namespace}/{name}"
            if key not in waiting and (entry := _from_status(key, group)) is not None:
                waiting[key] = entry
        if self.log.last is None:
            for key, rows in self.by_group.items():
                if key not in waiting and (entry := _from_pods(key, rows)) is not None:
                    waiting[key] = entry
        return waiting

    def waiting(self) -> list[dict[str, Any]]:
        """All that waits, with its reason: PodGroups, and pods that belong to none."""
        alone = [row for row in self.rows if row["phase"] == "Pending" and not row["node"] and not row["podgroup"]]
        return [
            *self.pending.values(),
            *(
                {
                    "podgroup": "",
                    "pods": [row["name"]],
                    "queue": row["queue"],
                    "reason": row.get("reason", ""),
                    "message": row.get("message", ""),
                }
                for row in alone
            ),
        ]

    @cached_property
    def free(self) -> dict[str, int]:
        """Node -> milli-GPU that no pod holds."""
        free = {name: gpus_of_node(node) * 1000 for name, node in self.nodes.items()}
        for row in self.rows:
            if row["node"] in free and row["phase"] not in ("Succeeded", "Failed"):
                free[row["node"]] -= row["milli_gpus"]
        return free

    @cached_property
    def priorities(self) -> dict[str, int]:
        return {cls["metadata"]["name"]: cls.get("value", 0) for cls in self.cluster.list("PriorityClass")}

    def rank(self, group: Object) -> tuple[Any, ...]:
        """Order of PodGroups inside a queue: those that have waited long enough where that counts; then the weighted score
        where there is one, else higher priority first; then older."""
        metadata = group["metadata"]
        entry = self.pending.get(f"{metadata.get('namespace', '')}/{metadata['name']}")
        numbers = entry["numbers"] if entry else {}
        since, score = numbers.get("aged_since"), numbers.get("score")
        return (
            (1, 0.0) if since is None else (0, since),
            -score["total"] if score else -self.priorities.get(group["spec"].get("priorityClassName", ""), 50),
            parse_time(metadata.get("creationTimestamp")),
            metadata.get("uid", ""),
        )

    def code_of(self, row: Row) -> str:
        """Why a pod waits: the code of its PodGroup's reason, else the reason its own condition gives."""
        entry = self.pending.get(group_of(row)) if row["podgroup"] else None
        return entry["reason"] if entry else (kai_words.code(row.get("message", "")) or row.get("reason", ""))


def group_of(row: Mapping[str, Any]) -> str:
    """``namespace/name`` of the PodGroup of a pod row."""
    return f"{row['name'].split('/', 1)[0]}/{row['podgroup']}"


def _from_pods(name: str, rows: list[Row]) -> dict[str, Any] | None:
    """What a real KAI says of a PodGroup that runs in part: nothing on itself, a reason on each pod that waits."""
    waiting = [row for row in rows if row["phase"] == "Pending" and not row["node"] and row.get("message")]
    if not waiting:
        return None
    first = waiting[0]
    return {
        "podgroup": name,
        "pods": [row["name"] for row in waiting],
        "queue": first["queue"],
        "reason": kai_words.code(first["message"]) or first["reason"],
        "message": first["message"],
        "numbers": {},
        "queue_context": "",
        "fits": [],
        "tried": [],
    }


def _from_status(name: str, group: Object) -> dict[str, Any] | None:
    """What a scheduler that gives no decisions (a real KAI) wrote about a PodGroup that waits."""
    conditions = (group.get("status") or {}).get("schedulingConditions") or ()
    if not conditions:
        return None
    last = conditions[-1]
    reasons = last.get("reasons") or ()  # the last one tells what else could have been done, and why it was not
    queue = ((reasons[-1].get("details") or {}).get("queueDetails") or {}) if reasons else {}
    return {
        "podgroup": name,
        "pods": [],
        "queue": group["spec"].get("queue", ""),
        "reason": reasons[-1].get("reason") if reasons else "Unschedulable",
        "message": reasons[-1].get("message", "") if reasons else last.get("message", ""),
        "numbers": {},
        "queue_context": queue.get("name", ""),
        "fits": [],
        "tried": [],
    }
