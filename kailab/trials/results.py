"""Results of a cell: a verdict for each test, and the measurements of its labs."""

from __future__ import annotations

from typing import Literal

import msgspec

TestVerdict = Literal["passed", "failed", "not expressible", "skipped", "error"]


class LabPhase(msgspec.Struct, frozen=True, kw_only=True):
    """A lab from one change to the next.

    ``operations``: the change. ``running``: running pods at the end, by app or owner; ``placement``: the same by node;
    ``evicted``: pods taken from their nodes. ``begun``, ``held``, ``lowest``: milli-GPU that each queue held at the
    start, at the end, and at least in between. ``seconds``: lab time until the last pod was placed; None if none was.
    """

    operations: tuple[str, ...]
    running: dict[str, int]
    placement: dict[str, dict[str, int]] = {}
    evicted: dict[str, int] = {}
    begun: dict[str, int] = {}
    held: dict[str, int] = {}
    lowest: dict[str, int] = {}
    seconds: float | None = None


class LabResult(msgspec.Struct, frozen=True, kw_only=True):
    """``waits``: by app or owner, the codes of why it waited at the end. ``classes``: maps each node to its class of
    equal nodes."""

    phases: tuple[LabPhase, ...]
    waits: dict[str, tuple[str, ...]] = {}
    classes: dict[str, str] = {}


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """``message``: why it did not pass. ``concept``: what was not expressible. ``evidence``: ``RUN/EXERCISE/TEST``
    below the cell's evidence folder, or empty. ``seconds``: wall time."""

    __test__ = False  # pytest would collect the class because of its name

    name: str
    verdict: TestVerdict
    message: str = ""
    concept: str = ""
    evidence: str = ""
    seconds: float = 0.0
    labs: dict[str, LabResult] = {}


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """``tests``: names in order. ``error``: why the cell did not complete."""

    tests: tuple[str, ...] = ()
    error: str = ""
