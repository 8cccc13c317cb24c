"""A trace: its file read as one of the known forms, in the order of arrival."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from kailab.cluster.base_objects import PRIORITY_CLASSES
from kailab.cluster.pod_lifecycle import LONGEST_SECONDS
from kailab.errors import InputError, InputErrors, Where
from kailab.lab.seen_names import there_are
from kailab.model.manifests import from_objects
from kailab.replay.job import LONGEST, SkippedLine, TraceJob
from kailab.replay.manifests import job_object
from kailab.replay.readers import alibaba, lines, philly, plain, slurm
from kailab.replay.readers.lines import LineFields

MOST_TOLD = 20
"""Broken lines that an error tells one by one."""
MOST_GPUS = 100_000
"""Of a job, and as many pods: no cluster is larger, so more was written by mistake."""


class TraceFormat(NamedTuple):
    """``columns``: those by which it is known, and which must be there. ``make``: a job of a line's fields."""

    title: str
    columns: tuple[str, ...]
    make: Callable[[LineFields, int], TraceJob | SkippedLine]


_PHILLY = "philly"
FORMS: Mapping[str, TraceFormat] = {
    "openb": TraceFormat("Alibaba cluster-trace-gpu-v2023: pods", alibaba.OPENB_COLUMNS, alibaba.read_openb_pod),
    _PHILLY: TraceFormat("Microsoft Philly: jobs as CSV", philly.PHILLY_COLUMNS, philly.read_philly_job),
    "helios": TraceFormat("SenseTime Helios: jobs (cluster_log)", slurm.HELIOS, slurm.read_helios_job),
    "acme": TraceFormat("SenseTime Acme: jobs (trace_seren, trace_kalos)", slurm.ACME, slurm.read_acme_job),
    "pai": TraceFormat(
        "Alibaba cluster-trace-gpu-v2020: tasks (pai_task_table)", alibaba.PAI_COLUMNS, alibaba.read_pai_task
    ),
    "sacct": TraceFormat("jobs of Slurm (sacct -P)", slurm.SACCT_COLUMNS, slurm.read_sacct_job),
    "csv": TraceFormat("a CSV file with declared columns", plain.NEEDED, plain.read_plain_job),
}


@dataclass(frozen=True)
class Trace:
    """``jobs``: by arrival, those of one moment in the order of the file. ``left_out``: lines that gave none."""

    file: str
    form: str
    jobs: list[TraceJob] = field(default_factory=list)
    left_out: list[SkippedLine] = field(default_factory=list)

    @property
    def broken(self) -> list[SkippedLine]:
        return [one for one in self.left_out if one.broken]

    @property
    def teams(self) -> list[str]:
        """In the order of their names."""
        return sorted({job.team for job in self.jobs})

    def where(self, line: int) -> Where:
        return Where(file=self.file, line=line)


def read_trace(
    path: Path,
    form: str = "",
    columns: Mapping[str, str] | None = None,
    *,
    skip_broken: bool = False,
    priorities: Collection[str] | None = tuple(PRIORITY_CLASSES),
) -> Trace:
    """The whole file, read line by line. ``form``: one of ``FORMS``; empty: by its columns. ``columns``: of the plain form, its names ->
    those of the file. ``priorities``: names of PriorityClasses; a line with another one is broken; None: any will do. Raises InputError: for a
    file that can't be read as that, and, without ``skip_broken``, for broken lines."""
    if form in ("", _PHILLY) and not columns and philly.is_job_log(path):
        return _collected(Trace(str(path), _PHILLY), philly.read_job_log(path), skip_broken, priorities)
    header = lines.read_header(path)
    if twice := [name for name, number in Counter(header).items() if number > 1 and name]:
        raise InputError(f"two columns {twice[0]!r:.80}; expected each once", Where(file=str(path), line=1))
    if columns:
        if form not in ("", "csv"):
            raise InputError(f"columns are declared of a trace of the form csv, not {form}")
        form = "csv"
        _check_declared(path, header, columns)
    form = form or _recognised(path, header, FORMS)
    if form not in FORMS:
        raise InputError(f"no form of traces is called {form!r:.80}; there are: {', '.join(FORMS)}")
    there = {*header, *(columns or {})}
    if missing := [name for name in FORMS[form].columns if name not in there]:
        raise InputError(
            f"no column {', '.join(missing)}, which the form {form} needs; it has: {', '.join(header)}",
            Where(file=str(path), line=1),
        )
    return _collected(Trace(str(path), form), lines.read_jobs(path, FORMS[form].make, columns), skip_broken, priorities)


def _collected(
    trace: Trace, found: Iterable[lines.ParsedLine], skip_broken: bool, priorities: Collection[str] | None
) -> Trace:
    for made in found:
        one = _replayable(made, priorities)
        if isinstance(one, SkippedLine):
            trace.left_out.append(one)
        else:
            trace.jobs.append(one)
    # A trace's lines need not be in the order of time. Sorting is stable: the file decides among equals.
    trace.jobs.sort(key=lambda job: job.arrival)
    return without(trace, lambda job: _too_late(job, trace.jobs[0]), skip_broken=skip_broken)


def without(trace: Trace, strange: Callable[[TraceJob], str], *, skip_broken: bool) -> Trace:
    """The trace, where jobs of which ``strange`` says anything are broken lines. Raises InputError as ``read_trace``."""
    reasons = {job.line: reason for job in trace.jobs if (reason := strange(job))}
    if not reasons:
        return _checked(trace, skip_broken)
    left_out = [*trace.left_out, *(SkippedLine(line, reason) for line, reason in reasons.items())]
    left_out.sort(key=lambda one: one.line)
    return _checked(
        replace(trace, jobs=[job for job in trace.jobs if job.line not in reasons], left_out=left_out), skip_broken
    )


def _checked(trace: Trace, skip_broken: bool) -> Trace:
    if trace.broken and not skip_broken:
        raise broken_lines_error(trace)
    if not trace.jobs:
        reasons = Counter(one.reason for one in trace.left_out).most_common(3)
        told = "; ".join(f"{number} of {len(trace.left_out)} lines: {reason}" for reason, number in reasons)
        raise InputError(f"no line of it is a job that can be replayed{told and f': {told}'}", Where(file=trace.file))
    return trace


def _replayable(one: lines.ParsedLine, priorities: Collection[str] | None) -> lines.ParsedLine:
    """A job in more pods than any cluster has would be made pod by pod, to wait for ever; one of a priority that there is not would have
    no pods."""
    if isinstance(one, SkippedLine):
        return one
    if one.seconds > LONGEST_SECONDS:
        return SkippedLine(
            one.line, f"it runs for {one.seconds} s; expected {LONGEST_SECONDS:.0f} s at most, which are ten years"
        )
    if max(one.gpus, one.pods) > MOST_GPUS:
        return SkippedLine(
            one.line, f"{one.gpus} GPUs in {one.pods or 'some'} pods; expected {MOST_GPUS} at most of each"
        )
    refused = _refused(one.cpu_millis) or _refused(memory_mib=one.memory_mib) or _refused(models=one.models)
    strange = "" if priorities is None else unknown_priority(one, priorities)
    reason = refused or strange
    return SkippedLine(one.line, reason) if reason else one


@lru_cache(maxsize=65_536)
def _refused(cpu_millis: int = 0, memory_mib: int = 0, models: tuple[str, ...] = ()) -> str:
    """What a lab would say of its Job as it is made; empty where it takes it."""
    some = TraceJob(name="", arrival=0, seconds=1, gpus=1, cpu_millis=cpu_millis, memory_mib=memory_mib, models=models)
    try:
        from_objects([job_object("job", some, "queue", 1, endless=False)])
    except InputError as error:
        first = error.errors[0] if isinstance(error, InputErrors) else error
        asked = f"cpu is {cpu_millis / 1000:g}" if cpu_millis else f"memory is {memory_mib} MiB"
        if models:
            asked = f"models is {'|'.join(models)!r:.80}"
        return f"{asked}, which no Job can ask for: {first.message}"
    return ""


def _too_late(job: TraceJob, begin: TraceJob) -> str:
    """Empty where it comes while a replay lasts."""
    if job.arrival - begin.arrival < LONGEST:
        return ""
    return f"it comes {job.arrival - begin.arrival} s after the first job, of line {begin.line}; expected less than {LONGEST} s"


def unknown_priority(job: TraceJob, known: Collection[str]) -> str:
    """Empty where the job has a priority that there is, or none."""
    if not job.priority or job.priority in known:
        return ""
    return f"no PriorityClass is called {job.priority!r:.80}; {there_are(known, job.priority)}"


def describe_broken_lines(trace: Trace) -> Iterator[str]:
    """A line for each of the first broken ones, and how many there are."""
    found = trace.broken
    for one in found[:MOST_TOLD]:
        yield f"{trace.where(one.line)}: {one.reason}"
    if len(found) > MOST_TOLD:
        yield f"{trace.file}: {len(found) - MOST_TOLD} more lines can't be read"


def broken_lines_error(trace: Trace) -> InputError:
    """The error of a trace with lines that can't be read."""
    errors = [InputError(one.reason, trace.where(one.line)) for one in trace.broken[:MOST_TOLD]]
    count, total = len(trace.broken), len(trace.jobs) + len(trace.left_out)
    errors.append(
        InputError(f"{count} of {total} lines can't be read; --skip-broken replays the others", Where(file=trace.file))
    )
    return InputErrors(errors)


def _recognised(path: Path, header: list[str], forms: Mapping[str, TraceFormat]) -> str:
    for name, form in forms.items():
        if set(form.columns) <= set(header):
            return name
    if len(header) == 1:
        raise InputError(
            f"one column, {header[0]!r:.80}; expected several, separated by commas, or in all lines by |, ; or tabs",
            Where(file=str(path), line=1),
        )
    raise InputError(
        f"the columns {', '.join(header)} are those of no known form; expected those of one of "
        f"{', '.join(forms)}, or a declaration: --columns submit=...,seconds=...,gpus=...",
        Where(file=str(path), line=1),
    )


def _check_declared(path: Path, header: list[str], columns: Mapping[str, str]) -> None:
    for own, named in columns.items():
        if own not in plain.KNOWN:
            raise InputError(f"--columns: {own!r:.80} is no column of the form csv; it has: {', '.join(plain.KNOWN)}")
        if named not in header:
            raise InputError(
                f"--columns: there is no column {named!r:.80}; there are: {', '.join(header)}",
                Where(file=str(path), line=1),
            )
