"""The jobs of SenseTime's clusters, as their batch systems logged them: Helios, and Acme.

Both have a line for each job: ``submit_time``, ``start_time``, ``end_time`` (dates), ``gpu_num`` and ``cpu_num`` in all, ``node_num`` nodes of equal parts.

Source: Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU Datacenters", SC 2021
(https://github.com/S-Lab-System-Group/HeliosData), and Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024
(https://github.com/InternLM/AcmeTrace).
"""

from __future__ import annotations

from kailab.replay.job import LeftOut, TraceJob
from kailab.replay.readers.fields import BrokenLine, Fields

_BOTH = ("job_id", "user", "node_num", "gpu_num", "cpu_num", "submit_time", "start_time", "end_time")
HELIOS = (*_BOTH, "vc")
ACME = (*_BOTH, "type")
_NOTHING = ("", "none", "nan", "nat", "null", "unknown")
"""How the logs write a time that there is none of."""


def helios_job(fields: Fields, line: int) -> TraceJob | LeftOut:
    """A line of ``cluster_log.csv``; whose it is: the virtual cluster. Its dates name no zone. Raises BrokenLine."""
    return _job(fields, line, "vc", 0)


def acme_job(fields: Fields, line: int) -> TraceJob | LeftOut:
    """A line of ``trace_seren.csv`` or ``trace_kalos.csv``; whose it is: the type of work, for which the paper tells of quotas. Raises BrokenLine."""
    return _job(fields, line, "type", round(fields.number("mem_per_pod_GB", 0.0) * 1024))


def _job(fields: Fields, line: int, team: str, memory_mib: int) -> TraceJob | LeftOut:
    arrival, gpus = fields.moment("submit_time"), fields.whole("gpu_num")
    if not gpus:
        return LeftOut(line, "it held no GPU", broken=False)
    for name, told in (("start_time", "it never ran"), ("end_time", "its end is not told")):
        if fields.text(name).lower() in _NOTHING:
            return LeftOut(line, told, broken=False)
    # Kalos' ``duration`` counts the time in the queue, too.
    begun, ended = fields.moment("start_time"), fields.moment("end_time")
    if ended < begun:
        raise BrokenLine(
            f"end_time is {fields.text('end_time')}; expected no time before start_time, {fields.text('start_time')}"
        )
    nodes = fields.whole("node_num", 0)
    # Unequal parts are left to the fleet: pods of a job are alike.
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
