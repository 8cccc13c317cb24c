"""The sample of a seed: a small fleet, queues, and workloads that come, go and compete, each in its own step.

Features that depend on chance or on a real cluster's clock are not drawn: run times and delays that end during a
scenario, and several workloads in one second, which a real cluster would order by random uids.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random

from checks.explaining import random_clusters
from checks.explaining.misconfigurations import set_annotation, set_label, template_of
from checks.explaining.random_situation import gang_of_pods
from checks.fuzzing.walk_objects import WORK
from checks.hunting.sample import HuntSample, Step
from kailab.cluster.protocol import Object
from kailab.model import labels

FOR_EVER = "24h"
"""Minimum runtimes: longer than any scenario, even on a busy machine."""
SCALED = ("Deployment", "StatefulSet")
GONE_WHEN_EVICTED = ("Pod", "PodGroup")
"""Kinds that are not deleted, because they may be evicted by then."""
SAME_FLEET = 5
"""The number of consecutive seeds that share a fleet, because nodes that stay from lab to lab cost nothing."""


def seeded(seed: int) -> HuntSample:
    """The sample of a seed."""
    fleet = _fleet(Random(f"fleet {seed // SAME_FLEET}"))
    steps = [deepcopy(step) for step in _steps(Random(f"work {seed}"), fleet)]
    # YAML would write shared objects as anchors.
    return HuntSample(f"seed-{seed}", seed, deepcopy(fleet), tuple(steps))


def _fleet(chance: Random) -> Object:
    """A fleet so small that little work fills it."""
    fleet = random_clusters.fleet(chance)
    fleet["pools"] = fleet["pools"][: chance.choice((1, 1, 2))]
    for pool in fleet["pools"]:
        pool["count"] = min(pool["count"], 2)
        # A KAI on a control plane has no node pools.
        pool.pop("labels", None)
    return fleet


def _steps(chance: Random, fleet: Object) -> Iterator[Step]:
    queues, leaves, _ = random_clusters.queue_tree(chance)
    for queue in queues:
        for field in ("reclaimMinRuntime", "preemptMinRuntime"):
            if field in queue["spec"]:
                queue["spec"][field] = FOR_EVER
    yield {"apply": queues}
    applied: list[Object] = []
    for number in range(chance.choice((4, 5, 6))):
        manifests = _work(f"w{number}", chance.choice(leaves), chance, fleet)
        yield {"apply": manifests}
        if manifests[0]["kind"] not in GONE_WHEN_EVICTED:
            applied.append(manifests[0])
        if applied and chance.random() < 0.25:
            yield _random_change(applied, chance)


def _work(name: str, queue: str, chance: Random, fleet: Object) -> list[Object]:
    if chance.random() < 0.15:
        return gang_of_pods(name, queue, chance)
    made = next(
        manifest
        for manifest in _random_manifests(name, queue, chance)
        if _wants_gpus(manifest) or chance.random() < 0.2
    )
    for feature, odds in (
        (_set_preemptibility, 0.15),
        (_model, 0.08),
        (_apart, 0.05),
        (_domain, 0.3 if "topologies" in fleet else 0),
    ):
        if chance.random() < odds:
            feature(made, chance)
    return [made]


def _random_manifests(name: str, queue: str, chance: Random) -> Iterator[Object]:
    while True:
        yield chance.choice(WORK)(name, queue, chance)


def _wants_gpus(work: Object) -> bool:
    """True if it requests GPUs, which most decisions are about."""
    template = template_of(work)
    limits = template["spec"]["containers"][0]["resources"].get("limits") or {}
    return labels.GPU_RESOURCE in limits or any(key.startswith("gpu-") for key in template["metadata"]["annotations"])


def _random_change(applied: list[Object], chance: Random) -> Step:
    """Delete or scale an applied workload."""
    scalable = [manifest for manifest in applied if manifest["kind"] in SCALED]
    if scalable and chance.random() < 0.5:
        manifest = chance.choice(scalable)
        return {
            "scale": {"kind": manifest["kind"], "name": manifest["metadata"]["name"], "replicas": chance.randrange(8)}
        }
    manifest = applied.pop(chance.randrange(len(applied)))
    return {"delete": {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}}


def _set_preemptibility(work: Object, chance: Random) -> None:
    set_label(work, labels.PREEMPTIBILITY, chance.choice(("non-preemptible", "preemptible")))


def _model(work: Object, chance: Random) -> None:
    template_of(work)["spec"]["nodeSelector"] = {labels.GPU_PRODUCT: chance.choice(random_clusters.MODELS)}


def _apart(work: Object, chance: Random) -> None:
    term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": work["metadata"]["name"]}}}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    template_of(work)["spec"]["affinity"] = {"podAntiAffinity": apart}


def _domain(work: Object, chance: Random) -> None:
    set_annotation(work, labels.TOPOLOGY, random_clusters.TOPOLOGY)
    level = chance.choice((random_clusters.RACK, labels.HOSTNAME))
    set_annotation(work, chance.choice((labels.TOPOLOGY_REQUIRED, labels.TOPOLOGY_PREFERRED)), level)
