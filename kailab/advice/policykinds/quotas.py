"""Shares and quotas: what comes to Queues."""

from __future__ import annotations

from fractions import Fraction

from kailab.advice.policykinds.building import Building
from kailab.advice.policykinds.meaning import Given, Meaning, acts, always, none
from kailab.advice.policykinds.rules import always_means
from kailab.model import labels
from kailab.model.manifests import value_at


def team(given: Given) -> str:
    """Whose quota it is: the namespace that it names or is in, else its own name."""
    obj = given.manifest.object
    for path in ("spec.namespace", "metadata.namespace", "metadata.name"):
        if value_at(obj, path) is not None:
            return given.at(path).text()
    raise given.at("metadata.name").refuse("a name")


def namespace(given: Given, building: Building) -> Meaning:
    name = given.text()
    building.queue(name, given)
    return acts(f"Queue/{name}; KAI looks at no namespace: work says {labels.QUEUE}: {name} by itself")


def guaranteed_gpus(given: Given, building: Building) -> Meaning:
    told = building.amount(team(given), "gpu", "quota", plain(given.number()), given)
    if given.at("spec.burstQuota.gpus").value is None:
        told += ", " + building.amount(team(given), "gpu", "limit", plain(given.number()), given)
    return acts(told)


def guaranteed_memory(given: Given, building: Building) -> Meaning:
    told = building.amount(team(given), "memory", "quota", given.megabytes(), given)
    if given.at("spec.burstQuota.memory").value is None:
        told += ", " + building.amount(team(given), "memory", "limit", given.megabytes(), given)
    return acts(f"{told} (MB of what pods request of the node, not of GPUs)")


def burst_gpus(given: Given, building: Building) -> Meaning:
    beside = given.at("spec.guaranteedQuota.gpus")
    own = beside.number() if beside.value is not None else Fraction(0)
    told = building.amount(team(given), "gpu", "limit", plain(own + given.number()), given)
    return acts(f"{told} (quota and burst together)")


def burst_memory(given: Given, building: Building) -> Meaning:
    beside = given.at("spec.guaranteedQuota.memory")
    own = beside.megabytes() if beside.value is not None else 0
    told = building.amount(team(given), "memory", "limit", own + given.megabytes(), given)
    return acts(f"{told} (MB, quota and burst together)")


pods_per_day = always_means(
    none("no queue counts pods or days; a Kubernetes ResourceQuota bounds the pods of a namespace at one time"),
    Given.count,
)


expiration = always_means(none("a queue's quota has no end and is not reset"), Given.seconds)


condition = always_means(none("what is idle is lent at once, however little; there is no threshold"), Given.text)


def preemption_allowed(given: Given, building: Building) -> Meaning:
    name = team(given)
    if given.flag():
        return always("evicts what a queue borrowed; within its quota, only for higher priority of the same queue")
    return none(
        f"no field of Queue/{name}: the work itself says {labels.PREEMPTIBILITY}: non-preemptible, and then runs only within the quota"
    )


def hierarchy_name(given: Given, building: Building) -> Meaning:
    name, parent = given.text(), parent_of(given)
    building.queue(name, given, parent)
    return acts(f"Queue/{name}" + (f" spec.parentQueue: {parent}" if parent else ""))


def hierarchy_weight(given: Given, building: Building) -> Meaning:
    """The share of the parent's GPUs that a weight stands for, and the weight for what is lent beyond it."""
    name = given.beside("name").text()
    told = [building.amount(name, "gpu", "overQuotaWeight", plain(given.number()), given)]
    share = share_of(given, building)
    if share is None:
        return acts(f"{told[0]}; its quota is a share of GPUs that nobody counts here: give --gpus")
    return acts(", ".join([building.amount(name, "gpu", "quota", plain(share), given), *told]))


def share_of(given: Given, building: Building) -> Fraction | None:
    """GPUs: the part of the parent's that the weight of the node around ``given`` is of its siblings'. None where the cluster's
    are not known."""
    node = given.path.rpartition(".")[0]
    around, _, _ = node.rpartition("[")
    siblings = given.at(around).value
    weights = [given.at(f"{around}[{number}].weight").number() for number in range(len(siblings))]
    total, mine = sum(weights, Fraction(0)), given.at(f"{node}.weight").number()
    above_path = around.rpartition(".children")[0]
    above = share_of(given.at(f"{above_path}.weight"), building) if above_path else building.gpus
    return None if above is None else above * mine / total if total else Fraction(0)


def parent_of(given: Given) -> str:
    """The name of the node of the hierarchy above; empty at its top."""
    around = given.path.rpartition("[")[0].rpartition(".children")[0]
    return given.at(f"{around}.name").text() if around else ""


def plain(value: Fraction) -> int | float:
    """As a manifest writes it."""
    return int(value) if value.denominator == 1 else round(float(value), 3)
