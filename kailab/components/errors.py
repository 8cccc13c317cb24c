"""Errors about the programs of a control plane."""

from __future__ import annotations

from kailab.components.pins import Pin
from kailab.errors import KailabError


class MissingComponents(KailabError):
    """Programs of a control plane are not here. The text says which, and how to get them. ``pins``: which."""

    def __init__(self, message: str, missing: tuple[Pin, ...]) -> None:
        self.pins = missing
        super().__init__(message)

    def __reduce__(self) -> tuple[type[MissingComponents], tuple[str, tuple[Pin, ...]]]:
        return MissingComponents, (str(self), self.pins)


class DamagedComponent(KailabError):
    """A program in the cache is not what was put there."""


class WrongComponent(KailabError):
    """A file is not the program, or the version, that it should be, or does not run here."""


class DownloadFailed(KailabError):
    """A file can't be had from where it is published."""


class Unreachable(DownloadFailed):
    """There is no way to that host from here."""


class WrongChecksum(KailabError):
    """What came is not what was published. It was removed."""


class BuildFailed(KailabError):
    """A program can't be built here. The text has what Go said."""
