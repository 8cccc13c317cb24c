"""The shapes of the operators' kinds: what kailab reads of JobSets, training jobs, Ray, Spark and the rest.

Each stands here once, as the definition (CRD) of its kind has it; what a pod template holds is Kubernetes' own. A field is
required where nothing could be made of the object without it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from kailab.model.validation.core import fields_of, shape
from kailab.model.validation.shapes import (
    COUNT,
    FLAG,
    INT32,
    MAPPING,
    PODS,
    TEXT,
    Check,
    both,
    filled,
    int_or_text,
    items,
    label_names,
    memory_text,
    named,
    one_of,
    quantity,
    record,
    table,
    whole,
)

_TEXTS = table(TEXT)
_RUN_POLICY: dict[str, Check] = {
    "suspend": FLAG,
    "cleanPodPolicy": one_of("", "All", "Running", "None"),
    "backoffLimit": COUNT,
    "activeDeadlineSeconds": COUNT,
    "ttlSecondsAfterFinished": COUNT,
    "schedulingPolicy": record(
        {"minAvailable": INT32, "queue": TEXT, "priorityClass": TEXT, "scheduleTimeoutSeconds": INT32}
    ),
}


def of_kind(kind: str) -> Check | None:
    """The check of a kind (by its kind key); None for kinds that are not an operator's."""
    make = _KINDS.get(kind)
    return _made(make) if make is not None else None


@cache
def _made(make: Callable[[], Check]) -> Check:
    return make()


def _object(spec: Check, *, needed: bool = True) -> Check:
    return record({"spec": spec}, ("spec",) if needed else ())


def _template() -> Check:
    return shape("V1PodTemplateSpec")


# --- JobSet, TrainJob -------------------------------------------------------------------------------------------------


def _job_set_spec() -> Check:
    replicated = record(
        {
            "name": filled(TEXT),
            "replicas": PODS,
            "template": shape("V1JobTemplateSpec"),
            "dependsOn": items(record({"name": TEXT, "status": one_of("Ready", "Complete")}, ("name", "status"))),
        },
        ("name", "template"),
    )
    return record(
        {
            "replicatedJobs": named(replicated),
            "suspend": FLAG,
            "startupPolicy": record({"startupPolicyOrder": TEXT}),
            "successPolicy": record({"operator": TEXT, "targetReplicatedJobs": items(TEXT)}),
            "failurePolicy": record({"maxRestarts": COUNT}),
            "network": MAPPING,
            "ttlSecondsAfterFinished": COUNT,
        }
    )


def _job_set() -> Check:
    return _object(_job_set_spec())


def _training_runtime() -> Check:
    template = record({"metadata": MAPPING, "spec": _job_set_spec()})
    return _object(record({"mlPolicy": record({"numNodes": PODS}), "template": template}))


def _train_job() -> Check:
    trainer = {
        "numNodes": PODS,
        "image": TEXT,
        "command": items(TEXT),
        "args": items(TEXT),
        "env": shape("[V1EnvVar]"),
        "resourcesPerNode": shape("V1ResourceRequirements"),
    }
    reference = {"apiGroup": TEXT, "kind": TEXT, "name": TEXT}
    return _object(
        record(
            {
                "runtimeRef": record(reference),
                "trainer": record(trainer),
                "labels": _TEXTS,
                "annotations": _TEXTS,
                "suspend": FLAG,
            }
        )
    )


# --- training jobs ----------------------------------------------------------------------------------------------------


def _replica_specs() -> Check:
    replicas = record({"replicas": PODS, "restartPolicy": TEXT, "template": _template()}, ("template",))
    return both(label_names, table(replicas))


def _training(field: str) -> Callable[[], Check]:
    def make() -> Check:
        return _object(
            record(
                {
                    field: _replica_specs(),
                    "runPolicy": record(_RUN_POLICY),
                    "elasticPolicy": record({"minReplicas": PODS, "maxReplicas": PODS, "maxRestarts": INT32}),
                    "launcherCreationPolicy": TEXT,
                    "slotsPerWorker": COUNT,
                },
                (field,),
            )
        )

    return make


# --- LeaderWorkerSet --------------------------------------------------------------------------------------------------


def _leader_worker_set() -> Check:
    template = record(
        {
            "size": PODS,
            "leaderTemplate": _template(),
            "workerTemplate": _template(),
            "restartPolicy": TEXT,
            "subGroupPolicy": record({"subGroupSize": COUNT, "subGroupPolicyType": TEXT}),
        },
        ("workerTemplate",),
    )
    spec = {"replicas": PODS, "startupPolicy": TEXT, "leaderWorkerTemplate": template, "rolloutStrategy": MAPPING}
    return _object(record(spec, ("leaderWorkerTemplate",)))


# --- Ray --------------------------------------------------------------------------------------------------------------


def _ray_cluster_spec() -> Check:
    worker = {
        "groupName": TEXT,
        "replicas": PODS,
        "minReplicas": COUNT,
        "maxReplicas": COUNT,
        "numOfHosts": whole(1, 10_000),
        "suspend": FLAG,
        "suspended": FLAG,
        "rayStartParams": _TEXTS,
        "template": _template(),
    }
    head = record({"rayStartParams": _TEXTS, "template": _template()}, ("template",))
    return record(
        {"suspend": FLAG, "headGroupSpec": head, "workerGroupSpecs": named(record(worker, ("template",)), "groupName")}
    )


def _ray_cluster() -> Check:
    return _object(_ray_cluster_spec())


def _ray_job() -> Check:
    return _object(
        record(
            {
                "rayClusterSpec": _ray_cluster_spec(),
                "submitterPodTemplate": _template(),
                "submitterConfig": record({"backoffLimit": COUNT}),
                "submissionMode": TEXT,
                "shutdownAfterJobFinishes": FLAG,
                "suspend": FLAG,
                "ttlSecondsAfterFinished": COUNT,
            }
        )
    )


def _ray_service() -> Check:
    return _object(record({"rayClusterConfig": _ray_cluster_spec(), "rayClusterSpec": _ray_cluster_spec()}))


# --- Spark, Knative ---------------------------------------------------------------------------------------------------


def _loose_pod_spec() -> Check:
    """A pod spec of which some is filled in later: containers may be missing, and their names."""
    containers = items(record(fields_of("V1Container")))
    return record({**fields_of("V1PodSpec"), "containers": containers})


def _spark() -> Check:
    pod = fields_of("V1PodSpec")
    taken = ("tolerations", "nodeSelector", "affinity", "priorityClassName", "schedulerName", "hostNetwork",
             "terminationGracePeriodSeconds")  # fmt: skip
    role = {
        **{name: pod[name] for name in taken},
        "instances": PODS,
        "cores": whole(0, 100_000),
        "coreRequest": quantity,
        "coreLimit": quantity,
        "memory": memory_text,
        "image": TEXT,
        "labels": _TEXTS,
        "annotations": _TEXTS,
        "gpu": record({"name": filled(TEXT), "quantity": COUNT}),
        "template": record({"metadata": shape("V1ObjectMeta"), "spec": _loose_pod_spec()}),
    }
    spec = {
        "driver": record(role),
        "executor": record(role),
        "image": TEXT,
        "batchScheduler": TEXT,
        "sparkVersion": TEXT,
    }
    return _object(record(spec))


def _knative_service() -> Check:
    template = {"metadata": shape("V1ObjectMeta"), "spec": _loose_pod_spec()}
    return _object(record({"template": record(template)}, ("template",)))


# --- what nodes tell --------------------------------------------------------------------------------------------------


def _node_resource_topology() -> Check:
    resource = {"name": filled(TEXT), "capacity": quantity, "allocatable": quantity, "available": quantity}
    zone = {
        "name": TEXT,
        "type": TEXT,
        "resources": named(record(resource, ("name",))),
        "costs": items(record({"name": TEXT, "value": int_or_text})),
        "attributes": items(record({"name": TEXT, "value": TEXT})),
    }
    return record(
        {
            "topologyPolicies": items(TEXT),
            "attributes": items(record({"name": TEXT, "value": TEXT})),
            "zones": named(record(zone)),
        }
    )


_KINDS: dict[str, Callable[[], Check]] = {
    "JobSet": _job_set,
    "TrainJob": _train_job,
    "TrainingRuntime": _training_runtime,
    "ClusterTrainingRuntime": _training_runtime,
    "LeaderWorkerSet": _leader_worker_set,
    "PyTorchJob": _training("pytorchReplicaSpecs"),
    "TFJob": _training("tfReplicaSpecs"),
    "XGBoostJob": _training("xgbReplicaSpecs"),
    "JAXJob": _training("jaxReplicaSpecs"),
    "PaddleJob": _training("paddleReplicaSpecs"),
    "MPIJob": _training("mpiReplicaSpecs"),
    "RayCluster": _ray_cluster,
    "RayJob": _ray_job,
    "RayService": _ray_service,
    "SparkApplication": _spark,
    "Service.serving.knative.dev": _knative_service,
    "NodeResourceTopology": _node_resource_topology,
}
