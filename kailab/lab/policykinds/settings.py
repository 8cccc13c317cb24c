"""How to decide: what comes to a SchedulingShard, to pods, or to kailab's own policies."""

from __future__ import annotations

from kailab.lab.policykinds.building import MAIN, Building
from kailab.lab.policykinds.meaning import Given, Meaning, acts, always, none, own
from kailab.lab.policykinds.quotas import plain
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


def priority_difference(given: Given, building: Building) -> Meaning:
    given.number()
    return none("any higher priority preempts, by however little, within one queue")


def preempted_class(given: Given, building: Building) -> Meaning:
    given.text()
    return always("evicts by the value of the class, not by its name or place in a list")


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


def checkpoint_hooks(given: Given, building: Building) -> Meaning:
    if not given.flag():
        return none("hooks of pods run whenever they have one; take preStop out of the containers")
    return acts("lifecycle.preStop of the pods' containers, within their grace period: the kubelet runs it, KAI waits")


def algorithm(given: Given, building: Building) -> Meaning:
    given.one_of(("fair-share",))
    return always("divides by fair share (plugin proportion)")


def update_interval(given: Given, building: Building) -> Meaning:
    given.seconds()
    return always("works shares out anew in each cycle; --schedule-period (1s) says how often one begins")


def weighted(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("lends by Queue spec.resources.*.overQuotaWeight")
    return acts("the same overQuotaWeight in every Queue: there is no switch")


def time_weighted(given: Given, building: Building) -> Meaning:
    if not given.flag():
        return always("goes without: how long work waited decides only among equals")
    told = building.policy("agedAfter", value="24h", given=given)
    return own(f"{told}; KAI's spec.usageDBConfig weighs what queues used before, not how long their work waits")


def record_interval(given: Given, building: Building) -> Meaning:
    given.seconds()
    return none("metrics are set in each cycle; how often they are read is the ServiceMonitor's interval")


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


def least_resources(given: Given, building: Building) -> Meaning:
    return none("no job is too small; an admission policy can refuse it")


def gang(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("starts the minimum of members of each PodGroup together")
    return none("there is no switch; a minMember of 1 in each PodGroup is the same")


def fair_share(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("divides by fair share (plugin proportion)")
    return none("there is no switch; one Queue for all work is the same")


def queue_management(given: Given, building: Building) -> Meaning:
    if given.flag():
        return always("decides by queues")
    return none("there is no switch; one Queue for all work is the same")


def total_gpus(given: Given, building: Building) -> Meaning:
    given.number()
    return always("counts status.allocatable of the nodes; here the number turns weights into quotas")


def total_memory(given: Given, building: Building) -> Meaning:
    given.megabytes()
    return always("counts status.allocatable of the nodes")


def draining_policy(given: Given, building: Building) -> Meaning:
    given.text()
    return own("kailab.jobOrder, as the policy of that name says")


def few_nodes(given: Given, building: Building) -> Meaning:
    wanted = "binpack" if given.flag() else "spread"
    return acts(f"placementStrategy.gpu: {wanted}, where the strategy of this policy says so")


def many_nodes(given: Given, building: Building) -> Meaning:
    wanted = "spread" if given.flag() else "binpack"
    return acts(f"placementStrategy.gpu: {wanted}, where the strategy of this policy says so")


def node_preference(given: Given, building: Building) -> Meaning:
    return none("preferred node affinity is ignored, in a policy and in pods; a required one in the pods counts")


def pod_preference(given: Given, building: Building) -> Meaning:
    return acts("spec.affinity.podAntiAffinity of the pods themselves (plugin podaffinity)")


def most_gpus_of_a_node(given: Given, building: Building) -> Meaning:
    given.count()
    return none("no bound by node; required pod anti-affinity keeps pods of one app apart")


def fewest_nodes(given: Given, building: Building) -> Meaning:
    given.count()
    return none("no least number of nodes; required pod anti-affinity gives each pod a node")


def density(given: Given, building: Building) -> Meaning:
    given.number()
    return none("binpack has no target: it fills a node as far as work fits")


def spread_exclusive(given: Given, building: Building) -> Meaning:
    wanted = "spread" if given.flag() else "binpack"
    return acts(f"placementStrategy.gpu: {wanted}, for whole GPUs and shares alike")


def fabric(given: Given, building: Building) -> Meaning:
    given.flag()
    return none(
        "which GPUs of a node are linked is not looked at: the device plugin picks them; a Topology tells nodes apart"
    )


def memory_strategy(given: Given, building: Building) -> Meaning:
    given.text()
    return none(
        "shares of GPUs fit or do not; of several GPUs that fit, gpupack takes the fullest, gpuspread the emptiest"
    )


def memory_threshold(given: Given, building: Building) -> Meaning:
    return none("a GPU is shared to 100 %; what runs on it is not measured")
