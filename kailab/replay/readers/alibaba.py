"""Traces of Alibaba: openb (pods of cluster-trace-gpu-v2023) and PAI (tasks of cluster-trace-gpu-v2020).

openb: times are seconds; ``gpu_milli`` is thousandths of each GPU, below 1000 only if ``num_gpu`` is 1; ``gpu_spec``
lists the models that a pod may run on, separated by bars; a pod holds its GPUs from ``creation_time`` to
``deletion_time``. Source: the trace's README.

PAI (``pai_task_table`` with a header line): a job has tasks of different roles, each a number of equal instances.
``plan_cpu`` and ``plan_gpu`` are percent of a core and of a GPU per instance, ``plan_mem`` is GiB; times are seconds.
``gpu_type`` is what a task got, not what it requested, so it is not read. Users are in another table. Source: Weng et
al., "MLaaS in the Wild", NSDI 2022; https://github.com/alibaba/clusterdata, cluster-trace-gpu-v2020.
"""

from __future__ import annotations

from kailab.cluster.pod_lifecycle import LONGEST_SECONDS
from kailab.replay.job import WHOLE, SkippedLine, TraceJob
from kailab.replay.readers.lines import BrokenLine, LineFields
from kailab.replay.readers.plain import models

OPENB_COLUMNS = (
    "name",
    "cpu_milli",
    "memory_mib",
    "num_gpu",
    "gpu_milli",
    "gpu_spec",
    "creation_time",
    "deletion_time",
)


OPENB_LIST_COLUMNS = OPENB_COLUMNS[:6]


def read_openb_list_pod(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one pod of a list without times: pods arrive one each second, in the order of the file, and never end. Raises BrokenLine."""
    return _openb_job(fields, line, line - 2, int(LONGEST_SECONDS))


def _openb_job(fields: LineFields, line: int, arrival: int, seconds: int) -> TraceJob:
    """A pod as a job, with its GPUs as the number and the thousandths of each. Raises BrokenLine."""
    gpus, milli = fields.whole("num_gpu"), fields.whole("gpu_milli", WHOLE)
    if gpus and not 0 < milli <= WHOLE:
        raise BrokenLine(f"gpu_milli is {milli}; expected 1 to {WHOLE}")
    if gpus > 1 and milli != WHOLE:
        raise BrokenLine(
            f"gpu_milli is {milli} with {gpus} GPUs; expected {WHOLE}, because only a single GPU can be shared"
        )
    return TraceJob(
        name=fields.text("name"),
        arrival=arrival,
        seconds=seconds,
        gpus=gpus,
        share=milli if gpus else WHOLE,
        pods=1,
        cpu_millis=fields.whole("cpu_milli"),
        memory_mib=fields.whole("memory_mib"),
        models=models(fields.text("gpu_spec")),
        line=line,
    )


def read_openb_pod(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one pod. The run time of a pod that was scheduled late counts from ``scheduled_time``. Raises BrokenLine."""
    arrival, end = fields.whole("creation_time"), fields.whole("deletion_time")
    begun = fields.whole("scheduled_time", arrival)
    if end < arrival:
        raise BrokenLine(f"deletion_time is {end}; expected a time not before creation_time, {arrival}")
    return _openb_job(fields, line, arrival, max(1, end - max(begun, arrival)))


PAI_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
)
_OF_PERCENT = WHOLE // 100


def read_pai_task(fields: LineFields, line: int) -> TraceJob | SkippedLine:
    """Read one task; its instances become the pods of a job. Raises BrokenLine."""
    for name, reason in (
        ("start_time", "it never ran"),
        ("end_time", "its end is not recorded"),
        ("inst_num", "it has no instances"),
    ):
        if not fields.text(name):
            return SkippedLine(line, reason, broken=False)
    begun, ended, pods = fields.moment("start_time"), fields.moment("end_time"), fields.whole("inst_num")
    if ended < begun:
        raise BrokenLine(f"end_time is {ended}; expected a time not before start_time, {begun}")
    if not pods:
        return SkippedLine(line, "it has no instances", broken=False)
    milli = round(fields.number("plan_gpu", 0.0) * _OF_PERCENT)
    if milli > WHOLE and milli % WHOLE:
        return SkippedLine(line, "it requests whole GPUs and a part of one in each pod", broken=False)
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
