"""The rules, by id. Sources: the best practices and traps of documents about KAI, KAI's own webhooks and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kailab.errors import Where
from kailab.model.manifests import Notice

GUARANTEED_PERCENT = 70
"""Of a cluster's GPUs, at most so much is to be guaranteed: the rest grows as loans."""

MOST_CLASSES = 5
"""PriorityClasses that people can still tell apart."""


@dataclass(frozen=True, slots=True)
class Rule:
    """``asks``: what it asks for. ``cure``: what to do about a finding."""

    asks: str
    cure: str


RULES: Mapping[str, Rule] = {
    "no-queue": Rule("work says its queue", "set the label kai.scheduler/queue, on the work or on its pod template"),
    "queue-missing": Rule(
        "the queue of work is there", "correct the name, or check the Queue's manifest together with the work"
    ),
    "queue-not-leaf": Rule("work is in a queue without others below it", "name one of the queues below it"),
    "parent-missing": Rule("the parent of a queue is there", "correct spec.parentQueue, or add that Queue"),
    "no-scheduler": Rule(
        "work with a queue names KAI's scheduler", "set schedulerName: kai-scheduler in the pod template"
    ),
    "kais-namespace": Rule("work keeps out of KAI's own namespace", "use a namespace of the team"),
    "queue-no-quota": Rule(
        "a queue that takes work has GPUs guaranteed",
        "set spec.resources.gpu.quota; with 0 other queues may hold all GPUs, and nothing is taken back for it",
    ),
    "queue-no-limit": Rule(
        "a queue that takes work is bounded, by itself or by one above it",
        "set spec.resources.gpu.limit here or above; without one it may borrow all that is idle",
    ),
    "queue-endless-quota": Rule(
        "a quota is a number",
        "set spec.resources.gpu.quota to what is guaranteed: with -1 nothing can be taken back from it",
    ),
    "quota-over-parent": Rule("a quota is within its parent's", "lower it, or raise the parent's"),
    "children-over-parent": Rule(
        "quotas of the queues below add up to their parent's or less", "lower some of them, or raise the parent's quota"
    ),
    "quotas-over-share": Rule(
        f"quotas guarantee at most {GUARANTEED_PERCENT} % of the GPUs",
        "lower quotas; what is idle is lent by weight anyway",
    ),
    "pod-over-node": Rule("a pod fits on the largest node", "ask for fewer GPUs for each pod, with more pods"),
    "gang-over-cluster": Rule(
        "pods that start together fit into the cluster", "make the gang smaller, or the fleet larger"
    ),
    "gang-over-limit": Rule(
        "pods that start together fit within the limits of their queue",
        "raise the limit, make the gang smaller, or use another queue",
    ),
    "non-preemptible-over-quota": Rule(
        "non-preemptible work fits within the quota of its queue",
        "raise the quota, or let the work be evicted: label kai.scheduler/preemptibility: preemptible",
    ),
    "class-non-preemptible": Rule(
        "a PriorityClass of 100 and more is for work that is never evicted",
        "use a value below 100, or say on the work what is meant: label kai.scheduler/preemptibility",
    ),
    "many-classes": Rule(
        f"there are at most {MOST_CLASSES} PriorityClasses", "keep few: production, interactive, background"
    ),
    "gang-labels": Rule(
        "labels of a gang agree: one job-size, as many pods, each job-index once",
        "make them agree, or leave the grouping to KAI, which reads the workload itself",
    ),
    "no-grace": Rule(
        "work that may be evicted saves its state",
        "add a preStop hook and terminationGracePeriodSeconds, or handle SIGTERM and set terminationGracePeriodSeconds",
    ),
    "evictions-end-job": Rule(
        "a Job outlives the eviction of each of its pods",
        "raise spec.backoffLimit, or ignore disruptions with a podFailurePolicy (DisruptionTarget)",
    ),
    "ignored-by-kai": Rule("work says nothing that KAI does not look at", "leave it out, or say it in KAI's words"),
    "not-meant": Rule("what is accepted is also meant", "see what the finding says"),
    "unknown-kind": Rule("kinds are known", "correct apiVersion and kind"),
    "unknown-version": Rule("versions are known", "use the version that the finding names"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """``rule``: its id in ``RULES``. ``where``: file, line, object and field."""

    rule: str
    where: Where
    why: str

    @classmethod
    def of(cls, notice: Notice) -> Finding:
        return cls(notice.rule, notice.where, notice.message)

    @property
    def cure(self) -> str:
        return RULES[self.rule].cure

    def data(self) -> dict[str, Any]:
        place = self.where
        where = {"file": place.file, "line": place.line, "object": place.object, "field": place.field}
        return {"rule": self.rule, **where, "why": self.why, "cure": self.cure}
