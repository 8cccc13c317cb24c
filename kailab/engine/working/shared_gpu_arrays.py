"""What shared GPUs leave free, as arrays with one column a node, as in ``NodeTable``.

The groups of each node (``SharedGpus``) are authoritative. A changed node is read again when an array is next
requested, so a simulation with many changes costs one read per node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kailab.engine.snapshot.gpu_requests import GpuRequest
from kailab.engine.snapshot.records import GPU
from kailab.engine.working.shared_gpus import SharedGpus


class ShareSize(NamedTuple):
    """The nodes with devices of one size. ``memory``: MiB of a device; ``nodes``: a mask."""

    memory: int
    nodes: np.ndarray


class SharedGpuArrays:
    """``memory``: MiB of a device, per node. ``nodes``: the groups of nodes that share devices, or once did. The
    returned arrays are read-only.
    """

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        self.nodes: dict[int, SharedGpus] = {}
        self.sizes = [ShareSize(int(size), memory == size) for size in np.unique(memory)]
        self._rooms = np.full((1, len(memory)), -1, dtype=np.int64)  # per node, the device with most room first
        self._stale_rooms: set[int] = set()  # nodes whose rooms have to be read again
        self._parts = np.zeros((3, len(memory)), dtype=np.int64)  # idle, releasing, available
        self._stale_parts: set[int] = set()
        self._some: dict[GpuRequest, np.ndarray] = {}  # where some device has room; cleared when rooms are read
        self._free_shares = np.zeros(
            (len(memory), 1), dtype=np.int64
        )  # per node, milli-GPU free on its devices in use, filled from the right
        self._stale_free_shares: set[int] = set()
        self._shares: dict[GpuRequest, np.ndarray | int] = {}

    def on(self, i: int) -> SharedGpus:
        """The groups of one node. Call ``changed`` after changing them."""
        shared = self.nodes.get(i)
        if shared is None:
            # Made on first use, because most nodes share nothing.
            shared = self.nodes[i] = SharedGpus(int(self._memory[i]))
        return shared

    def changed(self, i: int) -> None:
        """Mark the groups of a node as changed."""
        self._stale_rooms.add(i)
        self._stale_parts.add(i)
        self._stale_free_shares.add(i)

    def fitting(self, request: GpuRequest) -> np.ndarray:
        """Per node, how many shared devices could take one device's share of the request (``SharedGpus.fitting``)."""
        self._read_rooms()
        return (self._rooms >= self._share(request)).sum(axis=0)

    def some_fit(self, request: GpuRequest) -> np.ndarray:
        """The nodes where at least one device could."""
        self._read_rooms()
        # Requested twice for each placed pod: for fitting and for scoring.
        cached = self._some.get(request)
        if cached is None:
            cached = self._some[request] = self._rooms[0] >= self._share(request)
        return cached

    @property
    def idle(self) -> np.ndarray:
        """``SharedGpus.idle_shares`` of every node, in milli-GPU."""
        return self._read_parts()[0]

    @property
    def releasing(self) -> np.ndarray:
        """``SharedGpus.releasing_shares`` of every node, in milli-GPU."""
        return self._read_parts()[1]

    @property
    def available(self) -> np.ndarray:
        """``SharedGpus.available_shares`` of every node, in milli-GPU."""
        return self._read_parts()[2]

    def free_shares(self, columns: int) -> np.ndarray:
        """Milli-GPU that is neither held nor promised on each shared device in use: one row a node, ``columns``
        columns, filled from the right with zeros on the left.
        """
        if columns != self._free_shares.shape[1]:
            self._free_shares = np.zeros((len(self._memory), columns), dtype=np.int64)
            self._stale_free_shares = set(self.nodes)
        for i in self._stale_free_shares:
            shared = self.nodes[i]
            amounts = [
                max(0, (shared.memory - group.used) * GPU // shared.memory)
                for group in shared.groups.values()
                if group.holders
            ][:columns]
            self._free_shares[i] = 0
            if amounts:
                self._free_shares[i, -len(amounts) :] = amounts
        self._stale_free_shares.clear()
        return self._free_shares

    def _share(self, request: GpuRequest) -> np.ndarray | int:
        """MiB that one device's share of the request takes: one number if all devices are equal, else an array over the
        nodes.
        """
        amount = self._shares.get(request)
        if amount is None:
            if len(self.sizes) == 1:
                # All devices are equal; one number compares faster than an array.
                amount = request.share_memory(self.sizes[0].memory)
            else:
                amount = request.share_memory(self._memory)
            self._shares[request] = amount
        return amount

    def _read_rooms(self) -> None:
        if self._stale_rooms:
            self._some.clear()
        for i in self._stale_rooms:
            rooms = self.nodes[i].rooms()
            missing = len(rooms) - len(self._rooms)
            if missing > 0:
                self._rooms = np.vstack([self._rooms, np.full((missing, len(self._memory)), -1, dtype=np.int64)])
            self._rooms[:, i] = rooms + [-1] * (len(self._rooms) - len(rooms))
        self._stale_rooms.clear()

    def _read_parts(self) -> np.ndarray:
        for i in self._stale_parts:
            shared = self.nodes[i]
            self._parts[:, i] = shared.idle_shares(), shared.releasing_shares(), shared.available_shares()
        self._stale_parts.clear()
        return self._parts
