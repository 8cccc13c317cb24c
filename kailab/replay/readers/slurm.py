"""Traces of batch systems: SenseTime's Helios and Acme, and the output of Slurm's ``sacct -P``.

Helios and Acme have a line for each job: ``submit_time``, ``start_time``, ``end_time`` (dates), ``gpu_num`` and
``cpu_num`` of the whole job, and ``node_num`` nodes of equal parts. Source: Hu et al., "Characterization and Prediction
of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021 (https://github.com/S-Lab-System-Group/HeliosData),
and Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024
(https://github.com/InternLM/AcmeTrace).

sacct prints fields separated by bars:

    sacct -P -X -a -S 2026-01-01 -o JobIDRaw,Account,Submit,Start,End,ElapsedRaw,AllocTRES,State

A job ran for ``ElapsedRaw`` (or ``Elapsed``, or from ``Start`` to ``End``) with the resources of ``AllocTRES``, of
which ``gres/gpu`` counts. Its account is the team. Source: sacct(1).
"""

from __future__ import annotations

import re

from kailab.replay.job import SkippedLine, TraceJob
from kailab.replay.readers.lines import BrokenLine, LineFields

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


SACCT_COLUMNS = ("Submit", "AllocTRES")
_UNITS = {"": 1.0, "K": 2**-10, "M": 1.0, "G": 2**10, "T": 2**20, "P": 2**30}
_ELAPSED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", re.ASCII)
_SACCT_EMPTY = ("", "unknown", "none")
"""Values with which sacct marks a missing time."""


def read_sacct_job(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one line. Raises BrokenLine."""
    name = fields.text("JobIDRaw") or fields.text("JobID")
    if "." in name:
        return SkippedLine(line, "it is a step of a job", broken=False)
    held = _resources(fields.text("AllocTRES"))
    gpus = _whole(held, "gres/gpu", sum(_whole(held, kind) for kind in held if kind.startswith("gres/gpu:")))
    if not gpus:
        return SkippedLine(line, "it held no GPU", broken=False)
    if (state := fields.text("State").partition(" ")[0]) in ("RUNNING", "SUSPENDED", "REQUEUED"):
        return SkippedLine(line, f"its end is not recorded: it is {state}", broken=False)
    arrival, seconds = fields.moment("Submit"), _seconds(fields)
    if not seconds:
        return SkippedLine(line, "it never ran", broken=False)
    nodes = _whole(held, "node")
    # Pods of a job are equal; if the parts are not, the fleet decides the number of pods.
    pods = nodes if nodes and not gpus % nodes else 0
    return TraceJob(
        name=name or f"line-{line}",
        arrival=arrival,
        seconds=seconds,
        gpus=gpus,
        pods=pods,
        cpu_millis=round(_whole(held, "cpu") * 1000 / pods) if pods else 0,
        memory_mib=round(_mebibytes(held.get("mem", "0")) / pods) if pods else 0,
        team=fields.text("Account"),
        line=line,
    )


def _resources(text: str) -> dict[str, str]:
    """Parse ``billing=8,cpu=8,gres/gpu=2``."""
    return {name: value for name, _, value in (part.partition("=") for part in text.split(",") if part)}


def _whole(held: dict[str, str], name: str, default: int = 0) -> int:
    text = held.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise BrokenLine(f"AllocTRES has {name}={text!r:.80}; expected a whole number")
    return int(text)


def _mebibytes(text: str) -> float:
    match = re.fullmatch(r"(\d{1,9}(?:\.\d+)?)([KMGTP]?)[cn]?", text, re.ASCII)
    if match is None:
        raise BrokenLine(f"AllocTRES has mem={text!r:.80}; expected an amount such as 64G")
    return float(match[1]) * _UNITS[match[2]]


def _seconds(fields: LineFields) -> int:
    if fields.text("ElapsedRaw"):
        return fields.seconds("ElapsedRaw")
    if text := fields.text("Elapsed"):
        match = _ELAPSED.fullmatch(text)
        if match is None:
            raise BrokenLine(f"Elapsed is {text!r:.80}; expected a time such as 1-02:30:00")
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return days * 86_400 + hours * 3600 + minutes * 60 + seconds
    if fields.text("Start").lower() in _SACCT_EMPTY or fields.text("End").lower() in _SACCT_EMPTY:
        return 0
    lasted = fields.moment("End") - fields.moment("Start")
    if lasted < 0:
        raise BrokenLine(f"End is {fields.text('End')}; expected a time not before Start, {fields.text('Start')}")
    return lasted
