"""Open a snapshot, an archive of KAI, recorded evidence or files of a cluster as a lab. Pods that KAI has decided to bind count as bound."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import InputError, Where
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder
from kailab.lab.cluster_copies import embedded_from
from kailab.lab.intake import NamedText
from kailab.lab.lab import Lab
from kailab.lab.spec import LabSpec
from kailab.lab.unknown_fields import unread_fields_of_cluster
from kailab.lab.venues.embedded import EmbeddedVenue
from kailab.model import labels
from kailab.model.file_trees import is_packed
from kailab.model.files import foreign_format, open_file, read_bytes
from kailab.model.labels import RUN_SECONDS
from kailab.model.manifests import load_texts
from kailab.model.objects import ENDED_PHASES, metadata_of, name_of, namespace_of, rewrite, status_of
from kailab.model.times import parse_time
from kailab.scheduler.observers import Observer
from kailab.scheduler.reading.tasks import gpu_group_labels
from kailab.snapshots import dump, evidence_state, kai_archive, snapshot
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.workloads.apps import forget_template


def apply_bind_requests(objects: Mapping[str, list[Object]]) -> tuple[dict[str, list[Object]], int]:
    """Objects without BindRequests, and the number of pods that these bind. A failed request binds nothing, because KAI decides again."""
    requests = {
        key: request
        for request in objects.get("BindRequest", ())
        if (key := _pod_of(request)) and status_of(request).get("phase") not in ENDED_PHASES
    }
    others = {kind: list(several) for kind, several in objects.items() if kind != "BindRequest"}
    if not requests:
        return others, 0
    count = 0
    pods: list[Object] = []
    for pod in others.get("Pod", ()):
        meta = metadata_of(pod)
        request = requests.get((meta.get("namespace", ""), meta["name"]))
        if request is not None and not pod["spec"].get("nodeName"):
            pod = _bound(pod, request["spec"])
            count += 1
        pods.append(pod)
    others["Pod"] = pods
    return others, count


def _pod_of(request: Object) -> tuple[str, str] | None:
    spec = request.get("spec") or {}
    name = spec.get("podName")
    return (namespace_of(request), name) if name and spec.get("selectedNode") else None


def _bound(pod: Object, request: Mapping[str, object]) -> Object:
    meta = metadata_of(pod)
    notes = {
        **(meta.get("annotations") or {}),
        labels.RECEIVED_RESOURCE_TYPE: str(request.get("receivedResourceType") or "Regular"),
    }
    groups = request.get("selectedGPUGroups")
    shared = gpu_group_labels(tuple(map(str, groups))) if isinstance(groups, Iterable) and groups else {}
    return {
        **pod,
        "metadata": {**meta, "annotations": notes, "labels": {**(meta.get("labels") or {}), **shared}},
        "spec": {**pod["spec"], "nodeName": request["selectedNode"]},
    }


AssumedSeconds = float
"""Assumed run time of pods that may end but declare none, in seconds from their start. The objects of a cluster do not contain the time at
which a training job will end. Services, whose containers restart, never end."""


def assume_run_time(seconds: AssumedSeconds) -> Callable[[Object], Object]:
    """A function that adds the assumed run time to pods that may end and declare none, and to templates of such pods."""
    return partial(rewrite, change=partial(_with_run_time, seconds=seconds))


def _with_run_time(pod: Object, seconds: float) -> Object:
    spec, meta = pod.get("spec"), pod.get("metadata") or {}
    if not (isinstance(spec, dict) and isinstance(spec.get("containers"), list)):
        return pod  # neither a pod nor a template of pods
    notes = meta.get("annotations") or {}
    if spec.get("restartPolicy", "Always") == "Always" or RUN_SECONDS in notes:
        return pod
    return {**pod, "metadata": {**meta, "annotations": {**notes, RUN_SECONDS: f"{seconds:g}"}}}


class OpenedSource(NamedTuple):
    """A snapshot that was read. ``what``: a short description; ``notices``: parts that were left out or changed; ``manifests``: texts to apply
    to the lab."""

    snapshot: ClusterSnapshot
    what: str
    notices: tuple[str, ...] = ()
    manifests: tuple[NamedText, ...] = ()


def read_snapshot_source(path: Path, test: str = "", at: str = "", *, partial: bool = False) -> OpenedSource:
    """Read a snapshot of kailab, an archive of KAI, files of a cluster (``dump``), or a folder of evidence.

    ``test``: a test in the evidence. ``at``: a moment in the evidence, or the time at which KAI's archive or the files were taken, because
    they do not contain it. ``partial``: leave out files that can't be read. Raises InputError for a file of another kind and for a damaged
    one, EvidenceError for damaged evidence."""
    if str(path) != "-" and not path.exists():
        raise InputError("there is no such file or folder", Where(file=str(path)))
    if path.is_dir() and (test or evidence_state.is_evidence(path)):
        return OpenedSource(*evidence_state.read_evidence_state(path, test, at))
    if test:
        raise InputError("a test is for evidence, a folder", Where(file=str(path)))
    if path.is_file():
        with open_file(path) as file:
            head = file.read(_HEAD)
        if snapshot.is_snapshot(head):
            return _of_snapshot(path, at)
        if kai_archive.is_archive(path, head):
            archive = kai_archive.read_kai_archive(
                path, read_bytes(path, snapshot.LARGEST), _moment(at) if at else None
            )
            unread = unread_fields_of_cluster(archive.snapshot.objects)
            return OpenedSource(archive.snapshot, "KAI's snapshot", (*archive.notices, *unread))
        if head and not any(head):
            raise InputError("is an empty archive, or holds zeros only", Where(file=str(path)))
        if not is_packed(head) and (problem := foreign_format(head)):
            raise InputError(problem, Where(file=str(path)))
        if b"\0" in head and not is_packed(head) and not head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise InputError(f"{dump.CAN_NOT_BE_OPENED}. It is not UTF-8 text", Where(file=str(path)))
    return _of_files([path], at, partial)


def read_all(paths: Sequence[Path], at: str = "", *, partial: bool = False) -> OpenedSource:
    """As ``read_snapshot_source``, for the arguments of a command: a path, evidence and a test, or several paths of files of one cluster."""
    first, *others = paths
    if not others:
        return read_snapshot_source(first, "", at, partial=partial)
    if len(others) == 1 and not others[0].exists() and str(others[0]) != "-":
        return read_snapshot_source(first, str(others[0]), at, partial=partial)
    for path in others:
        if str(path) != "-" and not path.exists():
            raise InputError("there is no such file or folder", Where(file=str(path)))
    return _of_files(paths, at, partial)


def _of_files(paths: Sequence[Path], at: str, partial: bool) -> OpenedSource:
    found = dump.read_dump(paths, _moment(at) if at else None, partial=partial)
    return OpenedSource(found.snapshot, "a state", found.notices, found.manifests)


_HEAD = 4096


def _of_snapshot(path: Path, at: str) -> OpenedSource:
    if at:
        raise InputError(
            "--at is for evidence, KAI's archive and files of a cluster; a snapshot knows its time",
            Where(file=str(path)),
        )
    taken = snapshot.read_snapshot(path)
    left_out = (f"{kind} was not taken: {why}" for kind, why in sorted(taken.left_out.items()))
    unread = unread_fields_of_cluster(taken.objects)
    return OpenedSource(taken, "a snapshot", (*taken.notices, *left_out, *unread))


def _moment(at: str) -> float:
    try:
        return parse_time(at)
    except InputError as error:
        raise InputError(f"--at: {error}; expected the time at which it was taken, as 2026-01-31T12:00:00Z") from None


def lab_of(
    source: ClusterSnapshot,
    observers: Sequence[Observer] = (),
    assumed: AssumedSeconds | None = None,
    scheduler: str = "kailab",
) -> Lab:
    """An embedded lab with all objects of the snapshot, and kailab's scheduler with the settings of the original one. Nothing changes before
    the lab settles. ``assumed``: see ``assume_run_time``. ``scheduler``: kailab, or kailab+kube-scheduler, which also places the pods of other
    schedulers than KAI's."""
    assume: Callable[[Object], Object] = (lambda obj: obj) if assumed is None else assume_run_time(assumed)
    objects, _ = apply_bind_requests(source.objects)
    cluster = embedded_from(
        objects,
        source.taken,
        embedded=source.embedded,
        counters=source.counters,
        convert=lambda obj: forget_template(assume(obj)),
    )
    facts = source.facts
    spec = LabSpec(
        fleet=facts.fleet,
        scheduler=scheduler,
        config=facts.settings.engine,
        usage=facts.settings.usage,
        adopt_default_scheduler=facts.settings.adopt_default_scheduler,
        devices=facts.devices,
        opened=min(source.opened, source.taken),
        node_pool=source.node_pool,
    )
    lab = Lab(EmbeddedVenue(cluster), spec, observers, end=_nothing)
    decided = source.decided
    lab.log.cycle, lab.log.evictions, lab.log.last = decided.cycle, list(decided.evictions), decided.last
    return lab


def write_snapshot_lab(
    state: Path,
    source: ClusterSnapshot,
    assumed: AssumedSeconds | None = None,
    prepare: Callable[[Lab], None] = lambda lab: None,
    scheduler: str = "kailab",
) -> Lab:
    """As ``lab_of``, and write the lab's file, so that commands can work on it. ``prepare``: called with the lab before that. Raises
    StateError, and what ``prepare`` raises."""
    recorder = Recorder()
    lab = lab_of(source, [recorder], assumed, scheduler)
    try:
        prepare(lab)
        lab.save(state)
        LabRecord(state).begin(recorder)
    except BaseException:
        state.unlink(missing_ok=True)
        raise
    lab.observers.remove(recorder)
    return lab


def apply_manifests(lab: Lab, texts: Sequence[NamedText]) -> list[str]:
    """Apply manifests to an opened lab, and make their namespaces. Returns warnings. Raises InputError."""
    if not texts:
        return []
    spaces = [name_of(space) for space in lab.cluster.list("Namespace")]
    missing = dump.missing_namespaces(load_texts(texts).objects, spaces)
    if missing:
        lab.apply(missing)
    made = (
        [f"the manifests are in namespaces that were not there: {', '.join(map(name_of, missing))}"] if missing else []
    )
    return made + lab.apply(*texts).warnings


def _nothing() -> None:
    """The file keeps the lab."""
