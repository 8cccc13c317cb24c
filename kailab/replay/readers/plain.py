"""The plain form: a CSV file with declared columns.

``submit``, ``seconds`` and ``gpus`` are required; ``name``, ``team``, ``pods``, ``share``, ``cpu``, ``memory_mib``,
``models``, ``priority``, ``dataset``, ``estimate``, ``mig``, ``kind``, ``attempts`` and ``least`` are optional. Columns
with other names need a declaration of which is which.
"""

from __future__ import annotations

import re

from kailab.engine.snapshot.counting import mig_gpus
from kailab.model.labels import MIG_PREFIX
from kailab.replay.job import WHOLE, SkippedLine, TraceJob
from kailab.replay.readers.lines import MIG_PROFILE, BrokenLine, LineFields

NEEDED = ("submit", "seconds", "gpus")
KNOWN = (
    *NEEDED,
    "name",
    "team",
    "pods",
    "share",
    "cpu",
    "memory_mib",
    "models",
    "priority",
    "dataset",
    "estimate",
    "mig",
    "kind",
    "attempts",
    "least",
)


def read_plain_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one line. Raises BrokenLine."""
    gpus = asked = fields.number("gpus")
    share = fields.number("share", 1.0)
    told, share_told = (f"{fields.label(name)} is {fields.text(name)}" for name in ("gpus", "share"))
    # A part of a GPU may be written as gpus or as share.
    if gpus != int(gpus):
        if gpus > 1:
            raise BrokenLine(f"{told}; expected a whole number, or less than 1")
        if share != 1:
            raise BrokenLine(f"{told} and {share_told}; expected a share of a GPU in one of the two")
        share, gpus = gpus, 1
    milli = round(share * WHOLE)
    if gpus and not 0 < milli <= WHOLE:
        least = (
            "expected 0, a whole number, or a share from 0.001 on" if asked < 1 else "expected a number from 0.001 to 1"
        )
        raise BrokenLine(f"{told if asked < 1 else share_told}; {least}")
    if milli < WHOLE and gpus > 1:
        raise BrokenLine(f"{told} and {share_told}; expected a share of one GPU only")
    mig = fields.text("mig")
    if mig:
        if not re.fullmatch(MIG_PROFILE, mig, re.ASCII):
            raise BrokenLine(f"{fields.label('mig')} is {mig!r:.80}; expected a MIG profile such as 1g.10gb")
        if milli != WHOLE or not gpus:
            raise BrokenLine(
                f"{told} and {fields.label('mig')} is {mig}; expected the number of instances in gpus, and no share"
            )
        milli = mig_gpus(f"{MIG_PREFIX}{mig}")
    pods = fields.whole("pods", 0)
    if pods and int(gpus) % pods:
        raise BrokenLine(f"{told} and {fields.label('pods')} is {pods}; expected as many GPUs in each pod")
    arrival, seconds = fields.moment("submit"), fields.seconds("seconds")
    if not seconds:
        return SkippedLine(line, "it never ran", broken=False)
    return TraceJob(
        name=fields.text("name") or f"line-{line}",
        arrival=arrival,
        seconds=seconds,
        gpus=int(gpus),
        share=milli if gpus else WHOLE,
        mig=mig,
        pods=pods,
        cpu_millis=round(fields.number("cpu", 0.0) * 1000),
        memory_mib=round(fields.number("memory_mib", 0.0)),
        models=models(fields.text("models")),
        team=fields.text("team"),
        priority=fields.text("priority"),
        dataset=fields.text("dataset"),
        expected=fields.seconds("estimate") if fields.text("estimate") else 0,
        kind=fields.text("kind"),
        attempts=_attempts(fields, seconds),
        least=_least(fields, pods),
        line=line,
    )


def _attempts(fields: LineFields, seconds: int) -> tuple[int, ...]:
    """The run times of a job's attempts. Raises BrokenLine if they do not make up its own."""
    text = fields.text("attempts")
    parts = [part.strip() for part in text.split("|")] if text else []
    if not all(part.isascii() and part.isdecimal() and len(part) < 12 and int(part) for part in parts):
        raise BrokenLine(
            f"{fields.label('attempts')} is {text!r:.80}; expected the seconds of each attempt, separated by bars, as 60|300"
        )
    attempts = tuple(map(int, parts))
    if attempts and sum(attempts) != seconds:
        raise BrokenLine(
            f"{fields.label('attempts')} is {text!r:.80}, {sum(attempts)} s in all; expected {seconds} s, as in {fields.label('seconds')}"
        )
    return attempts if len(attempts) > 1 else ()


def _least(fields: LineFields, pods: int) -> int:
    """The fewest pods with which a job works; 0 if it needs all. Raises BrokenLine."""
    least = fields.whole("least", 0)
    if not least or least == pods:
        return 0
    told = f"{fields.label('least')} is {least}"
    if least > pods:
        wanted = f"{fields.label('pods')} is {pods}" if pods else f"there are no {fields.label('pods')}"
        raise BrokenLine(f"{told} and {wanted}; expected the number of its pods, and no more than that")
    if fields.text("attempts"):
        raise BrokenLine(f"{told}; expected no {fields.label('attempts')} of a job that works with some of its pods")
    return least


def models(text: str) -> tuple[str, ...]:
    """Split names at bars; each name once, in order."""
    return tuple(dict.fromkeys(name for part in text.split("|") if (name := part.strip())))
