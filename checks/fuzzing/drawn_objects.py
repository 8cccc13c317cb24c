"""Draw objects from the tables of Kubernetes' kinds and of operators: sound ones with any of their fields, and ones with a fault.

Values are drawn for the type of a field; names with a meaning (a port, an operator, a policy) get values that a user would write. So most
objects are taken by an API server, and each refusal is worth a look.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from kailab.model.kinds import KINDS, kind_key
from kailab.model.objects import Object
from kailab.model.validation import core

_POD: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}]}
_CLAIM: dict[str, Any] = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
BASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "Pod": ("v1", "V1Pod", {"spec": _POD}),
    "Job": ("batch/v1", "V1Job", {"spec": {"template": {"spec": {**_POD, "restartPolicy": "Never"}}}}),
    "Deployment": (
        "apps/v1",
        "V1Deployment",
        {
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": _POD},
            }
        },
    ),
    "PersistentVolumeClaim": ("v1", "V1PersistentVolumeClaim", {"spec": _CLAIM}),
    "ResourceQuota": ("v1", "V1ResourceQuota", {"spec": {"hard": {"pods": "4"}}}),
    "LimitRange": ("v1", "V1LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "4"}}]}}),
    "Service": ("v1", "V1Service", {"spec": {"ports": [{"port": 80}]}}),
    "PodDisruptionBudget": ("policy/v1", "V1PodDisruptionBudget", {"spec": {"minAvailable": 1, "selector": {}}}),
    "PriorityClass": ("scheduling.k8s.io/v1", "V1PriorityClass", {"value": 10}),
    "RuntimeClass": ("node.k8s.io/v1", "V1RuntimeClass", {"handler": "runc"}),
}
ODD = 0.06
"""How often a value is drawn that is probably refused."""


class Values(NamedTuple):
    sound: tuple[Any, ...]
    odd: tuple[Any, ...] = ()

    def draw(self, drawn: random.Random) -> Any:
        return drawn.choice(self.odd if self.odd and drawn.random() < ODD else self.sound)


_BY_NAME: dict[str, Values] = {
    "restartPolicy": Values(("Never",), ("Always", "OnFailure", "Sometimes")),
    "operator": Values(("Exists", "In"), ("NotIn", "DoesNotExist", "Gt", "Equal")),
    "effect": Values(("NoSchedule", "PreferNoSchedule", "NoExecute"), ("None",)),
    "topologyKey": Values(("kubernetes.io/hostname", "zone"), ("", "x y")),
    "whenUnsatisfiable": Values(("DoNotSchedule", "ScheduleAnyway"), ("Never",)),
    "protocol": Values(("TCP", "UDP", "SCTP"), ("HTTP",)),
    "hostPort": Values((80, 8080), (0, 70000)),
    "containerPort": Values((80, 8080), (0, -1, 65536)),
    "preemptionPolicy": Values(("PreemptLowerPriority", "Never"), ("Always",)),
    "priorityClassName": Values(("system-node-critical",), ("none-such",)),
    "priority": Values((0,), (5,)),
    "scopes": Values((["BestEffort"], ["NotTerminating"]), (["Terminating", "NotTerminating"], ["Nope"])),
    "scopeName": Values(("PriorityClass", "BestEffort", "Terminating"), ("Nope",)),
    "completionMode": Values(("Indexed", "NonIndexed"), ("Other",)),
    "accessModes": Values(
        (["ReadWriteOnce"], ["ReadWriteOncePod"]), (["ReadWriteOncePod", "ReadOnlyMany"], ["Nope"], [])
    ),
    "type": Values(("Container", "Pod", "RollingUpdate", "ClusterIP"), ("PersistentVolumeClaim", "Nope", "Recreate")),
    "name": Values(("main", "second"), ("Bad_Name", "with.dot", "")),
    "value": Values((0, 10, 1000000000), (2000000001, -5)),
    "dnsPolicy": Values(("ClusterFirst", "Default"), ("None", "Nope")),
    "nodeName": Values(("node-1",), ("Bad Name",)),
    "schedulerName": Values(("kai-scheduler", "default-scheduler"), ("",)),
    "imagePullPolicy": Values(("Always", "IfNotPresent"), ("Nope",)),
    "matchLabels": Values(({"a": "b"},), ({"a": "x y"}, {"": "b"})),
    "volumeMode": Values(("Filesystem", "Block"), ("Nope",)),
    "sessionAffinity": Values(("None", "ClientIP"), ("Nope",)),
    "hard": Values(
        ({"requests.cpu": "4"}, {"count/jobs.batch": "2", "pods": 3}, {"limits.memory": "1Gi"}),
        ({"gpu": 1}, {"pods": "-1"}),
    ),
}
_TYPES: dict[str, Values] = {
    "int": Values((0, 1, 2, 5, 30), (-1, 2**31)),
    "int64": Values((0, 1, 30), (-1,)),
    "count": Values((0, 1, 2, 5), (-1,)),
    "pods": Values((0, 1, 2, 5), (-1,)),
    "bool": Values((True, False), ("yes",)),
    "str": Values(("a", "main", "data"), ("", "x y", "UPPER", "10%", 5)),
    "quantity": Values(("1", "500m", "2Gi", 3), ("0", "0.5", "-1", "1e3", "abc", "100M")),
    "port": Values((80, 443), (0, 70000)),
    "share": Values((1, "25%"), (0, "150%", -1, "x")),
    "int|str": Values((80, "http"), ("25%", "")),
    "time": Values(("2024-01-01T00:00:00Z",), ("yesterday",)),
    "float": Values((1.5,), ("x",)),
    # Operators' tables have only the names of fields.
    "any": Values(
        (0, 1, 2, 30, True, False, "a", "main", "1Gi", "50%", {"a": "b"}, ["a"], [{"name": "main"}], {}),
        (-1, "", [1], {"a": {}}, 2**31),
    ),
}


def draw(seed: int) -> Object:
    """The object of a seed. Equal seeds give equal objects."""
    drawn = random.Random(seed)
    kind = drawn.choice(list(BASES))
    api_version, type, base = BASES[kind]
    obj: Object = {"apiVersion": api_version, "kind": kind, "metadata": {"name": f"drawn-{seed}"}, **_copied(base)}
    for _ in range(drawn.choice((1, 1, 2, 3))):
        _set_a_field(drawn, obj, type, 0)
    if drawn.random() < 0.1:
        _misspell(drawn, obj)
    return obj


def add_fields(drawn: random.Random, obj: Object) -> str:
    """Set some fields of an object of any kind with a definition, whatever it has there. Returns the paths of the first steps."""
    known = KINDS.get(kind_key(obj))
    definition = core.operator_definition(obj["apiVersion"], obj["kind"])
    type = (
        known.schema if known is not None and known.schema else definition.type if definition is not None else "V1Pod"
    )
    before = _copied(obj)
    for _ in range(drawn.choice((1, 2, 2, 4))):
        _set_a_field(drawn, obj, type, 0)
    spec, old = obj.get("spec"), before.get("spec")
    changed = (
        [name for name in spec if not isinstance(old, dict) or old.get(name) != spec[name]]
        if isinstance(spec, dict)
        else []
    )
    return f"drawn: {', '.join(changed) or 'outside of spec'}"


def _is_record(type: str) -> bool:
    return type not in core.SCALARS and type not in _TYPES and type[0] not in "[{="


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value


def _set_a_field(drawn: random.Random, value: dict[str, Any], type: str, depth: int) -> None:
    """Set a field of a value or of one below it."""
    fields = {
        name: of
        for name, of in core.operator_field_types(type).items()
        if name not in ("metadata", "status", "apiVersion", "kind")
    }
    if not fields:
        return
    there = [name for name in fields if isinstance(value.get(name), dict | list) and value[name]]
    name = drawn.choice(there) if there and depth < 6 and drawn.random() < 0.75 else drawn.choice(list(fields))
    of, present = fields[name], value.get(name)
    inner = of.strip("[]")
    if isinstance(present, dict) and present and of[0] == "{" and _is_record(of.strip("{}")):
        below = drawn.choice(list(present))
        if isinstance(present[below], dict):
            _set_a_field(drawn, present[below], of.strip("{}"), depth + 1)
    elif isinstance(present, dict) and _is_record(of):
        _set_a_field(drawn, present, of, depth + 1)
    elif (
        isinstance(present, list)
        and of[0] == "["
        and _is_record(inner)
        and all(isinstance(item, dict) for item in present)
    ):
        _set_a_field(drawn, drawn.choice(present), inner, depth + 1)
    else:
        value[name] = _value(drawn, name, of, depth)


def _value(drawn: random.Random, name: str, type: str, depth: int) -> Any:
    if name in _BY_NAME and (type != "str" or drawn.random() < 0.9):
        return _copied(_BY_NAME[name].draw(drawn))
    if type[0] == "[":
        return [_value(drawn, "", type[1:-1], depth + 1) for _ in range(drawn.choice((1, 1, 2)))]
    if type[0] == "{":
        key = drawn.choice(
            ("cpu", "memory", "nvidia.com/gpu") if type == "{quantity}" else ("a", "app", "kubernetes.io/os")
        )
        return {key: _value(drawn, "", type[1:-1], depth + 1)}
    if type[0] == "=":
        return drawn.choice(type[1:].split("|"))
    if type in _TYPES:
        return _TYPES[type].draw(drawn)
    if type in core.SCALARS or depth > 5:
        return {}
    fields = core.operator_field_types(type)
    required = core.required_fields(type) if type in core.types() else ()
    return {
        field: _value(drawn, field, of, depth + 1)
        for field, of in fields.items()
        if field in required or drawn.random() < 1.0 / max(2, len(fields))
    }


def _misspell(drawn: random.Random, obj: Object) -> None:
    """Double a letter of a field's name, somewhere."""
    at: Any = obj.get("spec")
    while isinstance(at, dict) and at:
        name = drawn.choice(list(at))
        if not isinstance(at[name], dict) or drawn.random() < 0.4:
            at[f"{name}{name[-1]}"] = at[name]
            return
        at = at[name]
