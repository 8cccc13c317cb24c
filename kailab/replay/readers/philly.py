"""Philly: the jobs of Microsoft's cluster, as one line each.

The form is that in which the trace is passed on: ``timestamp`` (submitted), ``duration`` and ``gpu_time`` in seconds, ``num_gpus``, and ``cluster``, the virtual
cluster, whose quota the job counted against.
Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads", USENIX ATC 2019.
"""

from __future__ import annotations

from kailab.replay.job import LeftOut, TraceJob
from kailab.replay.readers.fields import Fields

COLUMNS = ("timestamp", "duration", "num_gpus", "cluster")


def job(fields: Fields, line: int) -> TraceJob | LeftOut:
    """One line. Raises BrokenLine."""
    seconds, gpus = fields.seconds("duration"), fields.whole("num_gpus")
    if not seconds or not gpus:
        return LeftOut(line, "it held no GPU", broken=False)
    return TraceJob(
        name=f"philly-{line}",
        arrival=fields.moment("timestamp"),
        seconds=seconds,
        gpus=gpus,
        team=fields.text("cluster"),
        line=line,
    )
