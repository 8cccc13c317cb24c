"""Changes of existing objects: update, patch, and apply as in ``kubectl apply``.

All three end in one place, which restores server fields, admits the changes, and drops a write that changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from kailab.cluster.embedded.admission import Admission, invalid
from kailab.cluster.embedded.deletion import Deletion
from kailab.cluster.embedded.merge import apply_patch, merge_patch, same
from kailab.cluster.embedded.storage.store import ObjectStore
from kailab.cluster.protocol import Object
from kailab.cluster.writes import Subresource
from kailab.errors import Conflict, Invalid
from kailab.model.kinds import KINDS
from kailab.model.labels import LAST_APPLIED
from kailab.model.objects import Key, annotations_of, is_terminating
from kailab.model.validation import validate_status
from kailab.model.validation.fields import Faults, check_notes
from kailab.model.validation.pods import CHECKED_ANNOTATIONS, check_annotations

_NOTHING: Mapping[str, Any] = {}
# Sorted: a manifest gives the same annotation in whatever order its keys come.
_encode = msgspec.json.Encoder(order="sorted").encode

# Metadata that belongs to the server; a client's values are ignored.
SERVER_FIELDS = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


class Updates:
    """Changes objects of a store. ``create`` is the cluster's, for applied objects that do not exist yet."""

    def __init__(
        self, store: ObjectStore, admission: Admission, deletion: Deletion, create: Callable[[Object], Object]
    ) -> None:
        self._store = store
        self._admission = admission
        self._deletion = deletion
        self._create = create

    def update(self, obj: Object) -> Object:
        kind, namespace, name = self._admission.identify(obj)
        key = (namespace, name)
        old = self._store.get(kind, key)
        self._expect_version(kind, key, obj["metadata"].get("resourceVersion"), old)
        return self._change(kind, key, old, {**obj, "metadata": dict(obj["metadata"])})

    def patch(self, kind: str, key: Key, patch: Mapping[str, Any], subresource: Subresource = "") -> Object:
        name = key[1]
        old = self._store.get(kind, key)
        # An isinstance check of an abstract class costs more than most patches.
        if type(patch) is not dict and not isinstance(patch, Mapping):
            raise Invalid(f"{kind} {name!r}: a patch is a mapping, not {type(patch).__name__}")
        for field in ("metadata", "status"):
            if not isinstance(patch.get(field, _NOTHING), (dict, Mapping)) and (
                field == "metadata" or patch[field] is not None
            ):
                raise invalid(kind, name, field, "expected a mapping")
        if metadata := patch.get("metadata"):
            if given := metadata.get("uid"):
                self._store.get(kind, key, given)
            if given := metadata.get("resourceVersion"):
                self._expect_version(kind, key, given, old)
        if subresource == "status":
            status = merge_patch(old.get("status"), patch.get("status") or {})
            # merge_patch returns the same object if it changes nothing: then there is nothing to write.
            if status is old.get("status") or (not status and "status" not in old):
                return old
            if faults := validate_status(status, kind):
                raise invalid(kind, name, f"status.{faults[0].field}", faults[0].message)
            return self._store.replace(kind, key, old, {**old, "status": status})
        merged = merge_patch(old, patch)
        if merged is old:
            return old
        return self._change(kind, key, old, merged)

    def apply(self, obj: Object) -> tuple[Object, Literal["created", "configured", "unchanged"]]:
        kind, namespace, name = self._admission.identify(obj)
        if not name:
            raise Invalid(f"{kind}: metadata.name: apply needs a name (create takes generateName)", "metadata.name")
        key = (namespace, name)
        old = self._store.find(kind, key)
        applied = {k: v for k, v in obj.items() if k != "status"}
        meta = {k: v for k, v in obj["metadata"].items() if k not in SERVER_FIELDS}
        # kubectl leaves the annotation out of its record, too; otherwise it would contain itself.
        notes = {k: v for k, v in (meta.get("annotations") or {}).items() if k != LAST_APPLIED}
        if notes or "annotations" in meta:
            meta["annotations"] = notes
        applied["metadata"] = meta
        try:
            text = _encode(applied).decode()
        except (TypeError, ValueError) as error:
            raise Invalid(f"{kind} {name!r}: not JSON: {error}") from None
        record = {**meta, "annotations": {**notes, LAST_APPLIED: text}}
        if old is None:
            created = {**applied, "metadata": record}
            if "status" in obj:
                created["status"] = obj["status"]
            return self._create(created), "created"
        self._expect_version(kind, key, obj["metadata"].get("resourceVersion"), old)
        before = annotations_of(old).get(LAST_APPLIED)
        last = msgspec.json.decode(before) if before else {}
        # A record made by kubectl may have a status, which must not lead to the removal of the present one.
        last.pop("status", None)
        new = apply_patch(old, last, {**applied, "metadata": record})
        result = old if new is old else self._change(kind, key, old, dict(new))
        return result, "unchanged" if result is old else "configured"

    def _change(self, kind: str, key: Key, old: Object, new: Object) -> Object:
        """Store a new state of everything except the status, if it differs. ``new`` is a fresh dict."""
        before = old["metadata"]
        if new["metadata"] is not before:
            new["metadata"] = self._metadata(kind, key, before, new["metadata"], new.get("spec"))
        if kind in KINDS:  # they have a status subresource: no other write reaches the status
            if "status" in old:
                new["status"] = old["status"]
            else:
                new.pop("status", None)
        # Labels and annotations of most kinds need no admission: they are checked above, and controllers write them often. Identity
        # suffices here: merging shares unchanged parts, and an equal copy only costs an admission.
        marked = new["metadata"] is not before and (known := KINDS.get(kind)) is not None and known.checks_metadata
        if (
            marked
            or any(new.get(field) is not value for field, value in old.items() if field not in ("metadata", "status"))
            or new.keys() != old.keys()
        ):
            new = self._admission.changed(kind, old, new, key[1])
        # Metadata was compared already; if it is unchanged, the rest decides.
        if new["metadata"] is before and same(new, old):
            return old
        if not same(new.get("spec"), old.get("spec")):
            # Metadata and status do not raise the generation, which controllers compare with their observedGeneration.
            new = {**new, "metadata": {**new["metadata"], "generation": before.get("generation", 0) + 1}}
        stored = self._store.replace(kind, key, old, new)
        if is_terminating(stored):  # the write may have removed its last finalizer
            self._deletion.finish(kind, key, stored)
        return stored

    def _metadata(self, kind: str, key: Key, before: Object, meta: Object, spec: Any) -> Object:
        """The given metadata with the server's own fields as stored; the stored metadata itself if it is equal."""
        meta = {k: v for k, v in meta.items() if v is not None and k not in SERVER_FIELDS}
        meta["name"] = key[1]
        if key[0]:
            meta["namespace"] = key[0]
        # Also if they were left out: a replaced object keeps its identity and its deletion.
        for field in SERVER_FIELDS:
            if field in before:
                meta[field] = before[field]
        self._check_metadata(kind, key, before, meta, spec)
        return before if same(meta, before) else meta

    @staticmethod
    def _check_metadata(kind: str, key: Key, before: Object, meta: Object, spec: Any) -> None:
        """Check only new labels and annotations: admitted ones stay, whatever else changes."""
        news = {field: _news(meta.get(field), before.get(field)) for field in ("labels", "annotations")}
        if all(value is None or value == {} for value in news.values()):
            return
        faults = Faults()
        check_notes(faults, news)
        # The pod's own check reads the values; controllers write other annotations all the time.
        checked = kind == "Pod" and isinstance(spec, dict) and not faults.found
        if checked and not CHECKED_ANNOTATIONS.isdisjoint(news["annotations"] or ()):
            check_annotations(faults, meta, spec, "metadata")
        if found := [*faults.found, *faults.ratcheted]:
            raise invalid(kind, key[1], *found[0])

    @staticmethod
    def _expect_version(kind: str, key: Key, given: Any, stored: Object) -> None:
        if given and given != stored["metadata"]["resourceVersion"]:
            raise Conflict(
                f"{kind} {key[1]!r} has been changed: resourceVersion {given} was given, "
                f"{stored['metadata']['resourceVersion']} is stored; read it again and repeat the change, or leave metadata.resourceVersion out of the manifest"
            )


def _news(after: Any, before: Any) -> Any:
    """Entries that are new or have new values."""
    if after is before:
        return None
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    return {key: value for key, value in after.items() if before.get(key) != value}
