"""The words of a step, read back into changes: a step says everything that its trial did, so that who follows the words
does the same as who applies the changes.

The reader is written from the words alone. From the changes it takes only the names that words leave out ("and 3 more"),
as many as they say, and what is free: the form of objects that are made, such as a further node of a pool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from checks.explaining.pod_templates import pod_templates
from checks.explaining.workloads import AppliedWorkload
from kailab.cluster.protocol import Object
from kailab.errors import NotFound
from kailab.lab.answer import Step
from kailab.lab.lab import Lab
from kailab.model import labels
from kailab.model.objects import name_of

Key = tuple[str, str]
"""The kind and the name of an object; all work is in one namespace."""
Objects = dict[Key, Object | None]
"""Objects after changes; None: deleted."""
Edit = Callable[[Object], None]


class WordsUnclear(Exception):
    """The words of a step do not say what to do, or not all of it."""


@dataclass
class _Meaning:
    """What the words of a step say. ``seconds``: to wait. ``recreated``: what is deleted and applied again."""

    objects: Objects = field(default_factory=dict)
    recreated: set[Key] = field(default_factory=set)
    seconds: float = 0.0


def difference(lab: Lab, work: AppliedWorkload, step: Step) -> str:
    """How the words of a step and its changes differ; empty if they are the same."""
    done = _of_changes(lab, step.changes)
    try:
        said = _Reader(lab, work, done).read(step.do)
    except WordsUnclear as error:
        return str(error)
    if said.seconds != done.seconds:
        return f"the words wait {said.seconds:g} s, the changes {done.seconds:g} s"
    silent = sorted(done.objects.keys() - said.objects.keys())
    if silent:
        return f"the changes also change {_names(silent)}"
    idle = sorted(said.objects.keys() - done.objects.keys())
    if idle:
        return f"the changes do not change {_names(idle)}"
    for key, obj in said.objects.items():
        other = done.objects[key]
        if (obj is None) != (other is None):
            return f"{_names([key])}: the words {'delete' if obj is None else 'keep'} it, the changes do not"
        if obj is not None and other is not None and (path := _first_difference(_clean(obj), _clean(other))):
            return f"{_names([key])}: {path}"
    # A node is deleted and applied only on the copy: in a cluster it becomes ready by itself.
    remade = {key for key in done.recreated if key[0] != "Node"}
    if said.recreated != remade:
        return f"the words delete and apply {_names(sorted(said.recreated))}, the changes {_names(sorted(remade))}"
    return ""


def _names(keys: Sequence[Key]) -> str:
    return ", ".join(" ".join(key) for key in keys) or "nothing"


def _first_difference(said: Any, done: Any, path: str = "") -> str:
    if said == done:
        return ""
    if isinstance(said, dict) and isinstance(done, dict):
        for key in sorted(said.keys() | done.keys()):
            if found := _first_difference(said.get(key), done.get(key), f"{path}.{key}" if path else key):
                return found
        return ""
    if isinstance(said, list) and isinstance(done, list) and len(said) == len(done):
        pairs = enumerate(zip(said, done, strict=True))
        return next(filter(None, (_first_difference(*pair, f"{path}[{place}]") for place, pair in pairs)), "")
    return f"{path} is {json.dumps(said)} by the words, {json.dumps(done)} by the changes"


# Objects


_OWN_LABELS = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def _clean(obj: Object) -> Object:
    """What users write of an object."""
    made = deepcopy(
        {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    )
    kept = {
        "labels": dict(obj["metadata"].get("labels") or {}),
        "annotations": dict(obj["metadata"].get("annotations") or {}),
    }
    if obj["kind"] == "Job":
        made["spec"].pop("selector", None)
    whole: Object = {**made, "metadata": kept}
    for holder in (whole, *pod_templates(whole)):
        metadata = holder["metadata"]
        metadata.pop("creationTimestamp", None)
        for name in ("labels", "annotations"):
            notes = {
                key: str(value) for key, value in (metadata.get(name) or {}).items() if not _is_servers(key, str(value))
            }
            metadata.pop(name, None)
            if notes:
                metadata[name] = notes
        spec = holder.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            for key in ("nodeName", "priority", "preemptionPolicy"):
                spec.pop(key, None)
            if not spec.get("nodeSelector"):
                spec.pop("nodeSelector", None)
            if not spec.get("schedulingGates"):
                spec.pop("schedulingGates", None)
    return _without_empty(whole)


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: made for key, inner in value.items() if (made := _without_empty(inner)) not in (None, {})}
    if isinstance(value, list):
        return [_without_empty(inner) for inner in value]
    return value


def _is_servers(key: str, value: str) -> bool:
    made_for_it = key == labels.POD_GROUP and re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", value) is not None
    written = key.startswith(
        (
            "kai.scheduler/last-",
            "kai.scheduler/stale",
            "runai",
            "received",
            "kubectl.kubernetes.io",
            "deployment.kubernetes.io",
        )
    )
    return key in _OWN_LABELS or made_for_it or written or key == "kai.scheduler/top-owner-metadata"


def _key(reference: Mapping[str, Any]) -> Key:
    return reference["kind"], reference["name"]


def _of_changes(lab: Lab, changes: Sequence[Mapping[str, Any]]) -> _Meaning:
    """The changes of a step, as objects."""
    meaning = _Meaning()
    for change in changes:
        if "advance" in change:
            meaning.seconds += change["advance"]
        elif "delete" in change:
            meaning.objects[_key(change["delete"])] = None
        elif "apply" in change:
            for obj in change["apply"]:
                key = obj["kind"], obj["metadata"]["name"]
                if key in meaning.objects and meaning.objects[key] is None:
                    meaning.recreated.add(key)
                meaning.objects[key] = obj
        else:
            key = _key(change["patch"])
            before = meaning.objects.get(key) or _stored(lab, key)
            if before is None:
                raise WordsUnclear(f"the changes patch {_names([key])}, which does not exist")
            meaning.objects[key] = _merged(before, change["patch"]["patch"])
    return meaning


def _merged(before: Any, patch: Any) -> Any:
    """A JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    made = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            made.pop(key, None)
        else:
            made[key] = _merged(made.get(key), value)
    return made


def _stored(lab: Lab, key: Key) -> Object | None:
    kind, name = key
    for namespace in ("default", None):
        try:
            return deepcopy(lab.cluster.get(kind, name, namespace))
        except (NotFound, KeyError):
            continue
    return None


# Words


_RECREATED = re.compile(r": delete ([^:]*), and apply with that change$")
_COMMAND = re.compile(r": kailab (?:patch|delete) .*$", re.DOTALL)
_MORE = re.compile(r"^(.*) and (\d+) more$")
_IN_GROUPS = re.compile(r" \((in|and in) PodGroup (.*)\)$")
_Handler = Callable[["_Reader", re.Match[str]], None]


class _Reader:
    """Reads the words of one step. ``done``: what its changes do."""

    def __init__(self, lab: Lab, work: AppliedWorkload, done: _Meaning) -> None:
        self.lab, self.work, self.done = lab, work, done
        self.meaning = _Meaning()
        self.in_groups = ""

    def read(self, text: str) -> _Meaning:
        text = _COMMAND.sub("", text).rstrip(".")
        again = _RECREATED.search(text)
        if again is not None:
            text = text[: again.start()]
        for clause in text.split("; then "):
            clause, self.in_groups = self._groups(clause)
            self._clause(clause[:1].upper() + clause[1:])
        if again is not None:
            self.meaning.recreated = {
                self._named(name) for name in self.names(again[1], deleted=False, among=self.done.recreated)
            }
        return self.meaning

    def _groups(self, clause: str) -> tuple[str, str]:
        """The clause without the fields of PodGroups that it sets, and whether it sets only these ("in") or also ("and in")."""
        found = _IN_GROUPS.search(clause)
        if found is None:
            return clause, ""
        for part in found[2].split(" and PodGroup "):
            names, _, fields = part.partition(": ")
            for name in self.names(names, "PodGroup"):
                self.edit(("PodGroup", name), _setting(dict(field.split(": ", 1) for field in fields.split("; "))))
        return clause[: found.start()], found[1]

    def _clause(self, clause: str) -> None:
        for pattern, handler in _FORMS:
            if (match := pattern.fullmatch(clause)) is not None:
                handler(self, match)
                return
        raise WordsUnclear(f"the words are not understood: {clause}")

    # Names

    def names(self, text: str, kind: str = "", deleted: bool = True, among: Container[Key] | None = None) -> list[str]:
        """A list of names, with those that the words only count taken from the changes, or from those of them that are ``among``."""
        hidden = 0
        if (match := _MORE.fullmatch(text)) is not None:
            text, hidden = match[1], int(match[2])
        named = text.split(", ")
        if hidden:
            known = {name.rpartition(" ")[2] for name in named}
            of_kind = [
                key for key, obj in self.done.objects.items()
                if (not kind or key[0] == kind) and key[1] not in known and (not deleted or kind or obj is None)
                and (among is None or key in among)
            ]  # fmt: skip
            if len(of_kind) != hidden:
                raise WordsUnclear(f"the words name {hidden} more, the changes {len(of_kind)}: {text}")
            named += [key[1] if kind else " ".join(key) for key in of_kind]
        return named

    def _named(self, text: str) -> Key:
        kind, _, name = text.rpartition(" ")
        if not kind:
            raise WordsUnclear(f"no kind is named for {name}")
        return kind, name

    # Changes

    def edit(self, key: Key, edit: Edit) -> None:
        obj = self.meaning.objects.get(key) or _stored(self.lab, key)
        if obj is None:
            raise WordsUnclear(f"there is no {_names([key])}")
        edit(obj)
        self.meaning.objects[key] = obj

    def edit_each(self, kind: str, names: Sequence[str], edit: Edit) -> None:
        for name in names:
            self.edit((kind, name), edit)

    def make(self, key: Key, check: Callable[[Object], bool] = lambda _: True) -> None:
        """An object that is made: its form is free but for what the words say."""
        obj = self.done.objects.get(key)
        if obj is None or not check(obj):
            raise WordsUnclear(f"the changes do not make {_names([key])} as the words say")
        self.meaning.objects[key] = obj

    def own(self, edit: Edit) -> None:
        """Edit the workload itself: of a PodGroup its pods, unless the words say that only the PodGroup changes."""
        if self.in_groups == "in":
            return
        if self.work.kind == "PodGroup":
            for pod in self.work.pods(self.lab):
                self._edit_if_changed(("Pod", pod["metadata"]["name"]), edit)
        else:
            self.edit((self.work.kind, self.work.name), edit)

    def _edit_if_changed(self, key: Key, edit: Edit) -> None:
        before = deepcopy(self.meaning.objects.get(key) or _stored(self.lab, key))
        assert before is not None
        after = deepcopy(before)
        edit(after)
        if _clean(after) != _clean(before):
            self.meaning.objects[key] = after

    def own_label(self, key: str, value: str | None) -> None:
        done = self.done.objects.get((self.work.kind, self.work.name))

        def edit(obj: Object) -> None:
            holders = [obj, *(pod for pod in pod_templates(obj) if pod is not obj)]
            having = [holder for holder in holders if key in (holder["metadata"].get("labels") or {})]
            if value is None:
                for holder in having:
                    own = holder["metadata"]["labels"]
                    holder["metadata"]["labels"] = {name: mark for name, mark in own.items() if name != key}
                return
            if not having:
                # The words leave it free whether the label of a pod stands at the workload or at its template.
                others = [done, *(pod for pod in pod_templates(done) if pod is not done)] if done else []
                having = [
                    holder for holder, other in zip(holders, others, strict=False)
                    if (other["metadata"].get("labels") or {}).get(key) == value
                ] or holders[:1]  # fmt: skip
            # Objects made of one mapping share it with their templates.
            for holder in having:
                holder["metadata"]["labels"] = {**(holder["metadata"].get("labels") or {}), key: value}

        self.own(edit)

    def own_annotation(self, key: str, value: str | None, of_pods: bool = False) -> None:
        def edit(obj: Object) -> None:
            for holder in (obj, *(pod for pod in pod_templates(obj) if pod is not obj)):
                # A new mapping, as objects made of one mapping share it with their templates.
                notes = dict(holder["metadata"].get("annotations") or {})
                holder["metadata"]["annotations"] = notes
                if value is None:
                    notes.pop(key, None)
                elif key in notes or (holder is obj) is not of_pods or obj["kind"] == "Pod":
                    notes[key] = value

        self.own(edit)

    def own_pods(self, edit: Edit) -> None:
        def edit_all(obj: Object) -> None:
            for pod in pod_templates(obj):
                edit(pod)

        self.own(edit_all)


def _setting(fields: Mapping[str, str]) -> Edit:
    """Set fields, by their paths."""

    def edit(obj: Object) -> None:
        for path, value in fields.items():
            above, _, last = path.rpartition(".")
            holder = obj
            for name in above.split("."):
                holder = holder.setdefault(name, {})
            holder.pop(last, None)
            if value != "none":
                holder[last] = int(value) if value.isdigit() else value

    return edit


def _spec(**fields: Any) -> Edit:
    def edit(obj: Object) -> None:
        for name, value in fields.items():
            obj["spec"][name] = value
            if value is None:
                del obj["spec"][name]

    return edit


def _share(resource: str, name: str, amount: float) -> Edit:
    def edit(queue: Object) -> None:
        queue["spec"].setdefault("resources", {}).setdefault(resource, {})[name] = amount

    return edit


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value == int(value) else value


# Queues


def _name_queue(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_label(match[2], match[1])


def _name_scheduler(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_pods(lambda pod: pod["spec"].update(schedulerName=match[1]))


def _make_queue(reader: _Reader, match: re.Match[str]) -> None:
    quota = -1 if match["quota"] == "an unlimited quota" else _number(match["quota"].split()[3])

    def fits(queue: Object) -> bool:
        shares = queue["spec"]["resources"]
        parent = queue["spec"].get("parentQueue") or ""
        unlimited = all(shares[name]["limit"] == -1 for name in ("gpu", "cpu", "memory"))
        return bool(shares["gpu"]["quota"] == quota and unlimited and parent == (match["parent"] or ""))

    reader.make(("Queue", match["name"]), fits)


def _give_parent(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit(("Queue", match[1]), _spec(parentQueue=match[2]))


def _make_root(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit(("Queue", match[1]), lambda queue: queue["spec"].pop("parentQueue", None))


def _give_resources(reader: _Reader, match: re.Match[str]) -> None:
    for name in match[1].split(" and "):

        def give(queue: Object) -> None:
            resources = queue["spec"].setdefault("resources", {})
            for resource in ("gpu", "cpu", "memory"):
                if not resources.get(resource):
                    quota = _number(match[2]) if resource == "gpu" and match[2] else -1
                    resources[resource] = {"quota": quota, "limit": -1, "overQuotaWeight": 1}

        reader.edit(("Queue", name), give)


_RAISED = re.compile(
    r"the (gpu|cpu|memory) (quota|limit) of queue (\S+) to (-?[\d.e+]+)( \(unlimited\)| millicores| MB)?"
)


def _raise(reader: _Reader, match: re.Match[str]) -> None:
    for part in match[1].split(" and "):
        found = _RAISED.fullmatch(part)
        if found is None:
            raise WordsUnclear(f"the words are not understood: {part}")
        amount = _number(found[4])
        before = ((_stored(reader.lab, ("Queue", found[3])) or {"spec": {}})["spec"].get("resources") or {}).get(
            found[1]
        ) or {}
        now = before.get(found[2], 0)
        if amount != -1 and (now == -1 or amount <= now):
            raise WordsUnclear(f"the words raise the {found[1]} {found[2]} of queue {found[3]} from {now} to {amount}")
        reader.edit(("Queue", found[3]), _share(found[1], found[2], amount))


def _raise_weight(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit(("Queue", match[1]), _share("gpu", "overQuotaWeight", _number(match[3])))
    if match[4]:
        reader.edit_each("Queue", match[4].split(" and "), _share("gpu", "overQuotaWeight", _number(match[5])))


def _raise_weights_above(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit_each("Queue", match[1].split(" and "), _share("gpu", "overQuotaWeight", _number(match[2])))


def _lower_quota(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit(("Queue", match[1]), _share("gpu", "quota", _number(match[2])))


def _raise_queue_priority(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit(("Queue", match[1]), _spec(priority=int(match[2])))


def _end_protection(reader: _Reader, match: re.Match[str]) -> None:
    def end(queue: Object) -> None:
        for name in ("reclaimMinRuntime", "preemptMinRuntime"):
            if queue["spec"].get(name):
                queue["spec"][name] = "0s"

    reader.edit_each("Queue", match[1].split(", "), end)


def _preemptible(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_label(match[1], "preemptible")


def _priority(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_label(labels.PRIORITY_CLASS, match[1])


def _no_delay(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_annotation(match[1], None)


# Other work


def _scale(reader: _Reader, match: re.Match[str]) -> None:
    key = reader._named(match[1])
    stored = _stored(reader.lab, key)
    if stored is None or stored["spec"].get("replicas") != int(match[2]):
        raise WordsUnclear(f"{_names([key])} does not have {match[2]} replicas")
    reader.edit(key, _spec(replicas=int(match[3])))


def _delete(reader: _Reader, match: re.Match[str]) -> None:
    for name in reader.names(match[1]):
        reader.meaning.objects[reader._named(name)] = None


def _suspend(reader: _Reader, match: re.Match[str]) -> None:
    for name in reader.names(match[1], deleted=False):

        def edit(obj: Object) -> None:
            if obj["kind"] in ("PyTorchJob", "MPIJob"):
                obj["spec"].setdefault("runPolicy", {})["suspend"] = True
            else:
                obj["spec"]["suspend"] = True

        reader.edit(reader._named(name), edit)


def _open_gates(reader: _Reader, match: re.Match[str]) -> None:
    gates = match[1].split(", ")

    def edit(pod: Object) -> None:
        pod["spec"]["schedulingGates"] = [
            gate for gate in pod["spec"].get("schedulingGates") or () if gate["name"] not in gates
        ]

    if match[2]:
        reader.edit_each("Pod", reader.names(match[2], "Pod"), edit)
    else:
        reader.own_pods(edit)


def _resume(reader: _Reader, match: re.Match[str]) -> None:
    def edit(obj: Object) -> None:
        *above, last = match[2].split(".")
        holder = obj
        for name in above:
            holder = holder[name]
        holder[last] = False

    reader.edit(reader._named(match[1]), edit)


def _raise_resource_quotas(reader: _Reader, match: re.Match[str]) -> None:
    for part in match[0].split("; "):
        name, _, amounts = part.removeprefix("Raise what ResourceQuota ").partition(" allows: ")
        hard = [each.partition(" (now ")[0].rsplit(" ", 1) for each in amounts.split(", ")]
        reader.edit(("ResourceQuota", name), partial(_raise_bounds, hard=hard))


def _raise_bounds(quota: Object, hard: Sequence[Sequence[str]]) -> None:
    quota["spec"]["hard"].update(hard)


def _make_class(reader: _Reader, match: re.Match[str]) -> None:
    for name in match[1].split(", "):
        reader.make(("PriorityClass", name), lambda obj: obj["value"] == int(match[2]))


def _use_class(reader: _Reader, match: re.Match[str]) -> None:
    name = match[1]
    known = {obj["metadata"]["name"] for obj in reader.lab.cluster.list("PriorityClass")}

    def edit(obj: Object) -> None:
        for holder in (obj, *pod_templates(obj)):
            marks = holder["metadata"].get("labels") or {}
            if marks.get(labels.PRIORITY_CLASS, name) not in known:
                marks[labels.PRIORITY_CLASS] = name
            spec = holder.get("spec") or {}
            if "containers" in spec and spec.get("priorityClassName", name) not in known:
                spec["priorityClassName"] = name

    reader.own(edit)


def _make_references(reader: _Reader, match: re.Match[str]) -> None:
    for name in reader.names(match[1], deleted=False):
        reader.make(reader._named(name))


def _label_claims(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit_each("ResourceClaim", reader.names(match[1], "ResourceClaim"), _marking({match[2]: match[3]}))


def _marking(marks: Mapping[str, str | None]) -> Edit:
    def edit(obj: Object) -> None:
        own = obj["metadata"]["labels"] = dict(obj["metadata"].get("labels") or {})
        own.update({key: value for key, value in marks.items() if value is not None})
        for key in [key for key, value in marks.items() if value is None]:
            own.pop(key, None)

    return edit


def _unlabel(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_label(match[1], None)


def _unlabel_others(reader: _Reader, match: re.Match[str]) -> None:
    kind = match[2].capitalize()
    reader.edit_each(kind, reader.names(match[3], kind), _marking({match[1]: None}))


_UNITS = {"h": 3600.0, "m": 60.0, "s": 1.0, "d": 86_400.0}


def _wait(reader: _Reader, match: re.Match[str]) -> None:
    reader.meaning.seconds += sum(
        float(number) * _UNITS[unit] for number, unit in re.findall(r"([\d.]+)([dhms])", match[1])
    )


# Nodes


def _uncordon(reader: _Reader, match: re.Match[str]) -> None:
    def edit(node: Object) -> None:
        node["spec"]["unschedulable"] = False
        if "taints" in node["spec"]:
            node["spec"]["taints"] = [
                taint for taint in node["spec"]["taints"] if taint["key"] != "node.kubernetes.io/unschedulable"
            ]

    reader.edit_each("Node", reader.names(match[1], "Node"), edit)


def _make_ready(reader: _Reader, match: re.Match[str]) -> None:
    for name in reader.names(match[1], "Node", deleted=False):
        reader.make(("Node", name))


def _untaint(reader: _Reader, match: re.Match[str]) -> None:
    for part in re.split(r" and (?=the taint )", match[1]):
        found = re.fullmatch(r"the taint (\S+) from node (.*)", part)
        if found is None:
            raise WordsUnclear(f"the words are not understood: {part}")
        key = found[1]

        def edit(node: Object, key: str = key) -> None:
            node["spec"]["taints"] = [taint for taint in node["spec"].get("taints") or () if taint["key"] != key]

        reader.edit_each("Node", reader.names(found[2], "Node"), edit)


def _label_memory(reader: _Reader, match: re.Match[str]) -> None:
    reader.edit_each("Node", reader.names(match[1], "Node"), _marking({match[2]: match[3]}))


def _label_nodes(reader: _Reader, match: re.Match[str]) -> None:
    marks = dict(part.split("=", 1) for part in match[2].split(", "))
    reader.edit_each("Node", reader.names(match[1], "Node"), _marking(marks))


def _add_nodes(reader: _Reader, match: re.Match[str]) -> None:
    nodes = {name_of(node): node for node in reader.lab.cluster.list("Node")}
    # Another part of the step may change nodes of the pool that are there.
    made = [
        key for key in reader.done.objects if key[0] == "Node" and key[1].startswith(match[2]) and key[1] not in nodes
    ]
    if len(made) != int(match[1]):
        raise WordsUnclear(f"the words add {match[1]} nodes to {match[2]}, the changes {len(made)}")
    like = next((node for name, node in nodes.items() if name.startswith(f"{match[2]}-")), None)
    for key in made:
        node = reader.done.objects[key]
        assert node is not None
        if like is not None and node["status"]["allocatable"] != like["status"]["allocatable"]:
            raise WordsUnclear(f"{_names([key])} is not like the other nodes of the pool {match[2]}")
        reader.meaning.objects[key] = node


def _selecting(reader: _Reader, marks: Mapping[str, str | None]) -> None:
    def edit(pod: Object) -> None:
        selector = {**(pod["spec"].get("nodeSelector") or {}), **marks}
        pod["spec"]["nodeSelector"] = {key: value for key, value in selector.items() if value is not None}

    reader.own_pods(edit)


def _select(reader: _Reader, match: re.Match[str]) -> None:
    _selecting(reader, {match[1]: match[2]})


def _unselect(reader: _Reader, match: re.Match[str]) -> None:
    _selecting(reader, {match[1]: None})


def _unselect_all(reader: _Reader, match: re.Match[str]) -> None:
    reader.own_pods(lambda pod: pod["spec"].pop("nodeSelector", None))


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _prefer_pods(reader: _Reader, match: re.Match[str]) -> None:
    name = "podAntiAffinity" if match[1] == "anti-affinity" else "podAffinity"

    def edit(pod: Object) -> None:
        affinity = (pod["spec"].get("affinity") or {}).get(name) or {}
        terms = affinity.pop(_REQUIRED, None) or ()
        if terms:
            affinity.setdefault(_PREFERRED, []).extend({"weight": 100, "podAffinityTerm": term} for term in terms)

    reader.own_pods(edit)


def _tolerate(reader: _Reader, match: re.Match[str]) -> None:
    named, hidden = match[1], _MORE.fullmatch(match[1])
    if hidden is not None:
        raise WordsUnclear(f"the words do not name all taints: {named}")
    wanted = [dict(zip(("key", "effect"), part.rsplit(":", 1), strict=True)) for part in named.split(", ")]

    def edit(pod: Object) -> None:
        given = pod["spec"]["tolerations"] = list(pod["spec"].get("tolerations") or ())
        given.extend(
            new
            for taint in wanted
            if (new := {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}) not in given
        )

    reader.own_pods(edit)


_TOPOLOGY = {
    "topology": labels.TOPOLOGY, "requiredTopologyLevel": labels.TOPOLOGY_REQUIRED, "preferredTopologyLevel": labels.TOPOLOGY_PREFERRED,
}  # fmt: skip


def _topology(reader: _Reader, marks: Mapping[str, str | None]) -> None:
    for name, value in marks.items():
        reader.own_annotation(_TOPOLOGY[name], value)


def _name_topology(reader: _Reader, match: re.Match[str]) -> None:
    _topology(reader, dict(part.split(" ", 1) for part in match[1].split(", ")))


def _widen(reader: _Reader, match: re.Match[str]) -> None:
    _topology(reader, {"requiredTopologyLevel": match[1]})


def _prefer(reader: _Reader, match: re.Match[str]) -> None:
    _topology(reader, {"requiredTopologyLevel": None, "preferredTopologyLevel": match[1]})


def _no_topology(reader: _Reader, match: re.Match[str]) -> None:
    named = set(match[1].split(", "))
    _topology(reader, {name: None for name, key in _TOPOLOGY.items() if key in named})


# Pods


_RESOURCES = {"GPUs": labels.GPU_RESOURCE, "CPU": "cpu", "memory": "memory"}


def _ask_less(reader: _Reader, match: re.Match[str]) -> None:
    resource = _RESOURCES.get(match[2], match[2])
    amount: Any = int(match[1]) if "/" in resource else match[1]

    def edit(pod: Object) -> None:
        holders = pod["spec"]["containers"][0].get("resources") or {}
        given = quantity((holders.get("requests") or {}).get(resource, (holders.get("limits") or {}).get(resource, 0)))
        if given <= quantity(amount):
            return  # a head or a leader that asks for less already
        for name in ("requests", "limits"):
            if resource in (holders.get(name) or {}):
                holders[name][resource] = amount

    reader.own_pods(edit)


_SUFFIXES = {
    "": 1.0,
    "m": 0.001,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
}


def quantity(value: Any) -> float:
    """A quantity as a number.

    >>> quantity("500m"), quantity("2Gi"), quantity(3)
    (0.5, 2147483648.0, 3.0)
    """
    match = re.fullmatch(r"([\d.]+)([A-Za-z]*)", str(value))
    assert match is not None
    return float(match[1]) * _SUFFIXES[match[2]]


def _noted(reader: _Reader, key: str, value: str) -> None:
    def edit(pod: Object) -> None:
        notes = pod["metadata"]["annotations"] = dict(pod["metadata"].get("annotations") or {})
        notes[key] = value

    reader.own_pods(edit)


def _ask_memory(reader: _Reader, match: re.Match[str]) -> None:
    _noted(reader, match[2], match[1])


def _ask_half(reader: _Reader, match: re.Match[str]) -> None:
    _noted(reader, match[1], match[2])
    reader.own_annotation(labels.GPU_MEMORY, None)


def _other_profile(reader: _Reader, match: re.Match[str]) -> None:
    _replace_resource(reader, match[2], match[1])


def _whole_gpus(reader: _Reader, match: re.Match[str]) -> None:
    _replace_resource(reader, match[1], labels.GPU_RESOURCE)


def _replace_resource(reader: _Reader, old: str, new: str) -> None:
    def edit(pod: Object) -> None:
        for container in pod["spec"]["containers"]:
            for holder in (container.get("resources") or {}).values():
                if isinstance(holder, dict) and old in holder:
                    holder[new] = holder.pop(old)

    reader.own_pods(edit)


def _missing_pods(reader: _Reader, match: re.Match[str]) -> None:
    names = reader.names(match[2], "Pod", deleted=False)
    if len(names) != int(match[1]):
        raise WordsUnclear(f"the words make {match[1]} pods and name {len(names)}")
    for name in names:
        reader.make(("Pod", name))


def _parallelism(reader: _Reader, match: re.Match[str]) -> None:
    def edit(job: Object) -> None:
        job["spec"]["parallelism"] = int(match[1])
        if job["spec"].get("completions") is not None:
            job["spec"]["completions"] = max(int(match[1]), job["spec"]["completions"])

    reader.own(edit)


def _minimum(reader: _Reader, match: re.Match[str]) -> None:
    def edit(obj: Object) -> None:
        notes = obj["metadata"].get("annotations") or {}
        if labels.BATCH_MIN_MEMBER in notes:
            notes[labels.BATCH_MIN_MEMBER] = match[1]

    reader.own(edit)


def _gang(reader: _Reader, match: re.Match[str]) -> None:
    def edit(job: Object) -> None:
        _counted(job, job["spec"], "parallelism", int(match[1]), int(match[2]))

    reader.own(edit)


def _lower_count(reader: _Reader, match: re.Match[str]) -> None:
    def edit(obj: Object) -> None:
        holder: Any = obj
        *above, last = match[1].split(".")
        for name in above:
            holder = holder[int(name)] if isinstance(holder, list) else holder[name]
        _counted(obj, holder, last, int(match[2]), int(match[3]))

    reader.own(edit)


def _counted(obj: Object, holder: Any, name: str, number: int, now: int) -> None:
    """Lower a count "with its minimum to match"."""
    if holder.get(name) != now:
        raise WordsUnclear(f"{name} is {holder.get(name)}, not {now}")
    holder[name] = number
    for least in ("completions", "minReplicas", "minAvailable", "minMember"):
        if isinstance(holder.get(least), int):
            holder[least] = min(holder[least], number)
    notes = obj["metadata"].get("annotations") or {}
    if int(notes.get(labels.BATCH_MIN_MEMBER) or 0) > number:
        notes[labels.BATCH_MIN_MEMBER] = str(number)


def _scale_up(reader: _Reader, match: re.Match[str]) -> None:
    key = reader._named(match[1])
    reader.edit(key, _spec(**{"parallelism" if key[0] == "Job" else "replicas": int(match[2])}))


_OF = r"(\S+ \S+)"
_FORMS: tuple[tuple[re.Pattern[str], _Handler], ...] = tuple(
    (re.compile(pattern, re.DOTALL), handler)
    for pattern, handler in (
        (r"Name queue (\S+) in the label (\S+)", _name_queue),
        (r"Name the scheduler (\S+) \(spec\.schedulerName\)", _name_scheduler),
        (r"Make queue (?P<name>\S+)( under (?P<parent>\S+))? with (?P<quota>a quota of \S+ GPUs?|an unlimited quota) and no limit", _make_queue),
        (r"Give queue (\S+) the parent (\S+)", _give_parent),
        (r"Make queue (\S+) a root, without a parent", _make_root),
        (r"Give queue (.+) the missing resources: no limits(?:, GPUs with a quota of (\S+))?", _give_resources),
        (r"Raise the over-quota weight of queue (\S+) from (\S+) to ([\d.]+)(?:, and that of (.+) to ([\d.]+))?", _raise_weight),
        (r"Raise the over-quota weight of (.+) from 0 to (\S+)", _raise_weights_above),
        (r"Raise (the (?:gpu|cpu|memory) .+)", _raise),
        (r"Lower the GPU quota of queue (\S+) to (\S+)", _lower_quota),
        (r"Raise what ResourceQuota .+", _raise_resource_quotas),
        (r"Raise the priority of queue (\S+) to (\d+)", _raise_queue_priority),
        (r"End the protection by a minimum runtime in (.+)", _end_protection),
        (r"Make it preemptible \(label (\S+): preemptible\), so that it may borrow and be reclaimed", _preemptible),
        (r"Set the priority class (\S+) \(\d+; it has \d+\)(?:, which makes it non-preemptible)?", _priority),
        (r"Remove its preemption delay \(annotation (\S+)\)", _no_delay),
        (rf"Scale {_OF} down from (\d+) to (\d+), (?:which ends \d+ pods? of it|so that none of it waits)", _scale),
        (rf"Scale {_OF} up to (\d+) pods?", _scale_up),
        (r"Delete (.+?)(?:, which (?:holds|waits?|is|are) .+)?", _delete),
        (r"Suspend (.+?), which .+", _suspend),
        (r"Remove the scheduling gate (\S+(?:, \S+)*?)(?: from (.+))?", _open_gates),
        (rf"Resume {_OF} \(set (\S+) to false\)", _resume),
        (r"Make the priority class (.+) with the value (\d+)", _make_class),
        (r"Use the existing priority class (\S+)", _use_class),
        (r"Make ((?:PersistentVolumeClaim|ConfigMap) .+)", _make_references),
        (r"Label ResourceClaim (.+) (\S+)=(\S+)", _label_claims),
        (r"Remove its label (\S+)", _unlabel),
        (r"Remove the label (\S+) from (queue|node) (.+)", _unlabel_others),
        (r"Wait (\S+)", _wait),
        (r"Uncordon node (.+)", _uncordon),
        (r"Make node (.+) ready again", _make_ready),
        (r"Remove (the taint .+ from node .+)", _untaint),
        (r"Label node (.+) (\S+) with the MiB that each of its GPUs has \(tried with (\d+)\)", _label_memory),
        (r"Label node (.+?) ((?:\S+=\S+)(?:, \S+=\S+)*)", _label_nodes),
        (r"Add (\d+) nodes? to the pool (\S+)", _add_nodes),
        (r"Select nodes by (\S+)=(\S+) \(now \S+\)", _select),
        (r"Remove (\S+)=\S+ from its node selector", _unselect),
        (r"Remove its node selector", _unselect_all),
        (r"Make its required (anti-affinity|affinity to other pods) a preference", _prefer_pods),
        (r"Add a toleration for the taint (.+)", _tolerate),
        (r"Name an existing topology: (.+)", _name_topology),
        (r"Require one (\S+) instead of one \S+", _widen),
        (r"Prefer one (\S+) instead of requiring it", _prefer),
        (r"Ask for no topology \(remove (.+)\)", _no_topology),
        (r"Ask for (\S+) (GPUs|CPU|memory|\S+/\S+) a pod \(now [^)]*\)", _ask_less),
        (r"Ask for (\d+) MiB of a GPU \(annotation (\S+), now \d+\)", _ask_memory),
        (r"Ask for a share of (\d+) GPUs \(annotation (\S+), now \d+\)", _ask_memory),
        (r"Ask for half a GPU \(annotation (\S+): ([\d.]+)\) and not by memory", _ask_half),
        (r"Ask for (\S+), which nodes offer, instead of (\S+)", _other_profile),
        (r"Ask for whole GPUs instead of (\S+)", _whole_gpus),
        (r"Make the (\d+) pods? that the gang lacks: (.+)", _missing_pods),
        (r"Raise its parallelism to (\d+), as many as must start together", _parallelism),
        (r"Lower the minimum of the gang from \d+ to (\d+), as many as there are", _minimum),
        (r"Make it a gang of (\d+) pods? \(now (\d+)\), with its minimum to match(?:, the most that runs now; .+)?", _gang),
        (r"Lower (spec\.\S+) to (\d+) \(now (\d+)\), with its minimum to match(?:, the most that runs now; .+)?", _lower_count),
    )
)  # fmt: skip
