"""The defaults an API server fills in, for what kailab's controllers and scheduler read.

Each kind names its own defaults (``Kind.defaults``); this module has those of pods and the building blocks of the others.
``apply_defaults`` never changes its argument: it returns the same object if nothing is missing, else a new one that shares all unchanged
parts. Pod templates of workloads get the defaults of pod specs, and their pods more (``pod_only_defaults``), as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from kailab.model.kinds import part
from kailab.model.labels import DEFAULT_SCHEDULER_NAME
from kailab.model.objects import Object

Rule: TypeAlias = Callable[[Object], Object]

_POD_SPEC: dict[str, Any] = {
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "schedulerName": DEFAULT_SCHEDULER_NAME,
}
_EMPTY: Object = {}


def apply_defaults(obj: Object, kind: str) -> Object:
    """Return the object with the defaults of its kind (a kind key). An object of the wrong shape is returned unchanged; validation reports it."""
    rule: Rule | None = part(kind, "defaults")
    return rule(obj) if rule is not None else obj


def strip_nulls(value: Any) -> Any:
    """Remove mapping entries with a null value at any depth. An API server treats them as absent.

    Returns its argument if there are none.
    """
    if isinstance(value, dict):
        changed: Object | None = None
        for key, item in value.items():
            if type(item) is str:  # most are
                continue
            kept = strip_nulls(item) if isinstance(item, (dict, list)) else item
            # The copy is made at the first change, because most manifests have no nulls.
            if kept is None or kept is not item:
                if changed is None:
                    changed = dict(value)
                if kept is None:
                    del changed[key]
                else:
                    changed[key] = kept
        return value if changed is None else changed
    if isinstance(value, list):
        items: list[Any] | None = None
        for index, item in enumerate(value):
            if isinstance(item, (dict, list)) and (kept := strip_nulls(item)) is not item:
                if items is None:
                    items = list(value)
                items[index] = kept
        return value if items is None else items
    return value


def pod_spec_defaults(spec: Object) -> Object:
    """Restart policy, grace period, scheduler name."""
    missing = {key: value for key, value in _POD_SPEC.items() if key not in spec}
    return {**spec, **missing} if missing else spec


def _changed_containers(spec: Object, change: Callable[[Any], Any]) -> dict[str, list[Any]]:
    """The lists of containers in which ``change`` returns a new container, by their field."""
    changed = {}
    for name in ("containers", "initContainers"):
        containers = spec.get(name)
        if isinstance(containers, list):
            filled = [change(container) for container in containers]
            if any(a is not b for a, b in zip(filled, containers, strict=True)):
                changed[name] = filled
    return changed


def _with_requests(container: Any) -> Any:
    resources = container.get("resources") if isinstance(container, dict) else None
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(limits, dict) or not isinstance(resources, dict):
        return container
    requests = resources.get("requests") or _EMPTY
    if not isinstance(requests, dict) or all(name in requests for name in limits):
        return container
    # As in Kubernetes, a limit without a request becomes the request.
    return {**container, "resources": {**resources, "requests": {**limits, **requests}}}


def pod_only_defaults(spec: Object) -> Object:
    """The spec of a pod with the defaults that pods get and templates do not: requests where only limits are given (of extended resources
    too), and with hostNetwork the container ports as host ports."""
    changed = _changed_containers(spec, _with_requests)
    filled = {**spec, **changed} if changed else spec
    if spec.get("hostNetwork") is True:
        changed = _changed_containers(filled, _with_container_ports)
        filled = {**filled, **changed} if changed else filled
    return filled


def _with_container_ports(container: Any) -> Any:
    ports = container.get("ports") if isinstance(container, dict) else None
    if not isinstance(ports, list):
        return container
    filled = [
        {**port, "hostPort": port["containerPort"]}
        if isinstance(port, dict) and not port.get("hostPort") and port.get("containerPort")
        else port
        for port in ports
    ]
    return container if all(a is b for a, b in zip(filled, ports, strict=True)) else {**container, "ports": filled}


def pod_defaults(obj: Object) -> Object:
    """The defaults of a pod, and the phase Pending."""
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return obj
    filled = pod_only_defaults(pod_spec_defaults(spec))
    status = obj.get("status")
    # Validation reports a status that is not a mapping.
    if status is not None and (not isinstance(status, dict) or "phase" in status):
        return obj if filled is spec else {**obj, "spec": filled}
    return {**obj, "spec": filled, "status": {"phase": "Pending", **(status or _EMPTY)}}


def spec_defaults(defaults: Mapping[str, Any] | Callable[[Object], Mapping[str, Any]], template: bool = True) -> Rule:
    """A rule that fills in fields of the spec, with constants or with the results of a function of the spec. ``template``: also apply the
    defaults of the pod template at ``spec.template``."""

    def rule(obj: Object) -> Object:
        spec = obj.get("spec")
        if spec is None:
            spec = _EMPTY
        if not isinstance(spec, dict):
            return obj
        fields = defaults(spec) if callable(defaults) else defaults
        missing = {key: value for key, value in fields.items() if key not in spec}
        if template:
            filled = template_defaults(spec.get("template"))
            if filled is not spec.get("template"):
                missing["template"] = filled
        return {**obj, "spec": {**spec, **missing}} if missing else obj

    return rule


def template_defaults(template: Any) -> Any:
    """A pod template with the defaults of its pod spec. Other values are returned unchanged."""
    spec = template.get("spec") if isinstance(template, dict) else None
    if not isinstance(spec, dict):
        return template
    filled = pod_spec_defaults(spec)
    return template if filled is spec else {**template, "spec": filled}
