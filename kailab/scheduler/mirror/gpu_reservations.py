"""Counts the reservation pods of shared GPUs (``kailab.scheduler.binding.reservation_pods``) on their nodes.

The GPU of a reservation counts through the pods that share it; its pod slot and other requests count as its own. Source: KAI
node_info.addTaskResources. If a GPU is shared without a reservation, as in an embedded lab, a *stand-in* task holds the pod slot.

A *lone* reservation is one whose GPU no pod shares. It will be deleted, but until then the API server counts its GPU on the node. So it
counts as a releasing pod with a whole GPU: other pods may wait for that GPU but can't take it. KAI never counts the GPU of a reservation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from kailab.engine.snapshot.gpu_requests import NO_GPU
from kailab.engine.snapshot.records import Shape, Status, Task
from kailab.engine.working.workingset import WorkingSet
from kailab.model import labels as names

_SLOT = Shape()  # no requests: only a pod slot


class GpuReservations:
    """The pods that share or reserve each GPU group, by UID. ``refresh`` reads a pod again."""

    def __init__(self, working: WorkingSet, refresh: Callable[[str], None]) -> None:
        self._working = working
        self._refresh = refresh
        self._shared: dict[str, tuple[str, ...]] = {}  # pod -> groups
        self._sharing: dict[str, dict[str, None]] = {}  # group -> pods
        self._reserved: dict[str, tuple[str, ...]] = {}  # reservation -> groups
        self._reserving: dict[str, dict[str, None]] = {}  # group -> reservations
        self._nodes: dict[str, str] = {}  # node of each sharing pod

    def set_sharing(self, pod: str, node: str, groups: tuple[str, ...]) -> None:
        """Set the GPU groups that a pod on ``node`` ("": not on a node) shares."""
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

    def set_reservation(self, reservation: Task, groups: tuple[str, ...]) -> Task:
        """Set the GPU groups that a pod reserves. Returns the task as which it counts."""
        before = self._reserved.get(reservation.uid, ())
        if before != groups:
            _note(self._reserved, self._reserving, reservation.uid, groups)
            self._count((*before, *groups), reservation.uid)
        if any(group in self._sharing for group in groups):
            return structs.replace(reservation, shape=structs.replace(reservation.shape, gpu=NO_GPU))
        return structs.replace(reservation, status=Status.RELEASING)

    def forget(self, pod: str) -> None:
        """Forget a pod that is gone."""
        self.set_sharing(pod, "", ())
        if groups := self._reserved.get(pod):
            _note(self._reserved, self._reserving, pod, ())
            self._count(groups)

    def _count(self, groups: Iterable[str], known: str = "") -> None:
        """Refresh the reservations and stand-ins of these groups, except the reservation ``known``, which is being read."""
        for group in dict.fromkeys(groups):
            for reservation in tuple(self._reserving.get(group, ())):
                if reservation != known:
                    self._refresh(reservation)
            # A pod's UID never has a colon.
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
