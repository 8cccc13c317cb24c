"""Answers of students to the challenges, as data: right ones and tempting wrong ones, in ``solutions/NAME.yaml``.

An answer changes the files as they are given out: ``patch`` (a JSON merge patch of an object, by ``Kind/name``), ``drop`` (objects left
out), ``add`` (objects, by file) and ``replace`` (text for text, by file). ``told``: what a wrong one is told of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from kailab.course.challenge import CHALLENGES, Challenge, challenge
from kailab.model.manifests import load_text, object_name
from kailab.model.validation.advice import pod_templates
from kailab.model.yamltext import write_documents

SOLUTIONS = Path(__file__).with_name("solutions")


@dataclass(frozen=True)
class StudentsAnswer:
    challenge: str
    name: str
    patch: dict[str, Any] = field(default_factory=dict)
    drop: list[str] = field(default_factory=list)
    add: dict[str, list[Any]] = field(default_factory=dict)
    replace: dict[str, list[str]] = field(default_factory=dict)
    told: str = ""

    def __str__(self) -> str:
        return f"{self.challenge}: {self.name}"

    def write(self, folder: Path) -> Challenge:
        """The student's files, changed so."""
        task = challenge(self.challenge)
        touched = {*self.patch, *self.drop}
        for name in (*task.files.edit, *task.files.given):
            text = (task.folder / name).read_text()
            if name in self.replace:
                old, new = self.replace[name]
                assert old in text, f"{self}: {name} has no {old!r}"
                text = text.replace(old, new)
            elif name in task.files.edit and name != task.config:
                text = self._edited(name, text, touched)
            (folder / name).write_text(text)
        assert not touched, f"{self}: there is no {touched}"
        return task

    def has_pods(self) -> bool:
        """Whether the student's files have work, not queues alone."""
        task = challenge(self.challenge)
        files = [name for name in task.files.edit if name != task.config]
        return any(
            list(pod_templates(obj)) for name in files for obj in load_text((task.folder / name).read_text()).objects
        )

    def _edited(self, name: str, text: str, touched: set[str]) -> str:
        objects = []
        for obj in load_text(text).objects:
            own = object_name(obj)
            touched.discard(own)
            if own not in self.drop:
                objects.append(merged(obj, self.patch.get(own, {})))
        return write_documents([*objects, *self.add.get(name, [])])


def merged(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(value) if isinstance(value, dict) else {}
    for key, inner in patch.items():
        if inner is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), inner)
    return found


def names() -> list[str]:
    return sorted(folder.name for folder in CHALLENGES.iterdir() if (folder / "challenge.yaml").is_file())


@cache
def _data(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((SOLUTIONS / f"{name}.yaml").read_text())
    return loaded


def answers(part: str) -> list[StudentsAnswer]:
    """``part``: solutions or wrong."""
    return [StudentsAnswer(name, **one) for name in names() for one in _data(name)[part]]
