"""Sets of completion indexes as a Job's status writes them: ``0,2-4``."""

from __future__ import annotations

from collections.abc import Iterable

from kailab.model.quantities import counted

_LONGEST = 100_000  # indexes in one range: no Job has more


def parse(text: str | None) -> list[int]:
    """The indexes, ascending.

    >>> parse("0,2-4")
    [0, 2, 3, 4]
    """
    result: list[int] = []
    for part in (text or "").split(","):
        first, _, last = part.partition("-")
        begin = counted(first, -1)
        if begin >= 0:
            result.extend(range(begin, min(counted(last or first, begin), begin + _LONGEST) + 1))
    return result


def text(indexes: Iterable[int]) -> str:
    """The text for ascending indexes; runs of three and more as a range.

    >>> text([0, 2, 3, 4])
    '0,2-4'
    """
    runs: list[list[int]] = []
    for index in indexes:
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)
