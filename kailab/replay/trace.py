"""Read a trace file in one of the known formats into jobs in order of arrival."""

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
from kailab.lab.seen_names import describe_names
from kailab.model.manifests import from_objects
from kailab.model.wording import count
from kailab.replay.job import LONGEST, SkippedLine, TraceJob
from kailab.replay.manifests import job_object
from kailab.replay.readers import alibaba, lines, philly, plain, slurm
from kailab.replay.readers.lines import LineFields

MOST_TOLD = 20
"""Number of broken lines that an error lists."""
MOST_GPUS = 100_000
"""Maximum of GPUs and of pods per job. No cluster is larger, so a larger number is a mistake."""


class TraceFormat(NamedTuple):
    """``columns``: the required columns, by which the format is recognised. ``make``: makes a job from a line's
    fields. ``times``: it says when jobs arrive and end."""

    title: str
    columns: tuple[str, ...]
    make: Callable[[LineFields, int], TraceJob | SkippedLine]
    times: bool = True


_PHILLY = "philly"
_SACCT = "sacct"
_OPENB_LIST = "openb-list"
FORMS: Mapping[str, TraceFormat] = {
    "openb": TraceFormat("Alibaba cluster-trace-gpu-v2023: pods", alibaba.OPENB_COLUMNS, alibaba.read_openb_pod),
    _PHILLY: TraceFormat("Microsoft Philly: jobs as CSV", philly.PHILLY_COLUMNS, philly.read_philly_job),
    "helios": TraceFormat("SenseTime Helios: jobs (cluster_log)", slurm.HELIOS, slurm.read_helios_job),
    "acme": TraceFormat("SenseTime Acme: jobs (trace_seren, trace_kalos)", slurm.ACME, slurm.read_acme_job),
    "pai": TraceFormat(
        "Alibaba cluster-trace-gpu-v2020: tasks (pai_task_table)", alibaba.PAI_COLUMNS, alibaba.read_pai_task
    ),
    _SACCT: TraceFormat("jobs of Slurm (sacct -P)", (), slurm.read_sacct_job),
    _OPENB_LIST: TraceFormat(
        "Alibaba cluster-trace-gpu-v2023: pods without times",
        alibaba.OPENB_LIST_COLUMNS,
        alibaba.read_openb_list_pod,
        times=False,
    ),
    "csv": TraceFormat("a CSV file with declared columns", plain.NEEDED, plain.read_plain_job),
}


@dataclass(frozen=True)
class Trace:
    """``jobs``: by arrival, jobs of the same second in file order. ``left_out``: lines that yield no job."""

    file: str
    form: str
    jobs: list[TraceJob] = field(default_factory=list)
    left_out: list[SkippedLine] = field(default_factory=list)

    @property
    def broken(self) -> list[SkippedLine]:
        return [skipped for skipped in self.left_out if skipped.broken]

    @property
    def teams(self) -> list[str]:
        """Sorted by name."""
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
    arrivals_only: bool = False,
) -> Trace:
    """Read the whole file.

    ``form``: one of ``FORMS``; empty: recognised by its columns. ``columns``: for the form csv, maps its column names
    to those of the file. ``priorities``: names of the PriorityClasses; a line with another one is broken; None: all are
    accepted. ``arrivals_only``: the ends of jobs do not count, so a file without times will do. Raises InputError for a file that cannot be read in that format and, unless ``skip_broken``, for broken
    lines.
    """
    if form in ("", _PHILLY) and not columns and philly.is_job_log(path):
        return _collected(Trace(str(path), _PHILLY), philly.read_job_log(path), skip_broken, priorities)
    header = lines.read_header(path)
    if duplicates := [name for name, number in Counter(header).items() if number > 1 and name]:
        raise InputError(
            f"duplicate column {duplicates[0]!r:.80}; expected each column once", Where(file=str(path), line=1)
        )
    if columns:
        if form not in ("", "csv"):
            raise InputError(f"--columns applies only to the form csv, not to {form}")
        form = "csv"
        _check_declared(path, header, columns)
    form = form or _recognised(path, header, FORMS)
    if form not in FORMS:
        raise InputError(f"unknown form of traces {form!r:.80}; expected one of {', '.join(FORMS)}")
    if not FORMS[form].times and not arrivals_only:
        raise InputError(
            "is a list of openb's pods without creation_time and deletion_time, so it does not say when they arrive and end: replay it with "
            "--arrivals-only (one pod each second, in this order), or take a list with times, such as openb_pod_list_default.csv",
            Where(file=str(path), line=1),
        )
    if form == _SACCT and (missing_facts := slurm.missing_of_sacct(header)):
        raise InputError(
            f"this output of sacct does not say {missing_facts}; for example: "
            "sacct -P -X -a -o JobIDRaw,Account,Submit,Start,End,ElapsedRaw,AllocTRES,State",
            Where(file=str(path), line=1),
        )
    available = {*header, *(columns or {})}
    if missing := [name for name in FORMS[form].columns if name not in available]:
        raise InputError(
            f"the form {form} needs the column {', '.join(missing)}; the file has: {', '.join(header)}",
            Where(file=str(path), line=1),
        )
    return _collected(Trace(str(path), form), lines.read_jobs(path, FORMS[form].make, columns), skip_broken, priorities)


def _collected(
    trace: Trace, parsed_lines: Iterable[lines.ParsedLine], skip_broken: bool, priorities: Collection[str] | None
) -> Trace:
    first_lines: dict[tuple[str, float, float], int] = {}
    for parsed in parsed_lines:
        parsed_job = _replayable(parsed, priorities)
        # Exports of months that overlap have the same job twice. In other forms than sacct's a name need not be an id.
        if trace.form == _SACCT and not isinstance(parsed_job, SkippedLine):
            first = first_lines.setdefault((parsed_job.name, parsed_job.arrival, parsed_job.seconds), parsed_job.line)
            if first != parsed_job.line:
                parsed_job = SkippedLine(parsed_job.line, "it repeats the job of an earlier line", broken=False)
        if isinstance(parsed_job, SkippedLine):
            trace.left_out.append(parsed_job)
        else:
            trace.jobs.append(parsed_job)
    # Lines may be out of order. Sorting is stable, so jobs of the same second keep the file's order.
    trace.jobs.sort(key=lambda job: job.arrival)
    return without(trace, lambda job: _too_late(job, trace.jobs[0]), skip_broken=skip_broken)


def without(trace: Trace, fault_of: Callable[[TraceJob], str], *, skip_broken: bool) -> Trace:
    """Treat jobs for which ``fault_of`` returns a reason as broken lines. Raises InputError as ``read_trace`` does."""
    reasons = {job.line: reason for job in trace.jobs if (reason := fault_of(job))}
    if not reasons:
        return _checked(trace, skip_broken)
    left_out = [*trace.left_out, *(SkippedLine(line, reason) for line, reason in reasons.items())]
    left_out.sort(key=lambda skipped: skipped.line)
    return _checked(
        replace(trace, jobs=[job for job in trace.jobs if job.line not in reasons], left_out=left_out), skip_broken
    )


def _checked(trace: Trace, skip_broken: bool) -> Trace:
    if trace.broken and not skip_broken:
        raise broken_lines_error(trace)
    if not trace.jobs:
        reasons = Counter(skipped.reason for skipped in trace.left_out).most_common(3)
        summary = "; ".join(f"{number} of {count(len(trace.left_out), 'line')}: {reason}" for reason, number in reasons)
        raise InputError(f"no line is a job that can be replayed{summary and f': {summary}'}", Where(file=trace.file))
    return trace


def _replayable(parsed: lines.ParsedLine, priorities: Collection[str] | None) -> lines.ParsedLine:
    """Turn a job that no lab could run into a skipped line.

    A job with more pods than any cluster has would wait forever; a job with an unknown priority would get no pods.
    """
    if isinstance(parsed, SkippedLine):
        return parsed
    if parsed.seconds > LONGEST_SECONDS:
        return SkippedLine(
            parsed.line, f"the job runs for {parsed.seconds} s; expected at most {LONGEST_SECONDS:.0f} s (ten years)"
        )
    if max(parsed.gpus, parsed.pods) > MOST_GPUS:
        asked = f"{parsed.gpus} GPUs" if parsed.gpus > MOST_GPUS else f"{parsed.pods} pods"
        return SkippedLine(parsed.line, f"the job asks for {asked}; expected at most {MOST_GPUS}")
    refused = _refused(parsed.cpu_millis) or _refused(memory_mib=parsed.memory_mib) or _refused(models=parsed.models)
    unknown = "" if priorities is None else unknown_priority(parsed, priorities)
    reason = refused or unknown
    return SkippedLine(parsed.line, reason) if reason else parsed


@lru_cache(maxsize=65_536)
def _refused(cpu_millis: int = 0, memory_mib: int = 0, models: tuple[str, ...] = ()) -> str:
    """The reason for which a lab would reject a Job with these requests; empty if it accepts the Job."""
    job = TraceJob(name="", arrival=0, seconds=1, gpus=1, cpu_millis=cpu_millis, memory_mib=memory_mib, models=models)
    try:
        from_objects([job_object("job", job, "queue", 1, endless=False)])
    except InputError as error:
        first_error = error.errors[0] if isinstance(error, InputErrors) else error
        request = f"cpu is {cpu_millis / 1000:g}" if cpu_millis else f"memory is {memory_mib} MiB"
        if models:
            request = f"models is {'|'.join(models)!r:.80}"
        return f"{request}, which is not valid in a Job: {first_error.message}"
    return ""


def _too_late(job: TraceJob, first: TraceJob) -> str:
    """The reason if the job arrives after the longest replay; empty otherwise."""
    if job.arrival - first.arrival < LONGEST:
        return ""
    return f"the job arrives {job.arrival - first.arrival} s after the first job (line {first.line}); expected less than {LONGEST} s"


def unknown_priority(job: TraceJob, known: Collection[str]) -> str:
    """The reason if the job's priority is unknown; empty otherwise."""
    if not job.priority or job.priority in known:
        return ""
    return f"no PriorityClass {job.priority!r:.80}; {describe_names(known, job.priority)}"


def describe_broken_lines(trace: Trace) -> Iterator[str]:
    """One text line for each of the first broken trace lines, and the number of further ones."""
    broken = trace.broken
    for skipped in broken[:MOST_TOLD]:
        yield f"{trace.where(skipped.line)}: {skipped.reason}"
    if len(broken) > MOST_TOLD:
        yield f"{trace.file}: {count(len(broken) - MOST_TOLD, 'more line')} cannot be read"


def broken_lines_error(trace: Trace) -> InputError:
    errors = [InputError(skipped.reason, trace.where(skipped.line)) for skipped in trace.broken[:MOST_TOLD]]
    total = len(trace.jobs) + len(trace.left_out)
    errors.append(
        InputError(
            f"{len(trace.broken)} of {count(total, 'line')} cannot be read; use --skip-broken to replay the others",
            Where(file=trace.file),
        )
    )
    return InputErrors(errors)


def _recognised(path: Path, header: list[str], forms: Mapping[str, TraceFormat]) -> str:
    for name, form in forms.items():
        if form.columns and set(form.columns) <= set(header):
            return name
    if slurm.is_sacct(header):
        return _SACCT
    if len(header) == 1 and slurm.is_sacct(header[0].split()):
        raise InputError(
            "this is sacct's table for people, whose columns are cut to a width; expected the output of sacct -P, with | between the columns",
            Where(file=str(path), line=1),
        )
    if len(header) == 1:
        raise InputError(
            f"only one column, {header[0]!r:.80}; expected several columns, separated by commas, or in all lines by |, ; or tabs",
            Where(file=str(path), line=1),
        )
    if any(name[:1].isdigit() for name in header):
        raise InputError(
            f"no column names: the first line, {','.join(header)!r:.80}, is one of values; expected the names there (sacct prints them "
            "without --noheader)",
            Where(file=str(path), line=1),
        )
    raise InputError(
        f"no known form has the columns {', '.join(header):.400}; expected those of one of "
        f"{', '.join(forms)}, or a declaration: --columns submit=...,seconds=...,gpus=...",
        Where(file=str(path), line=1),
    )


def _check_declared(path: Path, header: list[str], columns: Mapping[str, str]) -> None:
    for own, named in columns.items():
        if own not in plain.KNOWN:
            raise InputError(
                f"--columns: the form csv has no column {own!r:.80}; expected one of {', '.join(plain.KNOWN)}"
            )
        if named not in header:
            raise InputError(
                f"--columns: the file has no column {named!r:.80}; it has: {', '.join(header)}",
                Where(file=str(path), line=1),
            )
