"""A challenge as a value."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec


class Files(msgspec.Struct, frozen=True):
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
    files: Files
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
