"""Venues: where the clusters of labs are. ``contract`` has the interfaces; the functions here open a venue by the name of its backend.

- ``embedded``: a cluster in this process.
- ``kubernetes``: a venue on an API server; ``kubeconfig``: one that somebody else runs.
- ``plane``: one whose processes are ours, for the backends ``controlplane`` (here too), ``kind`` and ``vcluster``; ``reaper`` ends it with
  the process that opened it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.lab.venues.contract import LabCluster, Place, Provider, Request, Venue, ignore_message, ignore_place
from kailab.model.callbacks import Tell
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.selection import check_options, choose_scheduler

__all__ = [
    "LabCluster",
    "Place",
    "Provider",
    "Request",
    "Venue",
    "open_venue",
    "provider_of",
    "ignore_message",
    "venue_for",
]


def provider_of(backend: str) -> Provider:
    """Raises InputError for an unknown backend."""
    BACKENDS.check(backend)
    return BACKENDS.load(backend, _lacks)


def _lacks(provider: object) -> str:
    methods = [name for name in vars(Provider) if not name.startswith("_")]
    missing = [name for name in methods if not callable(getattr(provider, name, None))]
    return f"is no Provider of venues: it lacks {', '.join(missing)}" if missing else ""


def open_venue(
    backend: str,
    *,
    scheduler: str | SchedulerUnderTest = "kailab",
    folder: Path | None = None,
    get: bool = False,
    tell: Tell = ignore_message,
    record: Callable[[Place], None] = ignore_place,
    **options: Any,
) -> Venue:
    """Open an empty venue. ``options``: by the names of ``kailab.cluster.registry``, as the backend understands them; for the other arguments
    see ``Request``. Raises InputError for options that it does not understand, ConnectError, and the backend's errors."""
    provider = provider_of(backend)
    # The scheduler checks its own options, because several may decide in one venue, one after the other.
    check_options(backend, None, options)
    under_test = choose_scheduler(scheduler, options) if isinstance(scheduler, str) else scheduler
    return provider.open(
        Request(scheduler=under_test, folder=folder, get=get, options=options, tell=tell, record=record)
    )


def venue_for(venue: Venue | None, backend: str, scheduler: SchedulerUnderTest, **options: Any) -> Venue:
    """The given venue, or a new one. Raises InputError if the given venue does not match the other arguments, and the errors of
    ``open_venue``."""
    if venue is None:
        return open_venue(backend, scheduler=scheduler, **options)
    if venue.backend != backend:
        raise InputError(f"the given venue belongs to the backend {venue.backend}, not {backend}")
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"a given venue has its cluster already: leave out {' and '.join(given)}, or the venue")
    return venue
