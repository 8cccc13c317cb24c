"""How to decide: what comes to a SchedulingShard, to pods, or to kailab's own policies."""

from __future__ import annotations

from kailab.advice.policykinds.building import MAIN, Building
from kailab.advice.policykinds.meaning import Given, Meaning, acts, always, none, own
from kailab.advice.policykinds.quotas import plain
from kailab.advice.policykinds.rules import always_means, switch
from kailab.model import labels
from kailab.model.times import format_duration
from kailab.scheduler.reading.podgroups import NON_PREEMPTIBLE_FROM

_PLACEMENTS = {
    "bin-pack": "binpack",
    "binpack": "binpack",
    "BestFit": "binpack",
    "spread": "spread",
    "SpreadEvenly": "spread",
}
_WEIGHTS = {
    "priority-class": "priority",
    "wait-time": "waiting",
    "resource-efficiency": "efficiency",
    "team-fairness": "fairness",
}


def _placed(way: str, where: str) -> Meaning:
    return acts(f"placementStrategy.gpu: {way}, {where}")


def placement_of(given: Given) -> str:
    """``binpack`` or ``spread``; empty for a strategy that is neither."""
    return _PLACEMENTS.get(given.one_of((*_PLACEMENTS, "SingleNode")), "")


def strategy(given: Given, building: Building) -> Meaning:
    way = placement_of(given)
    if not way:
        need = f"{labels.TOPOLOGY_REQUIRED}: {labels.HOSTNAME}"
        return acts(f"annotations of the work: {need}, and {labels.TOPOLOGY} with a Topology of that level")
    name = building.pool(given.at("metadata.name").text())
    told = building.shard(name, "placementStrategy", "gpu", value=way, given=given)
    return acts(f"{told}, for all work of the shard{building.pooled(name)}")


def main_placement(given: Given, building: Building) -> Meaning:
    if not (way := placement_of(given)):
        raise given.refuse("bin-pack or spread")
    return acts(building.shard(MAIN, "placementStrategy", "gpu", value=way, given=given))


def preemption_enabled(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("reclaims and preempts: both are among its actions unless they are taken out")
    told = [building.without(action, given) for action in ("reclaim", "preempt")]
    return acts(", ".join(told))


def grace(given: Given, building: Building) -> Meaning:
    seconds = given.seconds()
    told = building.policy("checkpoint", "gracePeriod", value=format_duration(seconds), given=given)
    return acts(f"each pod's own spec.terminationGracePeriodSeconds: {seconds:g}; for all at once kailab has {told}")


priority_difference = always_means(
    none("any higher priority preempts, by however little, within one queue"), Given.number
)

preempted_class = always_means(
    always("evicts by the value of the class, not by its name or place in a list"), Given.text
)


def preempted_priority(given: Given, building: Building) -> Meaning:
    value = given.count()
    told = building.priority_class(given.beside("name").text(), value, given)
    if value >= NON_PREEMPTIBLE_FROM:
        told += f"; from {NON_PREEMPTIBLE_FROM} on KAI takes work as non-preemptible unless it says {labels.PREEMPTIBILITY}: preemptible"
    building.policy("victimOrder", value="priority", given=given)
    return acts(f"{told}; within a queue the lowest goes first, over all queues only with kailab.victimOrder: priority")


def preemptions_per_cycle(given: Given, building: Building) -> Meaning:
    priority = given.beside("priority").count()
    building.policy("maxEvictionsPerCycleByPriority", priority, value=given.count(), given=given)
    return own(f"kailab.maxEvictionsPerCycleByPriority: {{{priority}: {given.count()}}}; KAI bounds no evictions")


checkpoint_hooks = switch(
    acts("lifecycle.preStop of the pods' containers, within their grace period: the kubelet runs it, KAI waits"),
    none("hooks of pods run whenever they have one; take preStop out of the containers"),
)

algorithm = always_means(
    always("divides by fair share (plugin proportion)"), lambda given: given.one_of(("fair-share",))
)

update_interval = always_means(
    always("works shares out anew in each cycle; --schedule-period (1s) says how often one begins"), Given.seconds
)

weighted = switch(
    always("lends by Queue spec.resources.*.overQuotaWeight"),
    acts("the same overQuotaWeight in every Queue: there is no switch"),
)


def time_weighted(given: Given, building: Building) -> Meaning:
    if not given.flag():
        return always("goes without: how long work waited decides only among equals")
    told = building.policy("agedAfter", value="24h", given=given)
    return own(f"{told}; KAI's spec.usageDBConfig weighs what queues used before, not how long their work waits")


record_interval = always_means(
    none("metrics are set in each cycle; how often they are read is the ServiceMonitor's interval"), Given.seconds
)


def metrics_endpoint(given: Given, building: Building) -> Meaning:
    if given.text() == "/metrics":
        return always("serves its metrics at /metrics")
    return none("the path is /metrics and can't be changed")


def criterion(given: Given, building: Building) -> Meaning:
    name = _WEIGHTS[given.one_of(tuple(_WEIGHTS))]
    return own(f"kailab.jobOrder.weights.{name}; KAI orders by priority, then age")


def criterion_weight(given: Given, building: Building) -> Meaning:
    name = _WEIGHTS[given.beside("criterion").one_of(tuple(_WEIGHTS))]
    told = building.policy("jobOrder", "weights", name, value=plain(given.number()), given=given)
    return own(told)


def drained_jobs(given: Given, building: Building) -> Meaning:
    told = building.shard(MAIN, "queueDepthPerAction", "allocate", value=given.count(), given=given)
    return acts(f"{told}, of each queue")


least_resources = always_means(none("no job is too small; an admission policy can refuse it"))

gang = switch(
    always("starts the minimum of members of each PodGroup together"),
    none("there is no switch; a minMember of 1 in each PodGroup is the same"),
)

fair_share = switch(
    always("divides by fair share (plugin proportion)"), none("there is no switch; one Queue for all work is the same")
)

queue_management = switch(always("decides by queues"), none("there is no switch; one Queue for all work is the same"))

total_gpus = always_means(
    always("counts status.allocatable of the nodes; here the number turns weights into quotas"), Given.number
)

total_memory = always_means(always("counts status.allocatable of the nodes"), Given.megabytes)

draining_policy = always_means(own("kailab.jobOrder, as the policy of that name says"), Given.text)

few_nodes = switch(
    _placed("binpack", "where the strategy of this policy says so"),
    _placed("spread", "where the strategy of this policy says so"),
)

many_nodes = switch(
    _placed("spread", "where the strategy of this policy says so"),
    _placed("binpack", "where the strategy of this policy says so"),
)

node_preference = always_means(
    none("preferred node affinity is ignored, in a policy and in pods; a required one in the pods counts")
)

pod_preference = always_means(acts("spec.affinity.podAntiAffinity of the pods themselves (plugin podaffinity)"))

most_gpus_of_a_node = always_means(
    none("no bound by node; required pod anti-affinity keeps pods of one app apart"), Given.count
)

fewest_nodes = always_means(
    none("no least number of nodes; required pod anti-affinity gives each pod a node"), Given.count
)

density = always_means(none("binpack has no target: it fills a node as far as work fits"), Given.number)

spread_exclusive = switch(
    _placed("spread", "for whole GPUs and shares alike"), _placed("binpack", "for whole GPUs and shares alike")
)

fabric = always_means(
    none(
        "which GPUs of a node are linked is not looked at: the device plugin picks them; a Topology tells nodes apart"
    ),
    Given.flag,
)

memory_strategy = always_means(
    none("shares of GPUs fit or do not; of several GPUs that fit, gpupack takes the fullest, gpuspread the emptiest"),
    Given.text,
)

memory_threshold = always_means(none("a GPU is shared to 100 %; what runs on it is not measured"))
