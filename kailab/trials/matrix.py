"""A trial and its cells: the schedulers that it compares, and the tests on which it compares them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import msgspec

from kailab.evidence.canonical import compact_json, safe_name

KINDS = ("verdict", "outcome", "evictions", "lowest", "reasons", "placement", "time")
"""Kinds of differences, most important first."""

DEFAULT_FLEET = "lesson"


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler under test with a configuration.

    ``name``: unique in the trial. ``scheduler``: as ``--scheduler`` takes it, with absolute paths. ``config``: a
    configuration file, or empty. ``kind``: its key in the registry.
    """

    name: str
    scheduler: str
    kind: str
    config: str = ""


class TrialSubject(msgspec.Struct, frozen=True, kw_only=True):
    """What a cell runs.

    ``path``: for an exercise what pytest is given (a folder, a file or ``file::test``), otherwise a file of scenarios
    or manifests. ``files``: all files that it depends on, for its digest. ``fleet``: of its cells, if the trial names none.
    """

    kind: Literal["exercise", "scenarios", "workload"]
    name: str
    path: str
    files: tuple[str, ...] = ()
    fleet: str = DEFAULT_FLEET


class TrialCell(msgspec.Struct, frozen=True, kw_only=True):
    """One contender in one isolation on one subject. ``digest``: of everything that its result depends on."""

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
    """A trial.

    ``reference``: the contender that the others are compared with. ``fleet``: empty if each subject has its own. ``options``: of the backends, by the names of
    ``kailab.cluster.registry``. ``compared``: of ``KINDS``. ``time_ratio``: how many times as long counts as a
    difference; None: time is not compared.
    """

    name: str
    contenders: tuple[Contender, ...]
    isolations: tuple[str, ...]
    subjects: tuple[TrialSubject, ...]
    reference: str
    fleet: str = ""
    options: Mapping[str, str] = {}
    compared: tuple[str, ...] = KINDS[:-1]
    time_ratio: float | None = None
    jobs: int | None = None
    baseline: str = ""

    def columns(self) -> list[tuple[str, Contender, str]]:
        """(name, contender, isolation) of each column, the reference first."""
        several = len(self.isolations) > 1
        ordered = sorted(self.contenders, key=lambda contender: contender.name != self.reference)
        return [
            (f"{contender.name} ({isolation})" if several else contender.name, contender, isolation)
            for contender in ordered
            for isolation in self.isolations
        ]

    def cells(self, subject: TrialSubject, digests_of: Callable[[TrialCell], Mapping[str, str]]) -> Iterator[TrialCell]:
        """The cells of one subject, one for each column. ``digests_of``: returns the content digests, by path, of a
        cell's files."""
        for _, contender, isolation in self.columns():
            cell = TrialCell(
                contender=contender,
                isolation=isolation,
                subject=subject,
                fleet=self.fleet or subject.fleet,
                options=self.options,
            )
            digest = hashlib.sha256(compact_json([cell, digests_of(cell)])).hexdigest()
            yield msgspec.structs.replace(cell, digest=digest)
