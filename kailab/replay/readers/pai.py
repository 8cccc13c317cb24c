"""PAI: the tasks of Alibaba's cluster-trace-gpu-v2020 (``pai_task_table``, with the line of its header on top).

A job has tasks of different roles; each is so many equal instances. ``plan_cpu`` and ``plan_gpu`` are percent of a core and of a GPU, ``plan_mem``
GiB, of each instance; times are seconds. ``gpu_type`` is what a task got, not what it asked for: it is not read. Users are in another table.

Source: Weng et al., "MLaaS in the Wild", NSDI 2022; https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2020.
"""

from __future__ import annotations

from kailab.replay.job import WHOLE, LeftOut, TraceJob
from kailab.replay.readers.fields import BrokenLine, Fields

COLUMNS = ("job_name", "task_name", "inst_num", "status", "start_time", "end_time", "plan_cpu", "plan_mem", "plan_gpu")
_OF_PERCENT = WHOLE // 100


def task(fields: Fields, line: int) -> TraceJob | LeftOut:
    """One line: its instances are the pods of a job. Raises BrokenLine."""
    for name, told in (
        ("start_time", "it never ran"),
        ("end_time", "its end is not told"),
        ("inst_num", "it has no instances"),
    ):
        if not fields.text(name):
            return LeftOut(line, told, broken=False)
    begun, ended, pods = fields.moment("start_time"), fields.moment("end_time"), fields.whole("inst_num")
    if ended < begun:
        raise BrokenLine(f"end_time is {ended}; expected no time before start_time, {begun}")
    if not pods:
        return LeftOut(line, "it has no instances", broken=False)
    milli = round(fields.number("plan_gpu", 0.0) * _OF_PERCENT)
    if milli > WHOLE and milli % WHOLE:
        return LeftOut(line, "it asks for whole GPUs and a part of one in each pod", broken=False)
    return TraceJob(
        name=f"{fields.text('job_name')}-{fields.text('task_name')}",
        arrival=begun,
        seconds=max(1, ended - begun),
        gpus=pods * max(1, milli // WHOLE) if milli else 0,
        share=milli if 0 < milli < WHOLE else WHOLE,
        pods=pods,
        cpu_millis=round(fields.number("plan_cpu", 0.0) * 10),
        memory_mib=round(fields.number("plan_mem", 0.0) * 1024),
        line=line,
    )
