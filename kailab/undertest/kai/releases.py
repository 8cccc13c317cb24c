"""Which release a KAI is: as it was built or its folder is called; else by the words that its programs have in them.

No program is asked: some of KAI's begin to work on whatever cluster they find, also where they are only asked for help.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from kailab.errors import InputError
from kailab.undertest.kai.dialects import LINES, Dialect, Number, Span

_NUMBER = re.compile(r"\bv(\d+)\.(\d+)\.(\d+)")

MARKS: Mapping[tuple[str, str], Span] = {
    ("podgrouper", "pod-label-selector"): Span((0, 7, 0)),
    ("queuecontroller", "metrics-listen-address"): Span((0, 7, 8)),
    ("podgrouper", "kai.scheduler/subgroup-name"): Span((0, 7, 11)),
    ("scheduler", "update-pod-eviction-condition"): Span((0, 8, 1)),
    ("binder", "webhook-addr"): Span(until=(0, 8, 3)),
    ("scheduler", "node-level-scheduler"): Span(until=(0, 9, 0)),
    ("podgroupcontroller", "enable-podgroup-webhook"): Span((0, 10, 0)),
    ("scheduler", "kueue.x-k8s.io"): Span((0, 7, 8), (0, 12, 0)),
    ("scheduler", "queue-label-key"): Span((0, 13, 0)),
    ("queuecontroller", "enable-quota-validation"): Span((0, 14, 0)),
    ("podgrouper", "kai.scheduler/batch-min-member"): Span((0, 14, 1)),
    ("scheduler", "stuck-in-releasing-threshold"): Span((0, 15, 0)),
    ("scheduler", "sg-nodelocalgreedy"): Span((0, 16, 0)),
    ("podgrouper", "generic-karta-fallback"): Span((0, 17, 0)),
}
"""Program, and what it has in it since and until which release: names of flags, labels, kinds and plugins."""

_KNOWN = "known are {} to {}".format(*(f"v{line[0]}.{line[1]}" for line in (LINES[0], LINES[-1])))


def dialect_of(version: str) -> Dialect | None:
    """Of a version (``v0.16.8``, or text with one in it); None for one that tells none. Raises InputError for a release that is not
    known."""
    numbers = ((int(one[1]), int(one[2]), int(one[3])) for one in _NUMBER.finditer(version))
    # A pseudo-version, v0.0.0 and more, tells a commit.
    number = next((one for one in numbers if one[:2] != (0, 0)), None)
    if number is None:
        return None
    if number[:2] in LINES:
        return Dialect(number)
    raise InputError(f"is KAI {_text(number)}, {_why(number)}; {_KNOWN}")


def _why(number: Number) -> str:
    if number[:2] < LINES[0]:
        return "older than any release whose flags and definitions kailab knows"
    if number[:2] > LINES[-1]:
        return "whose flags and definitions kailab does not know"
    return "and there is no such line of releases"


def dialect_by_marks(marks: Collection[tuple[str, str]]) -> tuple[Dialect, str]:
    """By which of ``MARKS`` there are; and in words between which releases that is. Raises InputError for what fits no release."""
    first, end = Span()
    if not marks:
        raise InputError(
            "tells no release: neither its build information, nor its folder's name (such as kai-v0.16.8), nor the words in "
            f"its programs say which it is; {_KNOWN}"
        )
    # Between two of these nothing of MARKS changes.
    steps = sorted({number for span in MARKS.values() for number in span} | {first})
    fitting = [at for at in range(len(steps) - 1) if _fits(steps[at], marks)]
    if not fitting:
        has = max(span.since for mark, span in MARKS.items() if mark in marks)
        raise InputError(
            "tells no version, and its programs fit no release: they are not of one, or not all there. They have what came with "
            f"{_text(has)}, and not all that belongs to it; {_KNOWN}"
        )
    since, until = steps[fitting[0]], steps[fitting[-1] + 1]
    return Dialect(since), f"{_text(since)} or newer" + ("" if until == end else f", before {_text(until)}")


def _fits(number: Number, marks: Collection[tuple[str, str]]) -> bool:
    return all(span.holds(number) == (mark in marks) for mark, span in MARKS.items())


def marks_of(binaries: Mapping[str, Path]) -> set[tuple[str, str]]:
    """What these programs have in them, of ``MARKS``."""
    found = set()
    for program in sorted({program for program, _ in MARKS}):
        words = words_in(binaries[program], [word for one, word in MARKS if one == program])
        found |= {(program, word) for word in words}
    return found


def words_in(binary: Path, words: Iterable[str]) -> set[str]:
    """Those of these words that a program has in it."""
    with binary.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return {word for word in words if content.find(word.encode()) >= 0}


def _text(number: Number) -> str:
    return "v{}.{}.{}".format(*number)
