"""Whether a step has the outcome that its text tells: carried out on a fork, counted from the objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from checks.explaining.workloads import AppliedWorkload
from kailab.cluster.protocol import Object
from kailab.errors import KailabError
from kailab.explain.step_search import is_large
from kailab.lab.answer import Step
from kailab.lab.change import carry_out, read_changes
from kailab.lab.lab import Lab

_RUN = re.compile(r"tried on a copy: (\d+) pods? of it runs?(?:;|\)|$)")
_EVICTED = re.compile(r"; evicted for it: ([^;)]+)")
_BESIDES = re.compile(r"; evicted meanwhile, not for it: ([^;)]+)")
_FAILED = re.compile(r"; ([^;:]+?) then (?:fails, and all its pods end|fail, and all their pods end)")
_MOVED = re.compile(r"; stopped and placed again for it: ([^;)]+)")
_MORE = re.compile(r" and (\d+) more$")


def outcome_faults(lab: Lab, work: AppliedWorkload, step: Step) -> Iterator[str]:
    """Where what a tried step tells differs from what happens. ``lab``: is not changed."""
    told = _RUN.search(step.describe())
    if told is None:
        yield "it tells no outcome"
        return
    with closing(lab.fork()) as copy:
        try:
            together = is_large(len(lab.cluster.list("Pod")), len(lab.cluster.list("Node")))
            carry_out(copy, read_changes([dict(change) for change in step.changes]), together=together)
        except KailabError as error:
            yield f"it can't be carried out: {error}"
            return
        runs = sum(_is_placed(pod) for pod in work.pods(copy))
        if not work.runs(copy):
            yield f"{runs} pods of it run then, and not all"
        if runs != int(told[1]):
            yield f"it tells that {told[1]} pods run, and {runs} do"
        if not any("advance" in change for change in step.changes):
            with closing(lab.fork()) as untouched:
                if copy.now > lab.now:
                    untouched.advance(copy.now - lab.now)
                yield from _others(_Others(untouched, copy, work, _keeping_their_places(lab, untouched)), step)


@dataclass(frozen=True)
class _Others:
    untouched: Lab
    """The lab at the same time without the step."""
    copy: Lab
    work: AppliedWorkload
    before: dict[str, Object]
    """Pods of other work that had a node and would have kept it, by name."""


def _others(others: _Others, step: Step) -> Iterator[str]:
    """Every pod of other work that loses its place is told: evicted, moved, or of work that is ended or fails."""
    text = step.describe()
    after = _placed(others.copy)
    gone = {
        name
        for name, pod in others.before.items()
        if not _is_same(pod, after.get(name)) and not _ended(others.copy, name)
    }
    told, number = _names(_EVICTED.search(text))
    told_besides, number_besides = _names(_BESIDES.search(text))
    told, number = [*told, *told_besides], number + number_besides
    told_moved, number_moved = _names(_MOVED.search(text))
    ended = {name for name in gone if _belongs(others, name, step)}
    # A pod that is moved is deleted, and its controller makes another.
    known = {name.rpartition("/")[2] for name in told_moved}
    unsaid = sorted(name for name in gone - ended if name not in known)
    if len(unsaid) > number + max(0, number_moved - len(told_moved)):
        yield f"{len(unsaid)} pods of other work lose their place ({', '.join(unsaid[:4])}), and it tells {number} as evicted"
    outcome = step.outcome
    assert outcome is not None
    known = {name.rpartition("/")[2] for name in (*outcome.evicted, *outcome.besides, *outcome.moved)}
    if missing := [name for name in unsaid if name not in known]:
        yield f"its data name no eviction of {', '.join(missing[:4])}"
    if untrue := [name for name in told if name.rpartition("/")[2] not in gone and name.rpartition("/")[2] in after]:
        yield f"it tells that {', '.join(untrue)} is evicted, which keeps its place"
    if len(outcome.evicted) + len(outcome.besides) != number or len(outcome.moved) != number_moved:
        yield f"its words tell {number} evicted and {number_moved} moved, its data {len(outcome.evicted) + len(outcome.besides)} and {len(outcome.moved)}"
    failed = _failed(others.copy) - _failed(others.untouched)
    said_failed = _FAILED.search(text)
    said = said_failed[1] if said_failed is not None else ""
    for name in sorted(failed - _deleted(step)):
        if name not in said and not _MORE.search(said):
            yield f"{name} fails by it, and it does not tell that"


def _names(match: re.Match[str] | None) -> tuple[list[str], int]:
    """The names, and their number with those that are only counted."""
    if match is None:
        return [], 0
    text = match[1].strip()
    more = _MORE.search(text)
    names = (text[: more.start()] if more is not None else text).split(", ")
    return names, len(names) + (int(more[1]) if more is not None else 0)


def _keeping_their_places(lab: Lab, untouched: Lab) -> dict[str, Object]:
    """Pods that have a place, and keep it if nothing is done: others leave a node that has failed, say."""
    left = _placed(untouched)
    return {name: pod for name, pod in _placed(lab).items() if _is_same(pod, left.get(name))}


def _is_same(pod: Object, other: Object | None) -> bool:
    """A pod that is evicted may come back under its name, as one of a StatefulSet does."""
    return other is not None and other["metadata"]["uid"] == pod["metadata"]["uid"]


def _placed(lab: Lab) -> dict[str, Object]:
    return {pod["metadata"]["name"]: pod for pod in lab.cluster.list("Pod", "default") if _is_placed(pod)}


def _is_placed(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return (
        bool(pod["spec"].get("nodeName"))
        and phase not in ("Succeeded", "Failed")
        and "deletionTimestamp" not in pod["metadata"]
    )


def _ended(lab: Lab, name: str) -> bool:
    """True if a pod has ended by itself."""
    return any(
        pod["metadata"]["name"] == name and (pod.get("status") or {}).get("phase") == "Succeeded"
        for pod in lab.cluster.list("Pod", "default")
    )


def _belongs(others: _Others, name: str, step: Step) -> bool:
    """True if a pod is of the work itself, of a workload that the step changes or deletes, or of one that fails."""
    app = (others.before[name]["metadata"].get("labels") or {}).get("app", "")
    changed = {_name_of(change) for change in step.changes}
    names = changed | {f"{obj['metadata']['name']}" for change in step.changes for obj in change.get("apply", ())}
    failed = {full.rpartition(" ")[2] for full in _failed(others.copy)}
    return app == others.work.name or app in names or name in names or app in failed


def _name_of(change: Mapping[str, Any]) -> str:
    held = change.get("delete") or change.get("patch") or {}
    return str(held.get("name") or "")


def _deleted(step: Step) -> set[str]:
    return {f"{change['delete']['kind']} {change['delete']['name']}" for change in step.changes if "delete" in change}


def _failed(lab: Lab) -> set[str]:
    """Workloads that have failed, or fail once their last pods have terminated, as ``Kind name``."""
    return {
        f"{kind} {obj['metadata']['name']}"
        for kind in ("Job", "JobSet", "PyTorchJob")
        for obj in lab.cluster.list(kind, "default")
        if any(
            condition.get("type") in ("Failed", "FailureTarget") and condition.get("status") == "True"
            for condition in (obj.get("status") or {}).get("conditions") or ()
        )
    }
