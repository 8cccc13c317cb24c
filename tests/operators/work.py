"""Work of the operators' kinds, small enough that all of it runs on the fleet lesson."""

from __future__ import annotations

from typing import Any

from kailab.model.objects import Object


def queue(name: str, parent: str = "") -> Object:
    bounds = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec: Object = {"resources": {"gpu": bounds, "cpu": bounds, "memory": bounds}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**spec, "parentQueue": parent} if parent else spec,
    }


QUEUES = [queue("org"), queue("team-a", "org")]


def template(gpus: int = 1, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    limits = {"nvidia.com/gpu": gpus} if gpus else {}
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "100m"}, "limits": limits}}
    tolerations = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    return {
        "metadata": {"labels": {"kai.scheduler/queue": "team-a"}, "annotations": annotations or {}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container], "tolerations": tolerations, **spec},
    }


def of(api_version: str, kind: str, spec: Object, **annotations: str) -> Object:
    labels = {"kai.scheduler/queue": "team-a"}
    metadata = {"name": "work", "namespace": "default", "labels": labels, "annotations": annotations}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def replicated(name: str, replicas: int = 1, parallelism: int = 1, gpus: int = 1, **more: Any) -> Object:
    job = {"parallelism": parallelism, "completions": parallelism, "template": template(gpus)}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


def job_set(*jobs: Object, notes: dict[str, str] | None = None, **spec: Any) -> tuple[str, list[Object]]:
    made = of("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": list(jobs), **spec}, **(notes or {}))
    return "jobset", [made]


def leader_worker_set(size: int, replicas: int = 2, leader: bool = False, **more: Any) -> tuple[str, list[Object]]:
    pods: Object = {"size": size, "workerTemplate": template(), **more.pop("pods", {})}
    if leader:
        pods["leaderTemplate"] = template(0)
    spec = {"replicas": replicas, "leaderWorkerTemplate": pods, **more}
    return "lws", [of("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)]


def training(kind: str, field: str, roles: dict[str, int], **spec: Any) -> tuple[str, list[Object]]:
    replicas = {role: {"replicas": count, "template": kubeflow_template(kind)} for role, count in roles.items()}
    return "training-operator", [of("kubeflow.org/v1", kind, {field: replicas, **spec})]


def kubeflow_template(kind: str) -> Object:
    """The operator finds its container by a name of its own."""
    names = {"TFJob": "tensorflow", "JAXJob": "jax", "PaddleJob": "paddle", "XGBoostJob": "xgboost"}
    made = template()
    made["spec"]["containers"][0]["name"] = names.get(kind, "pytorch")
    return made


def mpi(roles: dict[str, int], **spec: Any) -> tuple[str, list[Object]]:
    replicas = {role: {"replicas": count, "template": template()} for role, count in roles.items()}
    return "mpi-operator", [of("kubeflow.org/v2beta1", "MPIJob", {"mpiReplicaSpecs": replicas, **spec})]


def ray_spec(*groups: Object) -> Object:
    head = {"rayStartParams": {}, "template": template(0)}
    return {"headGroupSpec": head, "workerGroupSpecs": list(groups)}


def ray_group(name: str = "gpu", replicas: int = 2, **more: Any) -> Object:
    bounds = {"replicas": replicas, "minReplicas": 1, "maxReplicas": 4}
    return {"groupName": name, **bounds, "rayStartParams": {}, "template": template(), **more}


def ray(kind: str, **spec: Any) -> tuple[str, list[Object]]:
    return "kuberay", [of("ray.io/v1", kind, spec)]


def train_job(nodes: int, **trainer: Any) -> tuple[str, list[Object]]:
    node = replicated("node")
    node["template"]["metadata"] = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}}
    node["template"]["spec"]["template"]["spec"]["containers"][0]["name"] = "node"
    for count in ("parallelism", "completions"):
        del node["template"]["spec"][count]
    runtime = of(
        "trainer.kubeflow.org/v1alpha1",
        "TrainingRuntime",
        {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [node]}}},
    )
    runtime["metadata"]["name"] = "plain"
    runtime["metadata"]["labels"]["trainer.kubeflow.org/framework"] = "torch"
    reference = {"apiGroup": "trainer.kubeflow.org", "kind": "TrainingRuntime", "name": "plain"}
    spec = {"runtimeRef": reference, "trainer": {"numNodes": nodes, **trainer}}
    return "trainer", [runtime, of("trainer.kubeflow.org/v1alpha1", "TrainJob", spec)]


WORK: dict[str, tuple[str, list[Object]]] = {
    "jobset": job_set(replicated("driver", gpus=0), replicated("worker", 2, 2)),
    "jobset in order": job_set(
        replicated("driver"), replicated("worker", 2, 2), startupPolicy={"startupPolicyOrder": "InOrder"}
    ),
    "jobset that depends": job_set(
        replicated("driver"), replicated("worker", 2, dependsOn=[{"name": "driver", "status": "Ready"}])
    ),
    "jobset that is suspended": job_set(replicated("worker", 2, 2), suspend=True),
    "jobset of which one is enough": job_set(
        replicated("driver"), replicated("worker", 2), notes={"kai.scheduler/batch-min-member": "1"}
    ),
    "jobset with a coordinator": job_set(
        replicated("driver"), replicated("worker", 2), coordinator={"replicatedJob": "driver", "jobIndex": 0}
    ),
    "jobset of two groups": job_set(
        replicated("driver", groupName="one"), replicated("worker", 2, groupName="two"), replicated("more", 2)
    ),
    "lws": leader_worker_set(3),
    "lws with another leader": leader_worker_set(3, leader=True),
    "lws that waits for its leader": leader_worker_set(3, startupPolicy="LeaderReady"),
    "lws of leaders alone": leader_worker_set(1, 3),
    "lws in segments": leader_worker_set(4, 2, pods={"subGroupPolicy": {"subGroupSize": 2}}),
    "lws in segments beside the leader": leader_worker_set(
        5, 1, pods={"subGroupPolicy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}}
    ),
    "lws of nothing": leader_worker_set(3, 0),
    "trainjob": train_job(3),
    "trainjob with its own size": train_job(2, resourcesPerNode={"limits": {"nvidia.com/gpu": 2}}),
    "pytorchjob": training("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}),
    "pytorchjob of workers": training("PyTorchJob", "pytorchReplicaSpecs", {"Worker": 3}),
    "pytorchjob of which some are enough": training(
        "PyTorchJob",
        "pytorchReplicaSpecs",
        {"Master": 1, "Worker": 3},
        runPolicy={"schedulingPolicy": {"minAvailable": 2}},
    ),
    "pytorchjob that is suspended": training(
        "PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 3}, runPolicy={"suspend": True}
    ),
    "tfjob": training("TFJob", "tfReplicaSpecs", {"Chief": 1, "PS": 1, "Worker": 2}),
    "tfjob of workers": training("TFJob", "tfReplicaSpecs", {"PS": 1, "Worker": 2}),
    "xgboostjob": training("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
    "jaxjob": training("JAXJob", "jaxReplicaSpecs", {"Worker": 3}),
    "paddlejob": training("PaddleJob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
    "mpijob": mpi({"Launcher": 1, "Worker": 3}),
    "mpijob that waits for its workers": mpi(
        {"Launcher": 1, "Worker": 2}, launcherCreationPolicy="WaitForWorkersReady"
    ),
    "mpijob whose launcher works": mpi({"Launcher": 1, "Worker": 2}, runLauncherAsWorker=True),
    "mpijob that is suspended": mpi({"Launcher": 1, "Worker": 2}, runPolicy={"suspend": True}),
    "mpijob of which some are enough": mpi(
        {"Launcher": 1, "Worker": 3}, runPolicy={"schedulingPolicy": {"minAvailable": 2}}
    ),
    "raycluster": ray("RayCluster", **ray_spec(ray_group())),
    "raycluster of two groups": ray("RayCluster", **ray_spec(ray_group(), ray_group("more", 1))),
    "raycluster of several hosts": ray("RayCluster", **ray_spec(ray_group(numOfHosts=2))),
    "raycluster of a head": ray("RayCluster", **ray_spec()),
    "rayjob": ray("RayJob", entrypoint="python work.py", rayClusterSpec=ray_spec(ray_group())),
    "rayservice": ray("RayService", serveConfigV2="applications: []", rayClusterConfig=ray_spec(ray_group())),
}
"""By a name: whose it is, and its manifests."""
