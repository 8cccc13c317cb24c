"""What a replay over several clusters is a replay of, for the file that it is kept in."""

from __future__ import annotations

from kailab.replay.clusters.declared import Sites
from kailab.replay.keeping import digest, of_lab, of_program, of_trace
from kailab.scheduler.settings.policies import loaded


def facts(sites: Sites, lasting: int | None) -> dict[str, str]:
    """As those of a plan. Raises InputError, ExtensionError."""
    found = of_trace(sites.trace)
    for site in sites.sites:
        found.update({f"{what} of cluster {site.name}": text for what, text in of_lab(site.plan).items()})
    dispatching = sites.dispatching
    found["the file of clusters"] = digest(
        [(site.name, site.limit, site.pay) for site in sites.sites],
        dict(sites.homes),
        (dispatching.retry, dispatching.again, dispatching.most),
        [[*pair, link] for pair, link in sites.links.items()],
        sites.link,
        dict(sites.datasets),
        list(sites.outages),
    )
    found["the dispatch policy"] = digest(loaded(dispatching.policy))
    plan = sites.sites[0].plan
    found["--for, --checkpoint or --arrivals-only"] = f"{lasting} {plan.checkpoint} {plan.endless}"
    return {**found, **of_program()}
