"""Random fleets and queue trees: small, so that workloads compete; rare features are drawn rarely."""

from __future__ import annotations

from random import Random

from checks.fuzzing.walk_objects import queue
from kailab.cluster.protocol import Object
from kailab.model import labels

MODELS = ("A100", "H100", "L40S")
RACK = "lab/rack"
TOPOLOGY = "racks"
RESERVED = "lab/reserved"
POOL = "workers"


def fleet(chance: Random) -> Object:
    """One to three pools of nodes; some with little CPU, memory or pod slots, tainted, in another node pool, or split
    by MIG.
    """
    racks = chance.random() < 0.4
    pools = [_pool(chance, model, racks) for model in chance.sample(MODELS, chance.choice((1, 1, 2, 2, 3)))]
    manifest: Object = {"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "random", "pools": pools}
    if racks:
        manifest["topologies"] = [{"name": TOPOLOGY, "levels": [RACK, labels.HOSTNAME]}]
    return manifest


def _pool(chance: Random, model: str, racks: bool) -> Object:
    gpus = chance.choice((8, 8, 4, 4, 2))
    pool: Object = {
        "name": model.lower(),
        "count": chance.choice((1, 2, 2, 3, 4)),
        "gpus": gpus,
        "gpuModel": model,
        "cpu": 64,
        "memory": "512Gi",
        "taints": [],
    }
    if chance.random() < 0.9:
        pool["gpuMemory"] = "48Gi" if model == "L40S" else "80Gi"
    if chance.random() < 0.1:
        pool["cpu"] = chance.choice((2, 6))
    if chance.random() < 0.1:
        pool["memory"] = chance.choice(("2Gi", "6Gi"))
    if chance.random() < 0.06:
        pool["pods"] = 3
    if chance.random() < 0.12:
        pool["taints"] = [{"key": RESERVED, "value": "yes", "effect": "NoSchedule"}]
    if chance.random() < 0.05:
        pool["labels"] = {labels.NODE_POOL: POOL}
    if chance.random() < 0.05:
        pool["mig"] = {"strategy": "mixed", "profiles": {"1g.10gb": 4, "3g.40gb": 2}}
    if racks:
        pool["layout"] = [{"label": RACK, "nodes": 2, "name": f"{model.lower()}-rack-{{index}}"}]
    return pool


def queue_tree(chance: Random) -> tuple[list[Object], list[str], list[str]]:
    """The queues, the leaves for workloads, and the queues with children."""
    depth = chance.choice((1, 2, 2, 3))
    tops = [""] if depth == 1 else ["org"]
    queues = [] if depth == 1 else [_random_queue(chance, "org", "", roomy=True)]
    if depth == 3:
        queues += [_random_queue(chance, name, "org", roomy=chance.random() < 0.6) for name in ("da", "db")]
        tops = ["da", "db"]
    leaves: list[str] = []
    for number in range(chance.choice((2, 2, 3, 4))):
        leaves.append(f"t{number + 1}")
        queues.append(_random_queue(chance, leaves[-1], tops[number % len(tops)]))
    inner = [name for name in ("org", "da", "db") if any(queue["spec"].get("parentQueue") == name for queue in queues)]
    return queues, leaves, inner


def odd_queues(chance: Random) -> list[Object]:
    """Queues that can run nothing: without resources, or below a missing parent."""
    bare = queue("bare", "", 0, 0, 1)
    spec = bare["spec"]
    if chance.random() < 0.5:
        del spec["resources"]
    else:
        del spec["resources"][chance.choice(("gpu", "cpu", "memory"))]
    return [bare, queue("orphan", "nowhere", 4, -1, 1)]


def _random_queue(chance: Random, name: str, parent: str, roomy: bool = False) -> Object:
    quota = chance.choice((8, 16, 24, -1)) if roomy else chance.choice((0, 1, 2, 4, 4, 8, -1))
    limit = chance.choice((-1, -1, -1, -1, 12)) if roomy else chance.choice((-1, -1, -1, -1, 2, 4, 8))
    manifest = queue(name, parent, quota, limit, chance.choice((1, 1, 1, 0, 2, 3)))
    spec = manifest["spec"]
    if chance.random() < 0.15:
        spec["priority"] = 200
    for field in ("reclaimMinRuntime", "preemptMinRuntime"):
        if chance.random() < 0.15:
            spec[field] = chance.choice(("2m", "10m"))
    if chance.random() < 0.1:
        spec["resources"]["cpu"] = {"quota": 3000, "limit": chance.choice((-1, 4000)), "overQuotaWeight": 1}
    if chance.random() < 0.05:
        spec["resources"]["memory"] = {"quota": 4000, "limit": chance.choice((-1, 6000)), "overQuotaWeight": 1}
    return manifest
