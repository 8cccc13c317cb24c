"""Kinds on which nothing in an embedded lab acts: what is applied of them is kept, and a cluster might do much with it.

One rule over all kinds, registered ones and those that nobody knows. A kind acts where it has a controller, where another's controller is
told of it, or where the scheduler reads it; ``Kind.acts`` says the rest. So a new kind is told of until something acts on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from kailab.model.kinds import KINDS
from kailab.model.manifests import Manifest, Notice
from kailab.scheduler.mirror.kinds import KINDS as MIRRORED


def acts(kind: str) -> bool:
    """Whether anything in an embedded lab acts on objects of a kind. ``kind``: the kind key."""
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
    """Whether an embedded lab makes no pods for a kind that may have some in a cluster: an operator makes them there, and kailab has no
    controller of its own for it. True for kinds that kailab does not know, too: how many pods an object of one wants is not known."""
    known = KINDS.get(kind)
    return known is None or (known.owns_pods and not acts(kind))


def why_no_pods(kind: str) -> str:
    """A sentence without its full stop, for a kind of ``makes_no_pods``."""
    known = KINDS.get(kind)
    name = known.kind if known is not None else kind.partition(".")[0]
    if known is None:
        return f"kailab does not know the kind {name}, and makes no pods for it"
    elsewhere = known.in_cluster or "its operator makes them"
    return f"kailab makes no pods for a {name}; in a cluster {elsewhere}"


def warn_inert_kinds(manifests: Iterable[Manifest]) -> list[Notice]:
    """Each registered kind on which nothing acts is told once, where it is first. Of unknown kinds the loader tells. Owners whose pods are
    among the manifests need no controller."""
    given = list(manifests)
    owners = {
        (reference.get("kind"), reference.get("name"))
        for one in given
        for reference in one.object["metadata"].get("ownerReferences") or ()
    }
    told: dict[str, Notice] = {}
    for one in given:
        known = KINDS.get(one.kind)
        if known is None or known.schedules_nothing or one.kind in told or acts(one.kind):
            continue
        if makes_no_pods(one.kind):
            if (known.kind, one.object["metadata"].get("name")) in owners:
                continue
            grouped = "; pods that it owns are grouped by it" if known.grouping is not None else ""
            text = f"is kept, but {why_no_pods(one.kind)}{grouped}"
        else:
            elsewhere = f"; in a cluster {known.in_cluster}" if known.in_cluster else ""
            text = f"is kept, but nothing in an embedded lab acts on a {known.kind}{elsewhere}"
        told[one.kind] = Notice(text, one.where("kind"))
    return list(told.values())


def sentences_for(kinds: Iterable[str]) -> list[str]:
    """What is worth saying where objects are taken over with their pods: which of these kinds have no effect here. ``kinds``: kind keys of
    objects that there are."""
    inert = sorted(kind for kind in kinds if not acts(kind) and not (kind in KINDS and KINDS[kind].schedules_nothing))
    owners = [kind for kind in inert if makes_no_pods(kind)]
    others = [kind for kind in inert if kind not in owners]
    told = [f"nothing here acts on what there is of {', '.join(others)}"] if others else []
    if owners:
        told.append(
            f"kailab makes no pods for what there is of {', '.join(owners)}: pods of theirs that go are not made anew"
        )
    return told
