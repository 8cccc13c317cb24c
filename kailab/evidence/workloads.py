"""The workload at the top of each PodGroup, told bit by bit: a lab that goes on need not be looked through again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kailab.cluster.protocol import Object
from kailab.evidence.entries import Bound, Decision, Evicted, PodRow, Promised
from kailab.evidence.standing import owner
from kailab.grouping.ownermeta import TOP_OWNER_METADATA
from kailab.model import labels

_TOP = re.compile(r"""^(name|kind): (["']?)(.*)\2$""", re.MULTILINE)
# The hash that a Deployment puts behind its name; Kubernetes' are up to 10 characters long.
_REPLICA_SET = re.compile(r"ReplicaSet/(.+)-[0-9a-z]{6,10}")


def add_owner(owners: list[str], told: str) -> None:
    """A ReplicaSet with a hash at the end of its name is a Deployment's."""
    if not told or told in owners:
        return
    owners.append(told)
    if made := _REPLICA_SET.fullmatch(told):
        owners.append(f"Deployment/{made.group(1)}")


def told_top(group: Object) -> str:
    """The workload that a PodGroup was made for, as ``Kind/name``; empty where it does not tell."""
    # A text of five lines that grouping writes: a pattern reads it without a YAML parser.
    lines = _TOP.findall((group["metadata"].get("annotations") or {}).get(TOP_OWNER_METADATA, ""))
    # In quotes is what YAML would take for something else than text, as a name of digits.
    told = {key: text for key, _, text in lines}
    return f"{told['kind']}/{told['name']}" if told.get("kind") and told.get("name") else ""


class Workloads:
    """As ``History.workloads``. ``changed``: PodGroups whose workload may be another since somebody emptied it."""

    def __init__(self) -> None:
        self.changed: set[str] = set()
        self._owners: dict[str, list[str]] = {}
        self._group: dict[str, str] = {}
        self._pods: dict[str, dict[str, None]] = {}
        self._tops: dict[str, str] = {}
        self._of_owner: dict[tuple[str, str], dict[str, None]] = {}

    def get(self, podgroup: str, default: str = "") -> str:
        """Its workload, ``Kind namespace/name``; the pod itself where it is nobody's. Of a pod without a PodGroup, under its own
        name, the same."""
        pods = self._pods.get(podgroup)
        if pods:
            pod, top = next(reversed(pods)), self._top(podgroup)
        elif podgroup in self._owners and podgroup not in self._group:
            pod, top = podgroup, ""
        else:
            return default
        owners = self._owners[pod]
        last = top if top and top not in owners else owners[-1] if owners else ""
        if not last:
            return f"Pod {pod}"
        kind, _, name = last.partition("/")
        return f"{kind} {_space(pod)}/{name}"

    def decided(self, entries: Iterable[Decision]) -> None:
        """Take in decisions."""
        for entry in entries:
            if isinstance(entry, Bound | Promised | Evicted):
                # A promise does not tell whose the pod is.
                self._take(entry.pod, entry.podgroup, "" if isinstance(entry, Promised) else entry.owner)

    def looked(self, pods: Iterable[Object], groups: Iterable[Object], gone: Iterable[Object] = ()) -> None:
        """Take in objects. ``gone``: PodGroups that are not there any more."""
        for pod in pods:
            metadata = pod["metadata"]
            space = metadata.get("namespace", "")
            group = (metadata.get("annotations") or {}).get(labels.POD_GROUP)
            self._take(f"{space}/{metadata['name']}", f"{space}/{group}" if group else "", owner(pod))
        for one in gone:
            self._tell(_full(one), "")
        for one in groups:
            self._tell(_full(one), told_top(one))

    def stood(self, rows: Sequence[PodRow]) -> None:
        """Take in rows of a state."""
        for row in rows:
            self._take(row.name, f"{_space(row.name)}/{row.podgroup}" if row.podgroup else "", row.owner)

    def _take(self, pod: str, podgroup: str, told: str) -> None:
        owners = self._owners.setdefault(pod, [])
        count = len(owners)
        add_owner(owners, told)
        before = self._group.get(pod, "")
        group = podgroup or before
        if not group and len(owners) != count:
            self.changed.add(pod)
        if not group or (group == before and len(owners) == count):
            return
        if before and before != group:
            del self._pods[before][pod]
            self.changed.add(before)
        if not before:
            self.changed.add(pod)
        self._group[pod] = group
        self._pods.setdefault(group, {})[pod] = None
        if owners:
            self._of_owner.setdefault((_space(pod), owners[0]), {})[group] = None
        self.changed.add(group)

    def _tell(self, podgroup: str, top: str) -> None:
        if self._tops.get(podgroup, "") == top:
            return
        if top:
            self._tops[podgroup] = top
        else:
            del self._tops[podgroup]
        self.changed.add(podgroup)
        # A PodGroup that tells nothing goes by others of the same owner.
        for key in {key for pod in self._pods.get(podgroup, ()) if (key := self._key(pod))}:
            self.changed |= {one for one in self._of_owner[key] if one not in self._tops}

    def _top(self, podgroup: str) -> str:
        found = self._tops.get(podgroup, "")
        for pod in () if found else self._pods[podgroup]:
            key = self._key(pod)
            for other in reversed(self._of_owner[key]) if key else ():
                if other in self._tops:
                    return self._tops[other]
        return found

    def _key(self, pod: str) -> tuple[str, str] | None:
        owners = self._owners[pod]
        return (_space(pod), owners[0]) if owners else None


def _space(full: str) -> str:
    return full.partition("/")[0]


def _full(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"
