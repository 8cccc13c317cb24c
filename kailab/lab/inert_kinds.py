"""Kinds on which nothing in an embedded lab acts: their objects are kept, though a cluster might act on them.

One rule holds for all kinds, registered or unknown. A kind is acted on if it has a controller, if the controller of another kind watches
it, or if the scheduler reads it; ``Kind.acts`` covers the others. So a new kind is reported until something acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.model.kind import Kind
from kailab.model.kinds import KINDS
from kailab.model.manifests import Manifest, Notice
from kailab.model.objects import name_of, owner_references
from kailab.scheduler.mirror import KINDS as MIRRORED


def acts(kind: str) -> bool:
    """True if anything in an embedded lab acts on objects of a kind. ``kind``: the kind key."""
    known = KINDS.get(kind)
    if known is None:
        return False
    return (
        known.controller is not None
        or known.acts
        or kind in MIRRORED
        or any(kind in other.watches for other in KINDS.values() if other.controller is not None)
    )


def makes_no_pods(kind: str) -> bool:
    """True if an embedded lab makes no pods for a kind that may have pods in a cluster, because kailab has no controller for it. True for
    unknown kinds, too."""
    known = KINDS.get(kind)
    return known is None or (known.owns_pods and not acts(kind))


def why_no_pods(kind: str) -> str:
    """Why a kind of ``makes_no_pods`` gets no pods, as a sentence without full stop."""
    known = KINDS.get(kind)
    if known is None:
        return f"kailab does not know the kind {kind.partition('.')[0]}, and makes no pods for it"
    return f"kailab makes no pods for a {known.kind}; in a cluster {_pods_in_cluster(known)}"


def _pods_in_cluster(known: Kind) -> str:
    return known.in_cluster or "its operator makes them"


def warn_inert_kinds(manifests: Iterable[Manifest]) -> list[Notice]:
    """Report each registered kind on which nothing acts once, at its first object. The loader reports unknown kinds. Owners whose pods are
    among the manifests need no controller."""
    given = list(manifests)
    owners = {
        (reference.get("kind"), reference.get("name"))
        for manifest in given
        for reference in owner_references(manifest.object)
    }
    notices: dict[str, Notice] = {}
    for manifest in given:
        known = KINDS.get(manifest.kind)
        if known is None or known.schedules_nothing or manifest.kind in notices or acts(manifest.kind):
            continue
        if makes_no_pods(manifest.kind):
            if (known.kind, name_of(manifest.object)) in owners:
                continue
            grouped = "; pods that it owns are grouped by it" if known.grouping is not None else ""
            text = f"is kept, but kailab makes no pods for a {known.kind}{grouped}"
            in_cluster = _pods_in_cluster(known)
        else:
            text = f"is kept, but nothing in an embedded lab acts on a {known.kind}"
            in_cluster = known.in_cluster
        notices[manifest.kind] = Notice(text, manifest.where("kind"), in_cluster=in_cluster)
    return list(notices.values())


def sentences_for(kinds: Iterable[str]) -> list[str]:
    """Sentences about the kinds that have no effect here, for objects that are taken over with their pods. ``kinds``: kind keys."""
    inert = sorted(kind for kind in kinds if not acts(kind) and not (kind in KINDS and KINDS[kind].schedules_nothing))
    owners = [kind for kind in inert if makes_no_pods(kind)]
    others = [kind for kind in inert if kind not in owners]
    sentences = [f"nothing here acts on objects of the kinds {', '.join(others)}"] if others else []
    if owners:
        sentences.append(
            f"kailab makes no pods for {', '.join(owners)}: their pods are not replaced when they are deleted"
        )
    return sentences
