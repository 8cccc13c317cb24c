"""The homes that a test session's labs live in, on real backends: one is enough for most sessions, as labs come one after the
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
    from kailab.lab.home import LiveHome


class Homes:
    """Of one session (with pytest-xdist: of one worker)."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._free: list[LiveHome] = []
        self._taken: list[LiveHome] = []
        self._failed: KailabError | None = None

    def take(self, scheduler: str) -> LiveHome:
        """A home nobody lives in. Raises KailabError, at once if that failed before."""
        from kailab.errors import KailabError

        if self._failed is not None:
            raise self._failed
        if self._free:
            home = self._free.pop()
        else:
            try:
                home = self._opened(scheduler)
            except KailabError as error:
                self._failed = error
                raise
        self._taken.append(home)
        return home

    def _opened(self, scheduler: str) -> LiveHome:
        from kailab.errors import InputError
        from kailab.lab.planes import open_home

        _end_by_sigterm_too()
        settings = self._settings
        if settings.backend == "kubeconfig" and self._taken:
            raise InputError("a cluster that a kubeconfig names has room for one lab at a time")
        return open_home(
            settings.backend,
            kubeconfig=settings.kubeconfig,
            context=settings.context,
            components=settings.components,
            kubernetes=settings.kubernetes,
            kai=settings.kai_bin,
            kai_crds=settings.kai_crds,
            scheduler=scheduler,
        )

    def give_back(self, home: LiveHome) -> None:
        """Its lab has moved out."""
        self._taken.remove(home)
        self._free.append(home)

    def drop(self, home: LiveHome) -> None:
        """It was not left as it should be: no other lab is to live there."""
        from kailab.errors import KailabError

        if home in self._taken:
            self._taken.remove(home)
            with suppress(KailabError):
                home.close()

    def close(self) -> None:
        """End all."""
        homes, self._free, self._taken = [*self._free, *self._taken], [], []
        for home in homes:
            home.close()


def _end_by_sigterm_too() -> None:
    """Let SIGTERM end the session as Ctrl-C does: what the labs brought into a cluster is taken out. Whoever has a handler keeps
    it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _interrupted)


def _interrupted(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt("SIGTERM")
