"""The case of a seed: a small fleet, queues, and work that comes, goes and competes, each piece in a step of its own.

What hangs on chance or on the clock of a real cluster is not drawn: run times and delays that end while a scenario runs, nor work that
comes within the same second, which a real cluster would order by its random uids.
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
"""Minimum runtimes: longer than any scenario takes, however busy the machine."""
SCALED = ("Deployment", "StatefulSet")
GONE_WHEN_EVICTED = ("Pod", "PodGroup")
"""Not to be deleted: they may be gone by then."""
SAME_FLEET = 5
"""So many seeds in a row have one fleet: nodes that stay from lab to lab cost nothing."""


def seeded(seed: int) -> HuntSample:
    fleet = _fleet(Random(f"fleet {seed // SAME_FLEET}"))
    steps = [deepcopy(step) for step in _steps(Random(f"work {seed}"), fleet)]
    # YAML would write what is shared as anchors.
    return HuntSample(f"seed-{seed}", seed, deepcopy(fleet), tuple(steps))


def _fleet(chance: Random) -> Object:
    """So small that little work fills it."""
    fleet = random_clusters.fleet(chance)
    fleet["pools"] = fleet["pools"][: chance.choice((1, 1, 2))]
    for pool in fleet["pools"]:
        pool["count"] = min(pool["count"], 2)
        # A KAI beside a plane is told of no node pools.
        pool.pop("labels", None)
    return fleet


def _steps(chance: Random, fleet: Object) -> Iterator[Step]:
    queues, leaves, _ = random_clusters.queue_tree(chance)
    for queue in queues:
        for field in ("reclaimMinRuntime", "preemptMinRuntime"):
            if field in queue["spec"]:
                queue["spec"][field] = FOR_EVER
    yield {"apply": queues}
    there: list[Object] = []
    for number in range(chance.choice((4, 5, 6))):
        made = _work(f"w{number}", chance.choice(leaves), chance, fleet)
        yield {"apply": made}
        if made[0]["kind"] not in GONE_WHEN_EVICTED:
            there.append(made[0])
        if there and chance.random() < 0.25:
            yield _changed(there, chance)


def _work(name: str, queue: str, chance: Random, fleet: Object) -> list[Object]:
    if chance.random() < 0.15:
        return gang_of_pods(name, queue, chance)
    made = next(one for one in _drawn(name, queue, chance) if _asks(one) or chance.random() < 0.2)
    for feature, odds in (
        (_kept, 0.15),
        (_model, 0.08),
        (_apart, 0.05),
        (_domain, 0.3 if "topologies" in fleet else 0),
    ):
        if chance.random() < odds:
            feature(made, chance)
    return [made]


def _drawn(name: str, queue: str, chance: Random) -> Iterator[Object]:
    while True:
        yield chance.choice(WORK)(name, queue, chance)


def _asks(work: Object) -> bool:
    """For GPUs, which is what most is decided about."""
    template = template_of(work)
    limits = template["spec"]["containers"][0]["resources"].get("limits") or {}
    return labels.GPU_RESOURCE in limits or any(key.startswith("gpu-") for key in template["metadata"]["annotations"])


def _changed(there: list[Object], chance: Random) -> Step:
    """Something that came goes, or has another size."""
    scalable = [one for one in there if one["kind"] in SCALED]
    if scalable and chance.random() < 0.5:
        one = chance.choice(scalable)
        return {"scale": {"kind": one["kind"], "name": one["metadata"]["name"], "replicas": chance.randrange(8)}}
    one = there.pop(chance.randrange(len(there)))
    return {"delete": {"kind": one["kind"], "name": one["metadata"]["name"]}}


def _kept(work: Object, chance: Random) -> None:
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
