"""What a trial is: who is compared on what, and the cells that come of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from kailab.evidence.canonical import compact_json, safe_name

KINDS = ("verdict", "outcome", "evictions", "lowest", "reasons", "placement", "time")
"""Of differences, in the order in which they matter."""


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler under test with a configuration. ``name``: in the table, once in a trial. ``scheduler``: as ``--scheduler`` takes it,
    paths absolute. ``config``: a file of how it decides; empty: none. ``kind``: its row in the registry."""

    name: str
    scheduler: str
    kind: str
    config: str = ""


class TrialSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell runs. ``path``: of an exercise the folder or file that pytest is given (``file::test`` too), else a file of
    scenarios, or manifests. ``files``: all that it stands on, for its digest."""

    kind: Literal["exercise", "scenarios", "workload"]
    name: str
    path: str
    files: tuple[str, ...] = ()


class TrialCell(msgspec.Struct, frozen=True, kw_only=True):
    """One contender in one isolation on one subject. ``digest``: of all that its result hangs on."""

    contender: Contender
    isolation: str
    subject: TrialSubject
    fleet: str
    options: Mapping[str, str] = {}
    digest: str = ""

    @property
    def key(self) -> str:
        """The name of its folder."""
        return safe_name(f"{self.subject.name}-{self.contender.name}-{self.isolation}-{self.digest[:10]}")


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """``reference``: the contender that the others are compared with. ``options``: of the backends, by the names of
    ``kailab.cluster.registry``. ``compared``: of ``KINDS``. ``time_ratio``: how many times as long counts as a difference; None:
    none does."""

    name: str
    contenders: tuple[Contender, ...]
    isolations: tuple[str, ...]
    subjects: tuple[TrialSubject, ...]
    reference: str
    fleet: str = "lesson"
    options: Mapping[str, str] = {}
    compared: tuple[str, ...] = KINDS[:-1]
    time_ratio: float | None = None
    jobs: int | None = None
    baseline: str = ""

    def columns(self) -> list[tuple[str, Contender, str]]:
        """(name, contender, isolation), the reference first."""
        several = len(self.isolations) > 1
        ordered = sorted(self.contenders, key=lambda one: one.name != self.reference)
        return [
            (f"{one.name} ({isolation})" if several else one.name, one, isolation)
            for one in ordered
            for isolation in self.isolations
        ]

    def cells(self, subject: TrialSubject, stands_on: Callable[[TrialCell], Mapping[str, str]]) -> Iterator[TrialCell]:
        """Of one subject, column by column. ``stands_on``: digests of the contents of all that a cell stands on, by path."""
        for _, contender, isolation in self.columns():
            cell = TrialCell(
                contender=contender, isolation=isolation, subject=subject, fleet=self.fleet, options=self.options
            )
            digest = hashlib.sha256(compact_json([cell, stands_on(cell)])).hexdigest()
            yield msgspec.structs.replace(cell, digest=digest)
