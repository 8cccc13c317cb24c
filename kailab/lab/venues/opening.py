"""From the name of a backend to a venue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kailab.cluster.backends import BACKENDS
from kailab.errors import InputError
from kailab.lab.venues.contract import Place, Provider, Request, Tell, Venue, silent, unrecorded
from kailab.undertest.contract import SchedulerUnderTest
from kailab.undertest.selection import check_options, choose_scheduler


def provider_of(backend: str) -> Provider:
    """Raises InputError for a backend that there is not."""
    BACKENDS.check(backend)
    provider: Provider = BACKENDS.load(backend, _lacks)
    return provider


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
    tell: Tell = silent,
    record: Callable[[Place], None] = unrecorded,
    **options: Any,
) -> Venue:
    """A venue of this backend, empty. ``options``: by the names of ``kailab.cluster.choices``, as the backend understands them; for
    the others see ``Request``. Raises InputError for what it does not understand, ConnectError, and what the backend raises."""
    provider = provider_of(backend)
    # The scheduler's own options are checked by itself: one venue may have several decide, one after the other.
    check_options(backend, None, options)
    one = choose_scheduler(scheduler, options) if isinstance(scheduler, str) else scheduler
    return provider.open(Request(scheduler=one, folder=folder, get=get, options=options, tell=tell, record=record))


def venue_for(venue: Venue | None, backend: str, scheduler: SchedulerUnderTest, **options: Any) -> Venue:
    """The venue given, or a new one. Raises InputError where it is another than was asked for, and what ``open_venue`` raises."""
    if venue is None:
        return open_venue(backend, scheduler=scheduler, **options)
    if venue.backend != backend:
        raise InputError(f"the venue given is of the backend {venue.backend}, not {backend}")
    if given := [name for name, value in options.items() if value is not None]:
        raise InputError(f"a venue knows its cluster: leave out {' and '.join(given)}, or the venue")
    return venue
