"""The rules, by id. Sources: good practices and pitfalls in documents about KAI, KAI's own webhooks and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kailab.errors import Where
from kailab.model.manifests import Notice

GUARANTEED_PERCENT = 70
"""At most this part of a cluster's GPUs should be guaranteed; the rest is for borrowing."""

MOST_CLASSES = 5
"""More PriorityClasses than this are hard to tell apart."""


@dataclass(frozen=True, slots=True)
class PracticeRule:
    """``asks``: the requirement. ``cure``: what to do about a finding."""

    asks: str
    cure: str


RULES: Mapping[str, PracticeRule] = {
    "no-queue": PracticeRule(
        "work names its queue", "set the label kai.scheduler/queue, on the work or on its pod template"
    ),
    "queue-missing": PracticeRule(
        "the queue of work exists", "correct the name, or check the Queue's manifest together with the work"
    ),
    "queue-not-leaf": PracticeRule("work is in a queue without others below it", "name one of the queues below it"),
    "parent-missing": PracticeRule("the parent of a queue exists", "correct spec.parentQueue, or add that Queue"),
    "no-scheduler": PracticeRule(
        "work with a queue names KAI's scheduler", "set schedulerName: kai-scheduler in the pod template"
    ),
    "kais-namespace": PracticeRule("work keeps out of KAI's own namespace", "use a namespace of the team"),
    "queue-no-quota": PracticeRule(
        "a queue that takes work has GPUs guaranteed",
        "set spec.resources.gpu.quota; with 0 other queues may hold all GPUs, and nothing is taken back for it",
    ),
    "queue-no-limit": PracticeRule(
        "a queue that takes work is bounded, by itself or by one above it",
        "set spec.resources.gpu.limit here or above; without one it may borrow all that is idle",
    ),
    "queue-endless-quota": PracticeRule(
        "a quota is a number",
        "set spec.resources.gpu.quota to what is guaranteed: with -1 nothing can be taken back from it",
    ),
    "quota-over-parent": PracticeRule("a quota is within its parent's", "lower it, or raise the parent's"),
    "children-over-parent": PracticeRule(
        "quotas of the queues below add up to their parent's or less", "lower some of them, or raise the parent's quota"
    ),
    "quotas-over-share": PracticeRule(
        f"quotas guarantee at most {GUARANTEED_PERCENT} % of the GPUs",
        "lower quotas; what is idle is lent by weight anyway",
    ),
    "pod-over-node": PracticeRule("a pod fits on the largest node", "ask for fewer GPUs for each pod, with more pods"),
    "gang-over-cluster": PracticeRule(
        "pods that start together fit into the cluster", "make the gang smaller, or the fleet larger"
    ),
    "gang-over-limit": PracticeRule(
        "pods that start together fit within the limits of their queue",
        "raise the limit, make the gang smaller, or use another queue",
    ),
    "non-preemptible-over-quota": PracticeRule(
        "non-preemptible work fits within the quota of its queue",
        "raise the quota, or let the work be evicted: label kai.scheduler/preemptibility: preemptible",
    ),
    "class-non-preemptible": PracticeRule(
        "a PriorityClass of 100 and more is for work that is never evicted",
        "use a value below 100, or set the label kai.scheduler/preemptibility on the work",
    ),
    "many-classes": PracticeRule(
        f"there are at most {MOST_CLASSES} PriorityClasses", "keep few: production, interactive, background"
    ),
    "gang-labels": PracticeRule(
        "labels of a gang agree: one job-size, as many pods, each job-index once",
        "make them agree, or leave the grouping to KAI, which reads the workload itself",
    ),
    "no-grace": PracticeRule(
        "work that may be evicted saves its state",
        "add a preStop hook and terminationGracePeriodSeconds, or handle SIGTERM and set terminationGracePeriodSeconds",
    ),
    "evictions-end-job": PracticeRule(
        "a Job outlives the eviction of each of its pods",
        "raise spec.backoffLimit, or ignore disruptions with a podFailurePolicy (DisruptionTarget)",
    ),
    "ignored-by-kai": PracticeRule("work has no field that KAI ignores", "leave the field out, or use KAI's own"),
    "not-meant": PracticeRule("an accepted field has an effect", "see the finding"),
    "unknown-kind": PracticeRule("kinds are known", "correct apiVersion and kind"),
    "unknown-version": PracticeRule("versions are known", "use the version that the finding names"),
}


@dataclass(frozen=True, slots=True)
class PracticeFinding:
    """``rule``: its id in ``RULES``. ``where``: file, line, object and field."""

    rule: str
    where: Where
    why: str

    @classmethod
    def of(cls, notice: Notice) -> PracticeFinding:
        return cls(notice.rule, notice.where, notice.message)

    @property
    def cure(self) -> str:
        return RULES[self.rule].cure

    def data(self) -> dict[str, Any]:
        place = self.where
        where = {"file": place.file, "line": place.line, "object": place.object, "field": place.field}
        return {"rule": self.rule, **where, "why": self.why, "cure": self.cure}
