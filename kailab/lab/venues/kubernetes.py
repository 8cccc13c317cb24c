"""Venues on a Kubernetes API server of kailab or of the user: labs move in and out, one after the other.

Everything that a lab creates carries its mark; in a user's cluster only marked objects are removed. Objects that controllers made
from them (the pods of Jobs, their PodGroups) are removed with their owners, and faster than a fake node would let them go. Equal nodes
stay from lab to lab, which is why the next lab begins within a second.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from kailab.cluster.backends import BACKENDS
from kailab.cluster.install import furnishings, install, uninstall
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import poll_until, poll_while_fewer, write_until_answered
from kailab.cluster.protocol import Object
from kailab.cluster.writes import CreateWrite, DeleteWrite
from kailab.engine.snapshot.records import UNREPORTED_CAPACITY
from kailab.errors import ConnectError, InputError, NotFound, Unavailable
from kailab.fleet.fleet import Fleet
from kailab.lab.live_settling import DEADLINE_SECONDS, LiveSettling
from kailab.lab.parts import Parts, make_parts
from kailab.lab.spec import LabSpec
from kailab.lab.venues.contract import Place, RunningProcess
from kailab.model.callbacks import Tell
from kailab.model.kinds import KINDS
from kailab.model.objects import (
    condition_of,
    full_name,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    status_of,
    uid_of,
)
from kailab.operators import Operators
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.undertest.contract import PROCESS_QUIET_SECONDS, IdleDetector, SchedulerUnderTest
from kailab.undertest.running import RunningSchedulers

if TYPE_CHECKING:
    from kailab.evidence.decision_file import SchedulerDecisions


MARK = "kailab.dev/lab"
"""Label of all objects that a lab creates; its value names the lab."""

PATIENCE_SECONDS = 180.0
NODES_SECONDS = 120.0
_NOT_READY = "node.kubernetes.io/not-ready"
_WATCHED = (
    "Namespace", "PriorityClass", "Node", "Queue", "Topology", "PodGroup", "Pod", "Job", "CronJob", "Deployment",
    "ReplicaSet", "StatefulSet", "DaemonSet", "ConfigMap",
)  # fmt: skip
_MAKERS = ("ReplicaSet", "Job", "StatefulSet", "Deployment")
_FOLLOWERS = ("Pod", "PodGroup")
_LAST = (
    "Node", "ClusterQueue", "Cohort", "ResourceFlavor", "Queue", "Topology", "PriorityClass", "Namespace",
    "CustomResourceDefinition",
)  # fmt: skip
"""Kinds that are deleted when everything else is gone, in this order, because other objects depend on them. The bare names stand for kinds
of any group: Volcano's scheduler ends if its Queue is deleted before the pods in it. Kueue keeps a ResourceFlavor until no ClusterQueue
names it; a flavor that the next lab applies before that would be deleted too."""

FoundObjects: TypeAlias = list[tuple[str, Object]]


def clear_lab(
    cluster: KubernetesCluster,
    mark: str,
    *,
    kinds: Iterable[str] | None = None,
    keep: Iterable[str] = (),
    makers: Iterable[str] = (),
    finalizer_seconds: float | None = None,
) -> None:
    """Delete all objects with the mark, and wait until they are gone with everything that depends on them. ``kinds``: the only kinds to look
    at (None: all of the server). ``keep``: kinds to leave. ``makers``: further kinds whose objects are made by controllers and own
    objects themselves. ``finalizer_seconds``: time after which finalizers of objects that should go are removed (None: never), because the work that
    they stand for never ends on fake nodes, such as the clean-up of a Redis that is not there. Raises ConnectError for objects that do not go."""
    makers = (*makers, *_MAKERS)
    looked_at = [kind for kind in (kinds if kinds is not None else _all_kinds(cluster)) if kind not in keep]
    marked = [
        (kind, obj)
        for kind in looked_at
        if kind != "Event" and not _is_last(kind)
        for obj in cluster.list(kind, labels={MARK: mark})
    ]
    gone = {uid_of(obj) for _, obj in marked}
    # An operator may hold an object of any kind by a finalizer, so these are waited for too.
    held = dict.fromkeys(kind for kind, _ in marked if kind not in makers and kind not in _FOLLOWERS)
    sets = [obj for kind, obj in marked if kind == "StatefulSet"]
    _delete(cluster, marked)
    nodes = {name_of(node) for node in cluster.list("Node", labels={MARK: mark})}
    begun = monotonic()

    def left() -> list[str]:
        """Objects that still exist; new ones among them are deleted."""
        dependents = _dependents(cluster, mark, gone, nodes, makers)
        gone.update(uid_of(obj) for _, obj in dependents)
        sets.extend(obj for kind, obj in dependents if kind == "StatefulSet")
        # Kubernetes keeps the claims of a StatefulSet, without mark or owner, and another of the same name would find them.
        if any(obj["spec"].get("volumeClaimTemplates") for obj in sets):
            claims = claims_of_sets(sets, cluster.list("PersistentVolumeClaim"))
            dependents += [("PersistentVolumeClaim", claim) for claim in claims]
        dependents += [(kind, obj) for kind in held for obj in cluster.list(kind, labels={MARK: mark})]
        _delete(cluster, dependents)
        if finalizer_seconds is not None and monotonic() - begun > finalizer_seconds:
            _release(cluster, dependents)
        return [f"{kind} {full_name(obj)}" for kind, obj in dependents]

    _until_gone(cluster, left)
    kinds_last = sorted(filter(_is_last, looked_at), key=lambda kind: _LAST.index(_bare(kind)))
    last = [(kind, obj) for kind in kinds_last for obj in cluster.list(kind, labels={MARK: mark})]
    _delete(cluster, last)
    _until_gone(
        cluster,
        lambda: [
            f"{kind} {full_name(obj)}"
            for kind in dict.fromkeys(kind for kind, _ in last)
            for obj in cluster.list(kind, labels={MARK: mark})
        ],
    )


def claims_of_sets(sets: Iterable[Object], claims: Iterable[Object]) -> list[Object]:
    """The PersistentVolumeClaims that were made from the claim templates of these StatefulSets. A claim that is older than its set is not
    among them: it was there before, and may hold somebody's data."""
    sets = list(sets)
    return [claim for claim in claims if any(_is_claim_of(one, claim) for one in sets)]


def _is_claim_of(owner: Object, claim: Object) -> bool:
    if namespace_of(claim) != namespace_of(owner):
        return False
    name, _, ordinal = name_of(claim).rpartition("-")
    templates = owner["spec"].get("volumeClaimTemplates") or ()
    selected = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
    return (
        ordinal.isdecimal()
        and name in {f"{name_of(template)}-{name_of(owner)}" for template in templates}
        and selected.items() <= labels_of(claim).items()
        and metadata_of(claim)["creationTimestamp"] >= metadata_of(owner)["creationTimestamp"]
    )


def _is_last(kind: str) -> bool:
    return _bare(kind) in _LAST


def _bare(kind: str) -> str:
    """The kind without its group."""
    return kind.partition(".")[0]


def _dependents(
    cluster: KubernetesCluster, mark: str, gone: set[str], nodes: set[str], makers: Iterable[str]
) -> FoundObjects:
    """Marked objects, objects whose owner is deleted, and pods on nodes of the lab."""
    result: FoundObjects = []
    for kind in (*makers, *_FOLLOWERS):
        for obj in cluster.list(kind):
            owners = {reference["uid"] for reference in owner_references(obj)}
            marked = labels_of(obj).get(MARK) == mark
            if marked or owners & gone or (kind == "Pod" and obj["spec"].get("nodeName") in nodes):
                result.append((kind, obj))
                gone.add(uid_of(obj))
    return result


def _delete(cluster: KubernetesCluster, objects: FoundObjects) -> None:
    writes = []
    for kind, obj in objects:
        grace = 0.0 if kind == "Pod" else None
        if kind != "Pod" and is_terminating(obj):
            continue
        writes.append(DeleteWrite(kind, name_of(obj), namespace_of(obj) or None, grace))
    for outcome in write_until_answered(cluster, writes, PATIENCE_SECONDS, sleep=cluster.wait):
        if isinstance(outcome.error, Unavailable):
            raise ConnectError(f"the cluster can't be cleared: {outcome.error}")


def _release(cluster: KubernetesCluster, objects: FoundObjects) -> None:
    """Remove the finalizers of objects that are being deleted."""
    for kind, obj in objects:
        if is_terminating(obj) and metadata_of(obj).get("finalizers"):
            with suppress(NotFound):
                cluster.patch(kind, name_of(obj), namespace_of(obj) or None, {"metadata": {"finalizers": None}})


def _until_gone(cluster: KubernetesCluster, left: Callable[[], list[str]]) -> None:
    there = poll_until(left, lambda names: not names, PATIENCE_SECONDS, pause=0.15, sleep=cluster.wait)
    if there:
        names = ", ".join(there[:5])
        raise ConnectError(f"{cluster.name}: still there {PATIENCE_SECONDS:.0f} s after it was deleted: {names}")


def _all_kinds(cluster: KubernetesCluster) -> list[str]:
    """Kinds that objects of a lab can have: kailab's kinds that the server has, and those of CRDs."""
    there = []
    for kind in dict.fromkeys((*KINDS, *cluster.kinds())):
        try:
            cluster.resources.of(kind)
        except NotFound:
            continue
        there.append(kind)
    return there


def delete_stale_nodes(
    cluster: KubernetesCluster, mark: str, wanted: Mapping[str, Object]
) -> tuple[list[str], list[Object]]:
    """Delete the nodes of the lab with this mark that are not as wanted, by name; equal nodes of an earlier lab stay. Returns the names of
    the deleted nodes, and the wanted nodes that have to be created. Raises InputError if the cluster has a node of the same name without
    the mark."""
    there = {name_of(node): node for node in cluster.list("Node")}
    for name in wanted.keys() & there.keys():
        if not _is_own(there[name], mark):
            raise InputError(
                f"the cluster has a node {name!r} that does not belong to this lab; use a fleet whose nodes have other names, "
                "or end the lab that has it"
            )
    stale = [
        name
        for name, node in there.items()
        if _is_own(node, mark) and (name not in wanted or not _same(node, wanted[name]))
    ]
    _write(cluster, [DeleteWrite("Node", name) for name in stale])
    unchanged = there.keys() - stale
    return stale, [node for name, node in wanted.items() if name not in unchanged]


def create_nodes(cluster: KubernetesCluster, nodes: Iterable[Object]) -> None:
    _write(cluster, [CreateWrite(node) for node in nodes])


def _reporting(node: Object) -> Object:
    """A node with the resources that every kubelet reports, for schedulers that do not assume them (``UNREPORTED_CAPACITY``)."""
    added = {name: str(amount) for name, amount in UNREPORTED_CAPACITY.items()}
    status = status_of(node)
    amounts = {part: {**added, **(status.get(part) or {})} for part in ("capacity", "allocatable")}
    return {**node, "status": {**status, **amounts}}


def _is_own(node: Object, mark: str) -> bool:
    return bool(labels_of(node).get(MARK) == mark)


def _same(there: Object, wanted: Object) -> bool:
    """True if a node is as the fleet describes it. Kubernetes' own additions do not count."""
    own, given = metadata_of(there), metadata_of(wanted)
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
        and status_of(there).get("allocatable") == wanted["status"]["allocatable"]
    )


def await_ready(cluster: KubernetesCluster, names: Collection[str]) -> None:
    """Wait until the nodes are ready, as long as some become ready every ``NODES_SECONDS``. Raises ConnectError."""

    def unready() -> list[str]:
        nodes = {name_of(node): node for node in cluster.list("Node")}
        return sorted(name for name in names if not _is_ready(nodes.get(name)))

    late = poll_while_fewer(unready, len(names), NODES_SECONDS, sleep=cluster.wait)
    if late:
        raise ConnectError(
            f"{len(late)} of {len(names)} nodes ({', '.join(late[:3])} ...) do not become ready, and none has for "
            f"{NODES_SECONDS:.0f} s: does KWOK run for this cluster, and does it manage nodes annotated "
            "kwok.x-k8s.io/node=fake?"
        )


def _is_ready(node: Object | None) -> bool:
    if node is None:
        return False
    ready = condition_of(node, "Ready")
    taints = spec_of(node).get("taints") or ()
    return bool(ready and ready["status"] == "True" and not any(taint["key"] == _NOT_READY for taint in taints))


def _write(cluster: KubernetesCluster, writes: Sequence[CreateWrite | DeleteWrite]) -> None:
    for outcome in write_until_answered(cluster, writes, NODES_SECONDS, sleep=cluster.wait):
        if outcome.error is not None and not isinstance(outcome.error, NotFound):
            raise outcome.error


def new_mark() -> str:
    return uuid.uuid4().hex[:12]


class KubernetesVenue:
    """``deciding``: the schedulers that run or are installed for labs here; None: the scheduler is there already. ``detached``: kailab's
    scheduler decides in its own process, not in the one that holds the lab."""

    exclusive = False

    finalizer_seconds: ClassVar[float | None] = None
    """How long the end of a lab waits for finalizers of others before it removes them; None: it never does."""

    def __init__(
        self, place: Place, connection: Connection, deciding: RunningSchedulers | None = None, *, detached: bool = False
    ) -> None:
        self.place = place
        self.backend = place.backend
        self.detached = detached
        self.installed = False
        self.patience = DEADLINE_SECONDS  # of one settling; searches for labs that never settle use less
        self.cluster = KubernetesCluster(connection, place.backend, marks={MARK: place.mark})
        self._deciding = deciding

    @property
    def kubernetes(self) -> str:
        return self.cluster.version

    @property
    def kubeconfig(self) -> Path:
        return Path(self.place.kubeconfig)

    # --- a lab moves in ----------------------------------------------------------------------------------------------

    def furnish(
        self, fleet: Fleet, scheduler: SchedulerUnderTest, settings: SchedulerSettings, *, devices: bool = False
    ) -> None:
        """Raises ConnectError if the nodes do not become ready."""
        cluster = self.cluster
        if self._deciding is not None:
            # Without the mark, because definitions outlast the lab and serve the next one.
            with cluster.unmarked():
                self._deciding.prepare(cluster, scheduler)
        if not self.installed:
            # A closed watch leaves its informer running, so that the following look-ups need no requests.
            cluster.watch(("CustomResourceDefinition",)).close()
            with cluster.unmarked():
                install(cluster)
            cluster.watch(_WATCHED).close()
            self.installed = True
        if self._deciding is not None:
            with cluster.unmarked():
                self._deciding.ensure(cluster, scheduler, settings)
        wanted = furnishings(fleet, devices, beside_real=BACKENDS[self.backend].real_nodes)
        fakes = {name_of(obj): _reporting(obj) for obj in wanted if obj["kind"] == "Node"}
        self.provide_nodes(fleet, fakes)
        for obj in wanted:
            if obj["kind"] != "Node":
                cluster.apply(obj)
        # The nodes become ready while the other objects are written.
        await_ready(cluster, fakes)

    def provide_nodes(self, fleet: Fleet, nodes: Mapping[str, Object]) -> None:
        """Replace the nodes of the lab by those of a fleet, which are given by name."""
        _, missing = delete_stale_nodes(self.cluster, self.place.mark, nodes)
        create_nodes(self.cluster, missing)

    def versions(self, scheduler: SchedulerUnderTest) -> dict[str, str]:
        """Versions of the API server and, if they are ours, of etcd, KWOK and a scheduler under test that is not kailab's."""
        known = {"kubernetes": self.cluster.version, "scheduler": scheduler.version(live=True)}
        return known if self._deciding is None else {**known, **self._deciding.versions(scheduler)}

    # --- it is at work -----------------------------------------------------------------------------------------------

    def run(self, spec: LabSpec, observer: Observer, changing: Callable[[], list[str]]) -> tuple[Parts, LiveSettling]:
        scheduler = spec.under_test
        parts = make_parts(self.cluster, spec, observer, live=True, external=self.detached)
        idle_detector = self.idle_detector(scheduler)
        quiet = PROCESS_QUIET_SECONDS if self.detached or idle_detector else scheduler.quiet_seconds
        operators = self.operators()
        if operators is not None:
            quiet = max(quiet, PROCESS_QUIET_SECONDS)
        pace = LiveSettling(
            self.cluster, parts.controllers, parts.scheduler,
            considers=scheduler.answers, rest=idle_detector, quiet=quiet, owed=scheduler.give_up_seconds,
            deadline=self.patience, retry_at=parts.retry_at, operators=operators, writes=scheduler.writes,
        )  # fmt: skip
        return parts, pace

    def operators(self) -> Operators | None:
        """Operators whose processes are ours; None: there are none."""
        return None

    def idle_detector(self, scheduler: SchedulerUnderTest) -> IdleDetector | None:
        """An idle detector of the scheduler under test; None: it has none."""

    def decided(self, scheduler: SchedulerUnderTest) -> SchedulerDecisions | None:
        """None: the scheduler's decisions are unknown."""

    def answers_at(self, scheduler: SchedulerUnderTest) -> str | None:
        """None: the scheduler's address is unknown."""

    def processes(self) -> Sequence[RunningProcess]:
        return ()

    def dry_run(self) -> None:
        self.cluster.dry_run()

    def outlive(self, spec: LabSpec, config: Path | None, tell: Tell) -> None:
        self.detached = True

    def save(self, path: Path, sections: Callable[[], dict[str, Any]]) -> None:
        """The cluster itself keeps the lab."""

    # --- it moves out ------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        # Operators may have many kinds, so only the kinds of which this lab created objects are searched.
        others = [kind for kind in self.cluster.created if kind not in _WATCHED]
        operators = self.operators()
        # Operators make objects of each other's kinds, such as the RayCluster of a RayJob.
        made = () if operators is None else operators.kinds
        kinds = dict.fromkeys((*_WATCHED, *others, *made))
        clear_lab(
            self.cluster, self.place.mark, kinds=kinds, keep=("Node",), makers=made, finalizer_seconds=self.finalizer_seconds
        )  # fmt: skip

    def vacate(self) -> None:
        """Remove the lab from a user's cluster, with the kinds that it installed unless other objects of these kinds exist."""
        clear_lab(self.cluster, self.place.mark)
        self._end_schedulers()
        # Kinds stay while any object of them exists, because deleting a definition deletes all objects of its kind.
        if not self.cluster.list("Queue") and not self.cluster.list("PodGroup"):
            uninstall(self.cluster)

    def _end_schedulers(self) -> None:
        """End schedulers that were started or installed for labs here."""
        if self._deciding is not None:
            self._deciding.end()

    def leave(self) -> None:
        self.cluster.close()

    def close(self) -> None:
        try:
            if self.installed:
                self.vacate()
            else:
                self._end_schedulers()
        finally:
            self.cluster.close()
