"""Open a snapshot, an archive of KAI or recorded evidence as a lab. Pods that KAI has decided to bind count as bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import InputError, Where
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.recorder import Recorder
from kailab.lab.cluster_copies import embedded_from
from kailab.lab.lab import Lab
from kailab.lab.spec import LabSpec
from kailab.lab.venues.embedded import EmbeddedVenue
from kailab.model import labels
from kailab.model.files import read_bytes
from kailab.model.labels import RUN_SECONDS
from kailab.model.objects import metadata_of, namespace_of, status_of
from kailab.model.times import parse_time
from kailab.scheduler.observers import Observer
from kailab.scheduler.reading.tasks import gpu_group_labels
from kailab.snapshots import evidence_state, kai_archive, snapshot
from kailab.snapshots.snapshot import ClusterSnapshot

_DONE = ("Succeeded", "Failed")


def apply_bind_requests(objects: Mapping[str, list[Object]]) -> tuple[dict[str, list[Object]], int]:
    """Objects without BindRequests, and the number of pods that these bind. A failed request binds nothing, because KAI decides again."""
    requests = {
        key: request
        for request in objects.get("BindRequest", ())
        if (key := _pod_of(request)) and status_of(request).get("phase") not in _DONE
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
"""Assumed run time of pods that may end but declare none, in seconds from their start. A cluster does not tell when a training job will end.
Services, whose containers restart, never end."""


def assume_run_time(seconds: AssumedSeconds) -> Callable[[Object], Object]:
    """A function that adds the assumed run time to pods that may end and declare none, and to templates of such pods."""

    def changed(obj: Object) -> Object:
        new: Object = _noted(obj, seconds)
        return new

    return changed


def _noted(value: Any, seconds: float) -> Any:
    """Change every pod and pod template inside a value; an unchanged value is returned itself."""
    if isinstance(value, list):
        items = [_noted(item, seconds) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items
    if not isinstance(value, dict):
        return value
    spec = value.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
        return _pod(value, spec, seconds)
    new = {key: _noted(inside, seconds) if isinstance(inside, dict | list) else inside for key, inside in value.items()}
    return value if all(new[key] is inside for key, inside in value.items()) else new


def _pod(pod: Mapping[str, Any], spec: Mapping[str, Any], seconds: float) -> Any:
    meta = pod.get("metadata") or {}
    notes = meta.get("annotations") or {}
    if spec.get("restartPolicy", "Always") == "Always" or RUN_SECONDS in notes:
        return pod
    return {**pod, "metadata": {**meta, "annotations": {**notes, RUN_SECONDS: f"{seconds:g}"}}}


class OpenedSource(NamedTuple):
    """A snapshot that was read from a path. ``what``: a short description; ``notices``: parts that were left out or changed."""

    snapshot: ClusterSnapshot
    what: str
    notices: tuple[str, ...] = ()


def read(path: Path, test: str = "", at: str = "") -> OpenedSource:
    """A snapshot of kailab's, an archive of KAI's, or (a folder) evidence, of which ``test`` and ``at`` name a test and a moment.
    Of KAI's archive, which does not say when it was taken, ``at`` may say it. Raises InputError for what is none of them, or damaged;
    EvidenceError."""
    if not path.exists():
        raise InputError("there is no such file or folder", Where(file=str(path)))
    if path.is_dir():
        return OpenedSource(*evidence_state.read(path, test, at))
    if test:
        raise InputError("a test is for evidence, a folder", Where(file=str(path)))
    data = read_bytes(path, snapshot.LARGEST)
    if kai_archive.is_archive(data):
        archive = kai_archive.read(path, data, _moment(at) if at else None)
        return OpenedSource(archive.snapshot, "KAI's snapshot", archive.notices)
    if at:
        raise InputError("--at is for evidence and for KAI's archive", Where(file=str(path)))
    if snapshot.is_snapshot(data):
        taken = snapshot.read(path)
        left_out = (f"{kind} was not taken: {why}" for kind, why in sorted(taken.left_out.items()))
        return OpenedSource(taken, "a snapshot", (*taken.notices, *left_out))
    raise InputError(
        "can't be opened; expected a snapshot (`kailab snapshot take`), the archive of KAI's /get-snapshot, or a "
        "folder of evidence",
        Where(file=str(path)),
    )


def _moment(at: str) -> float:
    try:
        return parse_time(at)
    except InputError as error:
        raise InputError(
            f"--at: {error}; expected the time at which the archive was taken, as 2026-01-31T12:00:00Z"
        ) from None


def lab_of(source: ClusterSnapshot, observers: Sequence[Observer] = (), assumed: AssumedSeconds | None = None) -> Lab:
    """An embedded lab with all objects of the snapshot, and kailab's scheduler with the settings of the original one. Nothing acts on it
    before it settles. ``assumed``: see ``assuming``."""
    taken: Callable[[Object], Object] = (lambda obj: obj) if assumed is None else assume_run_time(assumed)
    objects, _ = apply_bind_requests(source.objects)
    cluster = embedded_from(objects, source.taken, embedded=source.embedded, counters=source.counters, taken=taken)
    facts = source.facts
    spec = LabSpec(
        fleet=facts.fleet,
        scheduler="kailab",
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


def begin(state: Path, source: ClusterSnapshot, assumed: AssumedSeconds | None = None) -> Lab:
    """As ``lab_of``, and write the lab's file, so that commands can work on it. Raises StateError."""
    recorder = Recorder()
    lab = lab_of(source, [recorder], assumed)
    try:
        lab.save(state)
        LabRecord(state).begin(recorder)
    except BaseException:
        state.unlink(missing_ok=True)
        raise
    lab.observers.remove(recorder)
    return lab


def _nothing() -> None:
    """The file keeps the lab."""
