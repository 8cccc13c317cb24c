"""openb: the pods and nodes of Alibaba's cluster-trace-gpu-v2023.

Source: the trace's README. Times are seconds; ``gpu_milli`` is thousandths of each GPU, below 1000 only where ``num_gpu`` is 1; ``gpu_spec`` names the
models that a pod may run on, with bars between; a pod holds its place from ``creation_time`` (when it was to be scheduled) to ``deletion_time``.
"""

from __future__ import annotations

from kailab.replay.job import WHOLE, LeftOut, TraceJob
from kailab.replay.readers.fields import BrokenLine, Fields
from kailab.replay.readers.plain import models

COLUMNS = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec", "creation_time", "deletion_time")


def pod(fields: Fields, line: int) -> TraceJob | LeftOut:
    """One line of a list of pods. How long a pod that was scheduled late held its place counts from when it was scheduled. Raises BrokenLine."""
    arrival, end = fields.whole("creation_time"), fields.whole("deletion_time")
    begun = fields.whole("scheduled_time", arrival)
    if end < arrival:
        raise BrokenLine(f"deletion_time is {end}; expected no time before creation_time, {arrival}")
    gpus, milli = fields.whole("num_gpu"), fields.whole("gpu_milli", WHOLE)
    if gpus and not 0 < milli <= WHOLE:
        raise BrokenLine(f"gpu_milli is {milli}; expected 1 to {WHOLE}")
    if gpus > 1 and milli != WHOLE:
        raise BrokenLine(f"gpu_milli is {milli} of {gpus} GPUs; expected {WHOLE}: parts are of one GPU only")
    return TraceJob(
        name=fields.text("name"),
        arrival=arrival,
        seconds=max(1, end - max(begun, arrival)),
        gpus=gpus,
        share=milli if gpus else WHOLE,
        pods=1,
        cpu_millis=fields.whole("cpu_milli"),
        memory_mib=fields.whole("memory_mib"),
        models=models(fields.text("gpu_spec")),
        line=line,
    )
