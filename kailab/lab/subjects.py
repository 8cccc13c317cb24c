"""Subjects of expectations: a queue, an app, a workload, a pod, a pod group, a node, or the whole lab."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kailab.cluster.protocol import object_exists
from kailab.errors import NothingThere
from kailab.evidence.entries import PodEvicted, PodRow
from kailab.lab.open_lab import OpenLab
from kailab.lab.owners import owner_names
from kailab.lab.picture import Picture
from kailab.lab.seen_names import describe_names, names_of_owners
from kailab.model.kinds import KINDS
from kailab.model.objects import full_name, metadata_of, spec_of

SYSTEM_NAMESPACES = ("kube-system", "kai-scheduler", "kai-resource-reservation")

Belongs = Callable[[Picture, PodRow], bool]
"""A function that returns True if a row (of a pod that exists or was evicted) belongs to a subject."""


@dataclass(frozen=True)
class Subject:
    """Some pods of a lab, chosen by a rule. ``title`` names it in messages ("queue team-a")."""

    lab: OpenLab
    kind: str
    name: str
    belongs: Belongs
    namespace: str = ""
    names: Callable[[Picture], set[str]] | None = None
    """Gives the names of its kind that exist or existed; None: the subject always exists."""

    @property
    def title(self) -> str:
        return f"{self.kind} {self.name}".strip()

    def look_up(self, picture: Picture) -> None:
        """Raises NothingThere, and records a failed expectation, if no object of that name exists or existed."""
        __tracebackhide__ = True  # a failed test shows its own line
        if self.names is None:
            return
        own = f"{self.namespace}/{self.name}" if self.namespace else self.name
        names = self.names(picture)
        if own not in names:
            text = f"no {self.kind} {own}; {describe_names(names, own)}"
            self.lab.noted_expectation(self.title, f"{self.title}: it is there", text, False)
            raise NothingThere(text)

    def _repr_html_(self) -> str:
        """For notebooks: its amounts if it is a queue, and its pods."""
        from kailab.lab import frames

        picture = self.lab.picture()
        self.look_up(picture)
        shares = picture.shares
        own = type(shares)({self.name: shares[self.name]}) if self.kind == "queue" and self.name in shares else None
        return frames.subject_as_html(self.title, self.pods(picture), own)

    def pods(self, picture: Picture) -> list[PodRow]:
        """Its pods that exist now, finished ones too."""
        return [row for row in picture.rows if self.belongs(picture, row)]

    def evictions(self, picture: Picture) -> list[PodEvicted]:
        """Entries of the decision log for its pods that were evicted since the lab opened."""
        return [entry for entry in picture.log.evictions if self.belongs(picture, _row_of(entry))]


def _row_of(entry: PodEvicted) -> PodRow:
    """The fields of an evicted pod that decide to which subject it belongs. Its PodGroup has its full name."""
    return PodRow(
        name=entry.pod, app=entry.app, owner=entry.owner, phase="Gone", node=entry.node, queue=entry.queue,
        podgroup=entry.podgroup, milli_gpus=0, holds=False,
    )  # fmt: skip


def queue(lab: OpenLab, name: str) -> Subject:
    """The pods of a queue and of all queues below it."""

    def belongs(picture: Picture, row: PodRow) -> bool:
        own = row.queue
        return own == name or name in picture.lines.get(own, ())

    return Subject(
        lab, "queue", name, belongs, names=lambda picture: set(picture.shares.queues) | lab.seen_names.of("Queue")
    )


def app(lab: OpenLab, name: str) -> Subject:
    """Pods with the label ``app``."""

    def names(picture: Picture) -> set[str]:
        apps = {row.app for row in picture.rows} | {entry.app for entry in picture.log.evictions}
        apps |= {known.app for known in picture.log.names.everyone()}
        # Looking through all workloads is needed only before the first pod exists.
        return (apps if name in apps else apps | _labelled_apps(lab)) - {""}

    return Subject(lab, "app", name, lambda _, row: row.app == name, names=names)


def pod(lab: OpenLab, name: str, namespace: str) -> Subject:
    namespace = lab.space_of("Pod", name, namespace) or namespace
    full = f"{namespace}/{name}"

    def names(picture: Picture) -> set[str]:
        gone = {entry.pod for entry in picture.log.evictions}
        there = {row.name for row in picture.rows}
        return there if full in there else there | gone | _logged(picture, "Pod") | lab.seen_names.of("Pod")

    return Subject(lab, "pod", name, lambda _, row: row.name == full, namespace, names)


def podgroup(lab: OpenLab, name: str, namespace: str) -> Subject:
    namespace = lab.space_of("PodGroup", name, namespace) or namespace
    full = f"{namespace}/{name}"

    def belongs(_: Picture, row: PodRow) -> bool:
        # The decision log names PodGroups in full, pod rows by the bare annotation.
        group = row.podgroup
        return group == full or (group == name and row.name.startswith(f"{namespace}/"))

    def names(picture: Picture) -> set[str]:
        gone = {entry.podgroup for entry in picture.log.evictions}
        there = {"/".join(key) for key in picture.podgroups}
        return there if full in there else there | gone | _logged(picture, "PodGroup") | lab.seen_names.of("PodGroup")

    return Subject(lab, "podgroup", name, belongs, namespace, names)


def workload(lab: OpenLab, kind: str, name: str, namespace: str) -> Subject:
    """The pods that a workload controls, directly or through objects that it owns (a Deployment's ReplicaSets)."""
    namespace = lab.space_of(kind, name, namespace) or namespace
    # Owner references in rows have a bare kind; if two kinds share it, the one that may own pods is meant.
    owns = kind not in KINDS or KINDS[kind].owns_pods
    own = f"{KINDS[kind].kind if kind in KINDS else kind.partition('.')[0]}/{name}"

    def belongs(picture: Picture, row: PodRow) -> bool:
        in_namespace = row.name.startswith(f"{namespace}/")
        return owns and in_namespace and own in owner_names(picture, row.owner, namespace)

    def names(picture: Picture) -> set[str]:
        if object_exists(picture.cluster, kind, name, namespace):
            return {f"{namespace}/{name}"}
        there = {full_name(obj) for obj in picture.cluster.list(kind)}
        return there | names_of_owners(picture, kind) | lab.seen_names.of(kind)

    return Subject(lab, kind.lower(), name, belongs, namespace, names)


def node(lab: OpenLab, name: str) -> Subject:
    """Pods on a node."""

    def names(picture: Picture) -> set[str]:
        gone = {entry.node for entry in picture.log.evictions}
        return set(picture.nodes) | gone | lab.seen_names.of("Node")

    return Subject(lab, "node", name, lambda _, row: row.node == name, names=names)


def everything(lab: OpenLab) -> Subject:
    """All pods outside the system's namespaces."""
    return Subject(lab, "the lab", "", lambda _, row: row.name.partition("/")[0] not in SYSTEM_NAMESPACES)


def _logged(picture: Picture, kind: str) -> set[str]:
    """Names of pods or PodGroups in the decision log, deleted ones too."""
    return {known.name for known in picture.log.names.everyone() if known.kind == kind}


def _labelled_apps(lab: OpenLab) -> set[str]:
    """Apps of existing workloads."""
    result: set[str] = set()
    for kind in lab.cluster.kinds():
        for obj in lab.cluster.list(kind) if kind not in ("Pod", "Event") else ():
            template = spec_of(obj).get("template") or {}
            for metadata in (metadata_of(obj), template.get("metadata") or {} if isinstance(template, dict) else {}):
                result.add(str((metadata.get("labels") or {}).get("app") or ""))
    return result
