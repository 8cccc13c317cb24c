"""Philly: the jobs of Microsoft's cluster, as one line each.

The form is that in which the trace is passed on: ``timestamp`` (submitted), ``duration`` and ``gpu_time`` in seconds, ``num_gpus``, and ``cluster``, the virtual
cluster, whose quota the job counted against.
Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019.
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
    """One line. Raises BrokenLine."""
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


# Philly as Microsoft published it: ``cluster_job_log``, a JSON list of jobs, each with its attempts and the GPUs that these held.
#
#     [{"vc": "6214e9", "jobid": "application_1", "user": "ce2f4c", "submitted_time": "2017-10-09 07:01:55", "status": "Pass",
#       "attempts": [{"start_time": "2017-10-09 07:02:29", "end_time": "2017-10-09 07:02:57",
#                     "detail": [{"ip": "m328", "gpus": ["gpu6"]}]}]}]
#
# A job is as long as its attempts together, and as large as the largest of them.
# Source: https://github.com/msr-fiddle/philly-traces.

_SPACE = re.compile(r"[ \t\r\n]*")
_LARGEST = 2**30
"""Characters. The published log has 100 million."""
_NOTHING = ("", "None")
"""How the log writes a time that there is none of, beside null."""


def is_job_log(path: Path) -> bool:
    """Whether a file is JSON rather than lines. Raises InputError."""
    with open_text(path) as text:
        return text.read(4096).lstrip()[:1] == "["


def read_job_log(path: Path) -> Iterator[ParsedLine]:
    """A job of each entry, with the line where that begins; what can't be read as one is told as a broken line. Raises InputError where the file is no
    list of JSON."""
    with open_text(path) as file:
        text = file.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise InputError(f"more than {_LARGEST} characters; expected no more of a list in JSON", Where(file=str(path)))
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
            if text[following : following + 1] not in (",", "]"):
                raise ValueError("expected a comma, or the end of the list, after a job")
        except (ValueError, RecursionError) as error:
            raise InputError(f"no JSON from here on: {error}", Where(file=str(path), line=line)) from None
        try:
            yield read_logged_job(entry, line)
        except BrokenLine as error:
            yield SkippedLine(line, str(error))
        if text[following] == "]":
            _check_end(path, text, _after(text, following + 1))
            return
        at = _after(text, following + 1)


def _check_end(path: Path, text: str, at: int) -> None:
    if at < len(text):
        line = 1 + text.count("\n", 0, at)
        raise InputError("more stands behind the list of jobs; expected its end", Where(file=str(path), line=line))


def read_logged_job(entry: Any, line: int) -> TraceJob | SkippedLine:
    """One entry. Raises BrokenLine."""
    if not isinstance(entry, dict):
        raise BrokenLine(f"{entry!r:.80} is no job; expected an object")
    fields = LineFields({name: _text(entry, name) for name in ("submitted_time", "vc", "jobid")})
    arrival = fields.moment("submitted_time")
    attempts = entry.get("attempts")
    if not isinstance(attempts, list):
        raise BrokenLine(f"attempts is {attempts!r:.80}; expected a list")
    seconds = gpus = 0
    for place, one in enumerate(attempts):
        lasted, held = _attempt(one, f"attempts[{place}]")
        if held and lasted is None:
            return SkippedLine(line, "its end is not told", broken=False)
        seconds, gpus = seconds + (lasted or 0), max(gpus, held)
    if not seconds or not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    return TraceJob(
        name=fields.text("jobid") or f"philly-{line}",
        arrival=arrival,
        seconds=seconds,
        gpus=gpus,
        team=fields.text("vc"),
        line=line,
    )


def _attempt(value: Any, place: str) -> tuple[int | None, int]:
    """Seconds, None where it began and its end is not told; and GPUs."""
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
    found = value.get(name)
    if found is not None and not isinstance(found, str):
        raise BrokenLine(f"{name} is {found!r:.80}; expected text")
    return found or ""


def _after(text: str, at: int) -> int:
    """The next place that is no space."""
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
