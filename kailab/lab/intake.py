"""Manifests on their way into a lab: all are checked before the first is applied, and all are undone if one is refused.

The loader checks each object by itself. This module checks objects together with the cluster: the queue tree (a queue as its own parent,
a cycle, a quota beyond the parent's) and namespaces that do not exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from kailab.cluster.embedded.merge import apply_patch
from kailab.cluster.protocol import Cluster, Object
from kailab.errors import ApiError, Forbidden, InputError, InputErrors, NotFound, Where
from kailab.model import labels
from kailab.model.kinds import KINDS, is_namespaced, kind_key
from kailab.model.manifests import FindStored, Manifest, Manifests, Notice, from_objects, load_texts, read_texts
from kailab.model.objects import (
    annotations_of,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    owner_references,
    status_of,
)
from kailab.model.quantities import parse, parse_count
from kailab.model.queues import check_guaranteed, check_queue_tree, check_workload_queues
from kailab.model.validation import advise
from kailab.model.validation.advice import described_pods
from kailab.undertest.contract import SchedulerUnderTest


class NamedText(NamedTuple):
    """YAML text, and the ``name`` that errors use for it."""

    name: str
    text: str


Source: TypeAlias = str | Path | NamedText | Object | Sequence[Object]
"""A path (file, folder, ``-``), YAML text, an object, or several objects."""


WriteResult: TypeAlias = Literal["created", "configured", "unchanged"]
BEHIND_SECONDS = 60.0

ManifestPart: TypeAlias = tuple[str, list[Object]]
"""The name of a text, or of given objects, and the objects in it."""


@dataclass(frozen=True)
class AppliedChange:
    """The effect of applying or deleting on one object."""

    kind: str
    namespace: str
    name: str
    what: Literal["created", "configured", "unchanged", "deleted"]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name} {self.what}"


@dataclass(frozen=True)
class Applied:
    """The changes in order, and notices about the input."""

    changes: list[AppliedChange] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    @property
    def warnings(self) -> list[str]:
        """The notices as text."""
        return list(map(str, self.notices))

    def summary(self) -> str:
        """``3 Queues created, 1 Job unchanged``."""
        counts = Counter((change.kind, change.what) for change in self.changes)
        return ", ".join(
            f"{number} {kind}{'' if number == 1 else 's'} {what}" for (kind, what), number in counts.items()
        )


@dataclass(frozen=True)
class SourceContents:
    """The manifests of all sources, and the same by the text that contains them."""

    manifests: Manifests
    parts: list[ManifestPart]


def load_sources(
    sources: Iterable[Source],
    base: Path | None = None,
    namespace: str = "default",
    seen: list[str | Object] | None = None,
    stored: FindStored | None = None,
) -> SourceContents:
    """Load all sources, each once. Relative paths start at ``base``. ``seen`` gets everything that was read, even if it is refused.
    ``stored``: as for ``load_texts``. Raises InputError or InputErrors."""
    everything, parts = Manifests(), []
    errors: list[InputError] = []
    for source in sources:
        try:
            manifests, inside = _read_one(source, base, namespace, [] if seen is None else seen, stored)
        # All sources are read, so that users see the errors of all files at once.
        except InputErrors as error:
            errors += error.errors
        except InputError as error:
            errors.append(error)
        else:
            everything += manifests
            everything.notices += manifests.notices
            parts += inside
    if errors:
        raise InputErrors.of(errors)
    return SourceContents(everything, parts)


def stored_in(cluster: Cluster, namespace: str) -> FindStored:
    """A function that finds the object of a manifest in a cluster."""

    def find(kind: str, obj: Object) -> Object | None:
        meta = metadata_of(obj)
        space = (meta.get("namespace") or namespace) if is_namespaced(kind, obj) else ""
        return _find(cluster, kind, meta.get("name", ""), space)

    return find


def _read_one(
    source: Source, base: Path | None, namespace: str, seen: list[str | Object], stored: FindStored | None
) -> tuple[Manifests, list[ManifestPart]]:
    if isinstance(source, dict):
        source = [source]
    if not isinstance(source, str | Path | NamedText):
        seen.extend(source)
        manifests = from_objects(source, namespace=namespace, stored=stored)
        return manifests, [(describe_objects(manifests), manifests.objects)]
    if isinstance(source, NamedText):
        texts = [(source.name, source.text)]
    elif isinstance(source, str) and source != "-" and _is_text(source):
        texts = [("<text>", source)]
    else:
        path = Path(source)
        texts = list(read_texts(path if base is None or path.is_absolute() or source == "-" else base / path))
    seen.extend(text for _, text in texts)
    manifests = load_texts(texts, namespace=namespace, stored=stored)
    # A text without objects counts too.
    inside: dict[str, list[Object]] = {file: [] for file, _ in texts}
    for manifest in manifests:
        inside[manifest.file].append(manifest.object)
    # A text of the caller has no file name.
    own = describe_objects(manifests)
    return manifests, [
        (own if file == "<text>" else Path(file).name.strip("<>"), objects) for file, objects in inside.items()
    ]


def named_texts(source: Path | str | NamedText) -> Iterator[NamedText]:
    """The texts of a source, each with its name. Stdin can be read only once, so manifests that are applied twice are read before. Raises
    InputError."""
    if isinstance(source, NamedText):
        yield source
    else:
        yield from (NamedText(name, text) for name, text in read_texts(source))


_FEW_OBJECTS = 3


def describe_objects(manifests: Iterable[Manifest]) -> str:
    """The kinds and names of up to three objects; the kinds and numbers of more.

    >>> describe_objects([]), describe_objects([Manifest({"kind": "Job", "metadata": {"name": "train"}}, "Job")])
    ('no objects', 'Job/train')
    """
    given = list(manifests)
    if len(given) <= _FEW_OBJECTS:
        return " ".join(f"{each.kind}/{metadata_of(each.object).get('name', '*')}" for each in given) or "no objects"
    counts = Counter(each.kind for each in given)
    return " ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in counts.items())


def _is_text(source: str) -> bool:
    """True for YAML or JSON text, which has a line break or a mapping in it; False for a path."""
    return "\n" in source or source.lstrip().startswith(("{", "[")) or ": " in source


def check_manifests(cluster: Cluster, manifests: Manifests, namespace: str = "default") -> list[Notice]:
    """Check manifests together with the cluster. Raises InputError(s)."""
    errors: list[InputError] = []
    spaces = {name_of(space) for space in cluster.list("Namespace")}
    for manifest in manifests:
        if manifest.kind == "Namespace":
            # A Namespace counts from its position on, because manifests are applied in order.
            spaces.add(name_of(manifest.object))
        elif is_namespaced(manifest.kind, manifest.object):
            wanted = namespace_of(manifest.object) or namespace
            if wanted not in spaces:
                errors.append(
                    InputError(
                        f'namespace "{wanted}" does not exist (apply a Namespace first)',
                        manifest.where("metadata.namespace"),
                    )
                )
    queues = {name_of(queue): queue for queue in cluster.list("Queue")}
    written = [manifest for manifest in manifests if manifest.kind == "Queue"]
    given = {
        name_of(manifest.object): _as_applied(queues.get(name_of(manifest.object)), manifest) for manifest in written
    }
    # The tree after applying.
    there = [queue for name, queue in queues.items() if name not in given]
    tree: list[Object | Manifest] = [*there, *given.values()]
    # Without queues in the manifests the tree was checked when it was applied.
    faults, advice = check_queue_tree(tree) if given else ([], [])
    errors += faults
    if errors:
        raise InputErrors.of(errors)
    if given and (gpus := _gpus(cluster)):
        advice += check_guaranteed(tree, gpus)
    advice += check_workload_queues(named_queues(manifests), tree)
    mended = {notice for manifest in written for notice in _mended_by_merge(manifest, given[name_of(manifest.object)])}
    return [*(notice for notice in manifests.notices if (notice.where, notice.message) not in mended), *advice]


def _as_applied(stored: Object | None, manifest: Manifest) -> Manifest:
    """The manifest with the object that the cluster has after applying it: what the manifest leaves out stays."""
    if stored is None:
        return manifest
    last = annotations_of(stored).get(labels.LAST_APPLIED)
    try:
        merged = apply_patch(stored, msgspec.json.decode(last) if last else {}, manifest.object)
    except (TypeError, ValueError, AttributeError):
        # A record that is no object is another tool's; the cluster says what is wrong with it.
        return manifest
    return replace(manifest, object=dict(merged))


def _mended_by_merge(manifest: Manifest, applied: Manifest) -> Iterator[tuple[Where, str]]:
    """Places and messages of the advice on a manifest that is not true of the object after applying it."""
    if applied is not manifest:
        still = {fault.message for fault in advise(applied.object, applied.kind)}
        for fault in advise(manifest.object, manifest.kind):
            if fault.message not in still:
                yield manifest.where(fault.field), fault.message


def _gpus(cluster: Cluster) -> Fraction:
    """GPUs of all nodes; 0 if they can't be counted as whole GPUs (MIG devices, devices of DRA drivers)."""
    if cluster.list("ResourceSlice"):
        return Fraction(0)
    offers = [status_of(node).get("allocatable") or {} for node in cluster.list("Node")]
    if any(name.startswith(labels.MIG_PREFIX) for offer in offers for name in offer):
        return Fraction(0)
    return sum((Fraction(parse(offer.get(name, 0))) for offer in offers for name in labels.GPU_RESOURCES), Fraction(0))


def impossible_gangs(manifests: Manifests) -> list[InputError]:
    """An error for each Job whose gang needs more pods than the Job ever has, even with all its completions. KAI accepts such Jobs, and they
    stay pending for ever."""
    errors: list[InputError] = []
    for manifest in manifests:
        spec = manifest.object.get("spec")
        if manifest.kind != "Job" or not isinstance(spec, dict):
            continue
        least = parse_count(annotations_of(manifest.object).get(labels.BATCH_MIN_MEMBER))
        pods = max(spec.get("parallelism", 1), spec.get("completions") or 0)
        if least > pods:
            text = f"{least} pods must start together, but there are {pods} in all: the gang can never start"
            errors.append(InputError(text, manifest.where(f"metadata.annotations[{labels.BATCH_MIN_MEMBER}]")))
    return errors


def is_queued_by_labels(manifest: Manifest) -> bool:
    """True if labels on an object or its pod templates name their queue. False if something else decides: the owner of the object, the PodGroup
    that a user set for a pod, or the controller that makes pods from a template. False for pods of another scheduler, too."""
    known = KINDS.get(manifest.kind)
    if known is not None and not known.owns_pods and manifest.kind != "Pod":
        return False
    if (
        known is not None
        and known.controller is None
        and manifest.kind != "Pod"
        and any(manifest.kind in other.watches for other in KINDS.values())
    ):
        return False  # a training runtime: the objects made from it have their own labels
    if owner_references(manifest.object) or (
        manifest.kind == "Pod" and labels.POD_GROUP in annotations_of(manifest.object)
    ):
        return False
    schedulers = [described.pod["spec"].get("schedulerName") for described in described_pods(manifest.object)]
    return not schedulers or any(name in (None, "", labels.SCHEDULER_NAME) for name in schedulers)


def named_queues(manifests: Manifests) -> Iterable[tuple[str, Where]]:
    """Queue names in work, each with its place: labels of the object or its pod templates; the field of a PodGroup."""
    for manifest in manifests:
        if manifest.kind == "PodGroup":
            spec = manifest.object.get("spec")
            name = spec.get("queue") if isinstance(spec, dict) else None
            if isinstance(name, str) and name:
                yield name, manifest.where("spec.queue")
            continue
        if not is_queued_by_labels(manifest):
            continue
        pods = described_pods(manifest.object)
        for path, holder in (("metadata.", manifest.object), *((each.metadata, each.pod) for each in pods)):
            metadata = holder.get("metadata")
            own = metadata.get("labels") if isinstance(metadata, dict) else None
            name = own.get(labels.QUEUE) if isinstance(own, dict) else None
            if name:
                yield name, manifest.where(f"{path}labels[{labels.QUEUE}]")
                break


def apply_all(
    cluster: Cluster, manifests: Iterable[Manifest], scheduler: SchedulerUnderTest, namespace: str = "default"
) -> list[AppliedChange]:
    """Apply in order. After the prerequisite kinds of the scheduler under test, wait until it has read them. If the cluster refuses an
    object, the ones before it are undone."""
    changes: list[AppliedChange] = []
    undo: list[tuple[AppliedChange, Object | None]] = []
    unread = False
    for manifest in manifests:
        if manifest.kind in scheduler.prerequisite_kinds:
            unread = True
        elif unread:
            scheduler.await_prerequisites(cluster)
            unread = False
        obj = manifest.object
        meta = metadata_of(obj)
        space = (meta.get("namespace") or namespace) if is_namespaced(manifest.kind, obj) else ""
        if space and not meta.get("namespace"):
            obj = {**obj, "metadata": {**meta, "namespace": space}}
        try:
            before = _find(cluster, manifest.kind, meta.get("name", ""), space)
            stored, result = _written(cluster, obj, space, changes)
        except ApiError as error:
            _undo(cluster, undo)
            raise InputError(str(error), manifest.where(getattr(error, "field", ""))) from error
        change = AppliedChange(manifest.kind, space, name_of(stored), result)
        changes.append(change)
        undo.append((change, before))
    if unread:
        scheduler.await_prerequisites(cluster)
    return changes


def _written(
    cluster: Cluster, obj: Object, space: str, before: Collection[AppliedChange]
) -> tuple[Object, WriteResult]:
    """Apply or create, with retries: right after a Namespace was created again, a server may still see the old one, and an operator's webhook
    may not have seen yet what was applied ``before``."""
    once = (lambda: cluster.apply(obj)) if name_of(obj) else (lambda: (cluster.create(obj), "created"))
    # Nearly all are accepted at once, and the machinery of retries costs much beside a write to an embedded cluster.
    try:
        return once()
    except Forbidden as error:
        if not _is_behind(cluster, space, before, error):
            raise
    import tenacity  # slow to import, and hardly ever needed

    retry = tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: _is_behind(cluster, space, before, error)),
        stop=tenacity.stop_after_delay(BEHIND_SECONDS),
        wait=tenacity.wait_fixed(0.1),
        reraise=True,
    )
    stored, result = retry(once)
    return stored, result


def _is_behind(cluster: Cluster, space: str, before: Collection[AppliedChange], error: BaseException) -> bool:
    """True if an object is refused because its namespace is being deleted, although the namespace no longer is, or because a webhook does
    not find an object that was applied ``before``."""
    if not isinstance(error, Forbidden):
        return False
    if "admission webhook" in str(error):
        return any(f'"{change.name}" not found' in str(error) for change in before)
    if not space or "is being terminated" not in str(error):
        return False
    there = _find(cluster, "Namespace", space, "")
    return there is not None and not is_terminating(there)


def _find(cluster: Cluster, kind: str, name: str, namespace: str) -> Object | None:
    if not name:
        return None
    try:
        return cluster.get(kind, name, namespace or None)
    except NotFound:
        return None


def _undo(cluster: Cluster, done: list[tuple[AppliedChange, Object | None]]) -> None:
    """Undo the changes, the latest first. No controller has acted in between, so no other object depends on them."""
    for change, before in reversed(done):
        if change.what == "created":
            cluster.delete(change.kind, change.name, change.namespace or None, grace_seconds=0)
        elif change.what == "configured" and before is not None:
            # The old resourceVersion would be a conflict.
            metadata = {key: value for key, value in metadata_of(before).items() if key != "resourceVersion"}
            cluster.update({**before, "metadata": metadata})


def translate_manifests(manifests: Manifests, scheduler: SchedulerUnderTest, there: Cluster) -> Manifests:
    """The manifests in the form of the scheduler under test; each object keeps its place. Raises NotExpressible."""
    given = list(manifests)
    translations = scheduler.translate([manifest.object for manifest in given], there)
    if all(len(new) == 1 and new[0] is manifest.object for manifest, new in zip(given, translations, strict=True)):
        return manifests
    return Manifests(
        (
            # Another scheduler may have its own kinds PodGroup or Queue, which are not KAI's.
            Manifest(obj, kind_key(obj), manifest.file, manifest.line, manifest.lines)
            for manifest, new in zip(given, translations, strict=True)
            for obj in new
        ),
        manifests.notices,
    )
