"""The venues that a test session's labs live in, on real backends: one is enough for most sessions, as labs come one after the
other. A test with two labs at once gets a second."""

from __future__ import annotations

import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from kailab.pytest_plugin.settings import Settings

if TYPE_CHECKING:
    from kailab.errors import KailabError
    from kailab.lab.venues import Venue


class Venues:
    """Of one session (with pytest-xdist: of one worker)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._free: list[Venue] = []
        self._taken: list[Venue] = []
        self._failed: KailabError | None = None

    def take(self, scheduler: str) -> Venue:
        """A venue that no lab lives in. Raises KailabError, at once if that failed before."""
        from kailab.errors import KailabError

        if self._failed is not None:
            raise self._failed
        if self._free:
            venue = self._free.pop()
        else:
            try:
                venue = self._opened(scheduler)
            except KailabError as error:
                self._failed = error
                raise
        self._taken.append(venue)
        return venue

    def _opened(self, scheduler: str) -> Venue:
        from kailab.cluster.backends import BACKENDS
        from kailab.errors import InputError
        from kailab.lab.venues import open_venue

        _end_by_sigterm_too()
        settings = self._settings
        if self._taken and not BACKENDS[settings.backend].own:
            raise InputError(f"the cluster of the backend {settings.backend} has room for one lab at a time")
        return open_venue(
            settings.backend,
            kubeconfig=settings.kubeconfig,
            context=settings.context,
            components=settings.components,
            kubernetes=settings.kubernetes,
            operators=settings.operators,
            kai=settings.kai_bin,
            kai_crds=settings.kai_crds,
            kai_chart=settings.kai_chart,
            scheduler=scheduler,
        )

    def give_back(self, venue: Venue) -> None:
        """Its lab has moved out."""
        self._taken.remove(venue)
        self._free.append(venue)

    def drop(self, venue: Venue) -> None:
        """It was not left as it should be: no other lab is to live there."""
        from kailab.errors import KailabError

        if venue in self._taken:
            self._taken.remove(venue)
            with suppress(KailabError):
                venue.close()

    def close(self) -> None:
        """End all."""
        venues, self._free, self._taken = [*self._free, *self._taken], [], []
        for venue in venues:
            venue.close()


def _end_by_sigterm_too() -> None:
    """Let SIGTERM end the session as Ctrl-C does: what the labs brought into a cluster is taken out. Whoever has a handler keeps
    it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")
