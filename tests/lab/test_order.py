"""Whom explanations name next is served next, when room appears."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kailab.engine.working.order_criteria import JobCriterion, QueueCriterion
from kailab.explain.details import facts
from kailab.explain.questions import ask
from kailab.explain.subject import SubjectRef
from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import load_fleet
from kailab.lab import Lab
from kailab.lab.answer import Answer
from kailab.lab.picture import Picture

Obj = dict[str, Any]
FLEET = """
apiVersion: kailab.dev/v1
kind: Fleet
name: small
pools:
  - {name: a, count: 2, gpus: 5, gpuModel: A100, gpuMemory: 80Gi, cpu: 96, memory: 1000Gi}
"""
TIGHT = FLEET.replace("cpu: 96", "cpu: 10")
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
CLASSES = ("train", "train", "build", "build-preemptible", "inference")


class Wish(NamedTuple):
    """What each pod of a group asks for: whole GPUs or a part of one, in milli-GPU, and whole CPUs."""

    gpu: int = 1000
    cpu: int = 0


GPU = Wish()


def small(folder: Any, fleet: str = FLEET) -> Fleet:
    path = folder / "small.yaml"
    path.write_text(fleet)
    return load_fleet(path)


def queue(name: str, parent: str, quota: int, limit: int, weight: int, priority: int, cpus: int = -1) -> Obj:
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    cpu = FREE if cpus < 0 else {"quota": cpus * 1000, "limit": -1, "overQuotaWeight": weight}
    spec: Obj = {"resources": {"gpu": gpu, "cpu": cpu, "memory": FREE}, "priority": priority}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def work(
    name: str, queue: str, minimum: int, pods: int, cls: str, wish: Wish = GPU, own: Sequence[str] = ("",)
) -> list[Obj]:
    """A PodGroup and its pods, all alike but for their own priority classes (``own``, in turn)."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": minimum, "priorityClassName": cls},
    }
    return [group, *(pod(f"{name}-{number}", name, wish, own[number % len(own)]) for number in range(pods))]


def pod(name: str, group: str, wish: Wish, own: str) -> Obj:
    part = wish.gpu % 1000
    container: Obj = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(wish.cpu)}}}
    if wish.gpu and not part:
        container["resources"]["limits"] = {"nvidia.com/gpu": wish.gpu // 1000}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {
                "pod-group-name": group,
                "kai.scheduler/skip-podgrouper": "true",
                **({"gpu-fraction": str(part / 1000)} if part else {}),
            },
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [container],
            **({"priorityClassName": own} if own else {}),
        },
    }


TREE = (("a", ""), ("b", ""), ("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b"), ("c", ""))
LEAVES = ("a1", "a2", "b1", "b2", "c")
queues = st.tuples(
    st.integers(0, 5), st.sampled_from([-1, -1, 2, 4, 9]), st.integers(0, 3), st.sampled_from([50, 100, 100, 200]),
    st.sampled_from([-1, -1, 0, 3, 6]),
)  # fmt: skip
wishes = st.sampled_from(
    [GPU, GPU, Wish(1000, 1), Wish(2000), Wish(3000), Wish(500), Wish(300, 1), Wish(0, 1), Wish(0, 3)]
)
job = st.tuples(
    st.sampled_from(LEAVES), st.sampled_from([1, 1, 2, 3, 5]), st.integers(0, 3), st.sampled_from(CLASSES), wishes,
    st.lists(st.sampled_from(["", "train", "build"]), min_size=1, max_size=3),
)  # fmt: skip


class Room:
    """How many more pods of one kind find room, counted from the pods and nodes alone. ``wishes``: by PodGroup."""

    def __init__(self, lab: Lab, wishes: dict[str, Wish]) -> None:
        self.free: dict[str, tuple[int, int, dict[str, int]]] = {}
        for node in lab.cluster.list("Node"):
            there = node["status"]["allocatable"]
            self.free[node["metadata"]["name"]] = (int(there["nvidia.com/gpu"]), int(there["cpu"]), {})
        for obj in lab.cluster.list("Pod"):
            name, labels = obj["spec"].get("nodeName"), obj["metadata"].get("labels") or {}
            if not name:
                continue
            gpus, cpus, devices = self.free[name]
            device = labels.get("runai-gpu-group")
            if device is not None and device not in devices:
                devices[device] = 1000
                gpus -= 1
            wish = wishes.get(obj["metadata"]["annotations"].get("pod-group-name", ""), Wish(0))
            if device is not None:
                devices[device] -= wish.gpu
            self.free[name] = (gpus - (0 if device else wish.gpu // 1000), cpus - wish.cpu, devices)

    def pods(self, wish: Wish) -> int:
        return sum(self._on(wish, *free) for free in self.free.values())

    @staticmethod
    def _on(wish: Wish, gpus: int, cpus: int, devices: dict[str, int]) -> int:
        least = cpus // wish.cpu if wish.cpu else 100
        if wish.gpu % 1000:
            return min(least, gpus * (1000 // wish.gpu) + sum(left // wish.gpu for left in devices.values()))
        return min(least, gpus // (wish.gpu // 1000)) if wish.gpu else least


def group_told(lab: Lab, name: str, picture: Picture | None = None) -> Answer:
    """Without steps: each is tried on a copy of the lab, and none is read here."""
    return ask(lab, "PodGroup", name, tried=False, picture=picture)


def say_who_is_next(lab: Lab, room: Room, wishes: dict[str, Wish]) -> str | None:
    """By explanations alone: the first in the order for whose next pods there is room and whom the queue rules let start."""
    picture = lab.picture()
    # The order is a part of an answer that needs no cause: none is looked for.
    told = {name: facts(SubjectRef.of(lab, "PodGroup", name).state(lab, picture)) for _, name in picture.podgroups}

    def starts(name: str) -> bool:
        data = told[name]
        held = sum(row["holds"] for row in data["pods"])
        return (
            max(1, data["min_member"] - held) <= room.pods(wishes[name])
            and picture.turns[f"default/{name}"].refused is None
        )

    for name in sorted((name for name, data in told.items() if data["place"]), key=lambda name: told[name]["place"]):
        if starts(name):
            assert not any(starts(other) for other in told[name]["ahead"])
            assert not any(starts(one["next"].partition("/")[2]) for one in told[name]["queues_ahead"])
            return name
    return None


@pytest.mark.slow
@given(
    st.lists(queues, min_size=len(TREE), max_size=len(TREE)),
    st.lists(job, min_size=6, max_size=14),
    st.lists(st.integers(0, 10**6), min_size=4, max_size=6),
)
@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_who_is_said_to_be_next_is_served_next(tmp_path_factory, shapes, jobs, chosen):
    """By allocate: in the same cycle preempt or reclaim may take the room for another again."""
    fleet = small(tmp_path_factory.mktemp("fleet"), TIGHT)
    wishes: dict[str, Wish] = {}
    with Lab.open(fleet, config={"actions": "allocate"}) as lab:
        lab.apply([queue(name, parent, *shape) for (name, parent), shape in zip(TREE, shapes, strict=True)])
        for number, (leaf, minimum, surplus, cls, wish, own) in enumerate(jobs):
            wishes[f"j{number}"] = wish
            lab.apply(work(f"j{number}", leaf, minimum, minimum + surplus, cls, wish, own))
            lab.cluster.advance(1)
        lab.settle()
        for pick in chosen:
            running = [row for row in lab.picture().rows if row.holds and row.podgroup]
            if not running:
                break
            gone = running[pick % len(running)]
            lab.delete("pod", gone.name.partition("/")[2])
            expected = say_who_is_next(lab, Room(lab, wishes), wishes)
            cycle = lab._parts.scheduler.cycle().decisions
            lab.log.names.refresh()
            by_uid = lab.log.names.of
            served = [by_uid(bind.podgroup).name.partition("/")[2] for bind in cycle.binds if bind.action == "allocate"]
            assert expected == next(iter(served), None)
            lab.settle()


def test_the_younger_comes_before_one_above_its_minimum(tmp_path):
    """An elastic job that has its minimum is not ahead of a younger one that has none of its own."""
    with Lab.open(small(tmp_path)) as lab:
        lab.apply(queue("team", "", 10, -1, 1, 100))
        lab.apply(work("elastic", "team", 1, 15, "train"))
        lab.settle()
        lab.apply(work("younger", "team", 1, 1, "train"))
        lab.settle()
        younger, elastic = group_told(lab, "younger"), group_told(lab, "elastic")
        assert (younger.data()["place"], younger.data()["ahead"]) == (1, [])
        assert (elastic.data()["place"], elastic.data()["ahead"]) == (2, ["younger"])
        assert elastic.data()["because"] == JobCriterion.MINIMUM
        assert "Ahead of it in team: younger." in elastic.lines(everything=True)
        lab.delete("pod", "elastic-0")
        lab.settle()
        assert lab.get("pod", "younger-0")["status"]["phase"] == "Running"


def test_why_one_queue_is_served_before_another(tmp_path):
    with Lab.open(small(tmp_path)) as lab:
        lab.apply(queue("large", "", 7, -1, 1, 100), queue("small", "", 3, -1, 1, 100), queue("low", "", 0, -1, 0, 10))
        lab.apply(work("l", "large", 7, 7, "train"), work("s", "small", 3, 3, "train"))
        lab.settle()
        lab.apply(*(work(f"more-{name}", name, 1, 1, "train") for name in ("large", "low", "small")))
        lab.settle()
        told = group_told(lab, "more-small").data()["queues_ahead"]
        assert told == [
            {
                "queue": "large",
                "before": "small",
                "next": "default/more-large",
                "because": QueueCriterion.SHARE_WITH_JOB,
            }
        ]
        low = group_told(lab, "more-low")
        assert [one["because"] for one in low.data()["queues_ahead"]] == [QueueCriterion.PRIORITY] * 2
        assert "Queues served before low: large (it has the higher priority), small" in str(low)


def test_a_refused_job_ahead_lets_another_queue_go_first(tmp_path):
    """A queue is compared by its first job, whether the queue rules refuse that or not: what it has behind waits as long."""
    with Lab.open(small(tmp_path), config={"actions": "allocate"}) as lab:
        lab.apply(queue("full", "", 8, -1, 1, 50), queue("a", "", 1, -1, 1, 100), queue("c", "", 1, -1, 1, 200))
        lab.apply(work("filler", "full", 1, 10, "train"))
        lab.settle()
        lab.apply(
            work("wide", "c", 3, 3, "build"), work("behind", "c", 1, 1, "train"), work("plain", "a", 1, 1, "train")
        )
        lab.settle()
        assert group_told(lab, "wide").data()["pending"]["reason"] == "NonPreemptibleOverQuota"
        assert group_told(lab, "plain").data()["queues_ahead"] == []
        (ahead,) = group_told(lab, "behind").data()["queues_ahead"]
        assert ahead == {"queue": "a", "before": "c", "next": "default/plain", "because": QueueCriterion.QUOTA}
        lab.delete("pod", "filler-0")
        lab.settle()
        running = {row.name for row in lab.picture().rows if row.podgroup != "filler" and row.holds}
        assert running == {"default/plain-0"}


def test_the_order_is_told_for_a_configured_one_too(tmp_path):
    config = {"kailab": {"jobOrder": {"weights": {"priority": 1.0}}}}
    with Lab.open(small(tmp_path), config=config) as lab:
        lab.apply(queue("team", "", 10, 5, 1, 100))
        for name, cls in (("first", "build"), ("second", "train"), ("high", "build-preemptible")):
            lab.apply(work(name, "team", 5, 5, cls))
            lab.settle()
        assert group_told(lab, "second").data()["because"] == JobCriterion.SCORE
        assert group_told(lab, "second").data()["ahead"] == ["high"]
