"""Node: taints and the resources it offers."""

from __future__ import annotations

from typing import Any

from kailab.model.quantities import format_bytes
from kailab.model.validation.fields import Faults
from kailab.model.validation.metadata import is_label_key, is_label_value

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def check_node(faults: Faults, obj: dict[str, Any]) -> None:
    spec = faults.mapping(obj, "spec", "spec") or {}
    faults.boolean(spec, "unschedulable", "spec.unschedulable")
    seen: set[tuple[Any, Any]] = set()
    for path, taint in faults.mappings(spec, "taints", "spec.taints"):
        key = faults.text(taint, "key", f"{path}.key", required=True)
        value = faults.text(taint, "value", f"{path}.value")
        if key and not is_label_key(key):
            faults.add(f"{path}.key", "is not a valid key; expected name or domain/name")
        if value and not is_label_value(value):
            faults.wrong(f"{path}.value", value, "a label value")
        effect = faults.one_of(taint, "effect", f"{path}.effect", EFFECTS)
        if "effect" not in taint:
            faults.add(f"{path}.effect", f"is required; expected {' or '.join(EFFECTS)}")
        if (key, effect) in seen:
            faults.add(path, "the same key and effect twice")
        seen.add((key, effect))
    status = faults.mapping(obj, "status", "status") or {}
    capacity = faults.quantities(status, "capacity", "status.capacity")
    allocatable = faults.quantities(status, "allocatable", "status.allocatable") or {}
    for name, amount in allocatable.items():
        if capacity and name in capacity and amount > capacity[name]:
            path = f"status.allocatable[{name}]"
            most = format_bytes(int(capacity[name])) if name == "memory" else str(float(capacity[name]))
            faults.add(path, f"is more than the capacity of {most}")
    for path, condition in faults.mappings(status, "conditions", "status.conditions"):
        faults.text(condition, "type", f"{path}.type", required=True)
        faults.one_of(condition, "status", f"{path}.status", ("True", "False", "Unknown"))
