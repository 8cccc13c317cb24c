"""The folder of a hunt. Every file is written atomically, so that an interrupted hunt can continue.

hunt.json                 the definition of the hunt lock                      held while it runs clusters/SEED.json
the result of the cluster of a seed found/seed-N/scenario.yaml, fleet.yaml   the scenario that differs, cut down
found/seed-N/trial/       the same as a trial: both sides' evidence work/                     the sample that is being
decided
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from checks.hunting.judging import JudgedSample
from kailab.errors import StateError
from kailab.evidence.canonical import pretty_json
from kailab.model import decoding
from kailab.model.private_files import make_folder, open_private, replace_file

_CURE = "expected a file that a hunt wrote: remove it"


class Hunt(msgspec.Struct, frozen=True, kw_only=True):
    """``against``: the other scheduler as in ``--scheduler``; ``column``: its name. ``kinds``: of differences.
    ``area``: of random clusters, or ""; ``nodes``: the fewest and most of a cluster, or () for the area's; ``changes``: after the work has arrived. ``again``: see Judge. ``tries``: attempts to cut a difference down. ``stands_on``: digests of what decides, by
    path.
    """

    name: str
    against: str
    column: str
    isolation: str
    kinds: tuple[str, ...]
    again: int
    tries: int
    area: str = ""
    nodes: tuple[int, ...] = ()
    changes: int = 0
    stands_on: Mapping[str, str] = {}


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a cluster. ``steps``, ``objects``, ``nodes``: of the remaining scenario if both differ, else 0.
    ``seconds``: of wall time.
    """

    seed: int
    judged: JudgedSample
    steps: int = 0
    objects: int = 0
    nodes: int = 0
    seconds: float = 0.0


class HuntFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.work = path / "work"

    def begin(self, hunt: Hunt) -> None:
        """Create the folder for a hunt. Raises StateError if it contains another hunt."""
        file = self.path / "hunt.json"
        if file.is_file():
            before = decoding.read_state_file(file, Hunt, _CURE)
            for field in Hunt.__struct_fields__:
                if getattr(before, field) != getattr(hunt, field):
                    was = "" if field == "stands_on" else f" ({getattr(before, field)})"
                    change = (
                        "what decides has changed since" if field == "stands_on" else f"it has another {field}{was}"
                    )
                    raise StateError(f"{self.path}: the hunt kept there can't go on: {change}; expected another --name")
            return
        make_folder(self.path / "clusters")
        replace_file(file, pretty_json(hunt))

    def found(self, seed: int) -> Path:
        return self.path / "found" / f"seed-{seed}"

    def keep(self, decided: Decided) -> None:
        replace_file(self.path / "clusters" / f"{decided.seed}.json", pretty_json(decided))

    def decided(self) -> dict[int, Decided]:
        """The results by seed, in order."""
        results = [
            decoding.read_state_file(file, Decided, _CURE) for file in (self.path / "clusters").glob("[0-9]*.json")
        ]
        return {result.seed: result for result in sorted(results, key=lambda result: result.seed)}

    def forget(self, seed: int) -> None:
        """Remove the result of a seed, so that it is decided again."""
        (self.path / "clusters" / f"{seed}.json").unlink(missing_ok=True)
        shutil.rmtree(self.found(seed), ignore_errors=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder. Raises StateError if it cannot be created, or another process holds it."""
        try:
            make_folder(self.path)
            lock = open_private(self.path / "lock", "w")
        except OSError as error:
            raise StateError(f"{self.path}: a hunt can't be kept there: {error.strerror or error}") from error
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise StateError(f"{self.path}: this hunt is being run by another process") from None
            yield
