"""Writes to the cluster of a lab: apply, delete, scale and patch, each reported as a step of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kailab.cluster.protocol import Object
from kailab.cluster.writes import Subresource
from kailab.errors import ApiError, InputError, InputErrors, NotFound
from kailab.lab import advice, inert_kinds, intake, references, unknown_fields
from kailab.lab.garbage import collector_off
from kailab.lab.intake import Applied, AppliedChange, Source, SourceContents
from kailab.lab.open_lab import LabActivity, OpenLab
from kailab.model import kinds
from kailab.model.manifests import Notice
from kailab.model.objects import name_of, namespace_of
from kailab.model.validation.advice import pods_found_once
from kailab.model.validation.once import validated_once


def apply(
    lab: OpenLab,
    activity: LabActivity,
    sources: tuple[Source, ...],
    namespace: str,
    strict: bool,
    validate: unknown_fields.Validation,
) -> Applied:
    """See ``Lab.apply``."""
    seen: list[str | Object] = []
    try:
        # Large manifests become very many objects at once.
        with collector_off(), validated_once():
            read = intake.load_sources(sources, lab.base, namespace, seen, intake.stored_in(lab.cluster, namespace))
            refused = intake.impossible_gangs(read.manifests) if strict else []
            if validate == "strict":
                refused += unknown_fields.refused_fields(read.manifests)
            if refused:
                raise InputErrors.of(refused)
            with pods_found_once():
                notices = _notices(lab, read, namespace, validate)
            manifests = intake.translate_manifests(read.manifests, lab.under_test, lab.cluster)
            applied = Applied(intake.apply_all(lab.cluster, manifests, lab.under_test, namespace), notices)
    except InputError:
        # Errors quote manifests, so the evidence must know refused objects too.
        lab.observers.on_refusal(seen)
        raise
    activity.report_change(
        "apply",
        f"{', '.join(name for name, _ in read.parts)}: {applied.summary()}",
        manifests=read.parts,
        namespace=namespace,
        changes=tuple(map(str, applied.changes)),
        warnings=tuple(applied.warnings),
    )
    return applied


def _notices(lab: OpenLab, read: SourceContents, namespace: str, validate: unknown_fields.Validation) -> list[Notice]:
    """Raises InputError or InputErrors."""
    manifests, cluster = read.manifests, lab.cluster
    notices = intake.check_manifests(cluster, manifests, namespace)
    if validate != "ignore":
        notices += unknown_fields.warn_unknown_fields(manifests)
    if lab.venue.exclusive:
        notices += inert_kinds.warn_inert_kinds(manifests)
        notices += unknown_fields.warn_unknown_values(manifests)
        notices += unknown_fields.warn_unread_fields(manifests)
        notices += references.warn_missing_references(cluster, manifests, namespace)
        notices += references.warn_unmet_needs(cluster, manifests, namespace)
        notices += references.warn_pod_priorities(cluster, manifests)
    if lab.under_test.understands_kai:
        alone = lab.venue.exclusive and not lab.under_test.has_default
        adopted, closed = lab.spec.adopt_default_scheduler, lab.venue.exclusive
        notices += advice.advise_under_kai(cluster, manifests, namespace, adopted, alone, closed)
    return notices


def delete(lab: OpenLab, activity: LabActivity, kind: str | Path, name: str | None, namespace: str) -> Applied:
    """See ``Lab.delete``."""
    targets: list[tuple[str, str, str]] = []
    if name is None:
        for manifest in intake.load_sources([kind], lab.base, namespace).manifests:
            target, space = name_of(manifest.object), ""
            if kinds.is_namespaced(manifest.kind, manifest.object):
                space = lab.space_of(manifest.kind, target, namespace_of(manifest.object) or namespace) or ""
            targets.append((manifest.kind, target, space))
    else:
        key = lab.kind(str(kind))
        targets.append((key, name, lab.space_of(key, name, namespace) or ""))
    # All are looked up before the first is deleted.
    for key, target, space in targets:
        _check_exists(lab, key, target, space)
    for key, target, space in targets:
        try:
            lab.cluster.delete(key, target, space or None)
        except NotFound:  # it went with an owner deleted before it
            continue
        except ApiError as error:
            raise InputError(str(error)) from error
    changes = [AppliedChange(key, space, target, "deleted") for key, target, space in targets]
    names = ", ".join(f"{change.kind}/{change.name}" for change in changes)
    activity.report_change("delete", names, objects=tuple(targets))
    return Applied(changes)


def scale(lab: OpenLab, activity: LabActivity, kind: str, name: str, replicas: int, namespace: str) -> None:
    """See ``Lab.scale``."""
    key = lab.kind(kind)
    scalable = [known.key for known in kinds.KINDS.values() if known.scalable]
    if key not in scalable:
        raise InputError(f"{key} can't be scaled; expected one of: {', '.join(scalable)}")
    if replicas < 0:
        raise InputError(f"replicas must be 0 or more, not {replicas}")
    space = lab.space_of(key, name, namespace) or ""
    _check_exists(lab, key, name, space)
    try:
        lab.cluster.patch(key, name, space, {"spec": {"replicas": replicas}})
    except ApiError as error:
        raise InputError(str(error)) from error
    activity.report_change(
        "scale", f"{key}/{name} to {replicas}", kind=key, name=name, namespace=namespace, replicas=replicas
    )


def patch(
    lab: OpenLab,
    activity: LabActivity,
    kind: str,
    name: str,
    patch: dict[str, Any],
    namespace: str,
    subresource: Subresource,
) -> Object:
    """See ``Lab.patch``."""
    key = lab.kind(kind)
    space = lab.space_of(key, name, namespace)
    _check_exists(lab, key, name, space or "")
    try:
        patched = lab.cluster.patch(key, name, space, patch, subresource)
    except ApiError as error:
        lab.observers.on_refusal([patch])
        raise InputError(str(error)) from error
    detail = {"subresource": subresource} if subresource else {}
    activity.report_change("patch", f"{key}/{name}", kind=key, name=name, namespace=namespace, patch=patch, **detail)
    return patched


def _check_exists(lab: OpenLab, kind: str, name: str, namespace: str) -> None:
    try:
        lab.cluster.get(kind, name, namespace or None)
    except NotFound as error:
        raise InputError(str(error)) from error
