"""Kubernetes' own kinds but for workloads and devices: what pods stand on and refer to."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import AGE, NAME, Column, Kind

Object = dict[str, Any]


def _namespace_defaults(obj: Object) -> Object:
    status = obj.get("status")
    if isinstance(status, dict) and "phase" in status:
        return obj
    return {**obj, "status": {**(status if isinstance(status, dict) else {}), "phase": "Active"}}


def _priority_class_defaults(obj: Object) -> Object:
    defaults = {"preemptionPolicy": "PreemptLowerPriority", "globalDefault": False}
    missing = {key: value for key, value in defaults.items() if key not in obj}
    return {**obj, **missing} if missing else obj


def _core(kind: str, plural: str, *short: str, **parts: Any) -> Kind:
    return Kind(kind=kind, versions=("v1",), plural=plural, short=short, owns_pods=False, **parts)


def _of(group: str, kind: str, plural: str, *short: str, **parts: Any) -> Kind:
    given = {"group": group, "kind": kind, "versions": ("v1",), "plural": plural, "short": short, "owns_pods": False}
    return Kind(**{**given, **parts})


KINDS = (
    _core(
        "Pod",
        "pods",
        "po",
        schema="V1Pod",
        status_schema="V1PodStatus",
        defaults="kailab.model.defaults:pod_defaults",
        check="kailab.model.validation.pods:check_pod",
        record="kailab.model.objects.pods:Pod",
        grouping="kailab.grouping.families.pod:POD",
        columns="kailab.cli.columns:POD",
        in_all=True,
    ),
    _core(
        "Node",
        "nodes",
        "no",
        namespaced=False,
        schema="V1Node",
        status_schema="V1NodeStatus",
        check="kailab.model.validation.nodes:check_node",
        record="kailab.model.objects.nodes:Node",
        keeps_status=True,
        columns="kailab.cli.columns:NODE",
    ),
    _core(
        "Namespace",
        "namespaces",
        "ns",
        namespaced=False,
        schema="V1Namespace",
        defaults=_namespace_defaults,
        columns=(NAME, Column("STATUS", "status.phase", default="Active"), AGE),
    ),
    _core("Event", "events", "ev", keeps_status=True, columns="kailab.cli.columns:EVENT"),
    _core("ConfigMap", "configmaps", "cm", schema="V1ConfigMap"),
    _core("Secret", "secrets", schema="V1Secret"),
    _core("Service", "services", "svc", schema="V1Service", in_all=True),
    _core("ServiceAccount", "serviceaccounts", "sa", schema="V1ServiceAccount"),
    _core("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", schema="V1PersistentVolumeClaim"),
    _core("PersistentVolume", "persistentvolumes", "pv", namespaced=False, schema="V1PersistentVolume"),
    _core("ResourceQuota", "resourcequotas", "quota", schema="V1ResourceQuota"),
    _core("LimitRange", "limitranges", "limits", schema="V1LimitRange"),
    _core("ReplicationController", "replicationcontrollers", "rc", schema="V1ReplicationController"),
    _core("Endpoints", "endpoints", "ep"),
    _of(
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        "pc",
        namespaced=False,
        schema="V1PriorityClass",
        defaults=_priority_class_defaults,
        check="kailab.model.validation.scheduling:check_priority_class",
        record="kailab.model.objects.kai:PriorityClass",
        immutable=("value", "preemptionPolicy"),
        columns="kailab.cli.columns:PRIORITY_CLASS",
    ),
    _of("policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", schema="V1PodDisruptionBudget"),
    _of("coordination.k8s.io", "Lease", "leases"),
    _of("storage.k8s.io", "StorageClass", "storageclasses", "sc", namespaced=False, schema="V1StorageClass"),
    _of("storage.k8s.io", "CSIStorageCapacity", "csistoragecapacities"),
    _of("node.k8s.io", "RuntimeClass", "runtimeclasses", namespaced=False, schema="V1RuntimeClass"),
    _of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        "crds",
        namespaced=False,
    ),
    _of("rbac.authorization.k8s.io", "Role", "roles"),
    _of("rbac.authorization.k8s.io", "RoleBinding", "rolebindings"),
    _of("rbac.authorization.k8s.io", "ClusterRole", "clusterroles", namespaced=False),
    _of("rbac.authorization.k8s.io", "ClusterRoleBinding", "clusterrolebindings", namespaced=False),
    _of("autoscaling", "HorizontalPodAutoscaler", "horizontalpodautoscalers", "hpa", versions=("v2", "v1")),
)
