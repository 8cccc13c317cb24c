"""Notices about pods with a priority other than that of their PriorityClass: an API server refuses them, here the class's value counts."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.cluster.protocol import Cluster
from kailab.model.manifests import Manifest, Notice
from kailab.model.validation.advice import pod_templates


def warn_pod_priorities(cluster: Cluster, manifests: Iterable[Manifest]) -> list[Notice]:
    """Each pair of class and number is reported once, at its first pod."""
    given = list(manifests)
    pods = [
        (one, path, pod["spec"])
        for one in given
        for path, pod in pod_templates(one.object)
        if pod["spec"].get("priority") is not None
    ]
    if not pods:
        return []
    classes = [*cluster.list("PriorityClass"), *(one.object for one in given if one.kind == "PriorityClass")]
    values = {one["metadata"].get("name"): one.get("value") for one in classes}
    usual = next((one.get("value") for one in classes if one.get("globalDefault")), 0)
    notices: dict[tuple[object, object], Notice] = {}
    for one, path, spec in pods:
        name, number = spec.get("priorityClassName"), spec["priority"]
        # An unknown class is refused elsewhere.
        value = values.get(name, number) if name else usual
        if number == value:
            continue
        whose = f"its class {name} has {value}" if name else f"without a class it is {value}"
        text = f"{number} differs from the class: {whose}; an API server refuses the pod, and here {value} counts"
        notices.setdefault((name, number), Notice(text, one.where(f"{path}spec.priority"), "not-meant"))
    return list(notices.values())
