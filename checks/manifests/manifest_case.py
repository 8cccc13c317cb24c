"""Cases: a fleet, and steps of objects, read from files and folders that others wrote.

A folder is one case, and each of its files a step, in the order of their names. A file alone is a case of one step. Three forms of files are
read: manifests (YAML, JSON), documents with YAML in fences (Markdown, text), and files with ``steps`` of which some have ``apply``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kailab.errors import InputError
from kailab.model.files import read_text
from kailab.model.objects import Object
from kailab.model.yamltext import read_documents

SUFFIXES = (".yaml", ".yml", ".json", ".md", ".txt")
_FENCE = re.compile(r"^```(?:ya?ml)?[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
FLEET: dict[str, Any] = {
    "pools": [
        {"name": "a100", "count": 2, "gpus": 8, "gpuModel": "A100", "gpuMemory": "40Gi", "cpu": 32, "memory": "256Gi"}
    ]
}
"""The fleet of cases that name none."""


@dataclass(frozen=True)
class ManifestCase:
    """``steps``: the objects of each step, not validated."""

    id: str
    steps: tuple[tuple[Object, ...], ...]
    fleet: dict[str, Any] = field(default_factory=lambda: FLEET)
    unread: tuple[str, ...] = ()
    """Documents that are no objects, each with the reason."""


def read_cases(paths: Iterable[Path]) -> list[ManifestCase]:
    """The cases of files, folders, and folders of those. Raises InputError."""
    return [case for path in paths for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[ManifestCase]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file or folder")
    if path.is_file():
        yield _case(path.stem, [path])
        return
    inside = sorted(path.iterdir())
    files = [file for file in inside if file.suffix in SUFFIXES and file.is_file() and file.stem != "README"]
    # A folder of cases, each with its own steps, and not the steps of one case.
    if any(_is_case_file(file) for file in files):
        yield from (_case(file.stem, [file]) for file in files)
    elif files:
        yield _case(path.name, files)
    for folder in (each for each in inside if each.is_dir() and not each.name.startswith(".")):
        yield from _cases_of(folder)


def _is_case_file(file: Path) -> bool:
    """Whether a file has steps of its own, and is not one step of the case that its folder is."""
    if file.suffix in (".md", ".txt"):
        return True
    return file.suffix in (".yaml", ".yml") and re.search(r"^steps:", read_text(file), re.MULTILINE) is not None


def _case(name: str, files: list[Path]) -> ManifestCase:
    steps: list[tuple[Object, ...]] = []
    unread: list[str] = []
    fleet = FLEET
    for file in files:
        text = read_text(file)
        if file.suffix in (".md", ".txt"):
            steps += [_objects(block, file, unread) for block in _FENCE.findall(text)]
            continue
        documents = _documents(text, file, unread)
        if (
            len(documents) == 1
            and isinstance(documents[0], dict)
            and "steps" in documents[0]
            and "kind" not in documents[0]
        ):
            case = documents[0]
            fleet = case.get("fleet") or fleet
            for step in case.get("steps") or ():
                applied = step.get("apply") or step.get("apply_no_settle") if isinstance(step, dict) else None
                if isinstance(applied, str):
                    steps.append(_objects(applied, file, unread))
        else:
            steps.append(_flat(documents))
    return ManifestCase(name, (*_namespaces(steps), *(step for step in steps if step)), fleet, tuple(unread))


def _namespaces(steps: Iterable[Iterable[Object]]) -> Iterator[tuple[Object, ...]]:
    """A first step that makes the namespaces which the objects name and the case does not make."""
    objects = [obj for step in steps for obj in step]
    made = {
        "default",
        "kube-system",
        *(str(obj["metadata"].get("name")) for obj in objects if obj["kind"] == "Namespace"),
    }
    named = {space for obj in objects if isinstance(space := obj["metadata"].get("namespace"), str)} - made - {""}
    if named:
        yield tuple({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in sorted(named))


def _objects(text: str, file: Path, unread: list[str]) -> tuple[Object, ...]:
    return _flat(_documents(text, file, unread))


def _flat(documents: Iterable[Any]) -> tuple[Object, ...]:
    found: list[Object] = []
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            found += [item for item in document.get("items") or () if isinstance(item, dict)]
        elif (
            isinstance(document, dict)
            and isinstance(document.get("metadata"), dict)
            and document.get("kind")
            and document.get("apiVersion")
        ):
            found.append(document)
    return tuple(found)


def _documents(text: str, file: Path, unread: list[str]) -> list[Any]:
    try:
        return [document for document, _ in read_documents(text, str(file))]
    except InputError as error:
        unread.append(str(error))
        return []
