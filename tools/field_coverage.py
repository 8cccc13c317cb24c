"""The effect of each field of the most used kinds in an embedded lab: the lab acts on it, only checks it, or reports that it has no effect.
Fields that no definition has are refused (``lab.unknown_fields``).

The notices of ``apply`` and the table in docs/coverage.md are made from the same data: reported fields are the ``Unread`` ones of the
kind and of pods, and those that other notices name (``lab.advice``, ``lab.references``). Every other field of a definition has a row here. A test compares the rows with the definitions,
so that a field of a new version can't be overlooked.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from kailab.cluster.install.definitions import schema
from kailab.lab.unknown_fields import OF_PODS
from kailab.model.kinds import KINDS
from kailab.model.objects import Object
from kailab.model.validation import core


class Effect(StrEnum):
    ACTS = "acts"
    CHECKED = "checked"
    TOLD = "told"


class Field(NamedTuple):
    """A field with everything below it that has no row of its own. ``path``: with ``*`` for items of a list."""

    path: str
    effect: Effect
    note: str = ""


COVERED = ("Pod", "Job", "Queue", "PodGroup")
"""Kinds with a row for each field of their specs; ``OPERATORS_ACT`` has those of operators."""

_POD_ACTS = {
    "activeDeadlineSeconds": "the pod fails after it",
    "affinity": "required node affinity, pod affinity and anti-affinity",
    "hostNetwork": "container ports become host ports",
    "nodeName": "the pod is on this node; deleted after 40 s if there is none of this name",
    "nodeSelector": "",
    "overhead": "added to the requests; only a RuntimeClass sets it",
    "priority": "the PriorityClass decides it",
    "priorityClassName": "",
    "resourceClaims": "",
    "restartPolicy": "",
    "runtimeClassName": "overhead, node selector and tolerations of the class",
    "schedulerName": "",
    "schedulingGates": "",
    "terminationGracePeriodSeconds": "",
    "tolerations": "",
}
_CONTAINER_ACTS = {
    "env": "a ConfigMap that is named must exist",
    "envFrom": "a ConfigMap that is named must exist",
    "image": "updates may change it",
    "name": "unique in the pod",
    "ports": "host ports keep pods apart",
    "resources": "requests, limits, claims; LimitRanges and ResourceQuotas",
    "volumeMounts": "a ConfigMap that is mounted must exist",
}
_INIT_ACTS = {"restartPolicy": "Always makes it a sidecar, whose requests and host ports count while the pod runs"}
_VOLUMES_ACT = {
    "configMap": "must exist, if a container mounts it",
    "emptyDir": "drain asks for --delete-emptydir-data",
    "ephemeral": "a claim is made for it, which goes with the pod",
    "name": "",
    "persistentVolumeClaim": "the claim must exist, and its volume decides about nodes",
    "projected": "its ConfigMaps must exist",
}
_JOB_ACTS = {
    "activeDeadlineSeconds": "",
    "backoffLimit": "",
    "backoffLimitPerIndex": "",
    "completionMode": "",
    "completions": "",
    "managedBy": "the Job is left to another controller",
    "maxFailedIndexes": "",
    "parallelism": "",
    "podFailurePolicy": "",
    "successPolicy": "the Job succeeds, and its other pods go, once these indexes have succeeded",
    "podReplacementPolicy": "",
    "suspend": "",
    "template": "as a Pod",
    "ttlSecondsAfterFinished": "",
}
_QUEUE_ACTS = {
    "parentQueue": "", "priority": "", "preemptMinRuntime": "", "reclaimMinRuntime": "", "resources": "quota, limit and overQuotaWeight of gpu, cpu and memory",
}  # fmt: skip
_PODGROUP_ACTS = {
    "minMember": "", "minSubGroup": "", "queue": "", "priorityClassName": "", "preemptibility": "", "preemptionDelay": "",
    "stalenessGracePeriod": "", "schedulingBackoff": "", "topologyConstraint": "", "subGroups": "",
    "markUnschedulable": "whether pods get the condition Unschedulable",
}  # fmt: skip
_RUN_POLICY = "runPolicy.activeDeadlineSeconds runPolicy.backoffLimit runPolicy.cleanPodPolicy runPolicy.schedulingPolicy runPolicy.suspend runPolicy.ttlSecondsAfterFinished"
_RAY_GROUPS = ("headGroupSpec.labels headGroupSpec.resources headGroupSpec.template autoscalerOptions.image autoscalerOptions.resources suspend "
               "workerGroupSpecs.*.groupName workerGroupSpecs.*.labels workerGroupSpecs.*.maxReplicas workerGroupSpecs.*.minReplicas "
               "workerGroupSpecs.*.numOfHosts workerGroupSpecs.*.replicas workerGroupSpecs.*.resources workerGroupSpecs.*.suspend "
               "workerGroupSpecs.*.template")  # fmt: skip
_WORKFLOW = ("activeDeadlineSeconds affinity arguments.parameters entrypoint hostNetwork nodeSelector onExit parallelism podMetadata "
             "podPriorityClassName podSpecPatch retryStrategy schedulerName serviceAccountName shutdown suspend templateDefaults templates tolerations "
             "ttlStrategy volumes workflowTemplateRef")  # fmt: skip
_RUNTIME = (
    "affinity annotations containers disabled labels multiModel nodeSelector protocolVersions supportedModelFormats tolerations volumes "
    "workerSpec"
)


def _below(field: str, names: str) -> str:
    return " ".join(f"{field}.{name}" for name in names.split())


OPERATORS_ACT = {
    "JobSet": "coordinator failurePolicy.maxRestarts failurePolicy.rules network.subdomain replicatedJobs.*.dependsOn replicatedJobs.*.groupName "
              "replicatedJobs.*.name replicatedJobs.*.replicas replicatedJobs.*.template startupPolicy successPolicy suspend ttlSecondsAfterFinished "
              "volumeClaimPolicies.*.retentionPolicy volumeClaimPolicies.*.templates",
    "LeaderWorkerSet": "leaderWorkerTemplate.leaderTemplate leaderWorkerTemplate.restartPolicy leaderWorkerTemplate.size "
                       "leaderWorkerTemplate.subGroupPolicy leaderWorkerTemplate.workerTemplate replicas rolloutStrategy startupPolicy",
    "TrainJob": "activeDeadlineSeconds runtimePatches runtimeRef suspend trainer.args trainer.command trainer.env trainer.image trainer.numNodes "
                "trainer.resourcesPerNode",
    "TrainingRuntime": "mlPolicy.mpi mlPolicy.numNodes template",
    "PyTorchJob": f"elasticPolicy.minReplicas pytorchReplicaSpecs {_RUN_POLICY}",
    "TFJob": f"tfReplicaSpecs {_RUN_POLICY}",
    "XGBoostJob": f"xgbReplicaSpecs {_RUN_POLICY}",
    "JAXJob": f"jaxReplicaSpecs {_RUN_POLICY}",
    "PaddleJob": f"paddleReplicaSpecs {_RUN_POLICY}",
    "MPIJob": f"launcherCreationPolicy mpiReplicaSpecs runLauncherAsWorker {_RUN_POLICY}",
    "RayCluster": _RAY_GROUPS,
    "RayJob": "activeDeadlineSeconds backoffLimit clusterSelector deletionStrategy preRunningDeadlineSeconds shutdownAfterJobFinishes submissionMode "
              f"submitterConfig submitterPodTemplate suspend ttlSecondsAfterFinished {_below('rayClusterSpec', _RAY_GROUPS)}",
    "RayService": _below("rayClusterConfig", _RAY_GROUPS),
    "SparkApplication": "batchScheduler driver dynamicAllocation.initialExecutors dynamicAllocation.minExecutors executor "
                        "image memoryOverheadFactor nodeSelector restartPolicy.onFailureRetries restartPolicy.onFailureRetryInterval "
                        "restartPolicy.type sparkConf sparkVersion timeToLiveSeconds type volumes",
    "Service.serving.knative.dev": "template",
    "InferenceService": "explainer predictor transformer",
    "ServingRuntime": _RUNTIME,
    "Notebook": "template",
    "Workflow": _WORKFLOW,
    "WorkflowTemplate": _WORKFLOW,
    "PodCliqueSet": "replicas template.cliques template.podCliqueScalingGroups template.priorityClassName template.topologyConstraint",
    "DynamoGraphDeployment": "annotations components labels priorityClassName topologyConstraint",
}  # fmt: skip
"""What the controllers of operators' kinds read, by kind key: paths below ``spec``. Kinds that differ only in being of the whole cluster have the
rows of the other."""
_TOLD_BY_OTHERS = {
    "spec.preemptionPolicy": "KAI does not look at it",
    "spec.serviceAccountName": "if there is no such account: a cluster refuses the pod",
    "spec.topologySpreadConstraints": "KAI does not spread pods by them",
    "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution": "KAI scores no preferred node affinity",
}


def fields_of(kind: str) -> list[Field]:
    """The rows of a kind, sorted by path. ``kind``: one of ``COVERED`` and ``OPERATORS_ACT``."""
    rows = {row.path: row for row in _rows(kind)}
    for unread in (*KINDS[kind].unread, *(OF_PODS if kind == "Pod" else ())):
        path = ".".join(unread.steps)
        rows[path] = Field(path, Effect.TOLD, f"in a cluster {unread.in_cluster}")
    if kind == "Pod":
        for path, note in _TOLD_BY_OTHERS.items():
            rows[path] = Field(path, Effect.TOLD, note)
    return [rows[path] for path in sorted(rows)]


def _rows(kind: str) -> Iterator[Field]:
    if kind in OPERATORS_ACT:
        paths = OPERATORS_ACT[kind].split()
        yield from (Field(f"spec.{path}", Effect.ACTS) for path in paths)
        yield from (Field(path, Effect.CHECKED) for path in _untouched(_operators_spec(kind), "", set(paths)))
    elif kind == "Pod":
        yield from _of_type("V1PodSpec", "spec.", _POD_ACTS, without=("containers", "initContainers", "volumes"))
        yield from _of_type("V1Container", "spec.containers.*.", _CONTAINER_ACTS)
        yield from _of_type("V1Container", "spec.initContainers.*.", {**_CONTAINER_ACTS, **_INIT_ACTS})
        yield from _of_type("V1Volume", "spec.volumes.*.", _VOLUMES_ACT)
    elif kind == "Job":
        yield from _of_type("V1JobSpec", "spec.", _JOB_ACTS)
    else:
        acts = _QUEUE_ACTS if kind == "Queue" else _PODGROUP_ACTS
        for name in _spec_of(kind):
            yield Field(f"spec.{name}", Effect.ACTS if name in acts else Effect.CHECKED, acts.get(name, ""))


def _operators_spec(kind: str) -> str:
    """The type of a kind's spec in the definition that is pinned."""
    known = KINDS[kind]
    definition = core.operator_definition(known.api_version, known.kind)
    return core.operator_field_types(definition.type)["spec"] if definition is not None else "any"


def _untouched(type: str, above: str, acts: set[str]) -> Iterator[str]:
    """Fields of a type that no row covers. ``above``: the path to it below ``spec``, with a final dot."""
    for name, inner in core.operator_field_types(type.strip("[]{}")).items():
        path = f"{above}{name}"
        if path in acts:
            continue
        step = f"{path}.*." if inner[0] in "[{" else f"{path}."
        if any(other.startswith(step) for other in acts):
            yield from _untouched(inner, step, acts)
        else:
            yield f"spec.{path}"


def operator_of(kind: str) -> str:
    """The operator from whose definition the rows of a kind come; empty if kailab has no definition of the kind."""
    known = KINDS[kind]
    definition = core.operator_definition(known.api_version, known.kind)
    return definition.whose if definition is not None else ""


def _spec_of(kind: str) -> Object:
    known = KINDS[kind]
    definition = schema(known.group, known.kind, known.versions[0]) or {}
    properties: Object = definition["properties"]["spec"]["properties"]
    return properties


def _of_type(type: str, above: str, acts: dict[str, str], without: tuple[str, ...] = ()) -> Iterator[Field]:
    for name in core.field_types(type):
        if name in without:
            continue
        if name in acts:
            yield Field(f"{above}{name}", Effect.ACTS, acts[name])
        else:
            yield Field(f"{above}{name}", Effect.CHECKED)


def stale_rows() -> list[str]:
    """Fields that the tables here list as acting and that no definition has."""
    declared = (
        ("V1PodSpec", _POD_ACTS), ("V1Container", {**_CONTAINER_ACTS, **_INIT_ACTS}), ("V1Volume", _VOLUMES_ACT), ("V1JobSpec", _JOB_ACTS),
    )  # fmt: skip
    missing = [f"{type}.{name}" for type, acts in declared for name in acts if name not in core.field_types(type)]
    missing += [
        f"{kind}.spec.{path}"
        for kind, paths in OPERATORS_ACT.items()
        for path in paths.split()
        if not _exists(kind, path)
    ]
    for kind, acts in (("Queue", _QUEUE_ACTS), ("PodGroup", _PODGROUP_ACTS)):
        missing += [f"{kind}.spec.{name}" for name in acts if name not in _spec_of(kind)]
    return missing


def _exists(kind: str, path: str) -> bool:
    type = _operators_spec(kind)
    for step in path.split("."):
        inner = type.strip("[]{}")
        if step == "*":
            type = inner
        elif step in (fields := core.operator_field_types(inner)):
            type = fields[step]
        else:
            return False
    return True
