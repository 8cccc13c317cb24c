"""The trace of Microsoft's Philly cluster, as CSV or as the published JSON log.

CSV: ``timestamp`` (submission), ``duration`` and ``gpu_time`` in seconds, ``num_gpus``, and ``cluster``, the virtual
cluster whose quota the job counted against.

JSON (``cluster_job_log``): a list of jobs, each with its attempts and the GPUs that these held. A job's run time is the
sum of its attempts, which it makes one after the other, and its size is that of the largest one.

    [{"vc": "6214e9", "jobid": "application_1", "user": "ce2f4c", "submitted_time": "2017-10-09 07:01:55",
      "attempts": [{"start_time": "2017-10-09 07:02:29", "end_time": "2017-10-09 07:02:57",
                    "detail": [{"ip": "m328", "gpus": ["gpu6"]}]}]}]

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019;
https://github.com/msr-fiddle/philly-traces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kailab.errors import InputError, Where
from kailab.replay.job import SkippedLine, TraceJob
from kailab.replay.readers.lines import BrokenLine, LineFields, ParsedLine, open_text, parse_moment

PHILLY_COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def read_philly_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one CSV line. Raises BrokenLine."""
    seconds, gpus = fields.seconds("duration"), fields.whole("num_gpus")
    if not seconds or not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    return TraceJob(
        name=f"philly-{line}",
        arrival=fields.moment("timestamp"),
        seconds=seconds,
        gpus=gpus,
        team=fields.text("cluster"),
        line=line,
    )


_SPACE = re.compile(r"[ \t\r\n]*")
_LARGEST = 2**30
"""In characters. The published log has 100 million."""
_NOTHING = ("", "None")
"""Values that stand for a missing time, in addition to null."""


def is_job_log(path: Path) -> bool:
    """True if the file is a list in JSON. Raises InputError, also for an object in JSON."""
    with open_text(path) as text:
        start = text.read(4096).lstrip()
    if re.match(r'\{\s*["}]', start):
        raise InputError(
            "is an object in JSON; expected a list of jobs, [{...}, {...}], as in Philly's cluster_job_log, or CSV",
            Where(file=str(path), line=1),
        )
    return start[:1] == "["


def read_job_log(path: Path) -> Iterator[ParsedLine]:
    """Yield a job for each entry, with the line on which it begins, or a broken line. Raises InputError if the file is
    not a JSON list."""
    with open_text(path) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InputError(
            f"the JSON list has more than {_LARGEST} characters; expected at most that many", Where(file=str(path))
        )
    decoder = json.JSONDecoder()
    at, line, counted = _after(text, 0), 1, 0
    if text[at : at + 1] != "[":
        raise InputError("expected a list of jobs in JSON", Where(file=str(path), line=1))
    at = _after(text, at + 1)
    if text[at : at + 1] == "]":
        _check_end(path, text, _after(text, at + 1))
        return
    while True:
        line, counted = line + text.count("\n", counted, at), at
        try:
            entry, end = decoder.raw_decode(text, at)
            following = _after(text, end)
        except (ValueError, RecursionError) as error:
            raise _invalid(path, line, _fault(error)) from None
        if text[following : following + 1] not in (",", "]"):
            raise _invalid(path, line, "expected a comma, or the end of the list, after a job")
        try:
            yield read_logged_job(entry, line)
        except BrokenLine as error:
            yield SkippedLine(line, str(error))
        if text[following] == "]":
            _check_end(path, text, _after(text, following + 1))
            return
        at = _after(text, following + 1)


def _invalid(path: Path, line: int, fault: str) -> InputError:
    return InputError(f"invalid JSON from this line on: {fault}", Where(file=str(path), line=line))


def _fault(error: ValueError | RecursionError) -> str:
    """What is wrong, where Python's own text is about its limits."""
    if isinstance(error, json.JSONDecodeError):
        return str(error)
    return "it is nested too deeply" if isinstance(error, RecursionError) else "a number has too many digits"


def _check_end(path: Path, text: str, at: int) -> None:
    if at < len(text):
        line = 1 + text.count("\n", 0, at)
        raise InputError(
            "unexpected text after the list of jobs; expected the end of the file", Where(file=str(path), line=line)
        )


def read_logged_job(entry: Any, line: int) -> TraceJob | SkippedLine:
    """Read one entry. Raises BrokenLine."""
    if not isinstance(entry, dict):
        raise BrokenLine(f"{entry!r:.80} is not a job; expected an object")
    fields = LineFields({name: _text(entry, name) for name in ("submitted_time", "vc", "jobid")})
    arrival = fields.moment("submitted_time")
    attempts = entry.get("attempts")
    if not isinstance(attempts, list):
        raise BrokenLine(f"attempts is {attempts!r:.80}; expected a list")
    gpus, lengths = 0, list[int]()
    for index, attempt in enumerate(attempts):
        lasted, held = _attempt(attempt, f"attempts[{index}]")
        if held and lasted is None:
            return SkippedLine(line, "its end is not recorded", broken=False)
        gpus = max(gpus, held)
        if lasted:
            lengths.append(lasted)
    seconds = sum(lengths)
    if not seconds or not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    return TraceJob(
        name=fields.text("jobid") or f"philly-{line}",
        arrival=arrival,
        seconds=seconds,
        gpus=gpus,
        team=fields.text("vc"),
        attempts=tuple(lengths) if len(lengths) > 1 else (),
        line=line,
    )


def _attempt(value: Any, place: str) -> tuple[int | None, int]:
    """Seconds and GPUs of an attempt. Seconds are None if it began and its end is not recorded."""
    if not isinstance(value, dict) or not isinstance(detail := value.get("detail", []), list):
        raise BrokenLine(f"{place} is {value!r:.80}; expected an object with a list of details")
    held = 0
    for machine in detail:
        gpus = machine.get("gpus") if isinstance(machine, dict) else None
        if not isinstance(gpus, list):
            raise BrokenLine(f"{place}.detail has {machine!r:.80}; expected machines with a list of gpus")
        held += len(gpus)
    begun, ended = (_text(value, name) for name in ("start_time", "end_time"))
    if begun in _NOTHING:
        return 0, 0
    if ended in _NOTHING:
        return None, held
    lasted = parse_moment(ended, f"{place}.end_time") - parse_moment(begun, f"{place}.start_time")
    if lasted < 0:
        raise BrokenLine(f"{place} ends at {ended}, before it begins at {begun}")
    return lasted, held


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    if text is not None and not isinstance(text, str):
        raise BrokenLine(f"{name} is {text!r:.80}; expected text")
    return text or ""


def _after(text: str, at: int) -> int:
    """The next position that is not white space."""
    space = _SPACE.match(text, at)
    return at if space is None else space.end()
