"""The evidence of one test: its labs' records and how it came out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import structs

from kailab.errors import EvidenceError
from kailab.evidence import canonical
from kailab.evidence.entries import FORMAT, Result, Source
from kailab.evidence.recorder import Recorder
from kailab.evidence.scrubbing import Scrubber
from kailab.model.private_files import write_bytes

RESULT = "result.json"


def write_test(
    folder: Path,
    test: str,
    recorders: Sequence[Recorder],
    outcome: str,
    message: str = "",
    sentence: str = "",
    reason: str = "",
    source: Source | None = None,
) -> None:
    """result.json, and a folder for each lab that was opened: none of a test that was skipped before.

    The rest is as ``Result`` has it, ``message`` in words that are the same in every run.
    """
    opened = [recorder for recorder in recorders if recorder.facts is not None]
    for recorder in opened:
        recorder.write(folder / canonical.safe_name(recorder.lab))
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
        reason=reason,
        source=source,
    )
    # A failure may quote objects of any of the labs, as may a docstring, so what each of them leaves out is cut from all of it. Where no
    # lab was opened, what has the form of a credential.
    for text in [recorder.text for recorder in opened] or [Scrubber((), ())]:
        kept = text.entry(result)
        result = structs.replace(kept, test=result.test, outcome=result.outcome, labs=result.labs)
    write_bytes(folder / RESULT, canonical.pretty(result))


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
