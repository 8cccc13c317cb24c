"""The cluster of a platform team, drawn from a seed: nodes of four GPU models in racks and blocks, a queue tree of three
levels, and waves of work of all kinds, with the mistakes and the events of a working day.

Unlike ``random_situation``, several workloads wait in one queue, gangs stand before small work, and quotas, nodes and
claims change under running work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random
from typing import Any

from checks.explaining.pod_templates import pod_templates
from checks.explaining.situation import Situation, Step
from checks.fuzzing.walk_objects import queue
from kailab.cluster.protocol import Object
from kailab.model import labels
from kailab.model.kinds import api_version_of

H100, A100, L40S, H200 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB", "NVIDIA-L40S", "NVIDIA-H200"
BLOCK, RACK, TOPOLOGY = "lab/block", "lab/rack", "dc"
RESERVED = "lab/reserved"
RDMA, FPGA = "rdma/hca", "example.com/fpga"


@dataclass(frozen=True)
class ClusterSize:
    """The bounds of a draw. ``judged``: how many of the waiting workloads are asked about at most."""

    nodes: tuple[int, int]
    workloads: tuple[int, int]
    judged: int


SIZES: Mapping[str, ClusterSize] = {
    "platform-small": ClusterSize((4, 9), (8, 14), 3),
    "platform": ClusterSize((20, 60), (24, 60), 3),
    "platform-large": ClusterSize((50, 300), (60, 240), 2),
}
"""The areas, by their names."""


def platform_situation(seed: int, area: str = "platform-small") -> Situation:
    """The situation of a seed in one of ``SIZES``."""
    drawing = _Drawing(Random(f"{area} {seed}"), SIZES[area])
    fleet, steps = drawing.fleet(), tuple(drawing.steps())
    # YAML would write shared objects as anchors, and changing one object must not change another.
    return Situation(f"{area} {seed}", deepcopy(fleet), tuple(deepcopy(step) for step in steps))


@dataclass
class _Drawing:
    chance: Random
    size: ClusterSize
    pools: list[Object] = field(default_factory=list)
    leaves: list[str] = field(default_factory=list)
    departments: list[str] = field(default_factory=list)
    names: list[tuple[str, str]] = field(default_factory=list)
    made: int = 0

    # Fleet

    def fleet(self) -> Object:
        chance = self.chance
        left = chance.randint(*self.size.nodes)
        models = [H100, *chance.sample((A100, L40S, H200), chance.choice((1, 2, 3)))]
        rack = chance.choice((2, 4, 4, 8))
        for place, model in enumerate(models):
            count = max(1, left // 2) if place < len(models) - 1 else max(1, left)
            left -= count
            self.pools.append(self._pool(model, count, rack))
        if chance.random() < 0.5:
            self.pools.append({"name": "cpu", "count": 2, "cpu": chance.choice((16, 64)), "memory": "256Gi"})
        return {
            "apiVersion": "kailab.dev/v1",
            "kind": "Fleet",
            "name": "platform",
            "pools": self.pools,
            "topologies": [{"name": TOPOLOGY, "levels": [BLOCK, RACK, labels.HOSTNAME]}],
            "priorityClasses": [{"name": "notebook", "value": 60}],
        }

    def _pool(self, model: str, count: int, rack: int) -> Object:
        chance = self.chance
        name = model.split("-")[1].lower()
        gpus = 4 if model == L40S else chance.choice((8, 8, 8, 4))
        pool: Object = {
            "name": name,
            "count": count,
            "gpus": gpus,
            "gpuModel": model,
            "gpuMemory": {L40S: "48Gi", H200: "141Gi"}.get(model, "80Gi"),
            "cpu": chance.choice((192, 128, 64, 32)),
            "memory": chance.choice(("2000Gi", "1000Gi", "512Gi", "128Gi")),
            "layout": [
                {"label": BLOCK, "nodes": rack * chance.choice((2, 2, 3)), "name": f"{name}-block-{{index}}"},
                {"label": RACK, "nodes": rack, "name": f"{name}-rack-{{index}}"},
            ],
        }
        resources = {}
        if chance.random() < 0.5:
            resources[RDMA] = chance.choice((2, 4, 8))
        if chance.random() < 0.3:
            resources[FPGA] = chance.choice((1, 2))
        if resources:
            pool["resources"] = resources
        if chance.random() < 0.12:
            pool["taints"] = [{"key": RESERVED, "value": "yes", "effect": "NoSchedule"}]
        if chance.random() < 0.08:
            pool["mig"] = {"strategy": "mixed", "profiles": {"1g.10gb": 4, "3g.40gb": 2}}
        if chance.random() < 0.05:
            pool["pods"] = chance.choice((6, 12))
        return pool

    # Queues

    def _queues(self) -> list[Object]:
        chance = self.chance
        gpus = sum(pool.get("gpus", 0) * pool["count"] for pool in self.pools)
        self.departments = ["research", "product", "platform"][: chance.choice((2, 3))]
        queues = [queue("company", "", -1, -1, 1)]
        for department in self.departments:
            part = chance.choice((0, gpus // 4, gpus // 3, gpus // 2, -1))
            limit = chance.choice((-1, -1, -1, gpus // 2))
            queues.append(self._varied(queue(department, "company", part, limit, chance.choice((1, 1, 2)))))
            for number in range(chance.choice((1, 2, 2, 3))):
                leaf = f"{department[:2]}-team-{'abc'[number]}"
                self.leaves.append(leaf)
                quota = chance.choice((0, 2, 4, 8, max(0, part) // 2, gpus // 8, gpus // 6, -1))
                limit = chance.choice((-1, -1, -1, -1, 4, 8, 16))
                queues.append(self._varied(queue(leaf, department, quota, limit, chance.choice((1, 1, 1, 2, 0)))))
        if chance.random() < 0.2:
            bare = queue("bare", self.departments[0], 0, 0, 1)
            del bare["spec"]["resources"][chance.choice(("gpu", "cpu", "memory"))]
            queues += [bare, queue("orphan", "nowhere", 4, -1, 1)]
        return queues

    def _varied(self, made: Object) -> Object:
        chance, spec = self.chance, made["spec"]
        if chance.random() < 0.1:
            spec["priority"] = 200
        for runtime in ("reclaimMinRuntime", "preemptMinRuntime"):
            if chance.random() < 0.12:
                spec[runtime] = chance.choice(("2m", "15m", "2h"))
        if chance.random() < 0.08:
            spec["resources"]["cpu"] = {
                "quota": chance.choice((16_000, 64_000)), "limit": chance.choice((-1, 96_000)), "overQuotaWeight": 1,
            }  # fmt: skip
        return made

    # Steps

    def steps(self) -> Iterator[Step]:
        chance = self.chance
        yield {"apply": self._queues()}
        total = chance.randint(*self.size.workloads)
        waves = chance.choice((2, 3, 4))
        for wave in range(waves):
            number = total // waves
            made: list[Object] = []
            for _ in range(number):
                made += self._workload(f"w{self.made}")
                self.made += 1
            if made:
                yield {"apply": made}
            if wave < waves - 1:
                yield {"advance": chance.choice((5, 60, 600, 3600))}
                yield from self._event()
        yield from self._event()

    def _event(self) -> Iterator[Step]:
        """What happens between two waves: nodes go, quotas are lowered, work is deleted."""
        chance = self.chance
        if chance.random() < 0.3:
            for _ in range(chance.choice((1, 2))):
                yield {"patch": {"kind": "Node", "name": self._node(), "patch": {"spec": {"unschedulable": True}}}}
        if chance.random() < 0.15:
            ready = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady"}]}}
            yield {"patch": {"kind": "Node", "name": self._node(), "subresource": "status", "patch": ready}}
        if chance.random() < 0.3:
            amounts = chance.choice(({"quota": 0}, {"quota": 2}, {"limit": 2}, {"overQuotaWeight": 0}))
            patch = {"spec": {"resources": {"gpu": amounts}}}
            yield {"patch": {"kind": "Queue", "name": chance.choice(self.leaves), "patch": patch}}
        if chance.random() < 0.2 and len(self.names) > 4:
            kind, name = self.names[chance.randrange(len(self.names))]
            if kind not in ("Pod", "PodGroup"):
                self.names.remove((kind, name))
                yield {"delete": {"kind": kind, "name": name}}
        if chance.random() < 0.12:
            hard = {"requests.nvidia.com/gpu": str(chance.choice((4, 16))), "pods": "500"}
            spec = {"hard": hard}
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "gpus"}, "spec": spec}
            yield {"apply": [quota]}

    def _node(self) -> str:
        pool = self.chance.choice(self.pools)
        return f"{pool['name']}-{self.chance.randrange(pool['count'])}"

    # Work

    def _workload(self, name: str) -> list[Object]:
        chance = self.chance
        # Few teams ask for most, so that several workloads wait in one queue.
        leaf = self.leaves[min(int(chance.expovariate(0.7)), len(self.leaves) - 1)]
        ask = self._ask(name, leaf)
        objects: list[Object] = chance.choice(_KINDS)(name, ask, chance, leaf)
        for manifest in objects:
            _label_all(manifest, name)
        for _ in range(chance.choice((0, 0, 0, 0, 0, 0, 1, 1, 1, 2))):
            self._mistake(objects, name)
        self.names.append((objects[0]["kind"], name))
        return objects

    def _ask(self, name: str, leaf: str) -> Object:
        """The pod template of a workload."""
        chance = self.chance
        marks = {"app": name, labels.QUEUE: leaf}
        if chance.random() < 0.6:
            marks[labels.PRIORITY_CLASS] = chance.choice(("train", "train", "build", "inference", "notebook"))
        notes: dict[str, str] = {}
        requests: dict[str, Any] = {
            "cpu": chance.choice(("1", "4", "8", "16")),
            "memory": chance.choice(("4Gi", "32Gi", "96Gi")),
        }
        limits: dict[str, Any] = {}
        drawn = chance.random()
        if drawn < 0.70:
            limits[labels.GPU_RESOURCE] = chance.choice((1, 1, 2, 4, 4, 8, 8))
            if chance.random() < 0.12:
                limits[RDMA] = chance.choice((1, 2, 4))
            if chance.random() < 0.06:
                limits[FPGA] = 1
        elif drawn < 0.80:
            notes["gpu-fraction"] = chance.choice(("0.25", "0.5", "0.75"))
        elif drawn < 0.87:
            notes["gpu-memory"] = chance.choice(("8000", "30000", "60000", "100000"))
        elif drawn < 0.91:
            limits[labels.MIG_PREFIX + chance.choice(("1g.10gb", "3g.40gb", "7g.80gb"))] = 1
        else:
            requests["cpu"] = chance.choice(("8", "24", "48"))
        spec: Object = {
            "schedulerName": labels.SCHEDULER_NAME,
            "containers": [{"name": "main", "image": "registry.local/train:1", "resources": {"requests": requests, **({"limits": limits} if limits else {})}}],
        }  # fmt: skip
        gpu_pools = [pool for pool in self.pools if pool.get("gpus")]
        if chance.random() < 0.45:
            spec["nodeSelector"] = {labels.GPU_PRODUCT: chance.choice(gpu_pools)["gpuModel"]}
        if chance.random() < 0.5:
            spec["tolerations"] = [{"key": RESERVED, "operator": "Exists"}]
        if chance.random() < 0.25:
            notes[labels.RUN_SECONDS] = str(chance.choice((300, 3000, 20_000)))
        return {"metadata": {"labels": marks, "annotations": notes}, "spec": spec}

    def _mistake(self, objects: list[Object], name: str) -> None:
        chance = self.chance
        drawn = chance.choice(_MISTAKES)
        pods = [pod for manifest in objects for pod in pod_templates(manifest)]
        if drawn == "queue":
            named = chance.choice((*(f"{leaf}a" for leaf in self.leaves[:2]), "research", "bare", "orphan", None))
            for manifest in objects:
                for holder in (manifest, *pod_templates(manifest)):
                    marks = holder["metadata"].setdefault("labels", {})
                    marks.pop(labels.QUEUE, None)
                    if named:
                        marks[labels.QUEUE] = named
                if manifest["kind"] == "PodGroup":
                    manifest["spec"]["queue"] = named or ""
        elif drawn == "model":
            wrong = chance.choice(("H100", "NVIDIA-A100-SXM4-40GB", "nvidia-l40s", "NVIDIA-B200"))
            for pod in pods:
                pod["spec"]["nodeSelector"] = {labels.GPU_PRODUCT: wrong}
        elif drawn == "scheduler":
            scheduler = chance.choice(("default-scheduler", "kai-schedulr"))
            for pod in pods:
                pod["spec"]["schedulerName"] = scheduler
        elif drawn == "gate":
            for pod in pods:
                pod["spec"]["schedulingGates"] = [{"name": "lab/budget"}]
        elif drawn == "claim":
            for pod in pods:
                pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "corpus"}}]
        elif drawn == "preemptibility":
            for manifest in objects:
                for holder in (manifest, *pod_templates(manifest)):
                    holder["metadata"].setdefault("labels", {})[labels.PREEMPTIBILITY] = "non-preemptible"
        elif drawn == "delay":
            _annotate(objects, {labels.PREEMPTION_DELAY: chance.choice(("90s", "20m"))})
        elif drawn == "topology":
            level = chance.choice((BLOCK, RACK, RACK, labels.HOSTNAME, "lab/row"))
            _annotate(
                objects, {labels.TOPOLOGY: chance.choice((TOPOLOGY,) * 5 + ("dcc",)), labels.TOPOLOGY_REQUIRED: level}
            )
        elif drawn == "suspended":
            _suspend(objects[0])
        elif drawn == "apart":
            term = {"topologyKey": labels.HOSTNAME, "labelSelector": {"matchLabels": {"app": name}}}
            for pod in pods:
                required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
                pod["spec"]["affinity"] = {"podAntiAffinity": required}
        elif drawn == "huge":
            much = chance.choice(({"cpu": "300"}, {"memory": "3Ti"}, {"cpu": "60"}, {"memory": "400Gi"}))
            for pod in pods:
                pod["spec"]["containers"][0]["resources"]["requests"] |= much
        elif drawn == "priority" and objects[0]["kind"] not in ("Pod", "PodGroup"):
            for pod in pods:
                pod["spec"]["priorityClassName"] = "research-high"


_MISTAKES = (
    "queue", "queue", "model", "model", "scheduler", "gate", "claim", "preemptibility", "preemptibility", "delay",
    "topology", "topology", "topology", "suspended", "apart", "huge", "huge", "priority",
)  # fmt: skip


def _annotate(objects: Sequence[Object], notes: Mapping[str, str]) -> None:
    for manifest in objects:
        for holder in (manifest, *pod_templates(manifest)):
            holder["metadata"].setdefault("annotations", {}).update(notes)


def _suspend(manifest: Object) -> None:
    if manifest["kind"] in ("Job", "JobSet", "RayCluster"):
        manifest["spec"]["suspend"] = True
    elif manifest["kind"] == "PyTorchJob":
        manifest["spec"]["runPolicy"] = {"suspend": True}


def _label_all(manifest: Object, name: str) -> None:
    """Mark the workload and each of its pods as ``app: name``."""
    for holder in (manifest, *pod_templates(manifest)):
        holder["metadata"].setdefault("labels", {})["app"] = name


def _object(kind: str, name: str, ask: Object, spec: Object, api: str = "") -> Object:
    marks, notes = ask["metadata"]["labels"], ask["metadata"]["annotations"]
    metadata = {"name": name, "labels": dict(marks), "annotations": dict(notes)}
    return {"apiVersion": api or api_version_of(kind), "kind": kind, "metadata": metadata, "spec": spec}


def _restarting(ask: Object, policy: str) -> Object:
    return {"metadata": deepcopy(ask["metadata"]), "spec": {**deepcopy(ask["spec"]), "restartPolicy": policy}}


def _job(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    pods = chance.choice((1, 1, 2, 4, 8))
    backoff = chance.choice((0, 3, 100))
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": backoff, "template": _restarting(ask, "Never")}
    made = _object("Job", name, ask, spec)
    if chance.random() < 0.4 and pods > 1:
        least = pods + chance.choice((0, 0, 0, 0, 1))
        made["metadata"]["annotations"][labels.BATCH_MIN_MEMBER] = str(least)
    return [made]


def _job_set(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    pods = chance.choice((1, 2, 4))
    template = {
        "spec": {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": _restarting(ask, "Never")}
    }
    jobs = [{"name": "workers", "replicas": chance.choice((1, 2)), "template": template}]
    return [_object("JobSet", name, ask, {"replicatedJobs": jobs})]


def _pytorch_job(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    def role(replicas: int) -> Object:
        template = deepcopy(ask)
        template["spec"]["containers"][0]["name"] = "pytorch"
        return {"replicas": replicas, "restartPolicy": "OnFailure", "template": template}

    workers = chance.choice((1, 3, 3, 7, 15))
    return [_object("PyTorchJob", name, ask, {"pytorchReplicaSpecs": {"Master": role(1), "Worker": role(workers)}})]


def _ray_cluster(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    head = deepcopy(ask)
    head["metadata"]["annotations"] = {}
    head["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2", "memory": "8Gi"}}
    head["spec"].pop("nodeSelector", None)
    workers = chance.choice((1, 2, 4))
    group = {"groupName": "workers", "replicas": workers, "minReplicas": workers, "maxReplicas": workers, "rayStartParams": {}, "template": deepcopy(ask)}  # fmt: skip
    spec = {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [group]}
    return [_object("RayCluster", name, ask, spec)]


def _leader_worker_set(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    spec = {
        "replicas": chance.choice((1, 2)),
        "leaderWorkerTemplate": {"size": chance.choice((2, 3)), "workerTemplate": deepcopy(ask)},
    }
    return [_object("LeaderWorkerSet", name, ask, spec)]


def _deployment(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    spec = {"replicas": chance.choice((1, 2, 4)), "selector": {"matchLabels": {"app": name}}, "template": deepcopy(ask)}
    return [_object("Deployment", name, ask, spec)]


def _stateful_set(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    spec = {
        "replicas": chance.choice((1, 2)),
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": deepcopy(ask),
    }
    return [_object("StatefulSet", name, ask, spec)]


def _pod(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **deepcopy(ask["metadata"])},
            "spec": deepcopy(ask["spec"]),
        }
    ]


def _pod_group(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    """A PodGroup and its pods, as users write them who have no operator; sometimes a pod is missing."""
    least = chance.choice((1, 2, 4))
    count = max(1, least + chance.choice((0, 0, 0, 1, -1)))
    spec = {"queue": leaf, "minMember": least, "priorityClassName": chance.choice(("train", "build"))}
    group = {"apiVersion": api_version_of("PodGroup"), "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    members = [_pod(f"{name}-{number}", ask, chance, leaf)[0] for number in range(count)]
    for member in members:
        member["metadata"]["annotations"][labels.POD_GROUP] = name
    return [group, *members]


def _cron_job(name: str, ask: Object, chance: Random, leaf: str) -> list[Object]:
    template = _restarting(ask, "Never")
    template["metadata"]["annotations"][labels.RUN_SECONDS] = "900"
    job = {"spec": {"parallelism": 1, "completions": 1, "template": template}}
    schedule = chance.choice(("0 3 * * *", "30 12 * * 1"))
    return [_object("CronJob", name, ask, {"schedule": schedule, "concurrencyPolicy": "Forbid", "jobTemplate": job})]


_KINDS = (
    _job, _job, _job, _job, _job_set, _pytorch_job, _pytorch_job, _pytorch_job, _ray_cluster, _leader_worker_set,
    _deployment, _deployment, _stateful_set, _pod, _pod_group, _cron_job,
)  # fmt: skip
