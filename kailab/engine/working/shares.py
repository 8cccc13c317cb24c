"""What shared GPUs leave free, as arrays over the nodes: one column a node, as in ``NodeTable``.

The groups of each node (``SharedGpus``) are the truth. The arrays follow from them: a node whose groups changed is read again
when an array is next asked for, so that a simulation which changes and undoes much costs one look a node.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kailab.engine.snapshot.records import GPU, GpuRequest
from kailab.engine.working.gpus import SharedGpus, share_memory


class ShareSize(NamedTuple):
    """Nodes with devices of one size. ``memory``: MiB of a device; ``nodes``: a mask."""

    memory: int
    nodes: np.ndarray


class Shares:
    """``memory``: MiB of a device, per node. ``nodes``: the groups of the nodes that share devices, or once did. No array that is
    given out is to be written to."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory = memory
        self.nodes: dict[int, SharedGpus] = {}
        self.sizes = [ShareSize(int(size), memory == size) for size in np.unique(memory)]
        self._rooms = np.full((1, len(memory)), -1, dtype=np.int64)  # of each node, its roomiest device first
        self._roomless: set[int] = set()  # nodes of which the rooms are to be read again
        self._parts = np.zeros((3, len(memory)), dtype=np.int64)  # idle, releasing, available
        self._partless: set[int] = set()
        self._some: dict[GpuRequest, np.ndarray] = {}  # where some device has room, since rooms were last read
        self._left = np.zeros(
            (len(memory), 1), dtype=np.int64
        )  # of each node, milli-GPU free on its devices in use, from the right
        self._leftless: set[int] = set()
        self._shares: dict[GpuRequest, np.ndarray | int] = {}

    def on(self, i: int) -> SharedGpus:
        """The groups of one node; call ``changed`` after changing them."""
        shared = self.nodes.get(i)
        if shared is None:
            # Made when first needed: most nodes share nothing.
            shared = self.nodes[i] = SharedGpus(int(self._memory[i]))
        return shared

    def changed(self, i: int) -> None:
        """The groups of a node are not what they were."""
        self._roomless.add(i)
        self._partless.add(i)
        self._leftless.add(i)

    def fitting(self, request: GpuRequest) -> np.ndarray:
        """How many shared devices could take one device's share of the request: ``SharedGpus.fitting`` of every node."""
        self._read_rooms()
        return (self._rooms >= self._share(request)).sum(axis=0)

    def some_fit(self, request: GpuRequest) -> np.ndarray:
        """Where at least one could."""
        self._read_rooms()
        # Asked twice for each pod that is placed: where it fits, and how good it is there.
        found = self._some.get(request)
        if found is None:
            found = self._some[request] = self._rooms[0] >= self._share(request)
        return found

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

    def left(self, columns: int) -> np.ndarray:
        """What nobody holds or is promised of each shared device that somebody holds, in milli-GPU: one row a node, so many columns, filled from the right; 0
        where there are fewer."""
        if columns != self._left.shape[1]:
            self._left = np.zeros((len(self._memory), columns), dtype=np.int64)
            self._leftless = set(self.nodes)
        for i in self._leftless:
            shared = self.nodes[i]
            left = [
                max(0, (shared.memory - group.used) * GPU // shared.memory)
                for group in shared.groups.values()
                if group.holders
            ][:columns]
            self._left[i] = 0
            if left:
                self._left[i, -len(left) :] = left
        self._leftless.clear()
        return self._left

    def _share(self, request: GpuRequest) -> np.ndarray | int:
        """MiB that one device's share of the request takes: ``SharedGpus.memory_of`` of every node, or one for all."""
        found = self._shares.get(request)
        if found is None:
            if len(self.sizes) == 1:
                # All devices are alike: one number compares faster than an array of it.
                found = share_memory(request, self.sizes[0].memory)
            else:
                found = share_memory(request, self._memory)
            self._shares[request] = found
        return found

    def _read_rooms(self) -> None:
        if self._roomless:
            self._some.clear()
        for i in self._roomless:
            rooms = self.nodes[i].rooms()
            missing = len(rooms) - len(self._rooms)
            if missing > 0:
                self._rooms = np.vstack([self._rooms, np.full((missing, len(self._memory)), -1, dtype=np.int64)])
            self._rooms[:, i] = rooms + [-1] * (len(self._rooms) - len(rooms))
        self._roomless.clear()

    def _read_parts(self) -> np.ndarray:
        for i in self._partless:
            shared = self.nodes[i]
            self._parts[:, i] = shared.idle_shares(), shared.releasing_shares(), shared.available_shares()
        self._partless.clear()
        return self._parts
