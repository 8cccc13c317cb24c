"""A state within evidence made a snapshot again.

Evidence keeps objects at the end of a test (nodes, queues, PodGroups, pods), and before that rows. A lab in this process is
deterministic, so it is brought about anew: what was done to it is done to another, until the cycle that is asked for, and every decision
until then has to be the one on record. Of labs elsewhere there is the end alone, without the workloads that own the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kailab.engine.config import EngineConfig
from kailab.errors import EvidenceError, InputError, KailabError
from kailab.evidence import store
from kailab.evidence.entries import ClusterState, Decision, GroupWaits, LabFacts, RecordedStep, WriteRefused
from kailab.evidence.recorder import OBJECT_FILES, RESULT
from kailab.evidence.run import test_folders
from kailab.evidence.sanitizing import Sanitizer
from kailab.fleet import load_fleet
from kailab.lab.lab import Lab
from kailab.model.times import parse_time
from kailab.scheduler import SchedulerSettings
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer
from kailab.snapshots import taking
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.workloads.apps import template_hash, with_revision

LAST = "last"
_LAB = "lab.json"


class Kept(NamedTuple):
    """``what``: which state it is, in words."""

    snapshot: ClusterSnapshot
    what: str
    notices: tuple[str, ...] = ()


def read(path: Path, test: str = "", at: str = "") -> Kept:
    """``path``: the folder of a run, of a test or of a lab within one. ``test``: of a run, ``exercise/test`` or its last part; a lab
    of several follows a slash. ``at``: ``last`` or the number of a cycle, on whose input it opens. Raises EvidenceError, InputError."""
    evidence, lab = _chosen(path, test)
    facts = evidence.labs[lab]
    cycle = _cycle(at)
    name = f"{evidence.name} ({lab})"
    alone = facts.backend == "embedded"
    if cycle is not None and not alone:
        raise InputError(
            f"{name} ran on {facts.backend}, whose time can't be gone through again; --at last opens its end"
        )
    if not alone:
        return _end(evidence, lab, facts)
    try:
        return _again(evidence, lab, facts, cycle)
    except _NotTheSame as different:
        if cycle is not None:
            raise EvidenceError(
                f"{evidence.path / lab}: cycle {cycle} can't be brought about again: {different}"
            ) from None
        kept = _end(evidence, lab, facts)
        return kept._replace(notices=(f"it can't be brought about again: {different}", *kept.notices))


def _chosen(path: Path, test: str) -> tuple[store.TestEvidence, str]:
    lab = ""
    if (path / _LAB).exists():
        path, lab = path.parent, path.name
    if (path / RESULT).exists():
        if test:
            raise InputError(f"{path} is a test's folder already; leave {test!r} out")
        evidence = store.load_test(path.parent.parent, f"{path.parent.name}/{path.name}")
    else:
        tests = test_folders(path)
        if not tests or not any((path / one / RESULT).exists() for one in tests):
            raise EvidenceError(f"{path}: no evidence is there")
        if not test and len(tests) > 1:
            raise InputError(
                f"{path} has several tests; say which: {', '.join(tests[:5])}{' ...' if len(tests) > 5 else ''}"
            )
        evidence = store.load_test(path, store.find_test(path, test) if test else tests[0])
    if not evidence.labs:
        raise EvidenceError(f"{evidence.path}: the test opened no lab")
    if lab and lab not in evidence.labs:
        raise EvidenceError(f"{evidence.path}: the test has no lab {lab!r}")
    if not lab and len(evidence.labs) > 1:
        raise InputError(f"{evidence.path} has several labs; give the folder of one: {', '.join(evidence.labs)}")
    return evidence, lab or next(iter(evidence.labs))


def _cycle(at: str) -> int | None:
    if at in ("", LAST):
        return None
    if not at.isascii() or not at.isdigit() or int(at) < 1:
        raise InputError(f"--at: {at!r} is no moment of the evidence; expected last, or the number of a cycle from 1")
    return int(at)


# --- done again -------------------------------------------------------------------------------------------------------


class _NotTheSame(Exception):
    """What was done does not lead where it led then."""


class _ThereNow(Exception):
    """The cycle that is asked for begins."""


class _Until(Observer):
    """Takes a snapshot of the lab as a cycle begins, and notes what was decided before."""

    wants_decisions = True

    def __init__(self, cycle: int | None) -> None:
        self.lab: Lab | None = None
        self.found: ClusterSnapshot | None = None
        self.decided: list[Decision] = []
        self._cycle = cycle
        self._seen = 0

    def on_phase(self, name: str) -> None:
        if self._cycle == self._seen + 1 and self.lab is not None:
            self.found = taking.of_lab(self.lab)
            raise _ThereNow

    def on_cycle(self, record: CycleRecord) -> None:
        self._seen += 1

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        self.decided.extend(entries)


def _again(evidence: store.TestEvidence, lab: str, facts: LabFacts, cycle: int | None) -> Kept:
    until = _Until(cycle)
    settings = SchedulerSettings(engine=facts.settings.engine, usage=facts.settings.usage)
    folder = evidence.path / lab
    again = Lab.open(
        load_fleet(folder / "fleet.yaml"),
        scheduler=facts.scheduler_kind or facts.scheduler,
        config=settings if settings.engine != EngineConfig() else None,
        observers=[until],
        adopt_default_scheduler=facts.settings.adopt_default_scheduler,
        devices=facts.devices,
    )
    names = _TemplateNames(evidence.states(lab).values())
    with again:
        until.lab = again
        try:
            for step in evidence.steps(lab):
                _do(again, step, folder)
                names.give(again)
        except _ThereNow:
            pass
        except KailabError as error:
            raise _NotTheSame(f"what was done then is refused now: {error}") from None
        found = until.found or taking.of_lab(again)
    if cycle is not None and until.found is None:
        raise InputError(f"{evidence.name} ({lab}) had no cycle {cycle}: the last was {until._seen}")
    _check(evidence, lab, until.decided, cycle)
    what = f"the end of {evidence.name}" if cycle is None else f"{evidence.name} as cycle {cycle} begins"
    return Kept(found, what)


class _TemplateNames:
    """What the ReplicaSets of Deployments were called: the name comes from the whole template, of which evidence keeps a part."""

    def __init__(self, states: Iterable[ClusterState]) -> None:
        self._left: dict[str, list[str]] = {}
        for state in states:
            for row in state.pods:
                kind, _, name = row.owner.partition("/")
                space = row.name.partition("/")[0]
                deployment, dash, digest = name.rpartition("-")
                if kind == "ReplicaSet" and dash and digest not in self._left.setdefault(f"{space}/{deployment}", []):
                    self._left[f"{space}/{deployment}"].append(digest)
        self._given: dict[str, dict[str, str]] = {}

    def give(self, lab: Lab) -> None:
        """Deployments with a template that was not met yet get the next of their names."""
        for deployment in lab.cluster.list("Deployment"):
            meta = deployment["metadata"]
            key = f"{meta['namespace']}/{meta['name']}"
            given, digest = self._given.setdefault(key, {}), template_hash(deployment["spec"]["template"])
            left = self._left.get(key)
            if digest not in given and left:
                given[digest] = left.pop(0)
            if digest in given:
                notes = with_revision(deployment, given[digest])["metadata"]["annotations"]
                lab.cluster.patch("Deployment", meta["name"], meta["namespace"], {"metadata": {"annotations": notes}})


def _do(lab: Lab, step: RecordedStep, folder: Path) -> None:
    match step.operation:
        case "apply":
            lab.apply(*(folder / "manifests" / name for name in step.manifests), namespace=step.namespace or "default")
        case "delete":
            for kind, name, namespace in step.objects:
                lab.delete(kind, name, namespace or "default")
        case "scale":
            lab.scale(step.kind, step.name, step.replicas or 0, step.namespace or "default")
        case "patch":
            lab.patch(step.kind, step.name, step.patch or {}, step.namespace or "default", step.subresource)
        case "settle":
            lab.settle()
        case "advance":
            lab.advance(step.seconds or 0.0)
        case _:
            raise _NotTheSame(f"step {step.n}, {step.operation}, can't be done again")


def _check(evidence: store.TestEvidence, lab: str, decided: Sequence[Decision], cycle: int | None) -> None:
    """Raises _NotTheSame for the first decision that is another. Sentences may have been cut, so they do not count."""
    recorded = [one for one in evidence.decisions(lab) if cycle is None or one.cycle < cycle]
    before, after = list(map(_essence, recorded)), list(map(_essence, decided))
    for one, other in zip(before, after, strict=False):
        if one != other:
            raise _NotTheSame(f"it was decided {_told(one)}, and is now {_told(other)}")
    if len(before) != len(after):
        raise _NotTheSame(f"{len(before)} decisions are on record, and {len(after)} are taken now")


def _essence(entry: Decision) -> tuple[Any, ...]:
    about = entry.podgroup if isinstance(entry, GroupWaits) else entry.pod
    node = "" if isinstance(entry, GroupWaits | WriteRefused) else entry.node
    return entry.cycle, str(entry.__struct_config__.tag), about, node


def _told(essence: tuple[Any, ...]) -> str:
    cycle, what, about, node = essence
    return f"in cycle {cycle}: {what} {about}{f' on {node}' if node else ''}"


# --- the end alone ----------------------------------------------------------------------------------------------------


def _end(evidence: store.TestEvidence, lab: str, facts: LabFacts) -> Kept:
    looks = {kind: evidence.objects(lab, "after", file) for file, kind in OBJECT_FILES.items()}
    decisions = evidence.decisions(lab)
    steps = evidence.steps(lab)
    times = [parse_time(one.time) for one in decisions]
    opened = next((parse_time(one.time) - one.t for one in decisions), None)
    if opened is None:
        created = [parse_time(obj["metadata"]["creationTimestamp"]) for several in looks.values() for obj in several]
        opened = min(created, default=0.0)
        times += created
    taken = max([*times, opened + (steps[-1].t if steps else 0.0)])
    filtered = Sanitizer((), looks, {})
    found = ClusterSnapshot(
        taken=taken,
        opened=opened,
        facts=facts,
        objects={kind: list(several) for kind, several in filtered.before.items()},
        cut=filtered.cut,
    )
    notice = "the workloads that own the pods are not in the evidence: pods that go are not made anew"
    return Kept(found, f"the end of {evidence.name}", (notice,))
