"""Other traces that could have been: the same arrivals, and at each of them a job that the same team had at some time.

That is a bootstrap over jobs within teams. How much a team asks for in all differs from seed to seed as it would from month to month; when it asks
stays as it was.
"""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec

from kailab.replay.job import TraceJob
from kailab.replay.trace import Trace


def resampled(trace: Trace, seed: int) -> Trace:
    """The same seed gives the same trace."""
    chance = random.Random(seed)
    of_team: dict[str, list[TraceJob]] = {}
    for job in trace.jobs:
        of_team.setdefault(job.team, []).append(job)
    jobs = []
    for job in trace.jobs:
        those = of_team[job.team]
        drawn = those[chance.randrange(len(those))]
        jobs.append(msgspec.structs.replace(drawn, name=job.name, arrival=job.arrival))
    return replace(trace, jobs=jobs)
