"""What an object says, as a key: equal for equal values, down to their types."""

from __future__ import annotations

import marshal
from typing import Any


def content_key(*parts: Any) -> bytes | None:
    """The same for what is the same, in the same order of its keys; None where there are other values than JSON has."""
    try:
        return marshal.dumps(parts, 2)  # a later form would tell equal ones apart by who else holds their parts
    except ValueError:
        return None


# Pod templates: where their pods may go, which can still be changed while their workload is suspended.

Object = dict[str, Any]
DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")
"""Fields of a pod spec that Kueue and others set of work that waits for them, beside the labels and annotations of its pods."""


def without_scheduling_directives(template: Object, *fields: str) -> Object:
    """A pod template without its labels and annotations, and without such fields of its pod spec or of its affinity."""
    meta = {
        key: value for key, value in (template.get("metadata") or {}).items() if key not in ("labels", "annotations")
    }
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in fields}
    if affinity := {key: value for key, value in (spec.pop("affinity", None) or {}).items() if key not in fields}:
        spec["affinity"] = affinity
    rest = {key: value for key, value in template.items() if key not in ("metadata", "spec")}
    return {**rest, **({"metadata": meta} if meta else {}), "spec": spec}


def scheduling_directives(template: Object) -> Object:
    """What ``without_scheduling_directives`` takes out, as a template of its own."""
    meta = {key: value for key, value in (template.get("metadata") or {}).items() if key in ("labels", "annotations")}
    spec = {key: value for key, value in template["spec"].items() if key in DIRECTIVES}
    return {key: value for key, value in (("metadata", meta), ("spec", spec)) if value}
