"""The devices of all nodes, which of them are taken, and where a request finds enough free ones, as one array over the
nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from kailab.engine.snapshot.devices import (
    DeviceId,
    DeviceRequest,
    device_id,
    lack_of,
    matching_devices,
    tolerates_taints,
)
from kailab.model.device_selectors import Device


class DeviceSupply:
    """``devices``: per node; None without ResourceSlices, so that nothing is checked there."""

    def __init__(self, devices: Sequence[tuple[Device, ...] | None]) -> None:
        self.devices = devices
        self.unknown = np.array([of_node is None for of_node in devices], dtype=bool)
        self.taken: list[dict[DeviceId, int]] = [{} for _ in devices]  # by number of claims; normally one
        self._offers: dict[DeviceRequest, _Offer] = {}

    def take(self, i: int, ids: Iterable[DeviceId], sign: int) -> None:
        """Mark devices of a node as taken (1) or free again (-1)."""
        taken = self.taken[i]
        for device in ids:
            before = taken.get(device, 0)
            after = before + sign
            if after:
                taken[device] = after
            else:
                taken.pop(device, None)
            # Two claims may report the same device; it is free again only after both have left it.
            if not before or not after:
                for offer in self._offers.values():
                    offer.count(i, device, -sign)

    def enough(self, wish: DeviceRequest) -> np.ndarray:
        """The nodes on which the request finds enough free devices."""
        offer = self._offer(wish)
        wanted = wish.count or offer.all
        # As in Kubernetes' allocator, "all devices" does not match a node without devices.
        return ((offer.free >= wanted) & (offer.all > 0)) | self.unknown

    def lack(self, wish: DeviceRequest, i: int) -> str | None:
        """Why the request does not find enough devices on a node, or None."""
        offer = self._offer(wish)
        return offer.undecided.get(i) or lack_of(wish, int(offer.free[i]), int(offer.all[i]))

    def _offer(self, wish: DeviceRequest) -> _Offer:
        offer = self._offers.get(wish)
        if offer is None:
            offer = self._offers[wish] = _Offer(wish, self.devices, self.taken)
        return offer


class _Offer:
    """The devices that match one request on each node, and how many of them are free. ``undecided``: nodes with a
    device for which a selector has no value, and the message.
    """

    def __init__(
        self, wish: DeviceRequest, devices: Sequence[tuple[Device, ...] | None], taken: Sequence[dict[DeviceId, int]]
    ) -> None:
        self._admin = wish.admin
        self._usable: list[frozenset[DeviceId]] = []
        self.undecided: dict[int, str] = {}
        self.all = np.zeros(len(devices), dtype=np.int64)
        self.free = np.zeros(len(devices), dtype=np.int64)
        for i, of_node in enumerate(devices):
            matching = matching_devices(wish, of_node or ())
            if isinstance(matching, str):
                self.undecided[i] = matching
                matching = []
            usable = frozenset(device_id(device) for device in matching if tolerates_taints(wish, device))
            self._usable.append(usable)
            # Including devices with untolerated taints, because "all devices" means them too.
            self.all[i] = len(matching)
            self.free[i] = len(usable) if wish.admin else sum(identity not in taken[i] for identity in usable)

    def count(self, i: int, device: DeviceId, change: int) -> None:
        if not self._admin and device in self._usable[i]:
            self.free[i] += change
