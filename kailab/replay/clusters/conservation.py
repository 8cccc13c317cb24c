"""Over all clusters no job is lost and none is in two places: held against each other after every replay over several clusters."""

from __future__ import annotations

from kailab.replay.balance import Unbalanced
from kailab.replay.clusters.journeys import Dispatched


def faults(found: Dispatched) -> list[str]:
    """What does not come out; nothing where all does."""
    told = []
    trace, shift = found.sites.trace.jobs, found.began - found.sites.trace.jobs[0].arrival
    numbers = [one.number for one in found.journeys]
    arrived = sum(job.arrival + shift <= found.ended and job.arrival + shift < found.cut for job in trace)
    if numbers != list(range(arrived)):
        told.append(
            f"{arrived} jobs of the trace have arrived; the dispatcher knows {len(numbers)}, {len(set(numbers))} of them once"
        )
    places: dict[int, list[str]] = {}
    for name, replayed in found.clusters.items():
        for work in replayed.accounts.works.values():
            places.setdefault(id(work.job), []).append(name)
    for one in found.journeys:
        own = places.pop(id(one.job), [])
        expected = [] if one.work is None else [one.at]
        if own != expected:
            told.append(
                f"{one.job.name} is in {', '.join(own) or 'no cluster'}; expected {', '.join(expected) or 'none'}"
            )
        elif one.work is not None and found.clusters[one.at].accounts.works.get(one.name) is not one.work:
            told.append(f"{one.job.name} is another job in {one.at}")
    if places:
        told.append(f"{len(places)} jobs are in clusters that the dispatcher has not sent there")
    submitted = sum(one.job.demand for one in found.journeys)
    inside = sum(replayed.accounts.submitted for replayed in found.clusters.values())
    outside = sum(one.job.demand for one in found.journeys if one.work is None)
    if submitted != inside + outside:
        told.append(f"{submitted} milli-GPU-seconds arrived, which is not {inside} in clusters + {outside} elsewhere")
    return told


def check(found: Dispatched) -> None:
    """Raises Unbalanced."""
    if told := faults(found):
        raise Unbalanced(f"jobs do not balance over the clusters: {'; '.join(told[:5])}")
