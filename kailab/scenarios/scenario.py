"""Scenarios, read from YAML or JSON files. Every fault is reported with file, line and field.

A file has one scenario, several documents, or a list of scenarios.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kailab.errors import InputError, InputErrors, Where
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.manifests import line_of
from kailab.model.schema_files import SchemaFault, find_schema_faults, read_schema
from kailab.model.times import duration_seconds

Step = Mapping[str, Any]
"""What is done and what is then expected, in the form of ``schema.json``."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario.

    ``suite``: the file's name without its suffix. ``fleet``: a name, or a file. ``base``: the folder of relative file
    names. ``placement``: compare the placement of pods. ``unsettled``: the recorded cluster was still changing.
    """

    suite: str
    name: str
    steps: tuple[Step, ...]
    fleet: str = "lesson"
    placement: bool = False
    unsettled: bool = False
    base: Path | None = None

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.name}"


_SCHEMA = Path(__file__).with_name("schema.json")
SUFFIXES = (".json", ".yaml", ".yml")


def read_scenarios(paths: Iterable[Path]) -> list[Scenario]:
    """Read the given files, and all files of scenarios in the given folders, in order of path. Raises InputError(s)."""
    scenarios: list[Scenario] = []
    for path in paths:
        for file in sorted(entry for entry in path.iterdir() if entry.suffix in SUFFIXES) if path.is_dir() else [path]:
            scenarios += read_scenario_file(file)
    return scenarios


def read_scenario_file(file: Path) -> list[Scenario]:
    """Read a file. Raises InputError, or InputErrors with every fault of the file."""
    text = read_text(file)
    entries = _plain_json(text) if file.suffix == ".json" else None
    errors: list[InputError] = []
    if entries is None or any(list(_faults(entry, file)) for entry in entries):
        # Read JSON as YAML, which is slower but gives each value a line for error messages.
        entries, lines = _with_lines(text, file)
        errors = [
            _error(entry, at, fault, file)
            for entry, at in zip(entries, lines, strict=True)
            for fault in _faults(entry, file)
        ]
    names: set[str] = set()
    for entry in entries if not errors else ():
        if entry["name"] in names:
            errors.append(
                InputError(f"two scenarios are named {entry['name']!r}; expected each name once", Where(file=str(file)))
            )
        names.add(entry["name"])
    if not entries:
        errors.append(InputError("the file has no scenario; expected name, fleet and steps", Where(file=str(file))))
    if errors:
        raise InputErrors.of(errors)
    return [_scenario(entry, file) for entry in entries]


def _plain_json(text: str) -> list[Any] | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list) else [value]


def _with_lines(text: str, file: Path) -> tuple[list[Any], list[Any]]:
    entries: list[Any] = []
    lines: list[Any] = []
    for value, at in yamltext.read_documents(text, str(file)):
        if isinstance(value, list) and isinstance(at, tuple):
            entries += value
            lines += at[1]
        else:
            entries.append(value)
            lines.append(at)
    return entries, lines


def _faults(entry: Any, file: Path) -> Iterator[SchemaFault]:
    schema_faults = list(find_schema_faults(entry, read_schema(_SCHEMA)))
    yield from schema_faults
    # The other checks rely on the schema.
    for number, step in enumerate(entry["steps"]) if not schema_faults else ():
        at = f"steps[{number}]"
        for index, item in enumerate(step.get("apply", ())):
            if isinstance(item, str) and not (file.parent / item).exists():
                yield SchemaFault(f"{at}.apply[{index}]", f"no file {item!r}; expected one beside the scenario")
        if "advance" in step:
            try:
                duration_seconds(step["advance"], days=True)
            except InputError as error:
                yield SchemaFault(f"{at}.advance", error.message)


def _error(entry: Any, lines: Any, fault: SchemaFault, file: Path) -> InputError:
    name = entry.get("name") if isinstance(entry, dict) else None
    title = f"scenario {name:.80}" if isinstance(name, str) else "scenario"
    return InputError(fault.message, Where(str(file), line_of(lines, fault.path), title, fault.path))


def _scenario(entry: dict[str, Any], file: Path) -> Scenario:
    fleet = entry.get("fleet", "lesson")
    beside = file.parent / fleet
    return Scenario(
        suite=file.stem,
        name=entry["name"],
        steps=tuple(entry["steps"]),
        fleet=str(beside) if beside.is_file() else fleet,
        placement=entry.get("placement", False),
        unsettled=entry.get("unsettled", False),
        base=file.parent,
    )
