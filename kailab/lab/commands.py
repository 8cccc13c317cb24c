"""What is done to a lab: manifests applied, objects deleted, scaled and patched."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from kailab.cluster.protocol import Object
from kailab.cluster.writes import Subresource
from kailab.errors import ApiError, InputError, InputErrors, NotFound
from kailab.lab.garbage import collector_off
from kailab.lab.queries import LabQueries
from kailab.model import kinds
from kailab.scheduler.observers import Observers

# Most commands only look: what reads manifests is imported where it is used.
if TYPE_CHECKING:
    from kailab.lab.change import Patch
    from kailab.lab.intake import Applied, Source
    from kailab.lab.node_changes import Silence
    from kailab.lab.settle import Settling


class LabCommands(LabQueries):
    """All that is done is told to the observers. ``base``: relative manifest paths are seen from here."""

    base: Path | None
    observers: Observers
    _changed: bool

    @property
    def _pace(self) -> Settling:
        raise NotImplementedError

    def catch_up(self) -> bool:
        """Have controllers read a lab that was resumed now, and not with the first thing that is done to it. True if that changed anything: it was not at
        rest. On a real cluster they are other processes."""
        from kailab.lab.settle import VirtualSettling

        pace = self._pace
        with collector_off():
            return isinstance(pace, VirtualSettling) and pace.catch_up()

    def apply(self, *sources: Source, namespace: str = "default", strict: bool = False) -> Applied:
        """Apply manifests: paths (files, folders, ``-``), YAML text, objects or lists of them.

        All are checked first, together with what the lab holds; if anything is wrong nothing is applied. ``strict``
        also refuses what KAI would take and never run (a gang larger than its Job). Raises InputError or InputErrors."""
        from kailab.lab import advice, inert_kinds, intake, pod_priorities, references, unknown_fields, unread_fields
        from kailab.lab.intake import Applied

        seen: list[str | Object] = []
        try:
            # Large manifests become very many objects at once.
            with collector_off():
                read = intake.read(sources, self.base, namespace, seen)
                impossible = intake.impossible_gangs(read.manifests) if strict else []
                if impossible:
                    raise InputErrors.of(impossible)
                warnings = intake.check(self.cluster, read.manifests, namespace)
                warnings += map(str, unknown_fields.warn_unknown_fields(read.manifests))
                if self.venue.exclusive:
                    warnings += map(str, inert_kinds.warn_inert_kinds(read.manifests))
                    warnings += map(str, unread_fields.warn_unread_fields(read.manifests))
                    warnings += map(str, references.missing(self.cluster, read.manifests, namespace))
                    warnings += map(str, pod_priorities.in_manifests(self.cluster, read.manifests))
                if self.under_test.understands_kai:
                    adopted = self.spec.adopt_default_scheduler
                    alone = self.venue.exclusive and not self.under_test.has_default
                    told = advice.under_kai(self.cluster, read.manifests, namespace, adopted, alone)
                    warnings += map(str, told)
                manifests = intake.translated(read.manifests, self.under_test, self.cluster)
                applied = Applied(intake.apply_all(self.cluster, manifests, self.under_test, namespace), warnings)
        except InputError:
            # Errors quote manifests, so evidence has to know what was refused, too.
            self.observers.on_refusal(seen)
            raise
        self._step(
            "apply",
            f"{', '.join(name for name, _ in read.parts)}: {applied.told()}",
            manifests=read.parts,
            namespace=namespace,
            changes=tuple(map(str, applied.changes)),
            warnings=tuple(warnings),
        )
        return applied

    def dry_run(self) -> None:
        """Have a real API server only say what it would do, from now on. A lab in this process is tried on as it is: its
        changes are nobody's before they are saved."""
        self.venue.dry_run()

    def delete(self, kind: str | Path, name: str | None = None, namespace: str = "default") -> Applied:
        """Delete one object, or (with a path or YAML text alone) every object of manifests. Raises InputError if one
        is not there; then none is deleted."""
        from kailab.lab import intake
        from kailab.lab.intake import Applied, Change

        doomed: list[tuple[str, str, str]] = []
        if name is None:
            for one in intake.read([kind], self.base, namespace).manifests:
                target = one.object["metadata"].get("name", "")
                space = ""
                if kinds.is_namespaced(one.kind, one.object):
                    written = one.object["metadata"].get("namespace") or namespace
                    space = self.space_of(one.kind, target, written) or ""
                doomed.append((one.kind, target, space))
        else:
            key = self.kind(str(kind))
            doomed.append((key, name, self.space_of(key, name, namespace) or ""))
        # All are looked up before the first is deleted.
        for key, target, space in doomed:
            self._existing(key, target, space)
        for key, target, space in doomed:
            try:
                self.cluster.delete(key, target, space or None)
            except NotFound:  # it went with an owner deleted before it
                continue
            except ApiError as error:
                raise InputError(str(error)) from error
        changes = [Change(key, space, target, "deleted") for key, target, space in doomed]
        self._step("delete", ", ".join(str(change) for change in changes), objects=tuple(doomed))
        return Applied(changes)

    def scale(self, kind: str, name: str, replicas: int, namespace: str = "default") -> None:
        """Set ``spec.replicas``. Raises InputError for kinds that have none, objects that are not there, and counts
        below 0."""
        key = self.kind(kind)
        scalable = [known.key for known in kinds.KINDS.values() if known.scalable]
        if key not in scalable:
            raise InputError(f"{key} can't be scaled; expected one of: {', '.join(scalable)}")
        if replicas < 0:
            raise InputError(f"replicas must be 0 or more, not {replicas}")
        space = self.space_of(key, name, namespace) or ""
        self._existing(key, name, space)
        try:
            self.cluster.patch(key, name, space, {"spec": {"replicas": replicas}})
        except ApiError as error:
            raise InputError(str(error)) from error
        self._step("scale", f"{key}/{name} to {replicas}", kind=key, name=name, namespace=namespace, replicas=replicas)

    def patch(
        self,
        kind: str,
        name: str,
        patch: dict[str, Any],
        namespace: str = "default",
        subresource: Subresource = "",
    ) -> Object:
        """JSON merge patch of an object: of all but its status, or of its status alone (``subresource``). Raises InputError."""
        key = self.kind(kind)
        space = self.space_of(key, name, namespace)
        self._existing(key, name, space or "")
        try:
            patched = self.cluster.patch(key, name, space, patch, subresource)
        except ApiError as error:
            self.observers.on_refusal([patch])
            raise InputError(str(error)) from error
        detail = {"subresource": subresource} if subresource else {}
        self._step("patch", f"{key}/{name}", kind=key, name=name, namespace=namespace, patch=patch, **detail)
        return patched

    def fail_node(self, name: str, ready: Silence = "Unknown") -> None:
        """A fake node fails. ``ready``: what its Ready condition becomes: Unknown, as Kubernetes says of a node that is no longer heard of,
        or False, as its kubelet says when it can run nothing. Raises InputError for a node that is real or not there."""
        from kailab.lab.node_changes import failed

        self._patched(failed(self, name, ready))

    def recover_node(self, name: str) -> None:
        """A fake node that failed is well again. Raises InputError for a node that is real or not there."""
        from kailab.lab.node_changes import recovered

        self._patched(recovered(self, name))

    def _patched(self, one: Patch) -> None:
        self.patch(one.kind, one.name, dict(one.patch), subresource=one.subresource)

    def _existing(self, kind: str, name: str, namespace: str) -> Object:
        try:
            return self.cluster.get(kind, name, namespace or None)
        except NotFound as error:
            raise InputError(str(error)) from error

    def _step(self, operation: str, text: str, **detail: Any) -> None:
        self._changed = True
        self.observers.on_step(operation, text, **detail)
