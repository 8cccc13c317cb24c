"""One valid manifest of every kind on which something in a lab acts, with the fields that are read. Odd manifests are
made from these.

``SEEDS``: name -> the objects that are applied together; the last one gets damaged.
"""

from __future__ import annotations

from typing import Any

from kailab.model import labels
from kailab.model.kinds import api_version_of
from kailab.model.objects import Object

_GPU = {"limits": {"cpu": "1", "memory": "1Gi", labels.GPU_RESOURCE: 1}}
_SHARED = {"limits": {"cpu": "500m", "memory": "1Gi"}}
_ANY_NODE = [{"operator": "Exists"}]
_PLAIN = {
    "schedulerName": labels.SCHEDULER_NAME,
    "tolerations": _ANY_NODE,
    "containers": [{"name": "c", "resources": _SHARED}],
}
_NOTES = {labels.RUN_SECONDS: "50", labels.READY_SECONDS: "2"}


def _object(api_version: str, kind: str, name: str, spec: Any = None, **fields: Any) -> Object:
    meta: Object = {"name": name, "labels": {labels.QUEUE: "team", "app": name}}
    meta.update(fields.pop("metadata", {}))
    obj: Object = {"apiVersion": api_version, "kind": kind, "metadata": meta, **fields}
    if spec is not None:
        obj["spec"] = spec
    return obj


def _template(app: str, restart: str = "Never", container: str = "main", **spec: Any) -> Object:
    return {
        "metadata": {"labels": {"app": app, labels.QUEUE: "team"}, "annotations": dict(_NOTES)},
        "spec": {
            "schedulerName": labels.SCHEDULER_NAME,
            "restartPolicy": restart,
            "tolerations": _ANY_NODE,
            "containers": [
                {
                    "name": container,
                    "image": "cuda",
                    "command": ["train"],
                    "args": ["--epochs=3"],
                    "env": [{"name": "LEVEL", "value": "info"}],
                    "ports": [{"containerPort": 80, "hostPort": 8080}],
                    "resources": _GPU,
                }
            ],
            **spec,
        },
    }


_RULES: Object = {
    "terminationGracePeriodSeconds": 30,
    "priorityClassName": "train",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [
        {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        {"key": "kwok.x-k8s.io/node", "operator": "Equal", "value": "fake", "effect": "NoSchedule"},
    ],
    "initContainers": [{"name": "fetch", "image": "curl", "restartPolicy": "Always", "resources": _SHARED}],
    "runtimeClassName": "kata",
    "overhead": {"cpu": "10m"},
    "volumes": [
        {"name": "data", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "conf", "configMap": {"name": "c", "optional": True}},
    ],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "absent", "operator": "DoesNotExist"},
                            {"key": "nvidia.com/gpu.count", "operator": "Gt", "values": ["1"]},
                        ]
                    }
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 5, "preference": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}}
            ],
        },
        "podAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "podAffinityTerm": {
                        "topologyKey": labels.HOSTNAME,
                        "labelSelector": {"matchLabels": {"app": "other"}},
                        "namespaceSelector": {"matchLabels": {"team": "a"}},
                    },
                }
            ]
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "topologyKey": labels.HOSTNAME,
                    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["foe"]}]},
                    "namespaces": ["default"],
                }
            ]
        },
    },
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": labels.HOSTNAME,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "pod"}},
        }
    ],
}


def _roles(*names: str) -> Object:
    return {name: {"replicas": 1, "restartPolicy": "OnFailure", "template": _template(name.lower())} for name in names}


def _training(kind: str, field: str, *roles: str) -> Object:
    spec = {
        field: _roles(*roles),
        "runPolicy": {
            "backoffLimit": 2,
            "activeDeadlineSeconds": 600,
            "ttlSecondsAfterFinished": 60,
            "cleanPodPolicy": "Running",
            "suspend": False,
            "schedulingPolicy": {"minAvailable": 1, "queue": "team", "priorityClass": "train"},
        },
    }
    return _object("kubeflow.org/v1", kind, kind.lower(), spec)


def _selected(name: str, **spec: Any) -> Object:
    return {"selector": {"matchLabels": {"app": name}}, "template": _template(name, "Always"), **spec}


def _job_spec(**spec: Any) -> Object:
    return {
        "parallelism": 2,
        "completions": 2,
        "completionMode": "Indexed",
        "backoffLimit": 1,
        "activeDeadlineSeconds": 600,
        "ttlSecondsAfterFinished": 60,
        "template": _template("job"),
        **spec,
    }


def _replicated(name: str, container: str = "main") -> Object:
    return {
        "name": name,
        "replicas": 2,
        "template": {
            "metadata": {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}},
            "spec": {"parallelism": 1, "completions": 1, "template": _template(name, container=container)},
        },
    }


_RAY: Object = {
    "suspend": False,
    "headGroupSpec": {"rayStartParams": {"num-cpus": "0"}, "template": _template("head", "Always")},
    "workerGroupSpecs": [
        {
            "groupName": "gpu",
            "replicas": 1,
            "minReplicas": 1,
            "maxReplicas": 2,
            "numOfHosts": 1,
            "template": _template("worker", "Always"),
        }
    ],
}
_RUNTIME = _object(
    "trainer.kubeflow.org/v1alpha1",
    "ClusterTrainingRuntime",
    "torch",
    {"mlPolicy": {"numNodes": 1}, "template": {"spec": {"replicatedJobs": [_replicated("node", "node")]}}},
)
_QUEUE = _object(
    api_version_of("Queue"),
    "Queue",
    "team",
    {
        "displayName": "Team",
        "priority": 100,
        "preemptMinRuntime": "1m",
        "resources": {key: {"quota": -1, "limit": -1, "overQuotaWeight": 1} for key in ("gpu", "cpu", "memory")},
    },
    metadata={"labels": {}},
)
_TRAIN = _object("scheduling.k8s.io/v1", "PriorityClass", "train", value=50, globalDefault=False, description="train")
_RUNTIME_CLASS = _object(
    "node.k8s.io/v1", "RuntimeClass", "kata", handler="kata", overhead={"podFixed": {"cpu": "10m"}},
    scheduling={"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "kata", "operator": "Exists"}]},
    metadata={"labels": {}},
)  # fmt: skip
_POD = _object(
    "v1", "Pod", "pod", {**_template("pod")["spec"], **_RULES, "containers": [{"name": "c", "resources": _GPU}]},
    metadata={"annotations": {**_NOTES, "kailab.dev/fail": "20:OOMKilled"}},
)  # fmt: skip
_FRACTION = _object(
    "v1", "Pod", "fraction",
    _PLAIN,
    metadata={"annotations": {labels.GPU_FRACTION: "0.5", labels.GPU_FRACTION_DEVICES: "1"}},
)  # fmt: skip
_MEMORY = _object(
    "v1", "Pod", "by-memory",
    _PLAIN,
    metadata={"annotations": {labels.GPU_MEMORY: "2000", labels.CHECKPOINT_SECONDS: "3"}},
)  # fmt: skip
_DEVICES: Object = {
    "devices": {
        "requests": [
            {
                "name": "gpu",
                "exactly": {
                    "deviceClassName": "gpu.nvidia.com",
                    "allocationMode": "ExactCount",
                    "count": 1,
                    "selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}],
                },
            }
        ]
    }
}
_CLASS = _object(
    "resource.k8s.io/v1", "DeviceClass", "gpu.nvidia.com",
    {"selectors": [{"cel": {"expression": "device.driver == 'gpu.nvidia.com'"}}]}, metadata={"labels": {}},
)  # fmt: skip
_CLAIM = _object("resource.k8s.io/v1", "ResourceClaim", "claim", _DEVICES)
_CLAIM_TEMPLATE = _object("resource.k8s.io/v1", "ResourceClaimTemplate", "claims", {"metadata": {}, "spec": _DEVICES})
_SLICE = _object(
    "resource.k8s.io/v1", "ResourceSlice", "spare",
    {
        "driver": "gpu.nvidia.com", "nodeName": "spare", "pool": {"name": "spare", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": {"model": {"string": "A100"}, "index": {"int": 0}},
                     "capacity": {"memory": {"value": "80Gi"}}}],
    },
)  # fmt: skip
_NODE = _object(
    "v1", "Node", "spare",
    {"unschedulable": False, "taints": [{"key": "nvidia.com/gpu", "value": "x", "effect": "NoSchedule"}]},
    status={
        "capacity": {"cpu": "16", "memory": "64Gi", "pods": "110", labels.GPU_RESOURCE: "2"},
        "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110", labels.GPU_RESOURCE: "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    },
    metadata={"labels": {labels.GPU_COUNT: "2", labels.GPU_NODE_MEMORY: "40960", "rack": "r1"}},
)  # fmt: skip
_NUMA = {
    "apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology", "metadata": {"name": "spare"},
    "topologyPolicies": ["SingleNUMANodePodLevel"],
    "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}, {"name": "topologyManagerScope", "value": "pod"}],
    "zones": [{"name": f"node-{zone}", "type": "Node", "costs": [{"name": "node-0", "value": 10}],
               "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8", "available": "8"}]} for zone in range(2)],
}  # fmt: skip


def _clique(name: str) -> Object:
    return {"name": name, "labels": {"a": "b"}, "annotations": {"a": "b"}, "spec": {
        "roleName": name, "replicas": 2, "minAvailable": 1, "podSpec": _template("g", "Always")["spec"]}}  # fmt: skip


_FLOW = {
    "entrypoint": "main", "onExit": "last", "parallelism": 3, "schedulerName": labels.SCHEDULER_NAME, "podSpecPatch": "hostNetwork: false",
    "activeDeadlineSeconds": 500, "ttlStrategy": {"secondsAfterCompletion": 50}, "arguments": {"parameters": [{"name": "size", "value": "1"}]},
    "templates": [
        {"name": "main", "parallelism": 2, "steps": [
            [{"name": "a", "template": "work", "withItems": [1, 2], "arguments": {"parameters": [{"name": "n", "value": "{{item}}"}]}}],
            [{"name": "b", "template": "graph", "continueOn": {"failed": True}}]]},
        {"name": "graph", "dag": {"failFast": False, "tasks": [
            {"name": "c", "template": "work"}, {"name": "d", "template": "wait", "depends": "c.Succeeded || !c.Failed"}]}},
        {"name": "wait", "suspend": {"duration": "5s"}},
        {"name": "last", "script": {"image": "x", "source": "print()"}},
        {"name": "work", "inputs": {"parameters": [{"name": "n", "default": "1"}]}, "retryStrategy": {"limit": "1", "retryPolicy": "Always"},
         "metadata": {"annotations": dict(_NOTES)}, "tolerations": _ANY_NODE, "activeDeadlineSeconds": 100,
         "container": {"image": "x", "resources": {"limits": {"cpu": "{{inputs.parameters.n}}"}}}},
    ],
}  # fmt: skip

_ALL: tuple[tuple[Object, ...], ...] = (
    (_POD,),
    (_object("example.com/v1", "Trainer", "stranger", {
        "replicas": 2, "timeoutSeconds": 60, "roles": [{"name": "a", "template": _template("a")}],
        "podTemplate": {"metadata": {"annotations": {"gpu-fraction": "0.5"}}, "spec": {**_RULES, **_PLAIN}}}),),
    (_object("example.com/v1", "Trainer", "stranger-with-pods", {"template": _template("t")}),
     _object("v1", "Pod", "owned", {**_PLAIN, "terminationGracePeriodSeconds": 30}, metadata={"ownerReferences": [
        {"apiVersion": "example.com/v1", "kind": "Trainer", "name": "stranger-with-pods", "uid": "1", "controller": True}]})),
    (_FRACTION,),
    (_MEMORY,),
    (_object("apps/v1", "Deployment", "deployment", _selected(
        "deployment", replicas=2, minReadySeconds=1, revisionHistoryLimit=2, paused=False, progressDeadlineSeconds=60,
        strategy={"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}})),),
    (_object("apps/v1", "ReplicaSet", "replicaset", _selected("replicaset", replicas=2)),),
    (_object("v1", "ReplicationController", "rc", _selected("rc", replicas=2, minReadySeconds=1) | {"selector": {"app": "rc"}}),),
    (_object("apps/v1", "StatefulSet", "statefulset", _selected(
        "statefulset", replicas=2, serviceName="s", podManagementPolicy="Parallel", ordinals={"start": 1},
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
        volumeClaimTemplates=[{"metadata": {"name": "data", "labels": {"a": "b"}}, "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}])),),
    (_object("apps/v1", "DaemonSet", "daemonset", _selected(
        "daemonset", updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}})),),
    (_object("batch/v1", "Job", "job", _job_spec(
        podReplacementPolicy="Failed", backoffLimitPerIndex=1, maxFailedIndexes=1,
        successPolicy={"rules": [{"succeededIndexes": "0-1", "succeededCount": 1}]},
        podFailurePolicy={"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [1, 137]}}]},
        template=_template("job") | {"metadata": {"annotations": {"kailab.dev/fail": "5"}, "labels": {"app": "job"}}})),),
    (_object("batch/v1", "CronJob", "cronjob", {
        "schedule": "*/1 * * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid", "suspend": False,
        "startingDeadlineSeconds": 100, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 1,
        "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": _job_spec()}}),),
    (_object("jobset.x-k8s.io/v1alpha2", "JobSet", "jobset", {
        "suspend": False, "network": {"enableDNSHostnames": True}, "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        "successPolicy": {"operator": "All", "targetReplicatedJobs": ["a"]}, "failurePolicy": {"maxRestarts": 1},
        "replicatedJobs": [_replicated("a"), {**_replicated("b"), "dependsOn": [{"name": "a", "status": "Ready"}]}]},
        metadata={"annotations": {labels.BATCH_MIN_MEMBER: "1"}}),),
    (_object("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "lws", {
        "replicas": 2, "startupPolicy": "LeaderCreated", "leaderWorkerTemplate": {
            "size": 2, "restartPolicy": "RecreateGroupOnPodRestart", "subGroupPolicy": {"subGroupSize": 1},
            "leaderTemplate": _template("leader", "Always"), "workerTemplate": _template("worker", "Always")}}),),
    (_training("PyTorchJob", "pytorchReplicaSpecs", "Master", "Worker"),),
    (_training("TFJob", "tfReplicaSpecs", "Chief", "Worker", "PS"),),
    (_training("XGBoostJob", "xgbReplicaSpecs", "Master", "Worker"),),
    (_training("JAXJob", "jaxReplicaSpecs", "Worker"),),
    (_training("PaddleJob", "paddleReplicaSpecs", "Master", "Worker"),),
    (_object("kubeflow.org/v2beta1", "MPIJob", "mpijob", {
        "slotsPerWorker": 1, "launcherCreationPolicy": "WaitForWorkersReady", "runPolicy": {
            "cleanPodPolicy": "Running", "backoffLimit": 2, "suspend": False},
        "mpiReplicaSpecs": _roles("Launcher", "Worker")}),),
    (_RUNTIME, _object("trainer.kubeflow.org/v1alpha1", "TrainJob", "trainjob", {
        "runtimeRef": {"apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime", "name": "torch"},
        "labels": {"app": "t"}, "annotations": {"a": "b"}, "suspend": False, "activeDeadlineSeconds": 600,
        "runtimePatches": [{"manager": "a.b/c", "trainingRuntimeSpec": {"template": {
            "metadata": {"labels": {"x": "y"}}, "spec": {"replicatedJobs": [{"name": "node", "template": {"spec": {"template": {
                "metadata": {"annotations": {"x": "y"}}, "spec": {
                    "nodeSelector": {"a": "b"}, "tolerations": _ANY_NODE, "containers": [{"name": "node", "env": [{"name": "A", "value": "b"}]}],
                    "schedulingGates": [{"name": "a.b/gate"}]}}}}}]}}}}],
        "trainer": {
            "numNodes": 2, "image": "mine", "command": ["python"], "args": ["train.py"],
            "env": [{"name": "A", "value": "b"}], "resourcesPerNode": {"limits": {"cpu": "1"}}}})),
    (_object("trainer.kubeflow.org/v1alpha1", "TrainJob", "early", {"runtimeRef": {"name": "torch"}}), _RUNTIME),
    (_object("ray.io/v1", "RayCluster", "raycluster", _RAY),),
    (_object("ray.io/v1", "RayJob", "rayjob", {
        "entrypoint": "python", "shutdownAfterJobFinishes": True, "suspend": False, "submissionMode": "K8sJobMode",
        "activeDeadlineSeconds": 600, "preRunningDeadlineSeconds": 60, "backoffLimit": 1, "ttlSecondsAfterFinished": 5,
        "submitterConfig": {"backoffLimit": 1}, "submitterPodTemplate": _template("submit"), "rayClusterSpec": _RAY}),),
    (_object("ray.io/v1", "RayJob", "plainjob", {"rayClusterSpec": _RAY, "ttlSecondsAfterFinished": 5}),),
    (_object("ray.io/v1", "RayService", "rayservice", {"rayClusterConfig": _RAY, "serveConfigV2": "a: b"}),),
    (_object("sparkoperator.k8s.io/v1beta2", "SparkApplication", "spark", {
        "image": "spark", "sparkVersion": "3.5.0", "batchScheduler": labels.SCHEDULER_NAME,
        "type": "Python", "timeToLiveSeconds": 60, "restartPolicy": {"type": "OnFailure", "onFailureRetries": 1, "onFailureRetryInterval": 5}, "memoryOverheadFactor": "0.4", "sparkConf": {"spark.executor.memoryOverhead": "100m", "spark.memory.offHeap.size": "100"},
        "driver": {"tolerations": _ANY_NODE, "cores": 1, "coreLimit": "1200m", "memory": "1g", "memoryOverhead": "512m", "memoryLimit": "3g", "labels": {"app": "d"}, "annotations": {"a": "b"},
                   "serviceAccount": "s", "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "x"}]}}},
        "executor": {"instances": 2, "cores": 1, "coreRequest": "500m", "memory": "512m", "nodeSelector": {"a": "b"},
                     "gpu": {"name": labels.GPU_RESOURCE, "quantity": 1}, "tolerations": _ANY_NODE}}),),
    (_object("serving.knative.dev/v1", "Service", "knative", {"template": {
        "metadata": {"name": "knative-v1", "labels": {"a": "b"}, "annotations": {"autoscaling.knative.dev/min-scale": "2"}},
        "spec": {"containerConcurrency": 5, "timeoutSeconds": 10, "tolerations": _ANY_NODE, "containers": [{"image": "x", "resources": _SHARED}]}}}),),
    (_QUEUE,),
    (_object(api_version_of("Queue"), "Queue", "child", {
        "parentQueue": "team", "priority": 5, "reclaimMinRuntime": "1h",
        "resources": {"gpu": {"quota": 1, "limit": 2, "overQuotaWeight": 2.5}, "cpu": {"quota": 1000, "limit": -1},
                      "memory": {"quota": 1000, "limit": -1}}}),),
    (_object(api_version_of("PodGroup"), "PodGroup", "group", {
        "minMember": 1, "queue": "team", "priorityClassName": "train", "preemptibility": "preemptible",
        "schedulingBackoff": 1, "stalenessGracePeriod": "10s", "markUnschedulable": True,
        "topologyConstraint": {"topology": "floor", "requiredTopologyLevel": "rack"}}),
     _object("v1", "Pod", "member", _PLAIN, metadata={"annotations": {labels.POD_GROUP: "group"}})),
    (_object("v1", "Pod", "worker", _PLAIN, metadata={
        "annotations": {labels.POD_GROUP: "tree"}, "labels": {labels.SUBGROUP_NAME: "b"}}),
     _object(api_version_of("PodGroup"), "PodGroup", "tree", {"minSubGroup": 1, "queue": "team", "subGroups": [
        {"name": "a", "minSubGroup": 1, "topologyConstraint": {"topology": "floor", "preferredTopologyLevel": "rack"}},
        {"name": "b", "parent": "a", "minMember": 1}]})),
    (_object(api_version_of("Topology"), "Topology", "floor", {
        "levels": [{"nodeLabel": "rack", "alias": "r"}, {"nodeLabel": labels.HOSTNAME}]}, metadata={"labels": {}}),),
    (_RUNTIME_CLASS, _POD, _RUNTIME_CLASS | {"metadata": {"name": "other"}}),
    (_object(api_version_of("SchedulingShard"), "SchedulingShard", "shard", {
        "args": {"v": "5"}, "kValue": 0.5, "queueDepthPerAction": {"reclaim": 5}, "placementStrategy": {"gpu": "spread", "cpu": "binpack"},
        "minRuntime": {"preemptMinRuntime": "1m"}, "plugins": {"proportion": {"enabled": True, "priority": 5, "arguments": {"a": "b"}}},
        "usageDBConfig": {"clientType": "prometheus", "usageParams": {"halfLifePeriod": "1h"}}}, metadata={"labels": {}}),),
    (_object("v1", "PersistentVolumeClaim", "claim", {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}),),
    (_object("v1", "Pod", "dumped", {**_PLAIN, "nodeName": "ghost"}, metadata={
        "annotations": {labels.POD_GROUP: "gone"}, "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "1", "controller": True}]}),),
    (_TRAIN, _POD, _TRAIN | {"metadata": {"name": "other"}, "value": 100}),
    (_POD, _NODE),
    (_NODE, _POD, _NUMA),
    (_SLICE, _CLASS, _object("v1", "Pod", "claiming", {**_PLAIN, "resourceClaims": [
        {"name": "c", "resourceClaimName": "claim"}]}), _CLAIM),
    (_SLICE, _CLASS, _object("v1", "Pod", "templated", {**_PLAIN, "resourceClaims": [
        {"name": "c", "resourceClaimTemplateName": "claims"}]}), _CLAIM_TEMPLATE),
    (_CLASS, _CLAIM, _SLICE),
    (_SLICE, _CLAIM, _CLASS),
    (_CLASS, _CLAIM, _SLICE, _object("v1", "Pod", "user", {**_PLAIN, "resourceClaims": [
        {"name": "c", "resourceClaimName": "claim"}]})),
    (_object("v1", "Namespace", "space", metadata={"labels": {"team": "a"}}),),
    (_object("v1", "ConfigMap", "config", metadata={"namespace": "default"}, data={"a": "b"}),),
    (_object("policy/v1", "PodDisruptionBudget", "budget", {
        "minAvailable": 1, "selector": {"matchLabels": {"app": "pod"}}}),),
    (_object("grove.io/v1alpha1", "ClusterTopologyBinding", "floors", {"levels": [
        {"domain": "rack", "key": "rack"}, {"domain": "host", "key": labels.HOSTNAME}]}, metadata={"labels": {}}),),
    (_object("grove.io/v1alpha1", "PodCliqueSet", "grove", {"replicas": 1, "template": {
        "priorityClassName": "train", "topologyConstraint": {"topologyName": "floors", "packDomain": "rack"},
        "podCliqueScalingGroups": [{"name": "sg", "cliqueNames": ["b"], "replicas": 2, "minAvailable": 1, "annotations": {"a": "b"}}],
        "cliques": [_clique("a"), {**_clique("b"), "topologyConstraint": {"pack": {"required": "rack", "preferred": "host"}}}]}}),),
    (_object("grove.io/v1alpha1", "PodClique", "clique", _clique("a")["spec"]),),
    (_object("grove.io/v1alpha1", "PodCliqueSet", "above", {"replicas": 1, "template": {"cliques": [_clique("a")]}}),
     _object("grove.io/v1alpha1", "PodCliqueScalingGroup", "group", {"replicas": 1, "minAvailable": 1, "cliqueNames": ["a"]},
             metadata={"labels": {"app.kubernetes.io/part-of": "above", "grove.io/podcliqueset-replica-index": "0"}})),
    (_object("nvidia.com/v1alpha1", "DynamoGraphDeployment", "graph", {"labels": {"a": "b"}, "annotations": {"a": "b"}, "services": {
        "Front": {"componentType": "frontend", "replicas": 1, "labels": {"a": "b"}, "extraPodMetadata": {"annotations": {"a": "b"}},
                  "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"gpu": "1", "gpuType": labels.GPU_RESOURCE, "custom": {"a.b/c": "1"}}}},
        "Work": {"multinode": {"nodeCount": 2}, "extraPodSpec": {"tolerations": _ANY_NODE, "mainContainer": {"image": "x"}}}}}),),
    (_object("nvidia.com/v1beta1", "DynamoGraphDeployment", "components", {"components": [
        {"name": "work", "type": "worker", "replicas": 2, "podTemplate": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}]}),),
    (_object("kubeflow.org/v1", "Notebook", "notebook", {"template": {"spec": _PLAIN}}),),
    (_object("serving.kserve.io/v1alpha1", "ClusterServingRuntime", "runtime", {
        "supportedModelFormats": [{"name": "x", "autoSelect": True}], "containers": [{"name": "kserve-container", "image": "x"}]}, metadata={"labels": {}}),
     _object("serving.kserve.io/v1beta1", "InferenceService", "model", {
        "predictor": {"minReplicas": 1, "maxReplicas": 2, "labels": {"a": "b"}, "tolerations": _ANY_NODE, "model": {
            "modelFormat": {"name": "x"}, "runtime": "runtime", "storageUri": "s3://x", "resources": _SHARED}},
        "transformer": {"containers": [{"image": "x", "resources": {"limits": {"cpu": "1", "memory": "2Gi"}}}]}},
        metadata={"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}})),
    (_object("serving.kserve.io/v1alpha1", "ServingRuntime", "nodes", {
        "supportedModelFormats": [{"name": "x", "version": "1", "priority": 1}], "protocolVersions": ["v1"],
        "containers": [{"name": "kserve-container", "image": "x"}],
        "workerSpec": {"tensorParallelSize": 2, "containers": [{"name": "worker-container", "image": "x", "resources": _SHARED}]}}),
     _object("serving.kserve.io/v1beta1", "InferenceService", "nodes", {
        "predictor": {"logger": {"mode": "all"}, "workerSpec": {"pipelineParallelSize": 2, "containers": [{"name": "worker-container", "image": "x"}]},
            "model": {"modelFormat": {"name": "x", "version": "1"}, "runtime": "nodes", "storageUri": "oci://x", "resources": _SHARED}},
        "explainer": {"containers": [{"image": "x", "env": [{"name": "STORAGE_URI", "value": "pvc://models/x"}]}],
            "autoScaling": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]}}},
        metadata={"annotations": {"serving.kserve.io/deploymentMode": "Standard", "serving.kserve.io/autoscalerClass": "none"}}),
     _object("serving.kserve.io/v1alpha1", "InferenceGraph", "graph", {
        "nodes": {"root": {"routerType": "Splitter", "steps": [{"serviceName": "nodes", "weight": 100}]}}})),
    (_object("argoproj.io/v1alpha1", "Workflow", "flow", _FLOW),),
    (_object("argoproj.io/v1alpha1", "Workflow", "later", {"workflowTemplateRef": {"name": "flows"}}),
     _object("argoproj.io/v1alpha1", "WorkflowTemplate", "flows", _FLOW)),
)  # fmt: skip


def _seed(objects: tuple[Object, ...]) -> tuple[Object, ...]:
    """With the queue and the classes that the objects name, unless they are among them."""
    names = {(obj["kind"], obj["metadata"]["name"]) for obj in objects}
    needed = [obj for obj in (_QUEUE, _TRAIN, _RUNTIME_CLASS) if (obj["kind"], obj["metadata"]["name"]) not in names]
    return (*needed, *objects)


SEEDS: dict[str, tuple[Object, ...]] = {
    f"{objects[-1]['kind']}/{objects[-1]['metadata']['name']}": _seed(objects) for objects in _ALL
}
