"""Where labs on a real Kubernetes API live: one cluster, one lab after the other in it.

A home that brings up its own control plane ends it too. In a cluster of somebody else's a lab creates only what carries its
mark, and takes out only that.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol

from kailab.cluster.backends import BACKENDS
from kailab.cluster.install import furnishings, install, uninstall
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.protocol import Object
from kailab.cluster.waiting import look_until
from kailab.cluster.writes import Create, Delete
from kailab.errors import ConnectError, InputError, NotFound
from kailab.evidence.standing import condition
from kailab.fleet import Fleet
from kailab.lab.clearing import MARK, clear
from kailab.lab.lastwill import LastWill
from kailab.lab.livepace import Rest
from kailab.scheduler import SchedulerSettings

NODES_SECONDS = 120.0
_NOT_READY = "node.kubernetes.io/not-ready"
_WATCHED = (
    "Namespace", "PriorityClass", "Node", "Queue", "Topology", "PodGroup", "Pod", "Job", "CronJob", "Deployment",
    "ReplicaSet", "StatefulSet", "DaemonSet", "ConfigMap",
)  # fmt: skip

Tell = Callable[[str], None]


def _silent(_: str) -> None:
    pass


class Plane(Protocol):
    """A cluster whose processes are ours: a control plane, or a kind cluster with what runs beside it."""

    @property
    def kubeconfig(self) -> Path: ...

    def down(self) -> None: ...


class Deciding(Protocol):
    """Schedulers under test that run as processes of their own."""

    def prepare(self, cluster: KubernetesCluster, scheduler: str) -> None:
        """Bring in kinds that this one has definitions of its own for."""

    def ensure(self, cluster: KubernetesCluster, scheduler: str, settings: SchedulerSettings) -> None:
        """Have this one decide in the cluster, and none that would take its pods."""

    def versions(self, scheduler: str) -> dict[str, str]:
        """Of the programs of the plane, and of this ``scheduler``, as far as they are known."""

    def rest(self, cluster: KubernetesCluster, scheduler: str) -> Rest | None:
        """What tells whether this one is done; None if nothing does."""


class LiveHome:
    """``plane`` None: the cluster is somebody else's. ``deciding`` None: whoever decides is there already. ``will``: what sees to
    it that the plane ends with this process; None: it goes on."""

    def __init__(
        self,
        backend: str,
        connection: Connection,
        plane: Plane | None = None,
        deciding: Deciding | None = None,
        *,
        mark: str | None = None,
        will: LastWill | None = None,
    ) -> None:
        self.backend = backend
        self.plane = plane
        self._will = will
        self.mark = mark or uuid.uuid4().hex[:12]
        self._deciding = deciding
        self._installed = False
        self.cluster = KubernetesCluster(connection, backend, marks={MARK: self.mark})

    # --- a lab moves in ----------------------------------------------------------------------------------------------

    def furnish(
        self, fleet: Fleet, scheduler: str, settings: SchedulerSettings, *, devices: bool = False, tell: Tell = _silent
    ) -> None:
        """Bring in what labs need, the nodes of the fleet, and the scheduler under test. ``devices``: publish the fleet's
        GPUs for dynamic resource allocation too. Raises ConnectError where the nodes do not become ready."""
        cluster = self.cluster
        if self._deciding is not None:
            with cluster.unmarked():
                self._deciding.prepare(cluster, scheduler)
        if not self._installed:
            cluster.watch(("CustomResourceDefinition",)).close()
            with cluster.unmarked():
                install(cluster, tell)
            cluster.watch(_WATCHED).close()
            self._installed = True
        if self._deciding is not None:
            with cluster.unmarked():
                self._deciding.ensure(cluster, scheduler, settings)
        wanted = furnishings(fleet, devices, beside_real=BACKENDS[self.backend].real_nodes)
        nodes = {obj["metadata"]["name"]: obj for obj in wanted if obj["kind"] == "Node"}
        self._nodes(nodes, tell)
        for obj in wanted:
            if obj["kind"] != "Node":
                cluster.apply(obj)
        self._await_nodes(nodes)

    def versions(self, scheduler: str) -> dict[str, str]:
        """What the lab runs on: the API server's version, and as far as they are ours those of etcd, KWOK and a scheduler
        under test that is not kailab's."""
        found = {"kubernetes": self.cluster.version}
        if self._deciding is not None:
            found |= self._deciding.versions(scheduler)
        return found

    def rest(self, scheduler: str) -> Rest | None:
        """What tells whether the scheduler under test is done; None if nothing does."""
        return None if self._deciding is None else self._deciding.rest(self.cluster, scheduler)

    def _nodes(self, wanted: Mapping[str, Object], tell: Tell) -> None:
        """Have these nodes, by name; ones of an earlier lab that are the same stay."""
        cluster = self.cluster
        there = {node["metadata"]["name"]: node for node in cluster.list("Node")}
        for name in wanted.keys() & there.keys():
            if not self._is_own(there[name]):
                raise InputError(
                    f"the cluster has a node {name!r} that is not this lab's; use a fleet whose nodes have other names, "
                    "or end the lab that has it"
                )
        stale = [
            name
            for name, node in there.items()
            if self._is_own(node) and (name not in wanted or not self._same(node, wanted[name]))
        ]
        _raise_first(cluster.write_all([[Delete("Node", name)] for name in stale]))
        kept = there.keys() - stale
        new = [node for name, node in wanted.items() if name not in kept]
        if new:
            tell(f"creating {len(new)} nodes")
        _raise_first(cluster.write_all([[Create(node)] for node in new]))

    def _is_own(self, node: Object) -> bool:
        return bool((node["metadata"].get("labels") or {}).get(MARK) == self.mark)

    def _same(self, there: Object, wanted: Object) -> bool:
        """Whether a node is as a fleet has it, whatever Kubernetes added."""
        own, given = there["metadata"], wanted["metadata"]
        labels = {**(own.get("labels") or {})}
        notes = own.get("annotations") or {}
        taints = [t for t in there["spec"].get("taints") or () if not t["key"].startswith("node.kubernetes.io/")]
        known = {*given["labels"], MARK}
        return bool(
            "deletionTimestamp" not in own
            and all(labels.get(key) == value for key, value in given["labels"].items())
            and not [key for key in labels if key not in known and "kubernetes.io/" not in key]
            and all(notes.get(key) == value for key, value in given["annotations"].items())
            and [(t["key"], t.get("value"), t["effect"]) for t in taints]
            == [(t["key"], t.get("value"), t["effect"]) for t in wanted["spec"].get("taints") or ()]
            and not there["spec"].get("unschedulable")
            and (there.get("status") or {}).get("allocatable") == wanted["status"]["allocatable"]
        )

    def _await_nodes(self, names: Collection[str]) -> None:
        """As long as more of them become ready; a large fleet takes its time."""

        def look() -> list[str]:
            nodes = {node["metadata"]["name"]: node for node in self.cluster.list("Node")}
            return sorted(name for name in names if not _is_ready(nodes.get(name)))

        def fewer(seen: list[str]) -> bool:
            return len(seen) < len(late)

        late = sorted(names)
        while late:
            seen = look_until(look, fewer, NODES_SECONDS, sleep=self.cluster.wait)
            if not fewer(seen):
                raise ConnectError(
                    f"{len(seen)} of {len(names)} nodes ({', '.join(seen[:3])} ...) do not become ready, and none has for "
                    f"{NODES_SECONDS:.0f} s: does KWOK run for this cluster, and does it manage nodes annotated "
                    "kwok.x-k8s.io/node=fake?"
                )
            late = seen

    # --- a lab moves out ---------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Take out what the lab brought in; its nodes stay for the next one."""
        others = [kind for kind in self.cluster.created if kind not in _WATCHED]
        clear(self.cluster, self.mark, kinds=(*_WATCHED, *others), keep=("Node",))
        if self.plane is not None:
            # Reservations and events of the lab before would be news to the next one.
            for kind, namespace in (("Pod", "kai-resource-reservation"), ("Event", None)):
                self.cluster.delete_all(kind, namespace)

    def close(self) -> None:
        """End what is ours: the plane, or in somebody else's cluster what carries the mark."""
        try:
            if self.plane is None and self._installed:
                self.vacate()
        finally:
            self.cluster.close()
            try:
                if self.plane is not None:
                    self.plane.down()
            finally:
                if self._will is not None:
                    self._will.close()

    def vacate(self) -> None:
        """Take all of the lab out of somebody else's cluster; the kinds it installed, too, if nobody else uses them."""
        clear(self.cluster, self.mark)
        if not self.cluster.list("Queue") and not self.cluster.list("PodGroup"):
            uninstall(self.cluster)

    def leave(self) -> None:
        """Let go of the cluster; all stays as it is."""
        self.cluster.close()


def _is_ready(node: Object | None) -> bool:
    if node is None:
        return False
    ready = condition(node, "Ready")
    taints = node["spec"].get("taints") or ()
    return bool(ready and ready["status"] == "True" and not any(taint["key"] == _NOT_READY for taint in taints))


def _raise_first(outcomes: list[Any]) -> None:
    for outcome in outcomes:
        if outcome.error is not None and not isinstance(outcome.error, NotFound):
            raise outcome.error
