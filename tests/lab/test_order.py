"""Whom explanations name next is served next, when room appears."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kailab.engine.turns import JobCriterion, QueueCriterion
from kailab.fleet import Fleet, load_fleet
from kailab.lab import Lab

Obj = dict[str, Any]
FLEET = """
apiVersion: kailab.dev/v1
kind: Fleet
name: small
pools:
  - {name: a, count: 2, gpus: 5, gpuModel: A100, gpuMemory: 80Gi, cpu: 96, memory: 1000Gi}
"""
FREE = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
CLASSES = ("train", "train", "build", "build-preemptible", "inference")


def small(folder: Any) -> Fleet:
    path = folder / "small.yaml"
    path.write_text(FLEET)
    return load_fleet(path)


def queue(name: str, parent: str, quota: int, limit: int, weight: int, priority: int) -> Obj:
    gpu = {"quota": quota, "limit": limit, "overQuotaWeight": weight}
    spec: Obj = {"resources": {"gpu": gpu, "cpu": FREE, "memory": FREE}, "priority": priority}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def work(name: str, queue: str, minimum: int, pods: int, cls: str) -> list[Obj]:
    """A PodGroup and its pods, one GPU each."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"queue": queue, "minMember": minimum, "priorityClassName": cls},
    }
    return [group, *(pod(f"{name}-{number}", name) for number in range(pods))]


def pod(name: str, group: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "default",
            "annotations": {"pod-group-name": group, "kai.scheduler/skip-podgrouper": "true"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [{"name": "c", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        },
    }


LEAVES = ("a1", "a2", "b1")
queues = st.tuples(st.integers(0, 5), st.sampled_from([-1, -1, 2, 4, 9]), st.integers(0, 3), st.sampled_from([50, 100]))
job = st.tuples(st.sampled_from(LEAVES), st.integers(1, 3), st.integers(0, 3), st.sampled_from(CLASSES))


def say_who_is_next(lab: Lab, free: int) -> str | None:
    """By explanations alone: the first in the order for whose next pods there is room and whom the queue rules let start."""
    picture = lab.picture()
    found: dict[int, tuple[str, Obj]] = {}
    for namespace, name in picture.podgroups:
        data = lab.explain_podgroup(name, namespace).data
        if data.get("place"):
            found[data["place"]] = (name, data)
    for place in sorted(found):
        name, data = found[place]
        alive = [row for row in data["pods"] if row["holds"]]
        if max(1, data["min_member"] - len(alive)) > free or picture.turns[f"default/{name}"].refused:
            continue
        assert not [
            other
            for other in data["ahead"]
            if picture.turns[f"default/{other}"].place < place and _fits(lab, picture, other, free)
        ]
        return name
    return None


def _fits(lab: Lab, picture: Any, name: str, free: int) -> bool:
    data = lab.explain_podgroup(name).data
    held = sum(row["holds"] for row in data["pods"])
    refused = picture.turns[f"default/{name}"].refused
    return max(1, data["min_member"] - held) <= free and refused is None


@given(
    st.lists(queues, min_size=5, max_size=5),
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
    fleet = small(tmp_path_factory.mktemp("fleet"))
    names = [("a", ""), ("b", ""), ("a1", "a"), ("a2", "a"), ("b1", "b")]
    with Lab.open(fleet, config={"actions": "allocate"}) as lab:
        lab.apply([queue(name, parent, *shape) for (name, parent), shape in zip(names, shapes, strict=True)])
        for number, (leaf, minimum, surplus, cls) in enumerate(jobs):
            lab.apply(work(f"j{number}", leaf, minimum, minimum + surplus, cls))
            lab.cluster.advance(1)
        lab.settle()
        for pick in chosen:
            running = [row for row in lab.picture().rows if row.holds]
            if not running:
                break
            gone = running[pick % len(running)]
            lab.delete("pod", gone.name.partition("/")[2])
            free = sum(room.free for room in lab.picture().present.room.values()) // 1000
            expected = say_who_is_next(lab, free)
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
        younger, elastic = lab.explain_podgroup("younger"), lab.explain_podgroup("elastic")
        assert (younger.data["place"], younger.data["ahead"]) == (1, [])
        assert (elastic.data["place"], elastic.data["ahead"]) == (2, ["younger"])
        assert elastic.data["because"] == JobCriterion.MINIMUM
        assert "Ahead of it in team: younger." in elastic.lines
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
        told = lab.explain_podgroup("more-small").data["queues_ahead"]
        assert told == [
            {
                "queue": "large",
                "before": "small",
                "next": "default/more-large",
                "because": QueueCriterion.SHARE_WITH_JOB,
            }
        ]
        low = lab.explain_podgroup("more-low")
        assert [one["because"] for one in low.data["queues_ahead"]] == [QueueCriterion.PRIORITY] * 2
        assert "Queues served before low: large (it has the higher priority), small" in str(low)


def test_the_order_is_told_for_a_configured_one_too(tmp_path):
    config = {"kailab": {"jobOrder": {"weights": {"priority": 1.0}}}}
    with Lab.open(small(tmp_path), config=config) as lab:
        lab.apply(queue("team", "", 10, 5, 1, 100))
        for name, cls in (("first", "build"), ("second", "train"), ("high", "build-preemptible")):
            lab.apply(work(name, "team", 5, 5, cls))
            lab.settle()
        assert lab.explain_podgroup("second").data["because"] == JobCriterion.SCORE
        assert lab.explain_podgroup("second").data["ahead"] == ["high"]
