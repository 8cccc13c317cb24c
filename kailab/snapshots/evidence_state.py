"""A state in recorded evidence as a snapshot.

Evidence keeps the objects at the end of a test (nodes, queues, PodGroups, pods), and rows before that. An embedded lab is deterministic,
so its states are reproduced: the recorded steps are repeated in a new lab until the requested cycle, and every decision until then must
equal the recorded one. For labs on other backends only the end can be opened, without the workloads that own the pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kailab.cluster.backends import BACKENDS
from kailab.engine.config import EngineConfig
from kailab.errors import EvidenceError, InputError, KailabError
from kailab.evidence import store
from kailab.evidence.entries import ClusterState, Decision, GroupWaits, LabFacts, RecordedStep, WriteRefused
from kailab.evidence.recorder import OBJECT_FILES, RESULT
from kailab.evidence.run import test_folders
from kailab.evidence.sanitizing import Sanitizer
from kailab.fleet.reading import load_fleet
from kailab.lab.lab import Lab
from kailab.model.objects import full_name, metadata_of, name_of, namespace_of
from kailab.model.times import parse_time
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer
from kailab.scheduler.settings.config_file import SchedulerSettings
from kailab.snapshots import taking
from kailab.snapshots.snapshot import ClusterSnapshot
from kailab.workloads.apps import annotate_revision, template_hash

LAST = "last"
_LAB = "lab.json"


class EvidenceSnapshot(NamedTuple):
    """``what``: a description of the state."""

    snapshot: ClusterSnapshot
    what: str
    notices: tuple[str, ...] = ()


def is_evidence(path: Path) -> bool:
    """Whether a folder is one of a run, of a test or of a lab in one."""
    return (
        (path / _LAB).exists()
        or (path / RESULT).exists()
        or any((path / test / RESULT).exists() for test in test_folders(path))
    )


def read_evidence_state(path: Path, test: str = "", at: str = "") -> EvidenceSnapshot:
    """``path``: the folder of a run, of a test or of a lab in one. ``test``: the test of a run, ``exercise/test`` or its last part; a lab of
    several follows after a slash. ``at``: ``last``, or the number of a cycle, whose input is opened. Raises EvidenceError, InputError."""
    evidence, lab = _chosen(path, test)
    facts = evidence.labs[lab]
    cycle = _cycle(at)
    name = f"{evidence.name} ({lab})"
    embedded = not BACKENDS[facts.backend].api_server
    if cycle is not None and not embedded:
        raise InputError(f"{name} ran on {facts.backend}, which can't be repeated; --at last opens its end")
    if not embedded:
        return _end(evidence, lab, facts)
    try:
        return _reproduce(evidence, lab, facts, cycle)
    except _Differs as different:
        if cycle is not None:
            raise EvidenceError(f"{evidence.path / lab}: cycle {cycle} can't be reproduced: {different}") from None
        end = _end(evidence, lab, facts)
        return end._replace(notices=(f"it can't be reproduced: {different}", *end.notices))


def _chosen(path: Path, test: str) -> tuple[store.TestEvidence, str]:
    lab = ""
    if (path / _LAB).exists():
        path, lab = path.parent, path.name
    if (path / RESULT).exists():
        if test:
            raise InputError(f"{path} is the folder of a test; leave {test!r} out")
        evidence = store.load_test(path.parent.parent, f"{path.parent.name}/{path.name}")
    else:
        tests = test_folders(path)
        if not tests or not any((path / test / RESULT).exists() for test in tests):
            raise EvidenceError(f"{path}: there is no evidence")
        if not test and len(tests) > 1:
            raise InputError(
                f"{path} has several tests; choose one of them: {', '.join(tests[:5])}{' ...' if len(tests) > 5 else ''}"
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


# --- reproduced states ----------------------------------------------------------------------------------------------------


class _Differs(Exception):
    """The repeated steps lead to another state."""


class _Reached(Exception):
    """The requested cycle begins."""


class _StateRecorder(Observer):
    """Takes a snapshot of the lab when a cycle begins, and collects the decisions before it."""

    wants_decisions = True

    def __init__(self, cycle: int | None) -> None:
        self.lab: Lab | None = None
        self.found: ClusterSnapshot | None = None
        self.decided: list[Decision] = []
        self._cycle = cycle
        self.cycles = 0

    def on_phase(self, name: str) -> None:
        if self._cycle == self.cycles + 1 and self.lab is not None:
            self.found = taking.of_lab(self.lab)
            raise _Reached

    def on_cycle(self, record: CycleRecord) -> None:
        self.cycles += 1

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        self.decided.extend(entries)


def _reproduce(evidence: store.TestEvidence, lab: str, facts: LabFacts, cycle: int | None) -> EvidenceSnapshot:
    recorder = _StateRecorder(cycle)
    settings = SchedulerSettings(engine=facts.settings.engine, usage=facts.settings.usage)
    folder = evidence.path / lab
    repeated = Lab.open(
        load_fleet(folder / "fleet.yaml"),
        scheduler=facts.scheduler_kind or facts.scheduler,
        config=settings if settings.engine != EngineConfig() else None,
        observers=[recorder],
        adopt_default_scheduler=facts.settings.adopt_default_scheduler,
        devices=facts.devices,
    )
    names = _TemplateNames(evidence.states(lab).values())
    with repeated:
        recorder.lab = repeated
        try:
            for step in evidence.steps(lab):
                _do(repeated, step, folder)
                names.give(repeated)
        except _Reached:
            pass
        except KailabError as error:
            raise _Differs(f"a recorded step is refused now: {error}") from None
        snapshot = recorder.found or taking.of_lab(repeated)
    if cycle is not None and recorder.found is None:
        raise InputError(f"{evidence.name} ({lab}) had no cycle {cycle}: the last was {recorder.cycles}")
    _check(evidence, lab, recorder.decided, cycle)
    what = f"the end of {evidence.name}" if cycle is None else f"{evidence.name} as cycle {cycle} begins"
    return EvidenceSnapshot(snapshot, what)


class _TemplateNames:
    """Names of the ReplicaSets of Deployments. Such a name depends on the whole template, and evidence keeps only a part of it."""

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
        """Give each Deployment with a new template its next recorded name."""
        for deployment in lab.cluster.list("Deployment"):
            key = full_name(deployment)
            given, digest = self._given.setdefault(key, {}), template_hash(deployment["spec"]["template"])
            left = self._left.get(key)
            if digest not in given and left:
                given[digest] = left.pop(0)
            if digest in given:
                notes = annotate_revision(deployment, given[digest])["metadata"]["annotations"]
                lab.cluster.patch(
                    "Deployment", name_of(deployment), namespace_of(deployment), {"metadata": {"annotations": notes}}
                )


def _do(lab: Lab, step: RecordedStep, folder: Path) -> None:
    match step.operation:
        case "apply":
            # Unknown fields are accepted, because the recorded lab accepted these manifests.
            manifests = (folder / "manifests" / name for name in step.manifests)
            lab.apply(*manifests, namespace=step.namespace or "default", validate="ignore")
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
            raise _Differs(f"step {step.n}, {step.operation}, can't be repeated")


def _check(evidence: store.TestEvidence, lab: str, decided: Sequence[Decision], cycle: int | None) -> None:
    """Raises _Differs for the first different decision. Sentences do not count, because they may have been cut."""
    recorded = [decision for decision in evidence.decisions(lab) if cycle is None or decision.cycle < cycle]
    before, after = list(map(_essence, recorded)), list(map(_essence, decided))
    for recorded_decision, other in zip(before, after, strict=False):
        if recorded_decision != other:
            raise _Differs(
                f"the recorded decision is {_describe(recorded_decision)}, the repeated one {_describe(other)}"
            )
    if len(before) != len(after):
        raise _Differs(f"{len(before)} decisions are recorded, and {len(after)} are made now")


def _essence(entry: Decision) -> tuple[Any, ...]:
    about = entry.podgroup if isinstance(entry, GroupWaits) else entry.pod
    node = "" if isinstance(entry, GroupWaits | WriteRefused) else entry.node
    return entry.cycle, str(entry.__struct_config__.tag), about, node


def _describe(essence: tuple[Any, ...]) -> str:
    cycle, what, about, node = essence
    return f"in cycle {cycle}: {what} {about}{f' on {node}' if node else ''}"


# --- the end --------------------------------------------------------------------------------------------------------------


def _end(evidence: store.TestEvidence, lab: str, facts: LabFacts) -> EvidenceSnapshot:
    by_kind = {kind: evidence.objects(lab, "after", file) for file, kind in OBJECT_FILES.items()}
    decisions = evidence.decisions(lab)
    steps = evidence.steps(lab)
    times = [parse_time(decision.time) for decision in decisions]
    opened = next((parse_time(decision.time) - decision.t for decision in decisions), None)
    if opened is None:
        created = [parse_time(metadata_of(obj)["creationTimestamp"]) for several in by_kind.values() for obj in several]
        opened = min(created, default=0.0)
        times += created
    taken = max([*times, opened + (steps[-1].t if steps else 0.0)])
    filtered = Sanitizer((), by_kind, {})
    snapshot = ClusterSnapshot(
        taken=taken,
        opened=opened,
        facts=facts,
        objects={kind: list(several) for kind, several in filtered.before.items()},
        cut=filtered.cut,
    )
    notice = "the workloads that own the pods are not in the evidence: deleted pods are not replaced"
    return EvidenceSnapshot(snapshot, f"the end of {evidence.name}", (notice,))
