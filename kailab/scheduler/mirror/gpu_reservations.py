"""What a node gives to the pods that reserve its shared GPUs, one for each (``kailab.scheduler.binding.reservation_pods``).

The GPU of such a reservation counts through the pods that share it, and what else it holds by itself: a pod slot, and what its
containers ask for. Source: KAI node_info.addTaskResources. Where a GPU is shared and no reservation is there, as in an embedded
lab, a *stand-in* holds the slot that one would.

Where no pod shares the GPU (not any more, or not after all) its reservation is *lone*. It is about to go, but until it is gone
the API server has it on its node: whoever takes that GPU for free takes it twice. It counts as a pod that is leaving with a whole
GPU, so that its place may be waited for and not be taken. KAI never counts the GPU of a reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from kailab.engine.snapshot.records import NO_GPU, Shape, Status, Task
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels as names

_SLOT = Shape()  # asks for nothing, and so takes a pod slot


class GpuReservations:
    """Who shares which GPU, and who reserves it: pods by UID, shared GPUs by their group. ``refresh``: reads a pod anew."""

    def __init__(self, working: WorkingSet, refresh: Callable[[str], None]) -> None:
        self._working = working
        self._refresh = refresh
        self._shared: dict[str, tuple[str, ...]] = {}  # pod -> groups
        self._sharing: dict[str, dict[str, None]] = {}  # group -> pods
        self._reserved: dict[str, tuple[str, ...]] = {}  # reservation -> groups
        self._reserving: dict[str, dict[str, None]] = {}  # group -> reservations
        self._nodes: dict[str, str] = {}  # of pods that share

    def shares(self, pod: str, node: str, groups: tuple[str, ...]) -> None:
        """A pod on ``node`` ("": on none) shares these from now on."""
        if not node:
            groups = ()
        before = self._shared.get(pod, ())
        if before == groups and (not groups or self._nodes[pod] == node):
            return
        _note(self._shared, self._sharing, pod, groups)
        if groups:
            self._nodes[pod] = node
        else:
            del self._nodes[pod]
        self._count((*before, *groups))

    def reserves(self, reservation: Task, groups: tuple[str, ...]) -> Task:
        """A reservation stands for these from now on. Returns the record by which it counts."""
        before = self._reserved.get(reservation.uid, ())
        if before != groups:
            _note(self._reserved, self._reserving, reservation.uid, groups)
            self._count((*before, *groups), reservation.uid)
        if any(group in self._sharing for group in groups):
            return structs.replace(reservation, shape=structs.replace(reservation.shape, gpu=NO_GPU))
        return structs.replace(reservation, status=Status.RELEASING)

    def forget(self, pod: str) -> None:
        """It neither shares nor reserves any longer."""
        self.shares(pod, "", ())
        if groups := self._reserved.get(pod):
            _note(self._reserved, self._reserving, pod, ())
            self._count(groups)

    def _count(self, groups: Iterable[str], known: str = "") -> None:
        """Bring what is held for these in line with who is there. ``known``: who is being read."""
        for group in dict.fromkeys(groups):
            for reservation in tuple(self._reserving.get(group, ())):
                if reservation != known:
                    self._refresh(reservation)
            # No UID of a pod has a colon.
            uid, pods = f"reservation:{group}", self._sharing.get(group)
            if not pods or group in self._reserving:
                self._working.remove_task(uid)
                continue
            stand_in = Task(
                uid=uid,
                name=f"reservation of {group}",
                namespace=names.RESERVATION_NAMESPACE,
                podgroup="",
                shape=_SLOT,
                status=Status.RUNNING,
                node=self._nodes[next(iter(pods))],
            )
            self._working.set_task(stand_in)


def _note(
    by_pod: dict[str, tuple[str, ...]], by_group: dict[str, dict[str, None]], pod: str, groups: Iterable[str]
) -> None:
    for group in by_pod.pop(pod, ()):
        del by_group[group][pod]
        if not by_group[group]:
            del by_group[group]
    if now := tuple(groups):
        by_pod[pod] = now
    for group in now:
        by_group.setdefault(group, {})[pod] = None
