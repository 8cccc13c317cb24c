"""Reservations of GPUs that no pod shares: not any more, or not after all.

The pod that reserves a shared GPU counts through the pods that share it. Where there are none it is about to go, but until
it is gone the API server has it on its node: whoever takes that GPU for free takes it twice. Such a reservation counts as a
pod that is leaving with a whole GPU, so that its place may be waited for and not be taken. KAI never counts the GPU of a
reservation (node_info.addTaskResources).
"""

from __future__ import annotations

from collections.abc import Iterable


class LoneReservations:
    """Who shares which GPU, and who reserves it: pods by UID, shared GPUs by their group."""

    def __init__(self) -> None:
        self._shared: dict[str, tuple[str, ...]] = {}  # pod -> groups
        self._sharing: dict[str, dict[str, None]] = {}  # group -> pods
        self._reserved: dict[str, tuple[str, ...]] = {}  # reservation -> groups
        self._reserving: dict[str, dict[str, None]] = {}  # group -> reservations

    def shares(self, pod: str, groups: tuple[str, ...]) -> list[str]:
        """A pod shares these from now on. Returns reservations that may be lone now, or no longer."""
        before = self._shared.get(pod, ())
        if before == groups:
            return []
        _note(self._shared, self._sharing, pod, groups)
        return [
            reservation for group in dict.fromkeys((*before, *groups)) for reservation in self._reserving.get(group, ())
        ]

    def reserves(self, reservation: str, groups: tuple[str, ...]) -> bool:
        """A reservation stands for these from now on. True if it is lone."""
        if self._reserved.get(reservation, ()) != groups:
            _note(self._reserved, self._reserving, reservation, groups)
        return not any(group in self._sharing for group in groups)

    def gone(self, reservation: str) -> None:
        if reservation in self._reserved:
            _note(self._reserved, self._reserving, reservation, ())


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
