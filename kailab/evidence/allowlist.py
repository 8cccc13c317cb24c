"""The list of what evidence keeps of an object: fields, labels and annotations that scheduling reads. What is on no list is
left out, so that a field nobody thought of takes nothing along."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kailab.model import labels

NAME_ONLY = frozenset({"Secret", "ConfigMap", "ServiceAccount"})
"""Kinds of which the name is kept, and nothing else: what a pod refers to must be there."""

WHOLE_GROUPS = ("resource.k8s.io", "topology.node.k8s.io")
"""API groups whose objects are kept whole, but for parameters of drivers: their text is selectors and attributes of devices, and
policies of nodes."""

TEXT = frozenset(
    {
        # what it is
        "apiVersion", "kind", "name", "namespace", "generateName", "apiGroup", "group", "plural", "singular", "scope",
        "containerName", "groupName", "uid", "phase", "type", "reason", "status", "state", "mode",
        # queues, PodGroups, topologies
        "queue", "parentQueue", "nodePool", "priorityClass", "priorityClassName", "preemptibility", "preemptionPolicy",
        "preemptionDelay", "stalenessGracePeriod", "preemptMinRuntime", "reclaimMinRuntime", "parent", "topology", "nodeLabel",
        "requiredTopologyLevel", "preferredTopologyLevel", "requiredTopologyConstraint", "preferredTopologyConstraint",
        "quota", "limit", "overQuotaWeight", "transitionID", "podName", "selectedNode", "receivedResourceType", "selectedGPUGroups",
        # pods
        "schedulerName", "nodeName", "nominatedNodeName", "restartPolicy", "runtimeClassName", "topologyKey", "protocol",
        "hostIP", "podIP", "ip", "request", "resourceClaimName", "resourceClaimTemplateName", "operator",
        # workloads
        "completionMode", "podReplacementPolicy", "podManagementPolicy", "concurrencyPolicy", "schedule", "timeZone",
        "managedBy", "serviceName", "subdomain", "startupPolicyOrder", "launcherCreationPolicy", "cleanPodPolicy", "batchScheduler",
        "submissionMode", "sparkVersion", "coreRequest", "coreLimit", "cores", "memory", "memoryOverhead", "minMember",
        "targetReplicatedJobs", "dependsOn", "action", "startupPolicy",
        "replicas", "minAvailable", "maxUnavailable", "maxSurge", "partition", "cliqueStartupType", "startsAfter", "cliqueNames",
        "quantity", "amount", "duration", "timeout", "podSetName", "subGroupPolicyType", "updateRevision", "currentRevision",
        # nodes, storage
        "architecture", "operatingSystem", "kubeletVersion", "storageClassName", "volumeBindingMode", "provisioner", "accessModes",
        "volumeMode", "volumeName", "claimName",
    }
)  # fmt: skip
"""Fields whose text is kept, wherever they stand."""

WHOLE = frozenset(
    {
        "tolerations", "taints", "affinity", "nodeAffinity", "topologySpreadConstraints", "labelSelector", "namespaceSelector",
        "selector", "nodeSelector", "nodeSelectorTerms", "matchLabels", "matchExpressions", "schedulingGates", "resourceClaims",
        "requests", "limits", "overhead", "allocatable", "capacity", "requested", "allocated", "allocatedNonPreemptible",
        "ownerReferences", "finalizers", "topologyConstraint", "resourceClaimStatuses", "allowedTopologies", "hard",
    }
)  # fmt: skip
"""Fields that are kept with all that is in them: what scheduling compares, and amounts by resource."""

# Asked before the other lists. Only containers, whose rules are their own (redaction), keep a part of some of these.
NOT_AT_ALL = frozenset(
    {
        "env", "envFrom", "envVars", "envSecretKeyRefs", "args", "command", "arguments", "parameters", "data", "stringData", "binaryData",
        "httpHeaders", "secretRef", "secretKeyRef", "imagePullSecrets", "volumeAttributes", "managedFields", "rayStartParams",
        "sparkConf", "sparkConfigMap", "hadoopConf", "hadoopConfigMap", "runtimeEnvYAML", "entrypoint", "mainApplicationFile",
        "securityContext", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
        "opaque", "secrets", "credentials", "ephemeralContainers", "dnsConfig", "hostAliases", "secretName",
    }
)  # fmt: skip
"""Fields of which nothing is kept, wherever they stand, whatever is in them."""

MESSAGES = frozenset({"message"})
"""Free text that a component wrote about what it decided: kept, without what was left out elsewhere,"""
DECIDED_KINDS = frozenset({"Pod", "PodGroup", "BindRequest"})
"""of these kinds. Of others (conditions of nodes, of claims, of workloads) anybody's program wrote it, about anything."""

ENUMERATED = frozenset({"type", "reason", "status", "phase", "state", "mode"})
"""Fields of ``TEXT`` that hold one of a few words, as the API server asks it of a condition's reason; anything longer is a sentence."""
_ENUMERATED_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9_,:./-]{0,99}")


def is_enumerated(text: str) -> bool:
    """Whether a text can be one of a few words."""
    return not text or _ENUMERATED_TEXT.fullmatch(text) is not None


# Also their subdomains. Labels of anybody else's domain stay only where a selector in the lab names them.
_LABEL_DOMAINS = (
    "kai.scheduler", "kai.nvidia.com", "kailab.dev", "run.ai", "runai", "nvidia.com", "amd.com", "kubeflow.org", "ray.io", "k8s.io",
    "kubernetes.io", "knative.dev", "grove.io", "argoproj.io",
)  # fmt: skip
_LABELS = frozenset(
    {
        "app", "job-name", "controller-uid", "pod-template-hash", "controller-revision-hash", "pod-template-generation",
        "spark-role", "spark-app-name", "spark-app-selector", "notebook-name", "project", "user", labels.PRIORITY_CLASS, labels.GPU_GROUP,
    }
)  # fmt: skip
# Fewer than for labels: no selector reads annotations, and tools put whole configurations into theirs.
_ANNOTATION_DOMAINS = ("kai.scheduler", "runai", "run.ai")
_SECONDS = re.compile(r"[+-]?[\d.]+(e[+-]?\d+)?[a-z]{0,2}([\d.]+[a-z]{1,2}){0,3}")
_COUNTS = re.compile(r"[\dTZ.:=,@+-]{0,4096}")
_NAME = re.compile(r"[A-Za-z0-9._:/=,@+-]{0,253}")
# kailab's own, by what their text is. Of others in its domain nobody reads anything.
_OWN_ANNOTATIONS: Mapping[str, re.Pattern[str]] = {
    labels.RUN_SECONDS: _SECONDS,
    labels.READY_SECONDS: _SECONDS,
    labels.EXPECTED_SECONDS: _SECONDS,
    labels.CHECKPOINT_SECONDS: _SECONDS,
    "kailab.dev/termination-seconds": _SECONDS,
    labels.FAIL: re.compile(r"[\d.]+(:[A-Za-z]{0,60}|:\d{1,3})?"),
    labels.CHECKPOINT_REQUESTED: _COUNTS,
    labels.CHECKPOINT_DONE: re.compile(r"true|false|[\dTZ.:+-]{0,64}"),
    "kailab.dev/restarts": _COUNTS,
    "kailab.dev/executors": _COUNTS,
    "kailab.dev/job-failures": _COUNTS,
    "kailab.dev/index-failures": _COUNTS,
    "kailab.dev/revision-of": _NAME,
    "kailab.dev/template": _NAME,
    "kailab.dev/for": _NAME,
    "kailab.dev/written-for": _NAME,
    "kailab.dev/lab": _NAME,
}
_ANNOTATIONS = frozenset(
    {
        labels.POD_GROUP, labels.GPU_FRACTION, labels.GPU_MEMORY, labels.GPU_FRACTION_DEVICES, labels.GPU_GROUP,
        labels.RECEIVED_RESOURCE_TYPE, labels.FAKE_NODE_TAINT, "user", "autoscaling.knative.dev/min-scale", "grove.io/topology-name",
        "leaderworkerset.sigs.k8s.io/size", "scheduling.k8s.io/group-name", "cluster-autoscaler.kubernetes.io/safe-to-evict",
        "batch.kubernetes.io/job-completion-index", "batch.kubernetes.io/job-index-failure-count",
        "batch.kubernetes.io/cronjob-scheduled-timestamp", "deployment.kubernetes.io/revision",
        "jobset.sigs.k8s.io/replicatedjob-name", "jobset.sigs.k8s.io/job-index",
    }
)  # fmt: skip


def keeps_label(key: str) -> bool:
    """Whether a label is kept though no selector names it: those of KAI, Kubernetes, devices and operators, and ``app``."""
    return key in _LABELS or _is_of(key, _LABEL_DOMAINS)


def keeps_annotation(key: str, text: object = "") -> bool:
    """Whether an annotation is kept: those that grouping, scheduling, controllers and the fake kubelet read, if its text is what they read."""
    own = _OWN_ANNOTATIONS.get(key)
    if own is not None:
        return not text or (isinstance(text, str) and own.fullmatch(text) is not None)
    return key in _ANNOTATIONS or _is_of(key, _ANNOTATION_DOMAINS)


def _is_of(key: str, domains: tuple[str, ...]) -> bool:
    domain, slash, _ = key.partition("/")
    return bool(slash) and any(domain == known or domain.endswith(f".{known}") for known in domains)
