"""Deployment, ReplicaSet, ReplicationController, StatefulSet and DaemonSet: workloads that select their pods by labels."""

from __future__ import annotations

from typing import Any

from kailab.kinds.kubernetes import check_claim_templates, spec_check, unread_of_claims, unread_retention
from kailab.model.defaults import spec_defaults
from kailab.model.kind import AGE, NAME, Column, Kind, Unread
from kailab.model.validation.fields import LARGEST_INT32, NAME_RULE, Faults, is_dns_subdomain
from kailab.model.validation.pods import check_selector, check_template


@spec_check
def _check_deployment(faults: Faults, spec: dict[str, Any]) -> None:
    strategy = faults.mapping(spec, "strategy", "spec.strategy") or {}
    rolling = faults.mapping(strategy, "rollingUpdate", "spec.strategy.rollingUpdate")
    if rolling is not None and strategy.get("type") == "Recreate":
        faults.add("spec.strategy.rollingUpdate", "can't be given where the type is Recreate")
    elif rolling is not None and _is_zero(rolling.get("maxSurge")) and _is_zero(rolling.get("maxUnavailable")):
        faults.add(
            "spec.strategy.rollingUpdate.maxUnavailable", "can't be 0 where maxSurge is 0: nothing could be replaced"
        )
    if rolling is not None:
        _check_share(faults, rolling, "spec.strategy.rollingUpdate")
    ready, deadline = spec.get("minReadySeconds") or 0, spec.get("progressDeadlineSeconds", 600)
    if isinstance(ready, int) and isinstance(deadline, int) and deadline <= ready <= LARGEST_INT32:
        faults.wrong("spec.progressDeadlineSeconds", deadline, f"more than the {ready} of minReadySeconds")
    _check_replicas(faults, spec)


def _check_share(faults: Faults, rolling: dict[str, Any], path: str) -> None:
    share = rolling.get("maxUnavailable")
    if isinstance(share, str) and share[:-1].isdecimal() and share.endswith("%") and int(share[:-1]) > 100:
        faults.wrong(f"{path}.maxUnavailable", share, "100% at most")


def _check_stateful_set(faults: Faults, spec: dict[str, Any]) -> None:
    strategy = faults.mapping(spec, "updateStrategy", "spec.updateStrategy") or {}
    if strategy.get("type") == "OnDelete" and strategy.get("rollingUpdate") is not None:
        faults.add("spec.updateStrategy.rollingUpdate", "can't be given where the type is OnDelete")
    retention = faults.mapping(
        spec, "persistentVolumeClaimRetentionPolicy", "spec.persistentVolumeClaimRetentionPolicy"
    )
    for key in ("whenDeleted", "whenScaled"):
        faults.one_of(retention or {}, key, f"spec.persistentVolumeClaimRetentionPolicy.{key}", ("Retain", "Delete"))
    service = faults.text(spec, "serviceName", "spec.serviceName")
    if service and not is_dns_subdomain(service):
        faults.wrong("spec.serviceName", service, NAME_RULE)
    _check_replicas(faults, spec)


def _check_daemon_set(faults: Faults, spec: dict[str, Any]) -> None:
    """Source: Kubernetes ValidateRollingUpdateDaemonSet."""
    strategy = faults.mapping(spec, "updateStrategy", "spec.updateStrategy") or {}
    rolling = faults.mapping(strategy, "rollingUpdate", "spec.updateStrategy.rollingUpdate") or {}
    surge, missing = rolling.get("maxSurge", 0), rolling.get("maxUnavailable", 1)
    if rolling and _is_zero(surge) == _is_zero(missing):
        text = "expected one of maxSurge and maxUnavailable to be 0, and the other not (maxUnavailable is 1 unless it is given)"
        faults.add("spec.updateStrategy.rollingUpdate", text)
    _check_share(faults, rolling, "spec.updateStrategy.rollingUpdate")
    _check_selected_template(faults, spec)


def _is_zero(share: Any) -> bool:
    return share in (0, "0%") and share is not False


def _check_replicas(faults: Faults, spec: dict[str, Any]) -> None:
    """Check a Deployment, ReplicaSet or StatefulSet."""
    faults.integer(spec, "replicas", "spec.replicas")
    faults.integer(spec, "minReadySeconds", "spec.minReadySeconds")
    faults.one_of(spec, "podManagementPolicy", "spec.podManagementPolicy", ("OrderedReady", "Parallel"))
    check_claim_templates(faults, spec, "spec")
    _check_selected_template(faults, spec)


def _check_selected_template(faults: Faults, spec: dict[str, Any]) -> None:
    """Check that the selector matches the template: otherwise the workload would not find its own pods."""
    selector = faults.mapping(spec, "selector", "spec.selector", required=True)
    check_template(faults, spec, "spec", ("Always",), _names_of_claims(spec))
    if selector is None:
        return
    check_selector(faults, selector, "spec.selector")
    match_labels = selector.get("matchLabels")
    if not match_labels and not selector.get("matchExpressions"):
        faults.add("spec.selector", "is empty; expected matchLabels that select the template's pods")
    labels = _template_labels(spec)
    for name, value in match_labels.items() if isinstance(match_labels, dict) else ():
        if labels.get(name) != value:
            faults.add(f"spec.selector.matchLabels[{name}]", "does not match the labels of spec.template.metadata")


def _names_of_claims(spec: dict[str, Any]) -> list[str]:
    """The names by which containers mount the claims of a StatefulSet."""
    claims = (claim.get("metadata") for _, claim in Faults().mappings(spec, "volumeClaimTemplates", ""))
    return [str(meta.get("name")) for meta in claims if isinstance(meta, dict)]


def _template_labels(spec: dict[str, Any]) -> dict[str, Any]:
    """The labels of a pod template of unknown shape."""
    template = spec.get("template")
    meta = template.get("metadata") if isinstance(template, dict) else None
    labels = meta.get("labels") if isinstance(meta, dict) else None
    return labels if isinstance(labels, dict) else {}


@spec_check
def _check_replication_controller(faults: Faults, spec: dict[str, Any]) -> None:
    """Its selector is a mapping of labels; without one it selects the labels of its template."""
    faults.integer(spec, "replicas", "spec.replicas")
    faults.integer(spec, "minReadySeconds", "spec.minReadySeconds")
    check_template(faults, spec, "spec", ("Always",), ())
    labels = _template_labels(spec)
    selector = faults.mapping(spec, "selector", "spec.selector") or {}
    if not selector and not labels:
        faults.add("spec.selector", "is empty; expected labels that select the template's pods")
    for name, value in selector.items():
        if labels.get(name) != value:
            faults.add(f"spec.selector[{name}]", "does not match the labels of spec.template.metadata")


def _count(header: str, path: str) -> Column:
    return Column(header, path, default="0")


_ONE_AFTER_THE_OTHER = Unread(
    ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),
    "so many pods are replaced at once; here one after the other",
    (1, "1"),
)


def _apps(kind: str, short: str, wanted_pods: str = "replicas", **parts: Any) -> Kind:
    return Kind(
        group="apps",
        kind=kind,
        versions=("v1",),
        plural=f"{kind.lower()}s",
        short=(short,),
        schema=f"V1{kind}",
        controller=f"kailab.workloads.apps:{kind}Controller",
        wanted_pods=f"kailab.workloads.wanted_pods:{wanted_pods}",
        replaces_failed_pods=True,
        checked_templates=True,
        in_all=True,
        **parts,
    )


_REPLICAS = (
    NAME,
    Column("DESIRED", "spec.replicas", default="1"),
    _count("CURRENT", "status.replicas"),
    _count("READY", "status.readyReplicas"),
    AGE,
)

KINDS = (
    _apps(
        "Deployment",
        "deploy",
        defaults=spec_defaults({"replicas": 1, "minReadySeconds": 0, "revisionHistoryLimit": 10}),
        check=_check_deployment,
        immutable=("spec.selector",),
        grouping="kailab.grouping.families.plain_workloads:DEPLOYMENT",
        scalable=True,
        columns="kailab.cli.object_tables:DEPLOYMENT",
    ),
    _apps(
        "ReplicaSet",
        "rs",
        defaults=spec_defaults({"replicas": 1}),
        check=spec_check(_check_replicas),
        immutable=("spec.selector",),
        scalable=True,
        columns=_REPLICAS,
    ),
    Kind(
        kind="ReplicationController",
        versions=("v1",),
        plural="replicationcontrollers",
        short=("rc",),
        schema="V1ReplicationController",
        # It differs from a ReplicaSet only in the form of its selector.
        controller="kailab.workloads.apps:ReplicaSetController",
        wanted_pods="kailab.workloads.wanted_pods:replicas",
        defaults=spec_defaults({"replicas": 1, "minReadySeconds": 0}),
        check=_check_replication_controller,
        checked_templates=True,
        in_all=True,
        scalable=True,
        columns=_REPLICAS,
    ),
    _apps(
        "StatefulSet",
        "sts",
        defaults=spec_defaults({"replicas": 1, "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10}),
        check=spec_check(_check_stateful_set),
        immutable=("spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"),
        scalable=True,
        columns="kailab.cli.object_tables:STATEFUL_SET",
        unread=(
            _ONE_AFTER_THE_OTHER,
            *unread_of_claims("spec", "volumeClaimTemplates", "*", "spec"),
            *unread_retention("spec"),
        ),
    ),
    _apps(
        "DaemonSet",
        "ds",
        "daemon_set",
        defaults=spec_defaults({"revisionHistoryLimit": 10}),
        check=spec_check(_check_daemon_set),
        immutable=("spec.selector",),
        watches=("Node",),
        unread=(
            _ONE_AFTER_THE_OTHER,
            Unread(
                ("spec", "updateStrategy", "rollingUpdate", "maxSurge"),
                "the new pod starts beside the old one; here the old one goes first",
                ("0%",),
            ),
            Unread(("spec", "minReadySeconds"), "the next pod is replaced when the new one has been ready for so long"),
        ),
        columns=(
            NAME,
            _count("DESIRED", "status.desiredNumberScheduled"),
            _count("CURRENT", "status.currentNumberScheduled"),
            _count("READY", "status.numberReady"),
            AGE,
        ),
    ),
    Kind(
        group="apps",
        kind="ControllerRevision",
        versions=("v1",),
        plural="controllerrevisions",
        owns_pods=False,
        schedules_nothing=True,
    ),
)
