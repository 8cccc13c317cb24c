"""The evidence of one test: its labs' records and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from kailab.errors import EvidenceError
from kailab.evidence import canonical
from kailab.evidence.entries import FORMAT, Result
from kailab.evidence.recorder import Recorder

RESULT = "result.json"


def write_test(
    folder: Path, test: str, recorders: Sequence[Recorder], outcome: str, message: str = "", sentence: str = ""
) -> None:
    """result.json, and a folder for each lab that was opened.

    ``outcome``: passed, failed, skipped or interrupted. ``message``: why, in words that are the same in every run. ``sentence``: what
    the test says of itself.
    """
    opened = [recorder for recorder in recorders if recorder.facts is not None]
    for recorder in opened:
        recorder.write(folder / canonical.safe_name(recorder.lab))
    # A failure may quote objects of any of the labs, and a docstring, so what each of them leaves out is cut from both.
    for recorder in opened:
        message, sentence = recorder.scrub(message), recorder.scrub(sentence)
    result = Result(
        format=FORMAT,
        test=test,
        outcome=outcome,
        message=message,
        labs=tuple(canonical.safe_name(recorder.lab) for recorder in opened),
        expectations=sum(len(recorder.expectations) for recorder in opened),
        expectations_failed=sum(not entry.held for recorder in opened for entry in recorder.expectations),
        decisions=sum(len(recorder.decisions) for recorder in opened),
        cycles=sum(len(recorder.cycles) for recorder in opened),
        sentence=sentence,
    )
    (folder / RESULT).write_bytes(canonical.pretty(result))


class Written(msgspec.Struct):
    """As much of a result as every format has."""

    format: int = 1
    outcome: str = "unknown"


def check_format(found: int, place: Path) -> None:
    """Raises EvidenceError for evidence in another format than this kailab's."""
    if found != FORMAT:
        whose = "a newer" if found > FORMAT else "an older"
        raise EvidenceError(
            f"{place}: evidence of {whose} kailab (format {found}; this one reads format {FORMAT}); `kailab evidence verify` "
            "still checks it, and the tests can be run again"
        )
