"""KAI's own snapshot of a cluster: the answer of its scheduler's plugin ``snapshot`` to GET /get-snapshot.

A zip with one file, snapshot.json: ``config`` (its configuration), ``schedulerParams`` (its flags), ``rawObjects`` (lists by kind, from
the scheduler's cache), and in later releases ``discovery``. Objects contain neither kind nor version, and the archive has no time.
Source: KAI plugins/snapshot (v0.4 to v0.17), conf.SchedulerParams.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.protocol import Object
from kailab.errors import InputError, Where
from kailab.evidence.sanitizing import Sanitizer
from kailab.model.cluster_files import newest_time, time_of_cluster
from kailab.model.files import open_file
from kailab.model.kinds import KINDS
from kailab.model.labels import SCHEDULER_NAME
from kailab.model.manifests import object_name
from kailab.model.objects import metadata_of
from kailab.model.validation import validate
from kailab.scheduler.reading.podgroups import DEFAULT_NODE_POOL
from kailab.scheduler.settings.config_file import SchedulerSettings, settings_from
from kailab.scheduler.settings.shard import with_flags
from kailab.snapshots.snapshot import ClusterSnapshot, TooLarge, most_unpacked, too_large_message
from kailab.snapshots.taking import cluster_facts

NAME = "snapshot.json"
_KINDS = {
    "pods": "Pod", "nodes": "Node", "queues": "Queue", "podGroups": "PodGroup", "bindRequests": "BindRequest",
    "priorityClasses": "PriorityClass", "configMaps": "ConfigMap", "persistentVolumes": "PersistentVolume",
    "persistentVolumeClaims": "PersistentVolumeClaim", "csiStorageCapacities": "CSIStorageCapacity",
    "storageClasses": "StorageClass", "resourceClaims": "ResourceClaim", "resourceSlices": "ResourceSlice",
    "deviceClasses": "DeviceClass", "topologies": "Topology", "nodeResourceTopologies": "NodeResourceTopology",
    "podDisruptionBudgets": "PodDisruptionBudget",
}  # fmt: skip
"""The lists of ``rawObjects`` in all releases."""

_FEW = 3


class Archive(NamedTuple):
    """``notices``: the parts that could not be read."""

    snapshot: ClusterSnapshot
    notices: tuple[str, ...]


class _Content(msgspec.Struct, rename="camel"):
    raw_objects: dict[str, list[Any] | None]
    config: dict[str, Any] | None = None
    scheduler_params: dict[str, Any] | None = None
    discovery: dict[str, Any] | None = None


def is_archive(path: Path, head: bytes) -> bool:
    """Whether a file, which begins with ``head``, is a zip with KAI's snapshot, or so damaged that it may be one."""
    if not head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return False
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            members = archive.namelist()
            return NAME in members or not any(name.endswith((".yaml", ".yml", ".json")) for name in members)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError, ValueError):
        return True


def read_kai_archive(path: Path, data: bytes, at: float | None = None) -> Archive:
    """Raises InputError for a file that is damaged, or no snapshot of KAI's. ``at``: when it was taken (seconds since the epoch); None: the
    latest time in its objects."""
    place = Where(file=str(path))
    content = _content(data, place)
    by_kind, notices = _objects(content.raw_objects)
    times = [
        (newest, object_name(obj))
        for several in by_kind.values()
        for obj in several
        if (newest := newest_time(obj)) is not None
    ]
    latest, time_notices = time_of_cluster(times)
    if at is None:
        notices += time_notices
    taken = latest if at is None else at
    if taken is None:
        raise InputError(
            "contains no object with a time, so that the time of the archive is unknown; give it with --at", place
        )
    settings, pool, settings_notices = _settings(content, str(path))
    notices += settings_notices
    filtered = Sanitizer((), by_kind, {})
    objects = {kind: filtered.text.value(snapshot) for kind, snapshot in filtered.before.items()}
    facts = cluster_facts(
        EmbeddedCluster(),
        objects.get("Node", []),
        fleet=path.stem,
        backend="kai-snapshot",
        scheduler="kai",
        settings=settings,
        versions=_server(content.discovery),
    )
    snapshot = ClusterSnapshot(
        taken=taken, opened=taken, facts=facts, node_pool=pool, objects=objects, cut=filtered.cut
    )
    return Archive(snapshot, tuple(notices))


def _content(data: bytes, place: Where) -> _Content:
    most = most_unpacked(len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(NAME) as file:
            text = file.read(most + 1)
        if len(text) > most:
            raise TooLarge(too_large_message(len(data), most))
        return msgspec.json.decode(text, type=_Content)
    except KeyError:
        raise InputError(f"is no snapshot of KAI's: there is no {NAME} in it", place) from None
    except TooLarge as error:
        raise InputError(str(error), place) from None
    except (msgspec.ValidationError, RecursionError) as error:
        raise InputError(f"is no snapshot of KAI's: {NAME}: {error}", place) from None
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        msgspec.DecodeError,
        NotImplementedError,
        RuntimeError,
        OSError,
    ) as error:
        raise InputError(f"damaged: {error}", place) from None


# --- objects ----------------------------------------------------------------------------------------------------------


def _objects(raw: Mapping[str, list[Any] | None]) -> tuple[dict[str, list[Object]], list[str]]:
    by_kind: dict[str, list[Object]] = {}
    notices: list[str] = []
    for name, several in raw.items():
        if not several:
            continue
        kind = _KINDS.get(name)
        if kind is None:
            notices.append(f"{len(several)} {name} are left out: kailab's decisions do not depend on them")
            continue
        unread: list[str] = []
        for number, raw in enumerate(several):
            obj, why = _object(kind, raw)
            if why:
                unread.append(f"{_named(raw) or number} ({why})")
            else:
                by_kind.setdefault(kind, []).append(obj)
        if unread:
            more = f" and {len(unread) - _FEW} more" if len(unread) > _FEW else ""
            notices.append(
                f"{len(unread)} of {len(several)} {name} can't be read and are left out: {', '.join(unread[:_FEW])}{more}"
            )
    return by_kind, notices


def _object(kind: str, value: Any) -> tuple[Object, str]:
    """The object with kind and version, and the reason if it can't be read."""
    if not isinstance(value, dict) or not isinstance(value.get("metadata"), dict):
        return {}, "it is no object"
    meta = {key: inside for key, inside in metadata_of(value).items() if inside is not None}
    obj: Object = {**value, "apiVersion": _version(kind, value), "kind": KINDS[kind].kind, "metadata": meta}
    if kind in ("Queue", "PodGroup"):
        obj.setdefault("spec", {})
    faults = validate(obj, kind, stored=obj)
    return obj, f"{faults[0].field}: {faults[0].message}" if faults else ""


def _version(kind: str, value: Mapping[str, Any]) -> str:
    known = KINDS[kind]
    given = value.get("apiVersion")
    if isinstance(given, str) and given.rpartition("/")[0] == known.group:
        return given
    return known.api_version


def _named(value: Any) -> str:
    meta = value.get("metadata") if isinstance(value, dict) else None
    if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
        return ""
    return "/".join(part for part in (str(meta.get("namespace") or ""), meta["name"]) if part)


# --- settings ---------------------------------------------------------------------------------------------------------


def _settings(content: _Content, file: str) -> tuple[SchedulerSettings, str, list[str]]:
    settings = settings_from(content.config, file)
    params = content.scheduler_params or {}
    notices = list(settings.notices)
    if params:
        settings = structs.replace(settings, engine=with_flags(settings.engine, _flags(params)))
    if params.get("restrictSchedulingNodes"):
        notices.append("restrictSchedulingNodes has no effect here: nodes of every role are used")
    name = params.get("schedulerName") or SCHEDULER_NAME
    if name != SCHEDULER_NAME:
        notices.append(f"its scheduler has the name {name}; pods that name it are not scheduled here")
    pool = (params.get("partitionParams") or {}).get("NodePoolLabelValue") or DEFAULT_NODE_POOL
    return settings, str(pool), notices


def _flags(params: Mapping[str, Any]) -> dict[str, Any]:
    """The flags of KAI's scheduler. The archive leaves out flags that are false or 0."""
    grace = params.get("globalDefaultStalenessGracePeriod", 0)
    return {
        "max-consolidation-preemptees": params.get("maxNumberConsolidationPreemptees", 0),
        "allow-consolidating-reclaim": bool(params.get("allowConsolidatingReclaim")),
        "use-scheduling-signatures": bool(params.get("useSchedulingSignatures")),
        "default-staleness-grace-period": f"{grace / 1e9:g}s" if isinstance(grace, int) else "60s",
    }


def _server(discovery: Mapping[str, Any] | None) -> dict[str, str]:
    version = (discovery or {}).get("serverVersion")
    text = version.get("gitVersion") if isinstance(version, dict) else None
    return {"kubernetes": text} if isinstance(text, str) else {}
