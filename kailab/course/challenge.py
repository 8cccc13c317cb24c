"""Challenges, read from their folders. Every fault of a folder is reported with file and field.

    challenges/NAME/
        challenge.yaml   in the form of schema.json
        task.md          the text for the student
        *.yaml           the manifests, the fleet, the scheduler's configuration

``challenges`` reads all of them, ``challenge`` reads one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kailab.course.conditions import condition_faults
from kailab.course.lesson import course_folders
from kailab.errors import InputError
from kailab.model import yamltext
from kailab.model.files import read_text
from kailab.model.schema_files import SchemaFault, read_schema_file
from kailab.model.suggestions import closest_names


class ChallengeFiles(msgspec.Struct, frozen=True):
    """File names in the challenge's folder. ``edit``: files that the student may change; ``given``: files that must
    stay unchanged."""

    edit: tuple[str, ...]
    given: tuple[str, ...] = ()


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """A challenge.

    ``fleet``: a name, or a file of the folder. ``config``: the file with the scheduler's configuration. ``new``: kinds
    of objects that the student may add; ``may_go``: objects that the student may remove, as ``Kind/name``. ``steps``:
    what is done to the lab, in the form of scenarios, and ``lose``. ``shown``: number of steps done on the student's
    lab; 0: all. ``judged``: conditions, in the form of ``schema.json``. ``learnt``: shown once it is solved.
    """

    folder: Path
    name: str
    title: str
    level: int
    minutes: int
    exercise: str
    task: str
    files: ChallengeFiles
    steps: tuple[Mapping[str, Any], ...]
    judged: tuple[Mapping[str, Any], ...]
    hints: tuple[str, ...]
    learnt: str
    fleet: str = "lesson"
    shown: int = 0
    config: str = ""
    new: tuple[str, ...] = ()
    may_go: tuple[str, ...] = ()

    @property
    def own(self) -> bool:
        """Whether it is a teacher's own challenge, not one of kailab's."""
        return self.folder.parent != CHALLENGES

    @property
    def fleet_source(self) -> str | Path:
        """The fleet in the form that a lab accepts."""
        beside = self.folder / self.fleet
        return beside if beside.is_file() else self.fleet

    @property
    def explain_command(self) -> str:
        """A command that explains what the challenge is about: the first workload of its conditions, otherwise their first queue,
        otherwise the first object of the student's files."""
        abouts = [condition.get("about", {}) for condition in self.judged]
        for kinds in (("deployment", "job", "pod"), ("queue",)):
            for about in abouts:
                for kind in kinds:
                    if kind in about:
                        return f"kailab explain {kind} {about[kind]}"
        file = self.folder / self.files.edit[0]
        first, _ = next(yamltext.read_documents(read_text(file), str(file)))
        return f"kailab explain {first['kind'].lower()} {first['metadata']['name']}"

    def path_of(self, file: str, folder: Path | None) -> Path:
        """The path of one of its files. ``folder``: the student's. Given files always come from the challenge's own
        folder."""
        return (self.folder if folder is None or file in self.files.given else folder) / file


CHALLENGES = Path(__file__).with_name("challenges")
_SCHEMA = Path(__file__).with_name("schema.json")
_FILE, _TASK = "challenge.yaml", "task.md"


def challenges() -> list[Challenge]:
    """All challenges, easy ones first; the teacher's own after kailab's. Raises InputError(s)."""
    all_challenges = [read_challenge(folder) for folder in course_folders(CHALLENGES, _FILE)]
    return sorted(all_challenges, key=lambda each: (each.own, each.level, each.minutes, each.name))


def challenge(name: str) -> Challenge:
    """A challenge by name. Raises InputError if it does not exist."""
    folders = {folder.name: folder for folder in course_folders(CHALLENGES, _FILE)}
    if name not in folders:
        close = closest_names(name, sorted(folders))
        hint = f"did you mean {close[0]}?" if close else "`kailab course challenges` lists them"
        raise InputError(f"no challenge {name!r:.80}; {hint}")
    return read_challenge(folders[name])


def read_challenge(folder: Path) -> Challenge:
    """Read a challenge. Raises InputError, or InputErrors with every fault of its description."""
    value = read_schema_file(folder / _FILE, _SCHEMA, "one challenge", _faults)
    fields = {**value, "folder": folder, "name": folder.name, "task": read_text(folder / _TASK).strip()}
    return msgspec.convert(fields, Challenge, dec_hook=lambda kind, path: path)


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """Faults beyond the schema, which the value already satisfies."""
    edit, given = value["files"]["edit"], value["files"].get("given", [])
    for part, names in (("edit", edit), ("given", given)):
        for index, name in enumerate(names):
            if not (folder / name).is_file():
                yield SchemaFault(f"files.{part}[{index}]", f"no file {name!r} in the folder")
    if "config" in value and value["config"] not in edit + given:
        yield SchemaFault("config", f"{value['config']!r} is not one of its files")
    for number, step in enumerate(value["steps"]):
        for index, name in enumerate(step.get("apply", ())):
            if name not in edit + given:
                yield SchemaFault(f"steps[{number}].apply[{index}]", f"{name!r} is not one of its files")
    if value.get("shown", 1) > len(value["steps"]):
        yield SchemaFault("shown", f"there are only {len(value['steps'])} steps")
    for number, condition in enumerate(value["judged"]):
        yield from condition_faults(condition, f"judged[{number}]", len(value["steps"]))
    if not (folder / _TASK).is_file():
        yield SchemaFault("", f"expected a file {_TASK} beside it")
