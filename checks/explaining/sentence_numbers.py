"""The numbers of a sentence, compared with the objects: what queues hold and may hold, what nodes have and have free, and
whether the numbers support what the sentence says.

Everything is counted here from the stored objects. Shares of GPUs by memory depend on the device and MIG profiles count by
their size, so amounts of queues and nodes with such pods are not compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from checks.explaining.step_words import quantity
from checks.explaining.workloads import AppliedWorkload
from kailab.cluster.protocol import Object
from kailab.lab.answer import Cause
from kailab.lab.lab import Lab
from kailab.model import labels

UNLIMITED = float("inf")
GPU, CPU, MEMORY = "gpu", "cpu", "memory"
_TINY = 0.011


@dataclass(frozen=True)
class ObjectCounts:
    """Amounts counted from the objects of a lab: GPUs, cores and bytes."""

    lab: Lab

    @cached_property
    def pods(self) -> list[Object]:
        return [pod for pod in self.lab.cluster.list("Pod") if not _has_ended(pod)]

    @cached_property
    def nodes(self) -> dict[str, Object]:
        return {node["metadata"]["name"]: node for node in self.lab.cluster.list("Node")}

    @cached_property
    def queues(self) -> dict[str, Object]:
        return {queue["metadata"]["name"]: queue for queue in self.lab.cluster.list("Queue")}

    @cached_property
    def groups(self) -> dict[str, Object]:
        return {group["metadata"]["name"]: group for group in self.lab.cluster.list("PodGroup")}

    # Queues

    def bound(self, queue: str, resource: str, name: str) -> float:
        """The quota or the limit of a queue."""
        share = (self.queues[queue]["spec"].get("resources") or {}).get(resource) or {}
        amount = float(share.get(name) or 0)
        scale = {GPU: 1.0, CPU: 0.001, MEMORY: 1e6}[resource]
        return UNLIMITED if amount == -1 else amount * scale

    def held(self, queue: str, resource: str, *, firm: bool = False) -> float | None:
        """What placed pods of a queue and of those below it hold, without those that are leaving; None if that is not
        known here. ``firm``: only non-preemptible work.
        """
        total = 0.0
        for pod in self.pods:
            group = self._group(pod)
            if (
                not pod["spec"].get("nodeName")
                or "deletionTimestamp" in pod["metadata"]
                or group is None
                or queue not in self._line(group["spec"].get("queue") or "")
            ):
                continue
            if firm:
                preemptible = self.is_preemptible(group)
                if preemptible is None:
                    return None
                if preemptible:
                    continue
            amount = self.wanted(pod, resource)
            if amount is None:
                return None
            total += amount
        return total

    def is_preemptible(self, group: Object) -> bool | None:
        """None if its priority class decides and is not known."""
        said = group["spec"].get("preemptibility")
        if said:
            return bool(said == "preemptible")
        name = group["spec"].get("priorityClassName")
        for priority_class in self.lab.cluster.list("PriorityClass"):
            if priority_class["metadata"]["name"] == name:
                return int(priority_class.get("value") or 0) < 100
        return None

    def _group(self, pod: Object) -> Object | None:
        name = (pod["metadata"].get("annotations") or {}).get(labels.POD_GROUP)
        return self.groups.get(name) if name else None

    def _line(self, queue: str) -> list[str]:
        line: list[str] = []
        while queue in self.queues and queue not in line:
            line.append(queue)
            queue = self.queues[queue]["spec"].get("parentQueue") or ""
        return line

    # Pods and nodes

    def wanted(self, pod: Object, resource: str) -> float | None:
        """What a pod asks for; None if it depends on the device."""
        notes = pod["metadata"].get("annotations") or {}
        key = labels.GPU_RESOURCE if resource == GPU else resource
        amounts: list[float] = []
        for container in pod["spec"]["containers"]:
            both = _asked(container)
            if resource == GPU and any(name.startswith(labels.MIG_PREFIX) for name in both):
                return None
            amounts.append(quantity(both.get(key, 0)))
        if (resource == GPU and labels.GPU_MEMORY in notes) or pod["spec"].get("resourceClaims"):
            return None
        if resource == GPU and labels.GPU_FRACTION in notes:
            return float(notes[labels.GPU_FRACTION]) * int(notes.get(labels.GPU_FRACTION_DEVICES) or 1)
        return sum(amounts)

    def capacity(self, node: str, name: str) -> float:
        """What a node has, by the name that nodes report."""
        return quantity((self.nodes[node]["status"].get("allocatable") or {}).get(name, 0))

    def free(self, node: str, name: str) -> float | None:
        """What a node has free for whole requests; None if shares of GPUs are on it."""
        used = 0.0
        for pod in self.pods:
            if pod["spec"].get("nodeName") != node:
                continue
            notes = pod["metadata"].get("annotations") or {}
            # A pod of the reservation holds the whole device of shares.
            if name == labels.GPU_RESOURCE and (labels.GPU_FRACTION in notes or labels.GPU_MEMORY in notes):
                return None
            for container in pod["spec"]["containers"]:
                both = _asked(container)
                used += quantity(both.get(name, 0))
        return self.capacity(node, name) - used


def _has_ended(pod: Object) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


# Sentences

_A = r"(unlimited|-?[\d.]+(?:e\+?\d+)?(?: GPUs?| CPU| GB|Gi|Mi|Ti)?)"
_QUOTA = rf"(?:a quota of {_A}|(an unlimited) quota)"


def _read(text: str) -> tuple[float, str]:
    """An amount and its resource: GPUs, cores or bytes.

    >>> _read("1.5 GPUs"), _read("4 CPU"), _read("2Gi")
    ((1.5, 'gpu'), (4.0, 'cpu'), (2147483648.0, 'memory'))
    """
    if text in ("unlimited", "an unlimited"):
        return UNLIMITED, ""
    match = re.fullmatch(r"(-?[\d.]+(?:e\+?\d+)?) ?(GPUs?|CPU|GB|Gi|Mi|Ti)?", text)
    assert match is not None, text
    unit = match[2] or ""
    scale = {"GB": 1e9, "Gi": 2.0**30, "Mi": 2.0**20, "Ti": 2.0**40}.get(unit, 1.0)
    resource = GPU if unit.startswith("GPU") else CPU if unit == "CPU" else MEMORY if unit else ""
    return float(match[1]) * scale, resource


@dataclass(frozen=True)
class _Sentence:
    counts: ObjectCounts
    text: str
    work: AppliedWorkload


def number_faults(lab: Lab, work: AppliedWorkload, cause: Cause) -> list[str]:
    """Where a sentence contradicts the objects, or its own numbers. Nothing for sentences of a lab without other work."""
    if cause.sentence.startswith(("Without other work", "Its controllers have yet to act")):
        return []
    sentence = _Sentence(ObjectCounts(lab), cause.sentence, work)
    return [fault for check in _CHECKS for fault in check(sentence)]


def _differ(told: float, counted: float | None, slack: float = _TINY) -> bool:
    if counted is None or told == counted:
        return False
    return abs(told - counted) > slack * max(1.0, abs(counted) / 10)


def _holding(sentence: _Sentence, queue: str, told: str, firm: bool = False) -> Iterator[str]:
    amount, resource = _read(told)
    if queue not in sentence.counts.queues:
        yield f"there is no queue {queue}"
    elif resource and _differ(amount, held := sentence.counts.held(queue, resource, firm=firm)):
        yield f"queue {queue} holds {held:g} {resource} by its pods, not {told}"


def _bound(sentence: _Sentence, queue: str, told: str, name: str, resource: str = "") -> Iterator[str]:
    amount, named = _read(told)
    resource = named or resource
    if (
        queue in sentence.counts.queues
        and resource
        and _differ(amount, bound := sentence.counts.bound(queue, resource, name))
    ):
        yield f"queue {queue} has a {name} of {bound:g} {resource}, not {told}"


def _limits(sentence: _Sentence) -> Iterator[str]:
    match = re.search(rf"[Qq]ueue (\S+?)(?:,.*?,)? holds {_A} of its limit of {_A}; .*?wants? {_A} more", sentence.text)
    if match is not None:
        queue, held, limit, wanted = match.groups()
        yield from _holding(sentence, queue, held)
        yield from _bound(sentence, queue, limit, "limit", _read(held)[1])
        if _read(held)[0] + _read(wanted)[0] <= _read(limit)[0] + 1e-9:
            yield f"{held} and {wanted} are within the limit of {limit}"
        yield from _demand(sentence, wanted)
    match = re.search(
        rf"[Qq]ueue (\S+?)(?:,.*?,)? can't hold more than its limit of {_A}, and .*?wants? {_A}", sentence.text
    )
    if match is not None:
        queue, limit, wanted = match.groups()
        yield from _bound(sentence, queue, limit, "limit", _read(wanted)[1])
        if _read(wanted)[0] <= _read(limit)[0] + 1e-9:
            yield f"{wanted} is within the limit of {limit}"


def _quotas(sentence: _Sentence) -> Iterator[str]:
    match = re.search(
        rf"[Qq]ueue (\S+?)(?:,.*?,)? has a quota of {_A}, such work holds {_A} of it, and .*?wants? {_A} more",
        sentence.text,
    )
    if match is not None:
        queue, quota, held, wanted = match.groups()
        yield from _bound(sentence, queue, quota, "quota", _read(wanted)[1])
        yield from _holding(sentence, queue, held, firm=True)
        if _read(held)[0] + _read(wanted)[0] <= _read(quota)[0] + 1e-9:
            yield f"{held} and {wanted} are within the quota of {quota}"
        yield from _demand(sentence, wanted)


def _claims(sentence: _Sentence) -> Iterator[str]:
    match = re.search(
        rf"[Qq]ueue (\S+?)(?:,.*?,)? holds {_A} and has a claim on (?:{_A}: )?its quota of {_A}.*?[Ww]ants? {_A} more",
        sentence.text,
    )
    if match is not None:
        queue, held, claim, quota, wanted = match.groups()
        yield from _holding(sentence, queue, held)
        yield from _bound(sentence, queue, quota, "quota", _read(held)[1])
        if _read(held)[0] + _read(wanted)[0] <= max(_read(quota)[0], _read(claim or quota)[0]) + 1e-9:
            yield f"{held} and {wanted} are within its claim on {claim or quota}"
    match = re.search(
        rf"[Qq]ueue (\S+?)(?:,.*?,)? has its quota of {_A}, of which it holds {_A}, and gets nothing beyond",
        sentence.text,
    )
    if match is not None:
        queue, quota, held = match.groups()
        yield from _holding(sentence, queue, held)
        yield from _bound(sentence, queue, quota, "quota", _read(held)[1])
    match = re.search(
        rf"[Qq]ueue (\S+?)(?:,.*?,)? is owed more, holding {_A} with (?:{_QUOTA}|a fair share of {_A})", sentence.text
    )
    if match is not None:
        queue, held, quota, _, fair = match.groups()
        yield from _holding(sentence, queue, held)
        if quota:
            yield from _bound(sentence, queue, quota, "quota", _read(held)[1])
            if _read(held)[0] >= _read(quota)[0]:
                yield f"it holds {held}, which is its quota of {quota}, and is called owed more"
        elif fair and _read(held)[0] >= _read(fair)[0]:
            yield f"it holds {held}, which is its fair share of {fair}, and is called owed more"


def _others_hold(sentence: _Sentence) -> Iterator[str]:
    """The queues beside: what each holds with which quota, and what is said of them together."""
    over = 0.0
    found = list(re.finditer(rf"(?:[:,] |beyond its quota \()(\S+) holds {_A} with {_QUOTA}", sentence.text))
    for match in found:
        queue, held, quota, endless = match.groups()
        yield from _holding(sentence, queue, held)
        yield from _bound(sentence, queue, quota or endless, "quota", _read(held)[1])
        over += max(0.0, _read(held)[0] - _read(quota or endless)[0])
    hidden = " more." in sentence.text
    if "none of the others holds more than its own quota" in sentence.text and over > 0:
        yield f"the others hold {over:g} beyond their quotas"
    wanted = re.search(rf"wants? {_A}; but", sentence.text)
    told = "the others hold too little beyond their own quota" in sentence.text and not hidden
    if told and wanted is not None and not 0 < over < _read(wanted[1])[0]:
        yield f"the others hold {over:g} beyond their quotas, and {wanted[1]} is wanted"
    for match in re.finditer(rf"queue (\S+) holds( beyond its quota)? \({_A}, with {_QUOTA}", sentence.text):
        queue, beyond, held, quota, endless = match.groups()
        yield from _holding(sentence, queue, held)
        yield from _bound(sentence, queue, quota or endless, "quota", _read(held)[1])
        if beyond and _read(held)[0] <= _read(quota or endless)[0]:
            yield f"{held} is not beyond the quota of {quota}"


_NODE = r"([a-z0-9][\w.-]*?)"
_RESOURCE_OF = {"GPU": labels.GPU_RESOURCE, "CPU": "cpu", "memory": "memory"}


def _asked_resource(text: str) -> str:
    """The resource in ``wants 4 GPUs``, by the name that nodes report."""
    match = re.search(r"wants? [\d.]+(?:Gi|Mi|Ti)?(?: of a)? ?(GPUs?|CPU|memory|[\w.-]+/[\w.-]+)", text)
    if match is None:
        return ""
    return _RESOURCE_OF.get(match[1].rstrip("s"), match[1])


def _nodes(sentence: _Sentence) -> Iterator[str]:
    """What one node has and has free."""
    name = _asked_resource(sentence.text)
    if not name:
        return
    fragments = (
        rf"the only node that it may use(?: with all else free that it wants)?, {_NODE}, has ([\d.]+)(?:Gi|Mi)? of ([\d.]+)(Gi|Mi|Ti)? free",
        rf"of the nodes that it may use(?: with all else free that it wants)? {_NODE} has the most free: ([\d.]+)(?:Gi|Mi)? of ([\d.]+)(Gi|Mi|Ti)?",
        rf"the most on {_NODE} \(([\d.]+)(?:Gi|Mi)? of ([\d.]+)(Gi|Mi|Ti)?\)",
        rf"where (?:GPUs are free|it may run) {_NODE} has the most free: ([\d.]+)(?:Gi|Mi)? of ([\d.]+)(Gi|Mi|Ti)?",
    )
    for fragment in fragments:
        match = re.search(fragment, sentence.text)
        if match is not None and match[1] in sentence.counts.nodes:
            scale = {"Gi": 2.0**30, "Mi": 2.0**20, "Ti": 2.0**40}.get(match[4] or "", 1.0)
            yield from _node(sentence, match[1], name, float(match[2]) * scale, float(match[3]) * scale)
    match = re.search(
        r"in sum on the (\d+) nodes? with room that it may use, at most ([\d.]+)\S* on one \(([^)]*)\)", sentence.text
    )
    if (
        match is not None
        and match[3] in sentence.counts.nodes
        and not match[3].startswith("device")
        and "GPU" in name.upper()
    ):
        yield from _node(sentence, match[3], name, float(match[2]), None)
    wanted = re.search(rf"(?:It|Its next pod) wants {_A}", sentence.text)
    single = re.search(r"has the most free: ([\d.]+) of|, has ([\d.]+) of [\d.]+ free", sentence.text)
    if wanted is not None and single is not None and _read(wanted[1])[1] in (GPU, CPU):
        most = float(single[1] or single[2])
        if _read(wanted[1])[0] <= most + 1e-9 and "would not suffice either" not in sentence.text:
            yield f"it wants {wanted[1]}, and {most:g} are free on one node"


def _node(sentence: _Sentence, node: str, name: str, free: float, capacity: float | None) -> Iterator[str]:
    slack = 0.02 if name != "memory" else 0.01 * 2**30
    if capacity is not None and abs(capacity - sentence.counts.capacity(node, name)) > slack:
        yield f"node {node} has {sentence.counts.capacity(node, name):g} {name}, not {capacity:g}"
    counted = sentence.counts.free(node, name)
    if counted is not None and abs(free - max(0.0, counted)) > slack:
        yield f"node {node} has {counted:g} {name} free, not {free:g}"


def _fragments(sentence: _Sentence) -> Iterator[str]:
    """Room in pieces: enough in sum, not on one node."""
    match = re.search(
        rf"(?:It|Its next pod) wants {_A}(?: of a GPU)? on one (?:node|device); ([\d.]+) are free in sum on .*?, at most ([\d.]+) on one",
        sentence.text,
    )
    if match is not None and _read(match[1])[1] == GPU:
        wanted, total, most = _read(match[1])[0], float(match[2]), float(match[3])
        if wanted <= most + 1e-9:
            yield f"it wants {match[1]}, and {most:g} are free on one"
        if wanted > total + 1e-9:
            yield f"it wants {match[1]}, and only {total:g} are free in sum: that is no fragmentation"


def _capacities(sentence: _Sentence) -> Iterator[str]:
    match = re.search(
        rf"wants? ([\d.]+)(Gi|Mi|Ti)? ?(\S+); the largest node that it may use, {_NODE}, has ([\d.]+)(Gi|Mi|Ti)?",
        sentence.text,
    )
    if match is not None and match[4] in sentence.counts.nodes:
        name = _RESOURCE_OF.get(match[3].rstrip("s."), match[3])
        scale = {"Gi": 2.0**30, "Mi": 2.0**20, "Ti": 2.0**40}
        wanted = float(match[1]) * scale.get(match[2] or "", 1.0)
        has = float(match[5].rstrip(".")) * scale.get(match[6] or "", 1.0)
        if wanted <= has:
            yield f"it wants {match[1]}{match[2] or ''}, and a node has {match[5]}{match[6] or ''}"
        if abs(has - sentence.counts.capacity(match[4], name)) > 0.01 * max(1.0, has):
            yield f"node {match[4]} has {sentence.counts.capacity(match[4], name):g} {name}, not {match[5]}"
    match = re.search(rf"want {_A}(?: \([^)]*\))?; the nodes that they may use have ([\d.]+)", sentence.text)
    if match is not None and " and room for " not in sentence.text:
        wanted, resource = _read(match[1])
        if resource in (GPU, CPU) and wanted <= float(match[2].rstrip(".")):
            yield f"they want {match[1]}, and the nodes have {match[2]}"
    match = re.search(
        r"want ([\d.]+) GPUs?; the (?:largest \S+|\S+ with the most free), \S+?, has ([\d.]+)", sentence.text
    )
    if match is not None and float(match[1]) <= float(match[2].rstrip(".")):
        yield f"they want {match[1]}, and the largest domain has {match[2]}"


def _closed(sentence: _Sentence) -> Iterator[str]:
    match = re.search(
        r"The (?:(\d+) nodes that it could use are|node that it could use, (\S+), is) cordoned(?:: (.+?))?\.$",
        sentence.text,
    )
    if match is None:
        return
    text = match[2] or match[3] or ""
    hidden = re.search(r" and (\d+) more$", text)
    names = (text[: hidden.start()] if hidden else text).split(", ")
    if match[1] and len(names) + (int(hidden[1]) if hidden else 0) != int(match[1]):
        yield f"it names {len(names)} of {match[1]} nodes"
    for name in names:
        if name in sentence.counts.nodes and not (sentence.counts.nodes[name].get("spec") or {}).get("unschedulable"):
            yield f"node {name} is not cordoned"


def _existing(sentence: _Sentence) -> Iterator[str]:
    match = re.search(r"wants (\d+) pods?, and (none|\d+) of them exists?", sentence.text)
    if match is not None:
        wanted, existing = sentence.work.wanted(sentence.counts.lab), len(sentence.work.pods(sentence.counts.lab))
        told = 0 if match[2] == "none" else int(match[2])
        if int(match[1]) != wanted or told != existing:
            yield f"it wants {wanted} pods and {existing} exist"
    match = re.search(r"(\d+) pods of PodGroup \S+ must start together, and (\d+) exists?", sentence.text)
    if match is not None and int(match[2]) >= int(match[1]):
        yield f"{match[2]} pods exist, and {match[1]} are enough"


def _devices(sentence: _Sentence) -> Iterator[str]:
    """A device that a sentence says it wants, by the name that nodes report, is one that a pod of it asks for."""
    pods = sentence.work.pods(sentence.counts.lab)
    asked = {name for pod in pods for container in pod["spec"]["containers"] for name in _asked(container)}
    for name in re.findall(r"wants? [\d.]+ ([\w.-]+\.\w+/[\w.-]*\w)", sentence.text):
        if pods and name not in asked:
            yield f"no pod of it wants {name}"


def _asked(container: Object) -> Object:
    asked = container.get("resources") or {}
    return {**(asked.get("limits") or {}), **(asked.get("requests") or {})}


def _demand(sentence: _Sentence, told: str) -> Iterator[str]:
    """What the next pods want: the sum of as many waiting pods as the sentence says."""
    amount, resource = _read(told)
    waiting = [pod for pod in sentence.work.pods(sentence.counts.lab) if not pod["spec"].get("nodeName")]
    each = [sentence.counts.wanted(pod, resource) for pod in waiting] if resource else []
    known = [value for value in each if value is not None]
    together = re.search(r"[Ii]ts (\d+) pods, which start together, want", sentence.text)
    if not known or len(known) != len(each):
        return
    if together is None:
        if all(_differ(amount, value) for value in known):
            yield f"a pod of it wants {known[0]:g}, not {told}"
    elif len(set(known)) == 1 and _differ(amount, int(together[1]) * known[0]):
        yield f"{together[1]} pods of it want {int(together[1]) * known[0]:g}, not {told}"
    elif len(known) < int(together[1]):
        yield f"{len(known)} pods of it wait, not {together[1]}"


_CHECKS: tuple[Callable[[_Sentence], Iterator[str]], ...] = (
    _limits, _quotas, _claims, _others_hold, _nodes, _fragments, _capacities, _closed, _existing, _devices,
)  # fmt: skip
