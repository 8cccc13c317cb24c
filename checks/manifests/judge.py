"""Run cases in the embedded lab and on a control plane, and compare.

Cases from files run whole, in a lab on each side. Drawn objects are only offered to both sides, to the control plane as a dry run: that judges
a thousand of them in a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from checks.fuzzing.drawn_objects import draw
from checks.manifests.comparison import Difference, compare, silent, unserved
from checks.manifests.manifest_case import ManifestCase
from checks.manifests.observation import Observation, observe, offer
from checks.report import Report, Result
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.errors import KailabError
from kailab.lab import Lab
from kailab.lab.venues import Venue, open_venue
from kailab.model.kinds import kind_key

Tell = Callable[[str, int, int], None]


def judge_cases(
    cases: Sequence[ManifestCase],
    backend: str,
    where: dict[str, Any],
    tell: Tell,
    notice: Callable[[str], None],
    scheduler: str = "kailab",
    take: Callable[[Result], None] = lambda result: None,
) -> Report:
    """Raises KailabError if no control plane can be started; one that breaks is replaced. ``take``: gets each result as it comes."""
    report = Report("manifests")
    venue: Venue | None = None
    try:
        for number, case in enumerate(cases, 1):
            tell(case.id, number, len(cases))
            here = observe(case, "embedded", scheduler=scheduler)
            venue = venue or open_venue(backend, scheduler=scheduler, get=True, tell=notice, **where)
            there = observe(case, backend, venue, scheduler)
            report.results.append(_result(case, here, there))
            take(report.results[-1])
            if there.stopped:
                # The failure may have left objects behind.
                broken, venue = venue, None
                with suppress(KailabError):
                    broken.close()
    finally:
        if venue is not None:
            venue.close()
    return report


def _result(case: ManifestCase, here: Observation, there: Observation) -> Result:
    found = compare(here, there)
    quiet = silent(here, there)
    foreign = unserved(there)
    notes = [f"not compared, the server does not have its kind: {', '.join(sorted(set(foreign)))}"] if foreign else []
    notes += [str(difference) for difference in found if difference.explained]
    return Result(
        id=case.id,
        suite="manifests",
        differences=(
            *(str(difference) for difference in found if not difference.explained),
            *(f"{title}: taken without a word, and nothing acts on it" for title in quiet),
        ),
        notes=(*notes, *case.unread),
    )


def judge_drawn(
    seeds: Iterable[int], backend: str, where: dict[str, Any], tell: Tell, notice: Callable[[str], None]
) -> Report:
    """Offer drawn objects to both sides. Raises KailabError if no control plane can be started."""
    wanted = list(seeds)
    report = Report("drawn manifests")
    venue = open_venue(backend, scheduler="kailab", get=True, tell=notice, **where)
    try:
        there = venue.cluster
        assert isinstance(there, KubernetesCluster)
        there.dry_run()
        with Lab.open("lesson") as here:
            for number, seed in enumerate(wanted, 1):
                tell(f"object {seed}", number, len(wanted))
                report.results.append(_drawn(here, there, seed))
    finally:
        venue.close()
    return report


def _drawn(here: Lab, there: KubernetesCluster, seed: int) -> Result:
    obj = draw(seed)
    mine, theirs = Observation(), Observation()
    try:
        mine.answers.append(offer(obj, here, here.cluster))
    except Exception as error:
        return Result(f"drawn-{seed}", obj["kind"], (f"internal error {type(error).__name__}: {error}: {obj}",))
    # A dry run stores nothing either, and a quota or a class would decide about the next objects.
    if not mine.answers[0].refused:
        here.cluster.delete(kind_key(obj), obj["metadata"]["name"], "default")
    theirs.answers.append(offer(obj, None, there))
    found: list[Difference] = compare(mine, theirs)
    return Result(
        f"drawn-{seed}",
        obj["kind"],
        tuple(f"{difference}: {obj}" for difference in found if not difference.explained),
        notes=tuple(str(difference) for difference in found if difference.explained),
    )
