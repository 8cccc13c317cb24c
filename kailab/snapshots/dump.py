"""The files that people have of a cluster as a snapshot: output of ``kubectl get -o yaml|json`` in any split, a must-gather, a support bundle.

Everything that holds Kubernetes objects is read: lists and single objects, several documents in a file, lists of objects without a kind (whose
kind is in the path, as support bundles of troubleshoot.sh have them). Of several copies of an object, only the newest
counts. The same kinds are kept as in a snapshot of a live cluster (``taking``), with the same filter.

If no object of a file has been in a cluster (no uid, no status), the file is a manifest: it is applied to the lab, not part of the state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cluster.base_objects import PRIORITY_CLASSES, priority_class, runtime_class
from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.engine.config import EngineConfig
from kailab.errors import InputError, InputErrors, NotFound, Where
from kailab.evidence.sanitizing import Sanitizer
from kailab.evidence.wording import count, some
from kailab.lab.intake import NamedText
from kailab.lab.unknown_fields import unread_fields_of_cluster
from kailab.model import labels, yamltext
from kailab.model.cluster_files import newest_time, read_objects, time_of_cluster, was_in_cluster
from kailab.model.file_trees import Skip, read_tree
from kailab.model.files import decode_text
from kailab.model.kinds import KINDS, is_namespaced, key_of
from kailab.model.manifests import MOST_ERRORS, object_name
from kailab.model.multimap import multimap
from kailab.model.objects import (
    annotations_of,
    is_active,
    is_ended,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    spec_of,
    status_of,
    uid_of,
)
from kailab.model.queues import check_queue_tree
from kailab.model.times import DAY, format_time, spoken_duration
from kailab.model.validation import Fault, validate
from kailab.scheduler.reading.references import referenced_objects
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.snapshots.kai_settings import KaiSettings, settings_in
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.snapshots.taking import NAMES_ONLY, cluster_facts, kinds_taken, unknown_owner_kinds
from kailab.workloads.apps import HASH, REVISION_ANNOTATION
from kailab.workloads.controller import with_metadata

BACKEND = "files"
_NEVER = frozenset({"Secret", "Event", "Event.events.k8s.io", "Lease", "CustomResourceDefinition"})
_STATED = ("Node", "Pod")
"""Kinds whose objects in a cluster always have a status."""


class Dump(NamedTuple):
    """``manifests``: the texts of files that were never in a cluster. ``notices``: what is missing, or was left out."""

    snapshot: ClusterSnapshot
    manifests: tuple[NamedText, ...]
    notices: tuple[str, ...]


CAN_NOT_BE_OPENED = (
    "can't be opened; expected a snapshot (`kailab snapshot take`), the archive of KAI's /get-snapshot, evidence, or files of a cluster: "
    "output of `kubectl get ... -o yaml|json`, a must-gather, a support bundle"
)


def read_dump(paths: Sequence[Path], at: float | None = None, *, partial: bool = False) -> Dump:
    """``at``: the time of the files, in seconds since the epoch; None: the newest time in their objects. ``partial``: files and objects that
    can't be read are left out and named. Raises InputError, or InputErrors with every problem."""
    reading = _Reading(partial)
    for path in paths:
        reading.read(path)
    if reading.errors and not partial:
        raise InputErrors.of(
            [*reading.errors, InputError("nothing was opened; --partial leaves out what can't be read")]
        )
    return reading.result(paths, at)


_SKIPPED = {
    Skip.NOWHERE: ("link that leads", "links that lead", "nowhere, so there was nothing to read"),
    Skip.OUT: (
        "link that leads",
        "links that lead",
        "out of the folder not followed; name the target beside the folder if it belongs to the cluster",
    ),
    Skip.TO_FOLDER: (
        "link to a folder",
        "links to folders",
        "not followed; files below the opened folder count where they are",
    ),
    Skip.IN_ARCHIVE: (
        "link",
        "links",
        "in an archive not followed; if its target is not in the archive, its objects are missing",
    ),
    Skip.ARCHIVE: ("archive", "archives", "within what was opened not read; unpack it, or name it in the command"),
    Skip.NO_FILE: ("pipe, socket or device", "pipes, sockets or devices", "not read; only files are"),
}
"""For each reason: words for one and for several, and the rest of the sentence."""


class _Found(NamedTuple):
    obj: Object
    file: str


LONG_AFTER = 30 * DAY
"""A given time so many seconds after the newest time in the files is reported."""


class _Reading:
    def __init__(self, partial: bool) -> None:
        self.partial = partial
        self.errors: list[InputError] = []
        self.found: dict[tuple[str, str, str], _Found] = {}
        self.uids: dict[tuple[str, str], str] = {}
        self.times: list[tuple[float, str]] = []
        self.manifests: list[NamedText] = []
        self.empty: list[str] = []
        self.skipped: dict[Skip, list[str]] = {}
        self.files = self.older = 0
        self.left_out: list[str] = []
        self.configs: dict[tuple[str, str], Object] = {}
        self.kinds = frozenset(kinds_taken()) & KINDS.keys()
        self.ratcheted: dict[str, Fault] = {}

    def fail(self, message: str, where: Where) -> None:
        self.add_error(InputError(message, where))

    def add_error(self, error: InputError) -> None:
        if len(self.errors) == MOST_ERRORS and not self.partial:
            raise InputErrors.of([*self.errors, InputError(f"{MOST_ERRORS} errors; the rest was not read")])
        self.errors.append(error)

    # --- files

    def read(self, path: Path) -> None:
        def skip(file: str, why: Skip) -> None:
            self.skipped.setdefault(why, []).append(file)

        for file in read_tree(path, skip, self.add_error):
            self.files += 1
            try:
                objects = read_objects(file)
            except InputError as error:
                self.fail(error.message, error.where or Where(file=file.name))
                continue
            if not objects:
                self.empty.append(file.name)
            elif any(map(was_in_cluster, objects)):
                for obj in objects:
                    self.add(obj, file.name)
            else:
                self.manifests.append(NamedText(file.name, decode_text(file.data, file.name)))

    # --- objects

    def add(self, obj: Object, file: str) -> None:
        if (newest := newest_time(obj)) is not None:
            self.times.append((newest, f"{object_name(obj)} in {file}"))
        key = key_of(obj["apiVersion"], obj["kind"])
        if key in _NEVER:
            return
        where = Where(file=file, object=object_name(obj))
        meta = obj.get("metadata")
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str) or not meta["name"]:
            self.fail("has no name; the file may be incomplete", where)
            return
        # As in a listed object of a cluster. They quote API versions and field names, which the filter would take for private texts.
        meta.pop("managedFields", None)
        if wrong := yamltext.check_plain(obj):
            self.fail(wrong[1], Where(file=file, object=object_name(obj), field=wrong[0]))
            return
        if key in _STATED and not obj.get("status"):
            self.fail("has no status, which each one in a cluster has: the file is incomplete, or was edited", where)
            return
        if key in NAMES_ONLY:
            self.configs[str(namespace_of(obj) or "default"), meta["name"]] = obj
            obj = {name: obj[name] for name in ("apiVersion", "kind", "metadata")}
        elif key in self.kinds and (faults := validate(obj, key)):
            if refused := validate(obj, key, stored=obj):
                self.fail(refused[0].message, Where(file=file, object=object_name(obj), field=refused[0].field))
                return
            self.ratcheted[object_name(obj)] = faults[0]
        space = str(namespace_of(obj) or "default") if is_namespaced(key, obj) else ""
        self.keep((key, space, meta["name"]), _Found(obj, file), where)

    def keep(self, identity: tuple[str, str, str], new: _Found, where: Where) -> None:
        known = self.found.get(identity)
        if known is None:
            kind, _, name = identity
            if (uid := uid_of(new.obj)) and (other := self.uids.setdefault((kind, str(uid)), name)) != name:
                self.fail(
                    f"has the uid of {kind} {other}, and a uid belongs to one object: one of the two was copied or edited",
                    where,
                )
                return
            self.found[identity] = new
            return
        if known.obj == new.obj:
            return
        before, after = _version(known.obj), _version(new.obj)
        if before == after:
            twice = (
                "is there twice with different content" if known.file == new.file else f"is different in {known.file}"
            )
            self.fail(f"{twice}, and no resourceVersion says which one is newer; keep one of them", where)
            return
        self.older += 1
        if after > before:
            self.found[identity] = new

    # --- the result

    def result(self, paths: Sequence[Path], at: float | None) -> Dump:
        shown = some([str(path) for path in paths])
        place = Where(file=shown)
        if not self.found and not self.manifests:
            if self.errors:
                raise InputErrors.of(self.errors)
            about = "".join(f"; {sentence}" for sentence in self.about_skipped())
            raise InputError(
                f"{CAN_NOT_BE_OPENED}. It holds no Kubernetes objects ({count(self.files, 'YAML or JSON file')}{about})",
                place,
            )
        by_kind = self.objects_by_kind()
        assumed = _assume_configmaps(by_kind)
        classes = _assume_priority_classes(by_kind)
        runtimes = _assume_runtime_classes(by_kind)
        replica_sets = _assume_replica_sets(by_kind)
        newest, time_notices = time_of_cluster(self.times)
        taken = newest if at is None else at
        if at is not None:
            time_notices = []
            if newest is not None and at - newest > LONG_AFTER:
                after = spoken_duration(at - newest)
                time_notices.append(f"--at is {after} after the newest time in the files, {format_time(newest)}")
        if taken is None and by_kind:
            raise InputError(
                "its objects have no time, so the time of the cluster is unknown; give it with --at", place
            )
        kai = settings_in(by_kind, self.config) or KaiSettings(SchedulerSettings(engine=EngineConfig()))
        # The files stay with their owner, who may select nodes by any label.
        node_labels = {key for node in by_kind.get("Node", ()) for key in labels_of(node)}
        filtered = Sanitizer((), by_kind, {}, labels=node_labels)
        objects = {kind: filtered.text.value(several) for kind, several in filtered.before.items()}
        empty = EmbeddedCluster()
        facts = cluster_facts(
            empty,
            objects.get("Node", []),
            fleet=paths[0].name.partition(".")[0] or "files",
            backend=BACKEND,
            scheduler=kai.version or "unknown",
            settings=kai.settings,
        )
        when = empty.now() if taken is None else taken
        snapshot = ClusterSnapshot(
            taken=when, opened=when, facts=facts, node_pool=kai.node_pool, objects=objects, cut=filtered.cut,
        )  # fmt: skip
        notices = [*time_notices, *self.about_files(), *map(filtered.text.text, kai.notices), *_about_objects(by_kind)]
        if assumed:
            notices.append(
                f"{count(len(assumed), 'ConfigMap')} that pods use ({some(assumed)}) {'is' if len(assumed) == 1 else 'are'} not in "
                "the files, nor any other of the namespace: taken as there"
            )
        if replica_sets:
            names = list(dict.fromkeys(str(owner_references(one)[0]["name"]) for one in replica_sets))
            owners = f"the Deployment {names[0]}" if len(names) == 1 else f"Deployments {some(names)}"
            notices.append(
                f"the ReplicaSets of {owners} are not in the files: made anew from the Deployments, so that these keep their pods"
            )
        if classes:
            values = ", ".join(f"{name_of(one)} {one['value']}" for one in classes)
            notices.append(
                "the files hold no PriorityClass; those that work names get the priority of their pods, or the value in KAI's chart "
                f"({values}). If the cluster has other values, add `kubectl get {KINDS['PriorityClass'].resource} -o yaml`"
            )
        if runtimes:
            notices.append(
                f"the files hold no RuntimeClass; those that pods name ({some(list(map(name_of, runtimes)))}) count as there, with the overhead of "
                f"their pods. If they select nodes, add `kubectl get {KINDS['RuntimeClass'].resource} -o yaml`"
            )
        if by_kind and not kai.version:
            notices.append(
                "the files hold no scheduler of KAI's (its Deployment and ConfigMap, of the namespace kai-scheduler), so its "
                "default configuration is used"
            )
        # Of the files, not of the snapshot, which lacks what nothing reads.
        notices += unread_fields_of_cluster(by_kind)
        return Dump(snapshot, tuple(self.manifests), tuple(notices))

    def objects_by_kind(self) -> dict[str, list[Object]]:
        """The objects to keep by kind key, in the order of a snapshot."""
        by_kind = multimap((key, obj) for (key, _, _), (obj, _) in self.found.items())
        taken = {key: by_kind[key] for key in kinds_taken() if key in by_kind}
        for key in unknown_owner_kinds(taken):
            if key in by_kind:
                taken[key] = by_kind[key]
        self.left_out = [f"{len(several)} {key}" for key, several in by_kind.items() if key not in taken]
        return taken

    def config(self, kind: str, name: str, namespace: str | None) -> Object:
        try:
            return self.configs[namespace or "default", name]
        except KeyError:
            raise NotFound(f"{kind} {namespace}/{name} is not in the files") from None

    def about_skipped(self) -> Iterator[str]:
        for why, files in self.skipped.items():
            one, several, sentence = _SKIPPED[why]
            yield f"{len(files)} {one if len(files) == 1 else several} {sentence}: {some(files)}"

    def ratcheted_objects(self) -> Iterable[tuple[list[str], str]]:
        """The objects that would be refused if they were new, by what is wrong with them."""
        by_fault = multimap((f"{fault.field}: {fault.message}", name) for name, fault in self.ratcheted.items())
        return ((names, fault) for fault, names in by_fault.items())

    def about_files(self) -> Iterator[str]:
        for error in self.errors[:MOST_ERRORS]:
            yield f"left out: {error}"
        if (others := len(self.errors) - MOST_ERRORS) > 0:
            yield f"left out: {others} more files and objects that can't be read"
        for names, fault in self.ratcheted_objects():
            yield f"{some(names)}: {fault}; kept, because the cluster has it"
        yield from self.about_skipped()
        if self.empty:
            verb = "holds" if len(self.empty) == 1 else "hold"
            yield f"{count(len(self.empty), 'file')} {verb} no Kubernetes objects: {some(self.empty)}"
        if self.older:
            copies = "1 older copy" if self.older == 1 else f"{self.older} older copies"
            yield f"{copies} of objects that are there in a newer version"
        if self.left_out:
            yield f"objects of kinds that kailab does not read left out: {some(self.left_out)}"
        for file, _ in self.manifests:
            yield f"{file}: none of its objects was in a cluster (no uid, no status), so they are applied as manifests"


# --- versions --------------------------------------------------------------------------------------------------------


def _version(obj: Object) -> tuple[str, int]:
    """Sort key: the latest state of an object. A deleted one that was created again counts from its creation."""
    meta = metadata_of(obj)
    text = str(meta.get("resourceVersion") or "")
    return str(meta.get("creationTimestamp") or ""), int(text) if text.isascii() and text.isdigit() else 0


# --- what is missing --------------------------------------------------------------------------------------------------


def _about_objects(by_kind: Mapping[str, list[Object]]) -> Iterator[str]:
    if by_kind and not by_kind.get("Node"):
        yield "the files hold no nodes, so no pod can be placed: add `kubectl get nodes -o yaml`"
    pods = by_kind.get("Pod", [])
    if pods and not by_kind.get("Queue"):
        yield "the files hold no queues, so KAI's scheduler places no pod: add `kubectl get queues.scheduling.run.ai -o yaml`"
    there = {uid_of(obj) for several in by_kind.values() for obj in several}
    missing: Counter[str] = Counter()
    lost = 0
    twice: Counter[str] = Counter()
    for pod in pods:
        absent = [
            owner for owner in owner_references(pod) if owner.get("uid") not in there and owner.get("kind") != "Node"
        ]
        missing.update({str(owner.get("kind")) for owner in absent})
        lost += bool(absent)
        twice.update(maker for owner in absent if (maker := _maker(by_kind, pod, owner)))
    if lost:
        kinds = ", ".join(f"{kind} of {number}" for kind, number in missing.most_common())
        resources = ",".join(sorted({_resource(kind) for kind in missing}))
        yield (
            f"the owners of {count(lost, 'pod')} are not in the files ({kinds}): pods that leave are not replaced. Add them: "
            f"kubectl get {resources} -A -o yaml"
        )
    if twice:
        yield (
            f"of these pods, {sum(twice.values())} are made a second time by {some(list(twice))} as soon as the lab runs, because what is "
            "between them and their pods is not in the files"
        )
    groups = {(namespace_of(group), name_of(group)) for group in by_kind.get("PodGroup", ())}
    without = sum(1 for pod in pods if (group := _group(pod)) and (namespace_of(pod), group) not in groups)
    if without:
        yield (
            f"the PodGroups of {count(without, 'pod')} are not in the files: `kailab run` groups them anew from their owners, and until then no "
            "queue counts what they hold. Add `kubectl get podgroups.scheduling.run.ai -A -o yaml`"
        )
    yield from _about_empty_groups(by_kind, there)
    yield from _about_absent_pods(by_kind)
    yield from _about_absent_nodes(by_kind)
    faults, notices = check_queue_tree(by_kind.get("Queue", ()))
    yield from map(str, (*faults, *(notice for notice in notices if notice.rule == "parent-missing")))
    yield from _about_named(by_kind)


_MAKERS = {
    "Job": ("JobSet",),
    "JobSet": ("TrainJob",),
    "PodClique": ("PodCliqueSet",),
    "RayCluster": ("RayJob", "RayService"),
    "StatefulSet": ("LeaderWorkerSet",),
}
"""Owners of pods that a workload above them makes, by kind. Those of Deployments are made from their pods."""


def _maker(by_kind: Mapping[str, list[Object]], pod: Object, owner: Mapping[str, Any]) -> str:
    """The workload in the files that makes such an owner of a pod again; empty if there is none."""
    name = str(owner.get("name"))
    return next(
        (
            f"{kind} {namespace_of(one)}/{name_of(one)}"
            for kind in _MAKERS.get(str(owner.get("kind")), ())
            for one in by_kind.get(kind, ())
            if namespace_of(one) == namespace_of(pod) and (name == name_of(one) or name.startswith(f"{name_of(one)}-"))
        ),
        "",
    )


def _about_absent_pods(by_kind: Mapping[str, list[Object]]) -> Iterator[str]:
    """A sentence if Jobs, ReplicaSets and StatefulSets have pods by their status, and the files hold none of them."""
    owned = {owner.get("uid") for pod in by_kind.get("Pod", ()) for owner in owner_references(pod)}
    lacking = [
        f"{kind} {namespace_of(obj)}/{name_of(obj)}"
        for kind, field in (("Job", "active"), ("ReplicaSet", "replicas"), ("StatefulSet", "replicas"))
        for obj in by_kind.get(kind, ())
        if status_of(obj).get(field) and uid_of(obj) not in owned
    ]
    if lacking:
        yield (
            f"the pods of {count(len(lacking), 'workload')} are not in the files ({some(lacking)}): what they hold counts as free, and `kailab "
            "run` makes their pods anew. Add them: kubectl get pods -A -o yaml"
        )


def _about_empty_groups(by_kind: Mapping[str, list[Object]], there: Collection[object]) -> Iterator[str]:
    """A sentence if PodGroups have neither a pod nor an owner in the files. A cluster deletes a PodGroup with its owner, so the files lack the
    work itself. ``there``: the uids of all objects."""
    used = {(namespace_of(pod), _group(pod)) for pod in by_kind.get("Pod", ())}
    empty = [
        group
        for group in by_kind.get("PodGroup", ())
        if (namespace_of(group), name_of(group)) not in used
        and (owners := owner_references(group))
        and not any(owner.get("uid") in there for owner in owners)
    ]
    if not empty:
        return
    work = sorted(
        {
            f"{owner.get('kind')} {namespace_of(group)}/{owner.get('name')}"
            for group in empty
            for owner in owner_references(group)
        }
    )
    resources = sorted(
        {"pods", *(_resource(str(owner.get("kind"))) for group in empty for owner in owner_references(group))}
    )
    yield (
        f"{count(len(empty), 'PodGroup')} {'has' if len(empty) == 1 else 'have'} neither pods nor owners in the files ({some(work)}): what the "
        f"missing pods hold counts as free, and what they ask for does not count. Add them: kubectl get {','.join(resources)} -A -o yaml"
    )


def _about_absent_nodes(by_kind: Mapping[str, list[Object]]) -> Iterator[str]:
    """A sentence if pods are on nodes that the files lack."""
    there = set(map(name_of, by_kind.get("Node", ())))
    pods = [
        pod
        for pod in by_kind.get("Pod", ())
        if not is_ended(pod) and (spec_of(pod).get("nodeName") or "") not in {"", *there}
    ]
    if pods and there:
        nodes = sorted({str(spec_of(pod)["nodeName"]) for pod in pods})
        yield (
            f"{count(len(pods), 'pod')} {'is' if len(pods) == 1 else 'are'} on nodes that are not in the files ({some(nodes)}), and `kailab run` "
            "deletes them: add `kubectl get nodes -o yaml`"
        )


_EVERYWHERE = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt"})
"""ConfigMaps that a cluster makes in each namespace; every pod with a token of its account uses the first."""


def _assume_configmaps(by_kind: dict[str, list[Object]]) -> list[str]:
    """Add the ConfigMaps that pods require in namespaces without any ConfigMap in the files.

    A pod whose ConfigMap is missing fits no node, and few people hand out their ConfigMaps. Returns the names of those
    that a cluster does not make itself.
    """
    collected = {namespace_of(obj) for obj in by_kind.get("ConfigMap", ())}
    assumed = {
        (reference.namespace, reference.name)
        for pod in by_kind.get("Pod", ())
        if not is_ended(pod)
        for reference in referenced_objects(pod)
        if reference.kind == "ConfigMap" and reference.namespace not in collected
    }
    if not assumed:
        return []
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name}}
        for namespace, name in sorted(assumed)
    ]
    _add(by_kind, "ConfigMap", objects)
    return sorted({name for _, name in assumed} - _EVERYWHERE)


def _assume_priority_classes(by_kind: dict[str, list[Object]]) -> list[Object]:
    """Add the PriorityClasses that work names, if the files hold no PriorityClass at all. Returns them, sorted by name.

    The cluster had them, or it would not have admitted the pods. Their values are in the pods, where the API server writes them, and in
    KAI's chart; a class in neither is not added.
    """
    if by_kind.get("PriorityClass"):
        return []
    values = dict(PRIORITY_CLASSES)
    named: set[str] = set()
    for holder in (*by_kind.get("PodGroup", ()), *by_kind.get("Pod", ())):
        if isinstance(name := spec_of(holder).get("priorityClassName"), str) and name:
            named.add(name)
            if isinstance(value := spec_of(holder).get("priority"), int):
                values[name] = value
    assumed = [priority_class(name, values[name]) for name in sorted(named & values.keys())]
    if assumed:
        _add(by_kind, "PriorityClass", assumed)
    return assumed


def _assume_replica_sets(by_kind: dict[str, list[Object]]) -> list[Object]:
    """Add the ReplicaSets that pods name as their owners and the files lack, if their Deployments are there. Returns them.

    Without them the Deployments would make all their pods a second time. The set with the youngest pod has the Deployment's template, and
    others, of an update that is under way, have that of a pod.
    """
    there = {uid_of(replica_set) for replica_set in by_kind.get("ReplicaSet", ())}
    deployments = {(namespace_of(one), name_of(one)): one for one in by_kind.get("Deployment", ())}
    owned_sets = {owner.get("uid") for one in by_kind.get("ReplicaSet", ()) for owner in owner_references(one)}
    pods: dict[tuple[str, str], dict[tuple[str, str], list[Object]]] = {}
    for pod in by_kind.get("Pod", ()):
        for owner in owner_references(pod):
            digest = labels_of(pod).get(HASH, "")
            key = namespace_of(pod), str(owner.get("name")).removesuffix(f"-{digest}")
            if owner.get("kind") == "ReplicaSet" and owner.get("uid") not in there and digest and key in deployments:
                sets = pods.setdefault(key, {})
                sets.setdefault((str(owner.get("name")), str(owner.get("uid"))), []).append(pod)
    assumed: list[Object] = []
    for key, sets in pods.items():
        deployment = deployments[key]
        newest_first = sorted(sets.items(), key=lambda each: max(map(_version, each[1])), reverse=True)
        current = None if uid_of(deployment) in owned_sets else newest_first[0][0]
        assumed += [_replica_set(deployment, one, of_set, current=one == current) for one, of_set in newest_first]
    if assumed:
        _add(by_kind, "ReplicaSet", assumed)
    return assumed


def _replica_set(deployment: Object, named: tuple[str, str], pods: Sequence[Object], *, current: bool) -> Object:
    (name, uid), pod = named, pods[0]
    digest = labels_of(pod)[HASH]
    if current:
        template = with_metadata(spec_of(deployment).get("template") or {}, {HASH: digest})
    else:
        template = {"metadata": {"labels": dict(labels_of(pod))}, "spec": {**spec_of(pod), "nodeName": None}}
    selector = spec_of(deployment).get("selector") or {}
    alive = sum(1 for one in pods if is_active(one))
    owner = {
        "apiVersion": "apps/v1", "kind": "Deployment", "name": name_of(deployment), "uid": uid_of(deployment), "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    meta = {
        "name": name, "namespace": namespace_of(deployment), "uid": uid, "labels": dict(labels_of(template)), "ownerReferences": [owner],
        "creationTimestamp": min(str(metadata_of(one).get("creationTimestamp") or "") for one in pods),
        "annotations": {REVISION_ANNOTATION: annotations_of(deployment).get(REVISION_ANNOTATION, "1") if current else "0"},
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta,
        "spec": {
            "replicas": alive, "template": template,
            "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
        },
        "status": {"replicas": alive},
    }  # fmt: skip


def _assume_runtime_classes(by_kind: dict[str, list[Object]]) -> list[Object]:
    """Add the RuntimeClasses that pods name, if the files hold no RuntimeClass at all. Returns them, sorted by name.

    The cluster had them, or it would have refused the pods. Their overhead is in the pods, where the API server writes it.
    """
    if by_kind.get("RuntimeClass"):
        return []
    overheads: dict[str, Any] = {}
    for pod in by_kind.get("Pod", ()):
        spec = spec_of(pod)
        if isinstance(name := spec.get("runtimeClassName"), str) and name:
            overheads[name] = spec.get("overhead")
    assumed = [runtime_class(name, overheads[name]) for name in sorted(overheads)]
    if assumed:
        _add(by_kind, "RuntimeClass", assumed)
    return assumed


def _add(by_kind: dict[str, list[Object]], kind: str, objects: Sequence[Object]) -> None:
    """Add objects of a kind, and keep the order of kinds of a snapshot."""
    added = {**by_kind, kind: [*by_kind.get(kind, ()), *objects]}
    by_kind.clear()
    by_kind.update({key: added.pop(key) for key in kinds_taken() if key in added} | added)


_WITHOUT = {
    "Topology": "none of them can start",
    "PriorityClass": "they count with the default priority",
    "RuntimeClass": "new ones are refused",
    "PersistentVolumeClaim": "those that wait can't start",
    "ResourceClaim": "those that wait can't start",
}
"""Kinds of objects that work names, and what it means for the work if the files lack them."""


def _about_named(by_kind: Mapping[str, list[Object]]) -> Iterator[str]:
    """A sentence for each kind of which work names objects that are not in the files."""
    there = {(kind, _namespace(kind, obj), name_of(obj)) for kind in _WITHOUT for obj in by_kind.get(kind, ())}
    missing: dict[str, dict[str, set[int]]] = {kind: {} for kind in _WITHOUT}
    for holder in (*by_kind.get("PodGroup", ()), *by_kind.get("Pod", ())):
        for kind, name in _named_by(holder):
            if name and (kind, _namespace(kind, holder), name) not in there:
                missing[kind].setdefault(name, set()).add(id(holder))
    for kind, names in missing.items():
        if not names:
            continue
        holders = len(set().union(*names.values()))
        what = "pod group" if kind in ("Topology", "PriorityClass") else "pod"
        yield (
            f"{count(holders, what)} {'names' if holders == 1 else 'name'} a {kind} that is not in the files "
            f"({some(sorted(names))}): {_WITHOUT[kind]}. If the cluster has it, add `kubectl get {KINDS[kind].resource} -A -o yaml`"
        )


def _named_by(holder: Object) -> Iterator[tuple[str, str]]:
    """(kind, name) of the objects that a PodGroup, or a pod that has not ended, names."""
    spec = spec_of(holder)
    if holder.get("kind") == "PodGroup":
        yield "PriorityClass", str(spec.get("priorityClassName") or "")
        for part in (spec, *(group for group in spec.get("subGroups") or () if isinstance(group, dict))):
            constraint = part.get("topologyConstraint")
            yield "Topology", str(constraint.get("topology") or "") if isinstance(constraint, dict) else ""
    elif not is_ended(holder):
        for reference in referenced_objects(holder):
            if reference.kind == "PersistentVolumeClaim":
                yield reference.kind, reference.name
        yield "RuntimeClass", str(spec.get("runtimeClassName") or "")
        for claim in spec.get("resourceClaims") or ():
            yield "ResourceClaim", str(claim.get("resourceClaimName") or "") if isinstance(claim, dict) else ""


def _namespace(kind: str, obj: Object) -> str:
    """The namespace of an object of the kind that belongs to ``obj``; empty if the kind has none."""
    return str(namespace_of(obj) or "") if is_namespaced(kind) else ""


def _group(pod: Object) -> str:
    return str(annotations_of(pod).get(labels.POD_GROUP) or "")


def _resource(kind: str) -> str:
    known = KINDS.get(kind)
    return known.resource if known is not None else f"{kind.lower()}s"


def missing_namespaces(objects: Iterable[Object], there: Iterable[str]) -> list[Object]:
    """Namespace objects for the namespaces that manifests name, and that neither they nor the cluster have."""
    given = list(objects)
    known = {*there, *(name_of(obj) for obj in given if obj.get("kind") == "Namespace")}
    named = dict.fromkeys(str(namespace_of(obj)) for obj in given if namespace_of(obj))
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in named if name not in known
    ]
