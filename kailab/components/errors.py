"""Errors about the programs of a control plane."""

from __future__ import annotations

from kailab.components.pins import Pin
from kailab.errors import KailabError


class MissingComponents(KailabError):
    """Programs of a control plane are not here. The message says which (``pins``), and how to get them."""

    def __init__(self, message: str, missing: tuple[Pin, ...]) -> None:
        self.pins = missing
        super().__init__(message)

    def __reduce__(self) -> tuple[type[MissingComponents], tuple[str, tuple[Pin, ...]]]:
        return MissingComponents, (str(self), self.pins)


class DamagedComponent(KailabError):
    """A program in the cache has changed."""


class WrongComponent(KailabError):
    """A file is not the expected program or version, or does not run here."""


class DownloadFailed(KailabError):
    """A file can't be downloaded from where it is published."""


class Unreachable(DownloadFailed):
    """The host can't be reached from here."""


class WrongChecksum(KailabError):
    """A downloaded file is not the published one. It was removed."""


class BuildFailed(KailabError):
    """A program can't be built here. The message has Go's output."""
