"""What a cell came to: a verdict for each test, and what was measured in its labs."""

from __future__ import annotations

from typing import Literal

import msgspec

TestVerdict = Literal["passed", "failed", "not expressible", "skipped", "error"]


class LabPhase(msgspec.Struct, frozen=True, kw_only=True):
    """From one change of a lab to the next. ``operations``: what was done. ``running``: app, or owner, -> its pods that ran at the
    end; ``placement``: the same by node; ``evicted``: how many of its pods were taken from their nodes. ``held``: queue ->
    milli-GPU at the end; ``begun``: before it; ``lowest``: the least that it held on the way. ``seconds``: of the lab's clock, until the last pod
    had its place; None: none got one."""

    operations: tuple[str, ...]
    running: dict[str, int]
    placement: dict[str, dict[str, int]] = {}
    evicted: dict[str, int] = {}
    begun: dict[str, int] = {}
    held: dict[str, int] = {}
    lowest: dict[str, int] = {}
    seconds: float | None = None


class LabResult(msgspec.Struct, frozen=True, kw_only=True):
    """``waits``: app, or owner, -> codes of why it waited in the end. ``classes``: node -> nodes with the same class are alike but for
    their names."""

    phases: tuple[LabPhase, ...]
    waits: dict[str, tuple[str, ...]] = {}
    classes: dict[str, str] = {}


class TestResult(msgspec.Struct, frozen=True, kw_only=True):
    """``message``: why it did not pass; ``concept``: what was not expressible. ``evidence``: ``RUN/EXERCISE/TEST``, below the cell's
    folder of evidence; empty: none was written. ``seconds``: of wall time."""

    __test__ = False  # not a test class, whatever pytest thinks of its name

    name: str
    verdict: TestVerdict
    message: str = ""
    concept: str = ""
    evidence: str = ""
    seconds: float = 0.0
    labs: dict[str, LabResult] = {}


class CellResult(msgspec.Struct, frozen=True, kw_only=True):
    """``tests``: in their order. ``error``: why the cell could not be run to its end."""

    tests: tuple[str, ...] = ()
    error: str = ""
