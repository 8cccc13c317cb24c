"""The scheduler and its controllers keep no memory of work that is gone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tests.scheduler.conftest import SmallLab, member, pod, podgroup, queue, share

BOUNDED = ("history", "_hub", "_cluster", "cluster")
"""The history has a bound of its own, and the cluster belongs to others."""


def containers(root: Any, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Name and size of each reachable container; containers within a container share one name."""
    if id(root) in seen or isinstance(root, str | bytes | int | float | type):
        return
    seen.add(id(root))
    if isinstance(root, Mapping):
        yield path, len(root)
        for value in list(root.values()):
            yield from containers(value, f"{path}[]", seen)
    elif isinstance(root, list | tuple | set | frozenset):
        yield path, len(root)
        for value in list(root):
            yield from containers(value, f"{path}[]", seen)
    elif type(root).__module__.startswith("kailab."):
        names = root.__struct_fields__ if isinstance(root, msgspec.Struct) else vars_of(root)
        for name in names:
            if name not in BOUNDED and hasattr(root, name):
                yield from containers(getattr(root, name), f"{path}.{name}", seen)


def vars_of(obj: Any) -> list[str]:
    slots = [name for kind in type(obj).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*getattr(obj, "__dict__", ()), *slots]


def sizes(lab: SmallLab) -> dict[str, int]:
    found: dict[str, int] = {}
    seen: set[int] = set()
    for name in ("grouper", "status", "scheduler"):
        for path, size in containers(getattr(lab, name), name, seen):
            found[path] = found.get(path, 0) + size
    return found


def come_and_go(lab: SmallLab, first: int, number: int) -> None:
    """More work than fits, of two queues that reclaim from each other. All of it ends, its PodGroup before or after it."""
    for index in range(first, first + number):
        owner = "a" if index % 2 else "b"
        single, gang = f"single-{index}", f"gang-{index}"
        lab.apply(*(pod(f"{single}-{each}", 4, owner) for each in range(4)))
        lab.apply(podgroup(gang, owner, 2), *(member(f"{gang}-{each}", gang, 4) for each in range(2)))
        lab.settle()
        if index % 3:
            lab.cluster.delete("PodGroup", gang, "default")
            lab.settle()
        for one in lab.cluster.list("Pod"):
            lab.cluster.delete("Pod", one["metadata"]["name"], "default", 0)
        for one in lab.cluster.list("PodGroup"):
            lab.cluster.delete("PodGroup", one["metadata"]["name"], "default")
        lab.settle()


def test_soft_state_is_as_large_after_much_work_as_after_some() -> None:
    lab = SmallLab()
    lab.apply(queue("a", gpu=share(8)), queue("b", gpu=share(8)))
    come_and_go(lab, 0, 10)
    some = sizes(lab)
    come_and_go(lab, 10, 30)
    much = sizes(lab)
    assert {path: (some.get(path, 0), size) for path, size in much.items() if size > some.get(path, 0) + 10} == {}
