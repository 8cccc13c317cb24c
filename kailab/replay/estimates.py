"""Run times as users announce them: longer than the real ones, by a model of how wrong users are.

Source: Mu'alem and Feitelson, "Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM
SP2 with Backfilling", IEEE TPDS 12(6), 2001, section 4: with factor f, an estimate is drawn evenly between the run time
and f + 1 times as much.
"""

from __future__ import annotations

import random
from dataclasses import replace

from msgspec import structs

from kailab.replay.job import TraceJob
from kailab.replay.trace import Trace


def with_estimates(trace: Trace, factor: float | None, seed: int | None = None) -> Trace:
    """Draw the run times that policies know. Jobs whose trace has an estimate keep it. ``factor`` None: change nothing.
    Equal seeds give equal estimates, whatever else a replay draws.
    """
    if factor is None:
        return trace
    chance = random.Random(f"estimates {seed or 0}")

    def drawn(job: TraceJob) -> TraceJob:
        estimate = round(job.seconds * chance.uniform(1, factor + 1))
        return job if job.expected else structs.replace(job, expected=max(1, estimate))

    return replace(trace, jobs=[drawn(job) for job in trace.jobs])
