"""A challenge as a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from kailab.course.conditions import condition_faults
from kailab.errors import InputError
from kailab.model.files import read_text
from kailab.model.schema_files import SchemaFault, read_schema_file
from kailab.model.suggestions import closest_names


class ChallengeFiles(msgspec.Struct, frozen=True):
    """Names of files in the challenge's folder. ``edit``: what the student may change; ``given``: what stays as it is."""

    edit: tuple[str, ...]
    given: tuple[str, ...] = ()


class Challenge(msgspec.Struct, frozen=True, kw_only=True):
    """``folder``: where its files are. ``fleet``: a name, or a file of the folder. ``config``: the file with the scheduler's
    configuration. ``new``: kinds of which the student may add objects; ``may_go``: objects of the student's files that may be left out,
    as ``Kind/name``. ``steps``: what is done to the lab, in the form of scenarios, and ``lose``. ``shown``: how many of them have been done on the
    lab that the student gets; 0: all. ``judged``: conditions, in the form of
    ``schema.json``. ``learnt``: told once it is solved."""

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
    def fleet_source(self) -> str | Path:
        """What a lab takes as its fleet."""
        beside = self.folder / self.fleet
        return beside if beside.is_file() else self.fleet

    def place(self, file: str, folder: Path | None) -> Path:
        """Where one of its files is read from. ``folder``: the student's; files that are given come from here whatever lies there."""
        return (self.folder if folder is None or file in self.files.given else folder) / file


# Challenges from their folders, with every fault of a folder named by file and field.
#
# challenges/NAME/
#     challenge.yaml   in the form of schema.json
#     task.md          what the student reads
#     *.yaml           the manifests, the fleet, the scheduler's configuration

CHALLENGES = Path(__file__).with_name("challenges")
_SCHEMA = Path(__file__).with_name("schema.json")
_FILE, _TASK = "challenge.yaml", "task.md"


def challenges() -> list[Challenge]:
    """All that come with kailab, the easy ones first. Raises InputError(s)."""
    found = [read_challenge(folder) for folder in CHALLENGES.iterdir() if (folder / _FILE).is_file()]
    return sorted(found, key=lambda one: (one.level, one.minutes, one.name))


def challenge(name: str) -> Challenge:
    """Raises InputError where there is none of that name."""
    if not (name.strip() and "/" not in name and (CHALLENGES / name / _FILE).is_file()):
        names = sorted(folder.name for folder in CHALLENGES.iterdir() if (folder / _FILE).is_file())
        close = closest_names(name, names)
        hint = f"did you mean {close[0]}?" if close else "`kailab course challenges` lists them"
        raise InputError(f"there is no challenge {name!r:.80}; {hint}")
    return read_challenge(CHALLENGES / name)


def read_challenge(folder: Path) -> Challenge:
    """Raises InputError, or InputErrors with every fault of its description."""
    value = read_schema_file(folder / _FILE, _SCHEMA, "one challenge", _faults)
    told = {**value, "folder": folder, "name": folder.name, "task": read_text(folder / _TASK).strip()}
    return msgspec.convert(told, Challenge, dec_hook=lambda kind, path: path)


def _faults(value: dict[str, Any], folder: Path) -> Iterator[SchemaFault]:
    """What follows takes the form for granted."""
    edit, given = value["files"]["edit"], value["files"].get("given", [])
    for part, names in (("edit", edit), ("given", given)):
        for place, name in enumerate(names):
            if not (folder / name).is_file():
                yield SchemaFault(f"files.{part}[{place}]", f"there is no file {name!r} in the folder")
    if "config" in value and value["config"] not in edit + given:
        yield SchemaFault("config", f"{value['config']!r} is none of its files")
    for number, step in enumerate(value["steps"]):
        for place, name in enumerate(step.get("apply", ())):
            if name not in edit + given:
                yield SchemaFault(f"steps[{number}].apply[{place}]", f"{name!r} is none of its files")
    if value.get("shown", 1) > len(value["steps"]):
        yield SchemaFault("shown", f"there are {len(value['steps'])} steps")
    for number, one in enumerate(value["judged"]):
        yield from condition_faults(one, f"judged[{number}]", len(value["steps"]))
    if not (folder / _TASK).is_file():
        yield SchemaFault("", f"there is no {_TASK} beside it")
