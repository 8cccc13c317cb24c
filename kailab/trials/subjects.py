"""What a trial runs, from what a user names: exercises, files of scenarios, manifests."""

from __future__ import annotations

from pathlib import Path

from kailab.errors import InputError
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.scenarios.reading import SUFFIXES, read_file
from kailab.trials.matrix import Subject

EXERCISES = Path("exercises")


def subjects_of(text: str, base: Path = Path()) -> list[Subject]:
    """``text``: a path seen from ``base``, ``FILE.py::TEST``, or the name of an exercise in the folder ``exercises``. A folder with
    tests is an exercise, one with such folders is several; so are files of scenarios in a folder. Raises InputError(s)."""
    name, _, test = text.partition("::")
    path = _found(name, base)
    if test:
        if path.suffix != ".py":
            raise InputError(f"{text}: expected FILE.py::TEST")
        return [_exercise(path, test)]
    if path.is_file():
        return [_exercise(path)] if path.suffix == ".py" else [_of_file(path)]
    if _has_tests(path):
        return [_exercise(path)]
    below = [folder for folder in sorted(path.iterdir()) if folder.is_dir() and _has_tests(folder)]
    if below:
        return [_exercise(folder) for folder in below]
    files = sorted(one for one in path.iterdir() if one.suffix in SUFFIXES)
    scenarios = [file for file in files if _is_scenarios(file)]
    if scenarios:
        return [_of_file(file) for file in scenarios]
    if not files:
        raise InputError(f"{text}: there is nothing to run in it; expected test_*.py, scenarios or manifests")
    return [Subject(kind="workload", name=path.name, path=str(path), files=_all_below(path))]


def _found(name: str, base: Path) -> Path:
    given = Path(name).expanduser()
    for path in (base / given, base / EXERCISES / given):
        if path.exists():
            return path.absolute()
    there = base / EXERCISES
    known = sorted(folder.name for folder in there.glob("*") if _has_tests(folder)) if there.is_dir() else []
    hint = f"; exercises here: {', '.join(known)}" if known else ""
    raise InputError(f"{name}: there is no such file or folder{hint}")


def _has_tests(folder: Path) -> bool:
    return any(folder.glob("test_*.py"))


def _exercise(path: Path, test: str = "") -> Subject:
    folder = path if path.is_dir() else path.parent
    module = path.stem.removeprefix("test_") if path.is_file() else folder.name
    name = "-".join(part for part in (folder.name, "" if module == folder.name else module, test) if part)
    return Subject(kind="exercise", name=name, path=f"{path}::{test}" if test else str(path), files=_all_below(folder))


def _of_file(path: Path) -> Subject:
    if _is_scenarios(path):
        return Subject(kind="scenarios", name=path.stem, path=str(path), files=_stands_on(path))
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: expected a test_*.py, a file of scenarios or manifests ({', '.join(SUFFIXES)})")
    return Subject(kind="workload", name=path.stem, path=str(path), files=(str(path),))


def _is_scenarios(path: Path) -> bool:
    """By its form: what has a kind is a manifest."""
    text = read_text(path)
    if "steps" not in text:
        return False
    first = next(iter(yamltext.read_documents(text, str(path))), (None, 0))[0]
    first = first[0] if isinstance(first, list) and first else first
    return isinstance(first, dict) and "steps" in first and "kind" not in first


def _stands_on(path: Path) -> tuple[str, ...]:
    """A file of scenarios, and what its steps apply."""
    files = [str(path)]
    for scenario in read_file(path):
        for step in scenario.steps:
            named = [path.parent / one for one in step.get("apply", ()) if isinstance(one, str)]
            for one in named:
                files += _all_below(one) if one.is_dir() else [str(one)]
    return tuple(dict.fromkeys(files))


def _all_below(folder: Path) -> tuple[str, ...]:
    return tuple(str(file) for file in sorted(folder.rglob("*")) if file.is_file() and "__pycache__" not in file.parts)
