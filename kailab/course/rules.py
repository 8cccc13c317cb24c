"""Rules of a challenge on the student's files: what they may not change, and what the task forbids.

Four rules hold in every challenge. Given files stay unchanged. Objects of the student's files are not removed. Only
objects of the kinds that the challenge names are added. No pod names its node, because it would be placed there without
scheduling, and a fake node refuses none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

from kailab.course.challenge import Challenge
from kailab.errors import InputError
from kailab.lab import intake
from kailab.model.manifests import object_name, value_at
from kailab.model.objects import Object
from kailab.model.quantities import parse
from kailab.model.validation.advice import pod_templates

UNLIMITED = -1
Objects = Mapping[str, Object]
"""Objects by ``Kind/name``."""


@dataclass(frozen=True)
class Submission:
    """``own``: objects of the student's files; ``start``: the same as handed out; ``given``: objects of files that must
    stay unchanged."""

    own: Objects
    start: Objects
    given: Objects
    changed: tuple[str, ...] = ()
    """Given files that differ in the student's folder."""


def submission(challenge: Challenge, folder: Path | None) -> Submission:
    """Read the files. ``folder``: the student's; None: as the challenge starts. Raises InputError(s) for files that
    cannot be read."""
    start = _objects(challenge, challenge.files.edit, None)
    given = _objects(challenge, challenge.files.given, None)
    if folder is None:
        return Submission(start, start, given)
    changed = tuple(name for name in challenge.files.given if _differs(challenge.folder / name, folder / name))
    return Submission(_objects(challenge, challenge.files.edit, folder), start, given, changed)


def _objects(challenge: Challenge, names: tuple[str, ...], folder: Path | None) -> dict[str, Object]:
    paths = [challenge.path_of(name, folder) for name in names if name not in (challenge.config, challenge.fleet)]
    return {object_name(obj): obj for obj in intake.load_sources(paths).manifests.objects} if paths else {}


def _differs(shipped: Path, own: Path) -> bool:
    """True if the student's copy differs. A removed file does not count, because it is not read from there."""
    return own.is_file() and own.read_bytes().split() != shipped.read_bytes().split()


def broken(challenge: Challenge, files: Submission) -> Iterator[tuple[str, str]]:
    """Broken rules of those that hold in every challenge, as (rule, how)."""
    for name in files.changed:
        yield "The files that are given stay as they are.", f"{name} was changed; it is not part of the task"
    for name in files.start:
        if name not in files.own and name not in challenge.may_go:
            yield "What was there stays there.", f"{name} is gone from your files"
    for name, obj in files.own.items():
        if name in files.given:
            yield (
                "The files that are given stay as they are.",
                f"{name} is in a given file, and your files have another",
            )
        elif name not in files.start and obj.get("kind") not in challenge.new:
            allowed = f"only {', '.join(challenge.new)} may be added" if challenge.new else "nothing has to be added"
            yield "Only what the task is about is changed.", f"{name} is new; {allowed}"
        yield from _placed_by_hand(name, obj)


def _placed_by_hand(name: str, obj: Object) -> Iterator[tuple[str, str]]:
    """The broken rule for pods that name a node."""
    for path, pod in pod_templates(obj):
        if pod["spec"].get("nodeName"):
            yield "The scheduler chooses the nodes.", f"{name}: {path}spec.nodeName is given, so no scheduler is asked"


def rule_failure(files: Submission, condition: Mapping[str, Any]) -> str:
    """Why a condition on the student's files does not hold; empty if it holds. Removed objects are reported by
    ``broken``."""
    name, path = f"{condition['manifest']['kind']}/{condition['manifest']['name']}", condition["field"]
    if name not in files.own:
        return f"{name} is not in your files" if name not in files.start else ""
    value, before = value_at(files.own[name], path), value_at(files.start.get(name), path)
    current = f"{name}: {path} is {'not given' if value is None else value}"
    if "unchanged" in condition:
        return "" if value == before else f"{current}; it was {'not given' if before is None else before}"
    if "is" in condition:
        wanted = condition["is"]
        return "" if value == wanted else f"{current}, not {'given' if wanted is None else wanted}"
    number = _number(value, path)
    least, most = condition.get("at_least", -inf), condition.get("at_most", inf)
    if number is not None and least <= number <= most:
        return ""
    return f"{current}, less than {least}" if "at_least" in condition else f"{current}, more than {most}"


def _number(value: Any, path: str) -> float | None:
    if value == UNLIMITED and path.endswith((".quota", ".limit")):
        return float("inf")
    try:
        return float(parse(value, signed=True))
    except (InputError, TypeError):
        return None
