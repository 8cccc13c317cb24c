"""By what name the pods of a template go: worked out here, or as another controller named them before.

A real controller names templates by a hash of its own, and a template of which something was left out has another hash here. Where
workloads were taken over, a note on each says which name stands for which template, so that nothing is rolled out that did not change.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable

import msgspec

from kailab.cluster.embedded.storage.store import safe_text
from kailab.cluster.protocol import Object

TAKEN_OVER = "kailab.dev/revision-of"  # "<hash of the template here>=<the other controller's name>"
REVISION = "controller-revision-hash"
_encode = msgspec.json.Encoder(order="sorted").encode


def template_hash(template: Object) -> str:
    """A short name for a pod template: equal templates, equal names."""
    # Keys are sorted, so their order in a manifest makes no other template.
    return safe_text(str(zlib.crc32(_encode(template))))


def revision_of(owner: Object, digest: str, default: str) -> str:
    """What pods of the workload's template carry. ``digest``: of the template; ``default``: the name that it has here."""
    note = (owner["metadata"].get("annotations") or {}).get(TAKEN_OVER, "")
    known, _, name = note.partition("=")
    # The note is about one template. Once that changes, the new one has the name that it gets here.
    return name if known == digest and name else default


def with_revision(owner: Object, name: str) -> Object:
    """The workload with the note that pods of its present template go by this name."""
    meta = owner["metadata"]
    notes = {**(meta.get("annotations") or {}), TAKEN_OVER: f"{template_hash(owner['spec']['template'])}={name}"}
    return {**owner, "metadata": {**meta, "annotations": notes}}


def taken_over(owner: Object, pods: Iterable[Object]) -> Object:
    """A StatefulSet or DaemonSet of another controller with its note; ``pods`` are its own."""
    newest = (owner.get("status") or {}).get("updateRevision")
    if not newest:  # a DaemonSet does not say: the most of its pods do
        carried = Counter((pod["metadata"].get("labels") or {}).get(REVISION) for pod in pods)
        # By name where two revisions have as many, so that it is the same each time.
        newest = max(carried, key=lambda name: (carried[name], name or "")) if carried else None
    template = (owner.get("spec") or {}).get("template")
    if not newest or not isinstance(template, dict):
        return owner
    return with_revision(owner, newest)
