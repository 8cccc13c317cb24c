"""A snapshot, an archive of KAI's or a state of the evidence opened as an embedded lab: the objects as they were, at their time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.protocol import Object
from kailab.errors import EvidenceError, InputError, Where
from kailab.evidence.journal import Journal
from kailab.evidence.recorder import Recorder
from kailab.lab.lab import Lab
from kailab.lab.snapshots import snapshot
from kailab.lab.snapshots.running import Assumed, assuming
from kailab.lab.snapshots.snapshot import ClusterSnapshot
from kailab.lab.spec import LabSpec
from kailab.lab.taking_over import embedded_from
from kailab.lab.venues.embedded import EmbeddedVenue
from kailab.model.files import read_bytes
from kailab.scheduler.observers import Observer

_HEAD = 4096


class Found(NamedTuple):
    """What a path led to. ``what``: in a few words; ``notices``: what could not be taken in, or not as it was."""

    snapshot: ClusterSnapshot
    what: str
    notices: tuple[str, ...] = ()


def read(path: Path, test: str = "", at: str = "") -> Found:
    """A snapshot of kailab's, an archive of KAI's, or (a folder) evidence, of which ``test`` and ``at`` name a test and a moment.
    Raises InputError for what is none of them, or damaged; EvidenceError."""
    if not path.exists():
        raise InputError("there is no such file or folder", Where(file=str(path)))
    if path.is_dir():
        raise EvidenceError(f"{path}: no evidence is there")
    if test or at:
        raise InputError("a test and --at are for evidence, a folder", Where(file=str(path)))
    head = read_bytes(path, snapshot.LARGEST)[:_HEAD]
    if snapshot.is_snapshot(head):
        found = snapshot.read(path)
        return Found(
            found, "a snapshot", tuple(f"{kind} was not taken: {why}" for kind, why in sorted(found.left_out.items()))
        )
    raise InputError(
        "is nothing that can be opened; expected a snapshot (`kailab snapshot take`), the archive of KAI's /get-snapshot, or a "
        "folder of evidence",
        Where(file=str(path)),
    )


def lab_of(found: ClusterSnapshot, observers: Sequence[Observer] = (), assumed: Assumed | None = None) -> Lab:
    """An embedded lab with all that the snapshot holds, decided by kailab's scheduler as the other was set. Nothing acts on it before
    it is settled. ``assumed``: how long workloads run of which nothing says so."""
    taken: Callable[[Object], Object] = (lambda obj: obj) if assumed is None else assuming(assumed)
    cluster = embedded_from(found.objects, found.taken, embedded=found.embedded, counters=found.counters, taken=taken)
    facts = found.facts
    spec = LabSpec(
        fleet=facts.fleet,
        scheduler="kailab",
        config=facts.settings.engine,
        usage=facts.settings.usage,
        adopt_default_scheduler=facts.settings.adopt_default_scheduler,
        devices=facts.devices,
        opened=min(found.opened, found.taken),
    )
    lab = Lab(EmbeddedVenue(cluster), spec, observers, end=_nothing)
    decided = found.decided
    lab.log.cycle, lab.log.evictions, lab.log.last = decided.cycle, list(decided.evictions), decided.last
    return lab


def begin(state: Path, found: ClusterSnapshot, assumed: Assumed | None = None) -> Lab:
    """As ``lab_of``, and write the lab's file, so that commands act on it. Raises StateError."""
    recorder = Recorder()
    lab = lab_of(found, [recorder], assumed)
    try:
        lab.save(state)
        Journal(state).begin(recorder)
    except BaseException:
        state.unlink(missing_ok=True)
        raise
    lab.observers.remove(recorder)
    return lab


def _nothing() -> None:
    """Its file is all there is of it."""
