"""What shared GPUs leave free, as arrays: always equal to the sum over each node's groups."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kailab.engine.snapshot.gpu_requests import NO_GPU, GpuFraction, GpuMemory, MigInstances, WholeGpus
from kailab.engine.snapshot.records import Status
from kailab.engine.working.shared_gpu_arrays import SharedGpuArrays

MEMORIES = (16_000, 40_000, 100)
REQUESTS = [
    NO_GPU,
    MigInstances(profiles=(("nvidia.com/mig-1g.5gb", 1),)),
    WholeGpus(devices=2),
    *(GpuFraction(devices=count, portion=portion) for count in (1, 2, 3) for portion in (1, 10, 333, 500, 990)),
    *(GpuMemory(devices=count, memory_mib=memory) for count in (1, 2) for memory in (1, 100, 20_000, 90_000)),
]

change = st.tuples(
    st.integers(0, len(MEMORIES) - 1),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([Status.RUNNING, Status.RELEASING, Status.PIPELINED]),
    st.integers(0, 60_000),
)


def agrees(shares: SharedGpuArrays) -> None:
    for request in REQUESTS:
        counted = shares.fitting(request).tolist()
        assert counted == [shares.on(i).fitting(request) for i in range(len(MEMORIES))]
        assert shares.some_fit(request).tolist() == [count > 0 for count in counted]
    nodes = [shares.on(i) for i in range(len(MEMORIES))]
    assert shares.idle.tolist() == [node.idle_shares() for node in nodes]
    assert shares.releasing.tolist() == [node.releasing_shares() for node in nodes]
    assert shares.available.tolist() == [node.available_shares() for node in nodes]


@given(st.lists(change, max_size=12), st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_arrays_follow_the_groups(changes: list[tuple[int, str, Status, int]], looks: list[bool]) -> None:
    shares = SharedGpuArrays(np.array(MEMORIES))
    for (i, group, status, memory), look in zip(changes, looks, strict=False):
        shares.on(i).change(group, status, memory, 1)
        shares.changed(i)
        if look:
            agrees(shares)
    agrees(shares)
    for i, group, status, memory in reversed(changes):
        shares.on(i).change(group, status, memory, -1)
        shares.changed(i)
    agrees(shares)
    assert not any(shares.some_fit(request).any() for request in REQUESTS)


def test_devices_of_one_size_are_told_together() -> None:
    shares = SharedGpuArrays(np.array([16_000, 40_000, 16_000]))
    assert [(size.memory, size.nodes.tolist()) for size in shares.sizes] == [
        (16_000, [True, False, True]),
        (40_000, [False, True, False]),
    ]
