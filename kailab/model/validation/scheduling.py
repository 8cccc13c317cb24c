"""Check PodGroup, Topology and PriorityClass by the rules of KAI's schemas and webhooks, and of Kubernetes."""

from __future__ import annotations

from typing import Any

from kailab.model.labels import HOSTNAME
from kailab.model.validation.fields import LABEL_RULE, LARGEST_INT32, Faults, check_labels, is_dns_label, is_label_key
from kailab.model.validation.pods import check_toleration

MOST_PRIORITY = 10**9  # of a class that is not a system class
_MOST_LEVELS = 16  # maxItems in KAI's definition


def check_podgroup(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec") or {}
    faults.integer(spec, "minMember", "spec.minMember")
    faults.integer(spec, "minSubGroup", "spec.minSubGroup")
    if spec.get("minMember") is not None and spec.get("minSubGroup") is not None:
        faults.add("spec.minMember", "can't be combined with minSubGroup; give one of the two")
    faults.text(spec, "queue", "spec.queue")
    faults.text(spec, "priorityClassName", "spec.priorityClassName")
    faults.one_of(spec, "preemptibility", "spec.preemptibility", ("", "preemptible", "non-preemptible"))
    faults.duration(spec, "preemptionDelay", "spec.preemptionDelay")
    faults.duration(spec, "stalenessGracePeriod", "spec.stalenessGracePeriod", signed=True)
    faults.integer(spec, "schedulingBackoff", "spec.schedulingBackoff", least=-(2**31))
    faults.boolean(spec, "markUnschedulable", "spec.markUnschedulable")
    faults.mapping(obj, "status", "status")
    _check_constraint(faults, spec, "spec")
    _check_subgroups(faults, spec)


def advise_podgroup(faults: Faults, obj: dict[str, Any]) -> None:
    """Advise on a minSubGroup above the number of children: KAI accepts it with a warning, and the group never starts."""
    spec = obj.get("spec") or {}
    groups = spec.get("subGroups") or []
    for path, item, name in [("spec", spec, None)] + [
        (f"spec.subGroups[{index}]", group, group["name"]) for index, group in enumerate(groups)
    ]:
        wanted = item.get("minSubGroup")
        there = sum(group.get("parent") == name for group in groups)
        if wanted is not None and wanted > there:
            faults.add(f"{path}.minSubGroup", f"is {wanted}, but there are {there} subgroups in it: it never starts")


def check_topology(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec", required=True)
    if spec is None:
        return
    levels = list(faults.mappings(spec, "levels", "spec.levels", required=True))
    if len(levels) > _MOST_LEVELS:
        faults.add("spec.levels", f"{len(levels)} levels; expected {_MOST_LEVELS} at most")
    keys = [level.get("nodeLabel") for _, level in levels]
    seen: set[str] = set()
    for index, (path, level) in enumerate(levels):
        label = faults.text(level, "nodeLabel", f"{path}.nodeLabel", required=True)
        alias = faults.text(level, "alias", f"{path}.alias")
        for key, name in (("nodeLabel", label), ("alias", alias)):
            if name and not is_label_key(name):
                faults.add(f"{path}.{key}", "is not a valid label key; expected name or domain/name")
            elif name and name in seen:
                faults.add(f"{path}.{key}", f"{name!r} is given twice; levels are told apart by it")
            if name:
                seen.add(name)
        if alias and alias in keys:
            faults.add(f"{path}.alias", f"{alias!r} is a nodeLabel of this topology; an alias needs a name of its own")
        if label == HOSTNAME and index != len(levels) - 1:
            faults.add(f"{path}.nodeLabel", f"{HOSTNAME} can only be the lowest (last) level")


SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Kubernetes' own priority classes and their values."""


def check_priority_class(faults: Faults, obj: dict[str, Any]) -> None:
    name = obj["metadata"].get("name") if isinstance(obj.get("metadata"), dict) else None
    system = name if isinstance(name, str) and name.startswith("system-") else ""
    value = faults.integer(obj, "value", "value", least=-(2**31), most=LARGEST_INT32 if system else MOST_PRIORITY)
    if system and value is not None and SYSTEM_CLASSES.get(system) != value:
        known = ", ".join(f"{own} ({number})" for own, number in SYSTEM_CLASSES.items())
        faults.add("metadata.name", f"begins with system-, which only the classes of Kubernetes itself may: {known}")
    faults.boolean(obj, "globalDefault", "globalDefault")
    faults.one_of(obj, "preemptionPolicy", "preemptionPolicy", ("PreemptLowerPriority", "Never"))


def _check_constraint(faults: Faults, parent: dict[str, Any], path: str) -> None:
    constraint = faults.mapping(parent, "topologyConstraint", f"{path}.topologyConstraint")
    for key in ("topology", "requiredTopologyLevel", "preferredTopologyLevel"):
        faults.text(constraint or {}, key, f"{path}.topologyConstraint.{key}")


def _check_subgroups(faults: Faults, spec: dict[str, Any]) -> None:
    groups = list(faults.mappings(spec, "subGroups", "spec.subGroups"))
    parents: dict[str, str | None] = {}
    for path, group in groups:
        name = faults.text(group, "name", f"{path}.name", required=True)
        parent = faults.text(group, "parent", f"{path}.parent")
        if name:
            if not is_dns_label(name):
                faults.wrong(f"{path}.name", name, LABEL_RULE)
            elif name in parents:
                faults.add(f"{path}.name", f"subgroup {name!r} is given twice")
            parents.setdefault(name, parent)
        _check_constraint(faults, group, path)
    inner = {parent for parent in parents.values() if parent is not None}
    for path, group in groups:
        _check_subgroup_minimum(faults, group, path, group.get("name") in inner if _named(group) else False)
        parent = group.get("parent")
        if isinstance(parent, str) and parent not in parents:
            faults.add(f"{path}.parent", f"there is no subgroup {parent!r:.80}")
        elif _named(group) and _circular(group["name"], parents):
            faults.add(f"{path}.parent", "the subgroups form a cycle; each needs a way up to one without parent")


def _named(group: dict[str, Any]) -> bool:
    return isinstance(group.get("name"), str)


def _check_subgroup_minimum(faults: Faults, group: dict[str, Any], path: str, inner: bool) -> None:
    faults.integer(group, "minMember", f"{path}.minMember")
    faults.integer(group, "minSubGroup", f"{path}.minSubGroup")
    member, sub = group.get("minMember"), group.get("minSubGroup")
    if member is not None and sub is not None:
        faults.add(f"{path}.minMember", "can't be combined with minSubGroup; give one of the two")
    elif inner and member is not None:
        faults.add(f"{path}.minMember", "is for subgroups of pods; this one holds subgroups: use minSubGroup")
    elif not inner and sub is not None:
        faults.add(f"{path}.minSubGroup", "is for subgroups that hold subgroups; this one holds pods: use minMember")
    elif not inner and member is None:
        faults.add(f"{path}.minMember", "is required")


def _circular(name: str, parents: dict[str, str | None]) -> bool:
    at, steps = parents.get(name), 0
    # Bounded, because the ancestors may contain a cycle without this subgroup.
    while at is not None and at != name and steps <= len(parents):
        at, steps = parents.get(at), steps + 1
    return at == name


def check_runtime_class(faults: Faults, obj: dict[str, Any]) -> None:
    handler = faults.text(obj, "handler", "handler", required=True)
    if handler and not is_dns_label(handler):
        faults.wrong("handler", handler, LABEL_RULE)
    faults.quantities(faults.mapping(obj, "overhead", "overhead") or {}, "podFixed", "overhead.podFixed")
    scheduling = faults.mapping(obj, "scheduling", "scheduling") or {}
    check_labels(faults, scheduling, "nodeSelector", "scheduling.nodeSelector")
    for path, toleration in faults.mappings(scheduling, "tolerations", "scheduling.tolerations"):
        check_toleration(faults, toleration, path)
