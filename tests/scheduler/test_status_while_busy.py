"""While pods are being bound, the status of queues and PodGroups waits for a limited time and is then written once."""

from __future__ import annotations

from kailab.scheduler.status.queue_status import AT_ONCE, AT_ONCE_WHILE_BUSY, MOST_DELAY_SECONDS, QueueStatus
from tests.scheduler.conftest import Obj, SmallLab, member, podgroup, queue


class Busy:
    """A small lab with the status controller of a live cluster."""

    def __init__(self) -> None:
        self.lab = SmallLab()
        self.lab.apply(queue("team"))
        self.binding = True
        self.status = QueueStatus(self.lab.cluster, lambda: self.binding)

    def apply(self, *names: str) -> None:
        for name in names:
            self.lab.apply(podgroup(name, "team"), member(name, name))

    def told(self) -> dict[str, Obj]:
        groups = self.lab.cluster.list("PodGroup")
        return {one["metadata"]["name"]: one["status"]["resourcesStatus"] for one in groups if one.get("status")}

    def requested(self) -> str:
        team = self.lab.cluster.get("Queue", "team")
        return str(((team.get("status") or {}).get("requested") or {}).get("nvidia.com/gpu", "0"))


def test_podgroups_wait_until_binding_is_over() -> None:
    field = Busy()
    field.apply("one", "two")
    field.status.step()
    assert field.told() == {}
    field.binding = False
    field.status.step()
    assert set(field.told()) == {"one", "two"}


def test_no_podgroup_waits_for_ever() -> None:
    field = Busy()
    field.apply("early")
    field.status.step()
    field.lab.cluster.advance(MOST_DELAY_SECONDS / 2)
    field.apply("late")
    field.status.step()
    field.lab.cluster.advance(MOST_DELAY_SECONDS / 2)
    field.status.step()
    assert set(field.told()) == {"early"}
    field.lab.cluster.advance(MOST_DELAY_SECONDS / 2)
    field.status.step()
    assert set(field.told()) == {"early", "late"}


def test_several_changes_are_written_once() -> None:
    field = Busy()
    field.apply("one")
    field.status.step()
    field.lab.scheduler.step()
    field.lab.cluster.advance(5)
    field.status.step()
    assert field.told() == {}
    field.binding = False
    field.status.step()
    assert field.told()["one"]["allocated"]["nvidia.com/gpu"] == "1"


def test_many_are_written_in_steps() -> None:
    field = Busy()
    field.apply(*(f"group-{number:03}" for number in range(AT_ONCE + 50)))
    field.status.step()
    field.lab.cluster.advance(MOST_DELAY_SECONDS)
    assert field.status.step()
    assert len(field.told()) == AT_ONCE_WHILE_BUSY
    field.binding = False
    assert field.status.step()
    assert len(field.told()) == AT_ONCE_WHILE_BUSY + AT_ONCE
    assert field.status.step()
    assert len(field.told()) == AT_ONCE + 50
    assert not field.status.step()


def test_queue_status_is_written_once_a_second() -> None:
    field = Busy()
    field.apply("one")
    field.status.step()
    assert field.requested() == "1"
    field.apply("two")
    field.status.step()
    assert field.requested() == "1"
    field.lab.cluster.advance(1)
    field.status.step()
    assert field.requested() == "2"
