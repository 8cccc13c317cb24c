"""Argo: Workflow, and the templates that it takes."""

from __future__ import annotations

from typing import Any

from kailab.model.kind import Kind, Unread
from kailab.model.validation.core import fields_of, shape
from kailab.model.validation.shapes import Check, items, record, with_spec


def _untagged(value: Any) -> Any:
    """A value without texts that have tags (``{{item}}``), which are filled in later. Names stay, because they are required."""
    if isinstance(value, dict):
        return {
            key: _untagged(item)
            for key, item in value.items()
            if key == "name" or not (isinstance(item, str) and "{{" in item)
        }
    return list(map(_untagged, value)) if isinstance(value, list) else value


def _before_filling(check: Check) -> Check:
    return lambda value: check(_untagged(value))


def _shape() -> Check:
    template = _before_filling(shape("ArgoTemplate"))
    return with_spec(record({**fields_of("ArgoSpec"), "templates": items(template), "templateDefaults": template}))


def _argo(kind: str, *short: str, **parts: Any) -> Kind:
    return Kind(
        group="argoproj.io",
        kind=kind,
        versions=("v1alpha1",),
        plural=f"{kind.lower()}s",
        short=short,
        label_domains=("argoproj.io",),
        **parts,
    )


_TEMPLATE = ("spec", "templates", "*")
_NO_POD = "a pod of Argo's does it, and it may fail; here it succeeds at once"
_UNREAD = (
    *(
        Unread(
            (*_TEMPLATE, *path, "when"), "a step whose condition is false is left out; here it runs whatever that says"
        )
        for path in (("steps", "*", "*"), ("dag", "tasks", "*"))
    ),
    *(Unread((*_TEMPLATE, kind), _NO_POD) for kind in ("resource", "http", "plugin", "data")),
    Unread((*_TEMPLATE, "dag", "target"), "only these tasks and those that they need are run"),
    Unread(
        (*_TEMPLATE, "daemon"), "the next step begins when its pod is ready, and it ends with the template around it"
    ),
    Unread((*_TEMPLATE, "timeout"), "the template fails after it, from the moment when it begins"),
    Unread((*_TEMPLATE, "synchronization"), "it waits for a lock that others hold"),
    Unread((*_TEMPLATE, "memoize"), "a result from before may take the place of its pod"),
    Unread((*_TEMPLATE, "retryStrategy", "backoff"), "the next attempt waits"),
    Unread(("spec", "synchronization"), "it waits for a lock that others hold"),
    Unread(("spec", "hooks"), "more templates are run when a condition comes true"),
    Unread(("spec", "volumeClaimTemplates"), "pods get volumes of the workflow, and wait for them"),
    Unread(("spec", "podDisruptionBudget"), "a budget holds back evictions of its pods"),
    Unread(("spec", "podGC", "strategy"), "pods that ended are deleted"),
)

KINDS = (
    _argo(
        "Workflow",
        "wf",
        shape=_shape,
        describes="kailab.workloads.argo:pods_of_workflow",
        needs="kailab.workloads.argo:needs_of_workflow",
        controller="kailab.workloads.argo:WorkflowController",
        grouping="kailab.grouping.families.plain_workloads:WRAPPER",
        watches=("WorkflowTemplate", "ClusterWorkflowTemplate"),
        suspended_by="suspend",
        in_all=True,
        unread=_UNREAD,
    ),
    *(
        _argo(
            kind,
            short,
            shape=_shape,
            namespaced=not kind.startswith("Cluster"),
            owns_pods=False,
            unread=_UNREAD,
        )
        for kind, short in (("WorkflowTemplate", "wftmpl"), ("ClusterWorkflowTemplate", "cwft"))
    ),
    _argo("CronWorkflow", "cwf", in_cluster="Argo makes a Workflow at each of its times"),
)
