"""What an expectation can be about: a queue, an app, a workload, a pod, a pod group, a node, or the whole lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kailab.cluster.there import is_there
from kailab.errors import NothingThere
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.lab.owners import owner_names
from kailab.lab.picture import Picture
from kailab.lab.seen_names import owners, there_are
from kailab.model.kinds import KINDS

if TYPE_CHECKING:
    from kailab.lab.lab import Lab

SYSTEM_NAMESPACES = ("kube-system", "kai-scheduler", "kai-resource-reservation")

Belongs = Callable[[Picture, PodRow], bool]
"""Whether a row (of a pod that is there, or was evicted) belongs to a subject."""


@dataclass(frozen=True)
class Subject:
    """Some pods of a lab, by a rule. ``title`` names it in messages ("queue team-a")."""

    lab: Lab
    kind: str
    name: str
    belongs: Belongs
    namespace: str = ""
    names: Callable[[Picture], set[str]] | None = None
    """Those of its kind that there are, and were, by which it is known; None: it is always there."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".strip()

    def look_up(self, picture: Picture) -> None:
        """Raises NothingThere where there is nothing of that name and never was; that counts as an expectation, too."""
        __tracebackhide__ = True  # a test's failure ends in its own line
        if self.names is None:
            return
        own = f"{self.namespace}/{self.name}" if self.namespace else self.name
        names = self.names(picture)
        if own not in names:
            told = f"no {self.kind} {own}; {there_are(names, own)}"
            self.lab.noted_expectation(self.title, f"{self.title}: it is there", told, False)
            raise NothingThere(told)

    def _repr_html_(self) -> str:
        """For notebooks: where it stands, and its pods."""
        from kailab.lab import html

        return html.subject(self)

    def pods(self, picture: Picture) -> list[PodRow]:
        """Its pods that exist now; finished ones too."""
        return [row for row in picture.rows if self.belongs(picture, row)]

    def evictions(self, picture: Picture) -> list[PodEvicted]:
        """Entries of the decision log about its pods that were evicted, since the lab opened."""
        return [entry for entry in picture.log.evictions if self.belongs(picture, _row_of(entry))]


def _row_of(entry: PodEvicted) -> PodRow:
    """An evicted pod as it was, so far as it decides whose it is. Its PodGroup is named in full."""
    return PodRow(
        name=entry.pod, app=entry.app, owner=entry.owner, phase="Gone", node=entry.node, queue=entry.queue,
        podgroup=entry.podgroup, milli_gpus=0, holds=False,
    )  # fmt: skip


def queue(lab: Lab, name: str) -> Subject:
    """Pods of a queue or of any queue below it."""

    def belongs(picture: Picture, row: PodRow) -> bool:
        own = row.queue
        return own == name or name in picture.lines.get(own, ())

    return Subject(lab, "queue", name, belongs, names=lambda picture: queue_names(lab, picture))


def queue_names(lab: Lab, picture: Picture) -> set[str]:
    """Queues that there are, and were."""
    return set(picture.shares.queues) | lab.met.of("Queue")


def app(lab: Lab, name: str) -> Subject:
    """Pods with the label ``app``."""

    def names(picture: Picture) -> set[str]:
        told = {row.app for row in picture.rows} | {entry.app for entry in picture.log.evictions}
        told |= {one.app for one in picture.log.names.everyone()}
        # Looking through all workloads costs something, and is needed only before a first pod is there.
        return (told if name in told else told | _labelled_apps(lab)) - {""}

    return Subject(lab, "app", name, lambda _, row: row.app == name, names=names)


def pod(lab: Lab, name: str, namespace: str) -> Subject:
    namespace = lab.space_of("Pod", name, namespace) or namespace
    full = f"{namespace}/{name}"

    def names(picture: Picture) -> set[str]:
        gone = {entry.pod for entry in picture.log.evictions}
        there = {row.name for row in picture.rows}
        return there if full in there else there | gone | _logged(picture, "Pod") | lab.met.of("Pod")

    return Subject(lab, "pod", name, lambda _, row: row.name == full, namespace, names)


def podgroup(lab: Lab, name: str, namespace: str) -> Subject:
    namespace = lab.space_of("PodGroup", name, namespace) or namespace
    full = f"{namespace}/{name}"

    def belongs(_: Picture, row: PodRow) -> bool:
        # The decision log names PodGroups in full, pod rows by the bare annotation.
        group = row.podgroup
        return group == full or (group == name and row.name.startswith(f"{namespace}/"))

    def names(picture: Picture) -> set[str]:
        gone = {entry.podgroup for entry in picture.log.evictions}
        there = {"/".join(key) for key in picture.podgroups}
        return there if full in there else there | gone | _logged(picture, "PodGroup") | lab.met.of("PodGroup")

    return Subject(lab, "podgroup", name, belongs, namespace, names)


def workload(lab: Lab, kind: str, name: str, namespace: str) -> Subject:
    """Pods that a workload controls, directly or through what it owns (a Deployment's ReplicaSets)."""
    namespace = lab.space_of(kind, name, namespace) or namespace
    # Owners are named by their kind alone; of two kinds of one name the one that may own pods is meant.
    owns = kind not in KINDS or KINDS[kind].owns_pods
    own = f"{KINDS[kind].kind if kind in KINDS else kind.partition('.')[0]}/{name}"

    def belongs(picture: Picture, row: PodRow) -> bool:
        in_namespace = row.name.startswith(f"{namespace}/")
        return owns and in_namespace and own in owner_names(picture, row.owner, namespace)

    def names(picture: Picture) -> set[str]:
        if is_there(picture.cluster, kind, name, namespace):
            return {f"{namespace}/{name}"}
        there = {
            f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}" for obj in picture.cluster.list(kind)
        }
        return there | owners(picture, kind) | lab.met.of(kind)

    return Subject(lab, kind.lower(), name, belongs, namespace, names)


def node(lab: Lab, name: str) -> Subject:
    """Pods on a node."""

    def names(picture: Picture) -> set[str]:
        gone = {entry.node for entry in picture.log.evictions}
        return set(picture.nodes) | gone | lab.met.of("Node")

    return Subject(lab, "node", name, lambda _, row: row.node == name, names=names)


def everything(lab: Lab) -> Subject:
    """All pods outside the system's namespaces."""
    return Subject(lab, "the lab", "", lambda _, row: row.name.partition("/")[0] not in SYSTEM_NAMESPACES)


def _logged(picture: Picture, kind: str) -> set[str]:
    """Pods or PodGroups that the decision log knows by name, also those that are gone."""
    return {one.name for one in picture.log.names.everyone() if one.kind == kind}


def _labelled_apps(lab: Lab) -> set[str]:
    """Apps of which there are workloads, if no pods yet."""
    found: set[str] = set()
    for kind in lab.cluster.kinds():
        for obj in lab.cluster.list(kind) if kind not in ("Pod", "Event") else ():
            template = (obj.get("spec") or {}).get("template") or {}
            for metadata in (obj["metadata"], template.get("metadata") or {} if isinstance(template, dict) else {}):
                found.add(str((metadata.get("labels") or {}).get("app") or ""))
    return found
