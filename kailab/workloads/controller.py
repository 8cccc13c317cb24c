"""What the controller of a kind is: it brings what an owner has in line with what the owner says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from kailab.cluster.protocol import Object, WatchEvent
from kailab.workloads.bench import Reference, Workbench


class Controller:
    """The controller of one kind, made when the first object of the kind is seen. ``kind``: its kind key. Soft state only: built over
    a resumed cluster it carries on."""

    one_look: ClassVar[bool] = False
    """Done in one look: a write of its own to the owner is no reason for another."""

    def __init__(self, bench: Workbench, kind: str) -> None:
        self._bench = bench
        self.kind = kind

    def sync(self, owner: Object) -> None:
        """Look at an owner, given as it is stored now: make what it lacks, delete what it has too much, write its status."""
        raise NotImplementedError

    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        """The owners to look at after a change of an object of another kind, one of ``Kind.watches``."""
        return ()

    def orphaned(self, pod: Object) -> None:
        """A pod changed whose owner is gone."""
