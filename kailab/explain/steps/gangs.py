"""Gangs: the pods that are missing, a lower minimum, a smaller gang."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kailab.cluster.protocol import Object
from kailab.explain.steps.edits import in_spec, own_change
from kailab.explain.steps.manifest import Edit, anew, as_manifest
from kailab.explain.steps.proposal import After, Disturbance, Proposal, Way, apply, patch
from kailab.explain.steps.setting import Setting, named
from kailab.explain.wanted import min_member, wanted_pods
from kailab.lab.wording import count, some
from kailab.model import labels
from kailab.model.kind import field_of
from kailab.model.kinds import kind_key
from kailab.model.quantities import parse_count

_COUNTS = ("replicas", "parallelism", "size", "numOfHosts")
_CAPPED = ("completions", "minReplicas", "minAvailable", "minMember")
_NUMBERED = re.compile(r"(.*?)(\d*)")


def add_missing_pods(setting: Setting) -> Iterator[Way]:
    """Pods of a gang that a user made one by one, as many as it lacks, like those that are there."""
    made: list[Object] = []
    for group in setting.groups:
        space, name = group["metadata"].get("namespace", ""), group["metadata"]["name"]
        members = [
            row for row in setting.picture.by_group.get(f"{space}/{name}", []) if row.phase in ("Pending", "Running")
        ]
        lacking = min_member(group) - len(members)
        # With subgroups it is not known which one a new pod would have to be in.
        if lacking > 0 and members and not group["spec"].get("subGroups"):
            sibling = as_manifest(setting.pods[members[-1].name])
            made += _like(sibling, [row.name.partition("/")[2] for row in members], lacking)
    if made:
        names = some([one["metadata"]["name"] for one in made])
        yield Way(
            (
                Proposal(
                    f"Make the {count(len(made), 'pod')} that the gang lacks: {names}",
                    (apply(*made),),
                    Disturbance.MADE,
                ),
            )
        )


def _like(sibling: Object, names: list[str], number: int) -> Iterator[Object]:
    match = _NUMBERED.fullmatch(names[-1])
    stem = match[1] if match is not None and match[2] else f"{names[-1]}-"
    taken, at = set(names), 0
    while number:
        if (name := f"{stem}{at}") not in taken:
            number -= 1
            yield {**sibling, "metadata": {**sibling["metadata"], "name": name}}
        at += 1


def grow_to_minimum(setting: Setting) -> Iterator[Way]:
    """As many pods as must start together, where the workload makes fewer."""
    for work in setting.works:
        least = max((min_member(group) for group in setting.podgroups), default=0)
        if kind_key(work) != "Job" or least <= (wanted_pods(work) or 0):
            continue

        def edit(obj: Object, least: int = least) -> None:
            obj["spec"]["parallelism"] = least
            if obj["spec"].get("completions") is not None:
                obj["spec"]["completions"] = max(least, int(obj["spec"]["completions"]))

        def words(obj: Object) -> str:
            return f"Raise its parallelism to {field_of(obj, 'spec.parallelism')}, as many as must start together"

        yield Way.of(own_change(setting, words, edit))


def lower_minimum(setting: Setting) -> Iterator[Way]:
    """Let as many start together as there are."""
    for group in setting.podgroups:
        space, name = group["metadata"].get("namespace", ""), group["metadata"]["name"]
        rows = setting.picture.by_group.get(f"{space}/{name}", [])
        there = sum(row.phase in ("Pending", "Running") for row in rows)
        if not 0 < there < min_member(group) or group["spec"].get("subGroups"):
            continue

        def edit(obj: Object, there: int = there) -> None:
            notes = obj["metadata"].get("annotations") or {}
            if labels.BATCH_MIN_MEMBER in notes:
                notes[labels.BATCH_MIN_MEMBER] = str(there)

        def words(obj: Object, before: int = min_member(group)) -> str:
            least = (obj["metadata"].get("annotations") or {}).get(labels.BATCH_MIN_MEMBER) or min_member(obj)
            return f"Lower the minimum of the gang from {before} to {least}, as many as there are"

        yield Way.of(own_change(setting, words, edit, in_spec(minMember=there)))


def smaller(setting: Setting) -> Iterator[Way]:
    """A smaller gang, where nothing of it runs: the largest of which all runs."""
    # What runs would be taken down for it.
    if setting.standing.running or len(setting.works) != 1:
        return
    work = setting.works[0]
    field = _largest_count(as_manifest(work))
    if field is None:
        return
    path, now = field
    proposals = []
    # From the largest down: the first that works is the one to tell, and halving finds it.
    for number in range(now - 1, 0, -1):
        changes = anew(work, _counted(path, now, number))
        if changes is not None:
            proposals.append(
                Proposal(lambda after: _smaller(work, path, after.of(work)), changes, Disturbance.REPLACED)
            )
    yield Way(tuple(proposals), grows=True)


def _smaller(before: Object, path: tuple[str, ...], after: Object) -> str:
    left, now = _at(after, path), _at(before, path)
    what = (
        f"Make it a gang of {count(left, 'pod')}" if kind_key(before) == "Job" else f"Lower {'.'.join(path)} to {left}"
    )
    return f"{what} (now {now}), with its minimum to match"


def _at(obj: Object, path: tuple[str, ...]) -> Any:
    holder: Any = obj
    for step in path:
        holder = holder[int(step)] if isinstance(holder, list) else holder[step]
    return holder


def _largest_count(obj: Object) -> tuple[tuple[str, ...], int] | None:
    """The largest count of pods in a manifest, outside of pod templates: its path and number."""
    found: list[tuple[int, tuple[str, ...]]] = []

    def look(holder: Any, path: tuple[str, ...]) -> None:
        if isinstance(holder, list):
            for index, one in enumerate(holder):
                look(one, (*path, str(index)))
        elif isinstance(holder, dict) and "containers" not in holder:
            for key, value in holder.items():
                if key in _COUNTS and isinstance(value, int) and not isinstance(value, bool) and value > 1:
                    found.append((value, (*path, key)))
                elif key != "metadata":
                    look(value, (*path, key))

    look(obj.get("spec"), ("spec",))
    if not found:
        return None
    number, path = min(found, key=lambda one: (-one[0], one[1]))
    return path, number


def _counted(path: tuple[str, ...], now: int, number: int) -> Edit:
    """Sets a count, and lowers what may not be more: completions beside it, minimums, KAI's annotation."""

    def edit(obj: Object) -> None:
        holder = _at(obj, path[:-1])
        holder[path[-1]] = number
        for cap in _CAPPED:
            if isinstance(holder.get(cap), int) and holder[cap] > number:
                holder[cap] = number
        notes = obj["metadata"].get("annotations") or {}
        if parse_count(notes.get(labels.BATCH_MIN_MEMBER)) > number:
            notes[labels.BATCH_MIN_MEMBER] = str(number)
        policy = field_of(obj, "spec.runPolicy.schedulingPolicy")
        if isinstance(policy, dict) and isinstance(policy.get("minAvailable"), int):
            # It counts pods of all roles, so as many fewer as this role has.
            policy["minAvailable"] = max(1, policy["minAvailable"] - (now - number))

    return edit


def start_missing(setting: Setting) -> Iterator[Way]:
    """Scale up what is scaled to nothing."""
    for work in setting.works:
        field = next((one for one in ("replicas", "parallelism") if field_of(work, f"spec.{one}") == 0), None)
        if field is not None:
            change = patch(work, {"spec": {field: 1}})

            def words(after: After, work: Object = work, field: str = field) -> str:
                return f"Scale {named(work)} up to {count(after.of(work)['spec'][field], 'pod')}"

            yield Way((Proposal(words, (change,), Disturbance.OWN),))
