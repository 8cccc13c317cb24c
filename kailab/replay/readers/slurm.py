"""Traces of batch systems: SenseTime's Helios and Acme, and the output of Slurm's ``sacct -P``.

Helios and Acme have a line for each job: ``submit_time``, ``start_time``, ``end_time`` (dates), ``gpu_num`` and
``cpu_num`` of the whole job, and ``node_num`` nodes of equal parts. Source: Hu et al., "Characterization and Prediction
of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021 (https://github.com/S-Lab-System-Group/HeliosData),
and Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024
(https://github.com/InternLM/AcmeTrace).

sacct prints fields separated by bars:

    sacct -P -X -a -S 2026-01-01 -o JobIDRaw,Account,Submit,Start,End,ElapsedRaw,AllocTRES,State

Any ``--format`` that says when a job came, for how long it ran and which GPUs it held will do. It came at ``Submit`` (or
``Eligible``, or ``Start``). It ran for ``ElapsedRaw`` (or ``Elapsed``, or from ``Start`` to ``End``). It held the GPUs of
``AllocTRES`` (or ``TRES``, ``ReqTRES``, ``AllocGRES``, ``ReqGRES``), of which ``gres/gpu`` counts; a type that ends in a
MIG profile (``gres/gpu:a100_3g.20gb``) stands for instances. Its account is the team (or the partition, or the user).
Sources: sacct(1), gres.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from kailab.engine.snapshot.counting import mig_gpus
from kailab.model.labels import MIG_PREFIX
from kailab.replay.job import WHOLE, SkippedLine, TraceJob
from kailab.replay.readers.lines import MIG_PROFILE, BrokenLine, LineFields

_BOTH = ("job_id", "user", "node_num", "gpu_num", "cpu_num", "submit_time", "start_time", "end_time")
HELIOS = (*_BOTH, "vc")
ACME = (*_BOTH, "type")
_NOTHING = ("", "none", "nan", "nat", "null", "unknown")
"""Values that stand for a missing time."""


def read_helios_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read a line of ``cluster_log.csv``. The virtual cluster is the team. Dates have no zone. Raises BrokenLine."""
    return _job(fields, line, "vc", 0)


def read_acme_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read a line of ``trace_seren.csv`` or ``trace_kalos.csv``. The type of work is the team, because quotas apply to
    it. Raises BrokenLine."""
    return _job(fields, line, "type", round(fields.number("mem_per_pod_GB", 0.0) * 1024))


def _job(fields: LineFields, line: int, team: str, memory_mib: int) -> TraceJob | SkippedLine:
    arrival, gpus = fields.moment("submit_time"), fields.whole("gpu_num")
    if not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    for name, reason in (("start_time", "it never ran"), ("end_time", "its end is not recorded")):
        if fields.text(name).lower() in _NOTHING:
            return SkippedLine(line, reason, broken=False)
    # Kalos' ``duration`` includes the time in the queue, so it is not used.
    begun, ended = fields.moment("start_time"), fields.moment("end_time")
    if ended < begun:
        raise BrokenLine(
            f"end_time is {fields.text('end_time')}; expected a time not before start_time, {fields.text('start_time')}"
        )
    nodes = fields.whole("node_num", 0)
    # Pods of a job are equal; if the parts are not, the fleet decides the number of pods.
    pods = nodes if nodes and not gpus % nodes else 0
    return TraceJob(
        name=fields.text("job_id") or f"line-{line}",
        arrival=arrival,
        seconds=max(1, ended - begun),
        gpus=gpus,
        pods=pods,
        cpu_millis=round(fields.number("cpu_num", 0.0) * 1000 / pods) if pods else 0,
        memory_mib=memory_mib if pods else 0,
        team=fields.text(team),
        line=line,
    )


SACCT_NAMES = (
    "JobIDRaw",
    "JobID",
    "State",
    "Elapsed",
    "ElapsedRaw",
    "JobName",
    "Account",
    "Partition",
    "AllocTRES",
    "ReqTRES",
    "AllocGRES",
    "ReqGRES",
    "NNodes",
)
"""Columns by which the output of sacct is recognised: two of them."""
_ARRIVALS = ("Submit", "Eligible", "Start")
_HELD = ("AllocTRES", "TRES", "ReqTRES", "AllocGRES", "ReqGRES", "TresPerNode")
_LASTED = (("ElapsedRaw",), ("Elapsed",), ("Start", "End"))
_TEAMS = ("Account", "Partition", "User")
_UNITS = {"": 1.0, "K": 2**-10, "M": 1.0, "G": 2**10, "T": 2**20, "P": 2**30}
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)
_SACCT_EMPTY = ("", "unknown", "none", "unlimited", "invalid", "n/a", "partition_limit")
"""Values with which sacct marks a missing or unbounded time."""
_NOT_ENDED = ("RUNNING", "SUSPENDED", "PENDING", "COMPLETING", "CONFIGURING", "RESIZING")
_MIG_TYPE = re.compile(rf"[:_-]({MIG_PROFILE})(?:\+\w+)*$", re.ASCII)
_COUNTS = {"": 1, "K": 1000, "M": 10**6}
_MOST_DIGITS = 9
"""Of a whole number. Python reads no number of thousands of digits, and no cluster has as many of anything."""


def is_sacct(header: Collection[str]) -> bool:
    """Whether columns are those of sacct."""
    return len(set(SACCT_NAMES) & set(header)) >= 2


def missing_of_sacct(header: Collection[str]) -> str:
    """What columns of sacct's output do not say, and which columns would; empty if nothing is missing."""
    lacks = []
    if not set(_ARRIVALS) & set(header):
        lacks.append(f"when a job came ({', '.join(_ARRIVALS)})")
    if not any(set(names) <= set(header) for names in _LASTED):
        lacks.append("for how long it ran (ElapsedRaw, Elapsed, or Start and End)")
    if not set(_HELD) & set(header):
        lacks.append(f"which GPUs it held ({', '.join(_HELD[:-1])})")
    return "; ".join(lacks)


def read_sacct_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one line. Raises BrokenLine."""
    name = fields.text("JobIDRaw") or fields.text("JobID")
    if "." in name:
        return SkippedLine(line, "it is a step of a job", broken=False)
    if "[" in name:
        return SkippedLine(line, "it stands for tasks of an array that have not begun", broken=False)
    held = _resources(fields)
    gpus = held.gpus
    if not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    profiles = held.mig_profiles
    if len(profiles) > 1:
        told = " and ".join(profile or "whole GPUs" for profile in sorted(profiles, reverse=True))
        return SkippedLine(line, f"it held {told}; a replayed job has MIG instances of one profile", broken=False)
    mig = profiles.pop() if profiles else ""
    if (state := fields.text("State").partition(" ")[0].upper()) in _NOT_ENDED:
        return SkippedLine(line, f"its end is not recorded: it is {state}", broken=False)
    if state in ("REQUEUED", "REVOKED"):
        return SkippedLine(
            line, f"it is an earlier run of a job that was {state.lower()}; its last run counts", broken=False
        )
    seconds = _seconds(fields)
    if not seconds:
        return SkippedLine(line, _why_no_seconds(fields, seconds, state), broken=False)
    column = next((column for column in _ARRIVALS if _is_given(fields, column)), "")
    if not column:
        return SkippedLine(line, "its arrival is not recorded", broken=False)
    arrival = fields.moment(column)
    nodes = held.whole("node") or _nodes(fields)
    # Pods of a job are equal; if the parts are not, the fleet decides the number of pods. A process uses one instance only.
    pods = gpus if mig else nodes if nodes and not gpus % nodes else 0
    return TraceJob(
        name=name or f"line-{line}",
        arrival=arrival,
        seconds=seconds,
        gpus=gpus,
        share=mig_gpus(f"{MIG_PREFIX}{mig}") if mig else WHOLE,
        mig=mig,
        pods=pods,
        cpu_millis=round(held.whole("cpu") * 1000 / pods) if pods else 0,
        memory_mib=round(held.mebibytes / pods) if pods else 0,
        team=next((text for column in _TEAMS if (text := fields.text(column))), ""),
        line=line,
    )


def _nodes(fields: LineFields) -> int:
    text = fields.text("NNodes") or fields.text("AllocNodes")
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else 0


class _Held(NamedTuple):
    """``amounts``: resources by name, as the column says them."""

    column: str
    amounts: dict[str, str]

    def whole(self, name: str, default: int = 0) -> int:
        """A whole number. Raises BrokenLine."""
        text = self.amounts.get(name)
        if text is None:
            return default
        match = re.fullmatch(r"(\d+)(?:\.0+)?([KM]?)", text, re.ASCII)
        if match is None:
            raise BrokenLine(f"{self._said(name, text)}; expected a whole number")
        return _bounded(match[1], self._said(name, text)) * _COUNTS[match[2]]

    @property
    def gpus(self) -> int:
        """The number of GPUs or MIG instances. Raises BrokenLine."""
        return self.whole("gres/gpu", sum(self.whole(kind) for kind in self._typed))

    @property
    def mig_profiles(self) -> set[str]:
        """The MIG profiles of what it held, with an empty one for whole GPUs. Raises BrokenLine."""
        return {match[1] if (match := _MIG_TYPE.search(kind)) else "" for kind in self._typed if self.whole(kind)}

    @property
    def _typed(self) -> list[str]:
        return [kind for kind in self.amounts if kind.startswith("gres/gpu:")]

    @property
    def mebibytes(self) -> float:
        """The memory. Raises BrokenLine."""
        text = self.amounts.get("mem", "0")
        match = re.fullmatch(r"(\d+)(\.\d+)?([KMGTP]?)[cn]?", text, re.ASCII)
        if match is None:
            raise BrokenLine(f"{self._said('mem', text)}; expected an amount such as 64G")
        _bounded(match[1], self._said("mem", text))
        return float(match[1] + (match[2] or "")) * _UNITS[match[3]]

    def _said(self, name: str, text: str) -> str:
        return f"{self.column} has {name}={text!r:.80}"


def _bounded(digits: str, said: str) -> int:
    """A number of the file. Raises BrokenLine if it is too large for any cluster."""
    if len(digits) > _MOST_DIGITS:
        raise BrokenLine(f"{said}, which is too large; expected at most {_MOST_DIGITS} digits")
    return int(digits)


def _resources(fields: LineFields) -> _Held:
    """Parse ``billing=8,cpu=8,gres/gpu=2``, and the older ``gpu:4`` and ``gpu:a100:4`` (also ``gres:gpu:4``)."""
    column = next((column for column in _HELD if fields.text(column)), _HELD[0])
    held: dict[str, str] = {}
    for part in re.sub(r"\([^)]*\)", "", fields.text(column)).split(","):
        name, equals, value = part.partition("=")
        if equals:
            held[name.lower() if name.lower().startswith("gres") else name] = value
        elif part.removeprefix("gres:").removeprefix("gres/").startswith("gpu"):
            *kind, number = part.removeprefix("gres:").removeprefix("gres/").split(":")
            if not number.isdigit():
                kind, number = [*kind, number], "1"
            held["gres/" + ":".join(kind)] = number
    return _Held(column, held)


def _is_given(fields: LineFields, column: str) -> bool:
    return fields.text(column).lower() not in _SACCT_EMPTY


def _why_no_seconds(fields: LineFields, seconds: int | None, state: str) -> str:
    """Why a job has no run time: ``seconds`` is 0, or None if no column says it."""
    completed = state == "COMPLETED"
    if seconds == 0:
        return "it ran for less than a second" if completed else "it never ran"
    columns = [column for column in ("ElapsedRaw", "Elapsed", "Start", "End") if fields.text(column)]
    if "Start" in columns and not _is_given(fields, "Start") and not completed:
        return "it never ran"
    said = [f"{column} is {fields.text(column)}" for column in columns if not _is_given(fields, column)]
    return ": ".join(["its run time is not recorded", *([", ".join(said)] if said else [])])


def _seconds(fields: LineFields) -> int | None:
    """The run time by the first column that says it; None if none does. Raises BrokenLine."""
    if _is_given(fields, "ElapsedRaw"):
        return fields.seconds("ElapsedRaw")
    if _is_given(fields, "Elapsed"):
        text = fields.text("Elapsed")
        match = _ELAPSED.fullmatch(text)
        if match is None:
            raise BrokenLine(f"Elapsed is {text!r:.80}; expected a time such as 1-02:30:00")
        days, hours, minutes, seconds = (_bounded(part or "0", f"Elapsed is {text!r:.80}") for part in match.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if not _is_given(fields, "Start") or not _is_given(fields, "End"):
        return None
    lasted = fields.moment("End") - fields.moment("Start")
    if lasted < 0:
        raise BrokenLine(f"End is {fields.text('End')}; expected a time not before Start, {fields.text('Start')}")
    return lasted
