"""Kubernetes' own kinds except workloads and devices: pods, nodes, and the objects that pods reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kailab.model.kind import AGE, NAME, Column, Kind, Unread
from kailab.model.objects import Object, status_of
from kailab.model.validation.budgets import VOLUME_SOURCES
from kailab.model.validation.fields import Faults

SpecCheck: TypeAlias = Callable[[Faults, Object], None]


def _namespace_defaults(obj: Object) -> Object:
    status = obj.get("status")
    if isinstance(status, dict) and "phase" in status:
        return obj
    return {**obj, "status": {**(status if isinstance(status, dict) else {}), "phase": "Active"}}


def _priority_class_defaults(obj: Object) -> Object:
    defaults = {"value": 0, "preemptionPolicy": "PreemptLowerPriority", "globalDefault": False}
    missing = {key: value for key, value in defaults.items() if key not in obj}
    return {**obj, **missing} if missing else obj


def _limit_range_defaults(obj: Object) -> Object:
    """The defaults of a LimitRange: for containers a missing default is the maximum, and a missing default request is the default, then the
    minimum. Source: Kubernetes SetDefaults_LimitRangeItem."""
    spec = obj.get("spec")
    limits = spec.get("limits") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(limits, list):
        return obj
    filled = [_item_defaults(item) for item in limits]
    return obj if filled == limits else {**obj, "spec": {**spec, "limits": filled}}


def _storage_class_defaults(obj: Object) -> Object:
    defaults = {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    missing = {key: value for key, value in defaults.items() if key not in obj}
    return {**obj, **missing} if missing else obj


def _fixed_claim(stored: Object, claim: Object) -> Object:
    """A claim gets its class and its volume once, and once bound another class of attributes. Source: Kubernetes
    ValidatePersistentVolumeClaimUpdate."""
    left_out = _unset(stored, "storageClassName", "volumeName")
    if status_of(stored).get("phase") == "Bound":
        left_out.add("volumeAttributesClassName")
    return _fixed_spec(claim, left_out)


def _fixed_volume(stored: Object, volume: Object) -> Object:
    """A volume gets its nodes once. Source: Kubernetes ValidatePersistentVolumeUpdate."""
    return _fixed_spec(volume, _unset(stored, "nodeAffinity"))


def _unset(stored: Object, *names: str) -> set[str]:
    return {name for name in names if (stored.get("spec") or {}).get(name) is None}


def _fixed_spec(obj: Object, left_out: set[str]) -> Object:
    spec = {"volumeMode": "Filesystem", **(obj.get("spec") or {})}  # the default of a server
    return {**obj, "spec": {key: value for key, value in spec.items() if key not in left_out}}


def _fixed_content(stored: Object, obj: Object) -> Object:
    """A ConfigMap or Secret may change unless it says that it is immutable. Source: Kubernetes ValidateConfigMapUpdate, ValidateSecretUpdate."""
    return obj if stored.get("immutable") else {key: value for key, value in obj.items() if key not in _CONTENT}


def _fixed_secret(stored: Object, secret: Object) -> Object:
    return {"type": "Opaque", **_fixed_content(stored, secret)}


_CONTENT = ("immutable", "data", "binaryData", "stringData")


def _fixed_driver(_: Object, driver: Object) -> Object:
    spec = {"attachRequired": True, "volumeLifecycleModes": ["Persistent"], **(driver.get("spec") or {})}
    return {**driver, "spec": spec}  # with the defaults of a server


def _item_defaults(item: Any) -> Any:
    if not isinstance(item, dict) or item.get("type") != "Container":
        return item
    amounts = {field: item.get(field) or {} for field in ("max", "min", "default", "defaultRequest")}
    if not all(isinstance(value, dict) for value in amounts.values()):
        return item
    default = {**amounts["max"], **amounts["default"]}
    request = {**amounts["min"], **default, **amounts["defaultRequest"]}
    wanted = {**({"default": default} if default else {}), **({"defaultRequest": request} if request else {})}
    return item if all(item.get(field) == value for field, value in wanted.items()) else {**item, **wanted}


def unread_of_claims(*above: str) -> tuple[Unread, ...]:
    """The unread fields of a PersistentVolumeClaim's spec. ``above``: the path to the spec."""
    effect = (
        "one pod alone may use such a claim: KAI does not look at it and places others too, and their kubelets start them when it is gone; "
        "kube-scheduler keeps them pending"
    )
    filled = "the volume is filled from it, and the claim waits until it is there"
    return (
        Unread((*above, "accessModes", "*"), effect, only=("ReadWriteOncePod",)),
        Unread((*above, "dataSource"), filled),
        Unread((*above, "dataSourceRef"), filled),
        Unread((*above, "volumeAttributesClassName"), "the claim gets no volume until there is such a class"),
    )


def unread_retention(*above: str) -> tuple[Unread, ...]:
    """The unread fields of the retention policy of claims. ``above``: the path to the field's holder."""
    path = (*above, "persistentVolumeClaimRetentionPolicy")
    return (
        Unread((*path, "whenScaled"), "the claims of pods that scaling removes are deleted with them", ("Retain",)),
        Unread((*path, "whenDeleted"), "the claims are deleted with their owner", ("Retain",)),
    )


def check_claim_templates(faults: Faults, holder: Object, path: str) -> None:
    """Check that each of a workload's claim templates has the name by which containers mount it. ``path``: that of ``holder``."""
    for at, claim in faults.mappings(holder, "volumeClaimTemplates", f"{path}.volumeClaimTemplates"):
        meta = faults.mapping(claim, "metadata", f"{at}.metadata", required=True)
        if meta is not None:
            faults.text(meta, "name", f"{at}.metadata.name", required=True)


def spec_check(check: SpecCheck) -> Callable[[Faults, Object], None]:
    """The check of a kind that has a spec, from a check of its spec."""

    def check_object(faults: Faults, obj: Object) -> None:
        spec = faults.mapping(obj, "spec", "spec", required=True)
        if spec is not None:
            check(faults, spec)

    return check_object


RBAC = "rbac.authorization.k8s.io"
_SUBJECT_GROUPS = {"ServiceAccount": "", "User": RBAC, "Group": RBAC}


def _check_role(faults: Faults, obj: Object) -> None:
    """Source: Kubernetes ValidatePolicyRule."""
    for at, rule in faults.mappings(obj, "rules", "rules"):
        faults.items(rule, "verbs", f"{at}.verbs", required=True)
        if rule.get("nonResourceURLs"):
            if obj.get("kind") == "Role":
                faults.add(
                    f"{at}.nonResourceURLs", "can only be in a ClusterRole, because URLs live outside namespaces"
                )
            if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
                faults.add(f"{at}.nonResourceURLs", "can't be given together with resources; expected a rule for each")
            continue
        for key in ("apiGroups", "resources"):
            faults.items(rule, key, f"{at}.{key}", required=True)


def _binding_defaults(obj: Object) -> Object:
    """The API groups of the role and of the subjects. Source: Kubernetes SetDefaults_RoleBinding, SetDefaults_Subject."""
    role, subjects = obj.get("roleRef"), obj.get("subjects")
    added: Object = {}
    if isinstance(role, dict) and not role.get("apiGroup"):
        added["roleRef"] = {**role, "apiGroup": RBAC}
    if isinstance(subjects, list):
        filled = [
            {**subject, "apiGroup": group}
            if isinstance(subject, dict)
            and not subject.get("apiGroup")
            and (group := _SUBJECT_GROUPS.get(str(subject.get("kind"))))
            else subject
            for subject in subjects
        ]
        if filled != subjects:
            added["subjects"] = filled
    return {**obj, **added} if added else obj


def _check_binding(faults: Faults, obj: Object) -> None:
    """Source: Kubernetes ValidateRoleBinding, ValidateClusterRoleBinding, ValidateRoleBindingSubject."""
    everywhere = obj.get("kind") == "ClusterRoleBinding"
    role = faults.mapping(obj, "roleRef", "roleRef", required=True)
    if role is not None:
        faults.one_of(role, "apiGroup", "roleRef.apiGroup", ("", RBAC))
        kinds = ("ClusterRole",) if everywhere else ("Role", "ClusterRole")
        if faults.text(role, "kind", "roleRef.kind", required=True):
            faults.one_of(role, "kind", "roleRef.kind", kinds)
        faults.text(role, "name", "roleRef.name", required=True)
    for at, subject in faults.mappings(obj, "subjects", "subjects"):
        faults.text(subject, "name", f"{at}.name", required=True)
        kind = faults.text(subject, "kind", f"{at}.kind", required=True)
        if not kind:
            continue
        faults.one_of(subject, "kind", f"{at}.kind", tuple(_SUBJECT_GROUPS))
        if kind in _SUBJECT_GROUPS:
            faults.one_of(subject, "apiGroup", f"{at}.apiGroup", ("", *filter(None, (_SUBJECT_GROUPS[kind],))))
        if kind == "ServiceAccount" and everywhere:
            faults.text(subject, "namespace", f"{at}.namespace", required=True)


def _core(kind: str, plural: str, *short: str, **parts: Any) -> Kind:
    return Kind(kind=kind, versions=("v1",), plural=plural, short=short, owns_pods=False, **parts)


def _of(group: str, kind: str, plural: str, *short: str, **parts: Any) -> Kind:
    defaults = {"group": group, "kind": kind, "versions": ("v1",), "plural": plural, "short": short, "owns_pods": False}
    return Kind(**{**defaults, **parts})


KINDS = (
    _core(
        "Pod",
        "pods",
        "po",
        schema="V1Pod",
        status_schema="V1PodStatus",
        defaults="kailab.model.defaults:pod_defaults",
        check="kailab.model.validation.pods:check_pod",
        grouping="kailab.grouping.families.plain_workloads:POD",
        columns="kailab.cli.object_tables:POD",
        in_all=True,
    ),
    _core(
        "Node",
        "nodes",
        "no",
        namespaced=False,
        schema="V1Node",
        status_schema="V1NodeStatus",
        check="kailab.model.validation.pods:check_node",
        keeps_status=True,
        columns="kailab.cli.object_tables:NODE",
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
    _core("Event", "events", "ev", keeps_status=True, columns="kailab.cli.object_tables:EVENT", schedules_nothing=True),
    _core(
        "ConfigMap",
        "configmaps",
        "cm",
        schema="V1ConfigMap",
        check="kailab.model.validation.configuration:check_config_map",
        immutable=_CONTENT,
        fixed=_fixed_content,
    ),
    _core(
        "Secret",
        "secrets",
        schema="V1Secret",
        check="kailab.model.validation.configuration:check_secret",
        immutable=("type", *_CONTENT),
        fixed=_fixed_secret,
        schedules_nothing=True,
    ),
    _core(
        "Service",
        "services",
        "svc",
        schema="V1Service",
        check="kailab.model.validation.field_rules:check_spec_fields",
        in_all=True,
        schedules_nothing=True,
    ),
    _core("ServiceAccount", "serviceaccounts", "sa", schema="V1ServiceAccount", schedules_nothing=True),
    _core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "pvc",
        schema="V1PersistentVolumeClaim",
        check="kailab.model.validation.budgets:check_volume_claim",
        immutable=(
            "spec.accessModes",
            "spec.selector",
            "spec.storageClassName",
            "spec.volumeMode",
            "spec.volumeName",
            "spec.dataSource",
            "spec.dataSourceRef",
            "spec.volumeAttributesClassName",
            "spec.resources.limits",
        ),
        fixed=_fixed_claim,
        acts=True,
        unread=unread_of_claims("spec"),
    ),
    _core(
        "PersistentVolume",
        "persistentvolumes",
        "pv",
        namespaced=False,
        schema="V1PersistentVolume",
        check="kailab.model.validation.budgets:check_volume",
        immutable=("spec.volumeMode", "spec.nodeAffinity", *(f"spec.{source}" for source in VOLUME_SOURCES)),
        fixed=_fixed_volume,
        keeps_status=True,
        acts=True,
    ),
    _core(
        "ResourceQuota",
        "resourcequotas",
        "quota",
        schema="V1ResourceQuota",
        check="kailab.model.validation.budgets:check_resource_quota",
        advice="kailab.model.validation.budgets:advise_resource_quota",
        immutable=("spec.scopes",),
        acts=True,
    ),
    _core(
        "LimitRange",
        "limitranges",
        "limits",
        schema="V1LimitRange",
        defaults=_limit_range_defaults,
        check="kailab.model.validation.budgets:check_limit_range",
        acts=True,
    ),
    _core("Endpoints", "endpoints", "ep", schedules_nothing=True),
    _of(
        "scheduling.k8s.io",
        "PriorityClass",
        "priorityclasses",
        "pc",
        namespaced=False,
        schema="V1PriorityClass",
        defaults=_priority_class_defaults,
        check="kailab.model.validation.scheduling:check_priority_class",
        immutable=("value", "preemptionPolicy"),
        columns="kailab.cli.object_tables:PRIORITY_CLASS",
    ),
    _of(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        "pdb",
        schema="V1PodDisruptionBudget",
        check="kailab.model.validation.budgets:check_disruption_budget",
        controller="kailab.workloads.disruption:DisruptionController",
        watches=("Pod",),
    ),
    _of("coordination.k8s.io", "Lease", "leases", schedules_nothing=True),
    _of(
        "storage.k8s.io",
        "StorageClass",
        "storageclasses",
        "sc",
        namespaced=False,
        schema="V1StorageClass",
        defaults=_storage_class_defaults,
        check="kailab.model.validation.budgets:check_storage_class",
        immutable=("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
        acts=True,
    ),
    _of(
        "storage.k8s.io",
        "CSIStorageCapacity",
        "csistoragecapacities",
        schema="V1CSIStorageCapacity",
        immutable=("storageClassName", "nodeTopology"),
        acts=True,
    ),
    _of(
        "storage.k8s.io",
        "CSIDriver",
        "csidrivers",
        namespaced=False,
        schema="V1CSIDriver",
        immutable=("spec.attachRequired", "spec.volumeLifecycleModes"),
        fixed=_fixed_driver,
        acts=True,
    ),
    _of(
        "storage.k8s.io",
        "CSINode",
        "csinodes",
        namespaced=False,
        schema="V1CSINode",
        in_cluster="its limits bound how many volumes kube-scheduler puts on the node; KAI does not look at them, and the kubelet starts no pod beyond them",
    ),
    _of(
        "node.k8s.io",
        "RuntimeClass",
        "runtimeclasses",
        namespaced=False,
        schema="V1RuntimeClass",
        check="kailab.model.validation.scheduling:check_runtime_class",
        immutable=("handler",),
        acts=True,
    ),
    _of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd",
        "crds",
        namespaced=False,
        schedules_nothing=True,
    ),
    *(
        _of(
            RBAC,
            kind,
            f"{kind.lower()}s",
            namespaced=not kind.startswith("Cluster"),
            schema=f"V1{kind}",
            schedules_nothing=True,
            **parts,
        )
        for kinds, parts in (
            (("Role", "ClusterRole"), {"check": _check_role}),
            (
                ("RoleBinding", "ClusterRoleBinding"),
                {"defaults": _binding_defaults, "check": _check_binding, "immutable": ("roleRef",)},
            ),
        )
        for kind in kinds
    ),
    _of(
        "networking.k8s.io",
        "NetworkPolicy",
        "networkpolicies",
        "netpol",
        schema="V1NetworkPolicy",
        check="kailab.model.validation.field_rules:check_spec_fields",
        schedules_nothing=True,
    ),
    _of(
        "networking.k8s.io",
        "Ingress",
        "ingresses",
        "ing",
        schema="V1Ingress",
        check="kailab.model.validation.field_rules:check_spec_fields",
        schedules_nothing=True,
    ),
    _of(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        "hpa",
        versions=("v2", "v1"),
        in_cluster="its controller changes how many pods the workload that it names has",
    ),
)
