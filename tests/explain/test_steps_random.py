"""Random small clusters: every step that is printed lets its workload run, on a lab that is built anew by the same manifests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kailab.explain import step_search
from kailab.explain.questions import ask
from kailab.explain.subject import SubjectRef
from kailab.lab import Lab
from tests.explain.manifests import Object, deployment, fleet, job, pod, queue
from tests.explain.test_steps import runs_after

KINDS = {"j": "Job", "d": "Deployment", "p": "Pod"}
SELECTORS = st.sampled_from(
    [{}, {}, {"nvidia.com/gpu.product": "A100"}, {"nvidia.com/gpu.product": "H200"}, {"lab/x": "y"}]
)
QUEUES = st.sampled_from(["a", "a", "b", "b", "c", "org", ""])


@st.composite
def clusters(draw: Any) -> tuple[Object, list[list[Object]]]:
    """A pool, and lists of manifests that are applied one after the other."""
    taints = draw(st.sampled_from([[], [], [{"key": "lab/keep", "effect": "NoSchedule"}]]))
    pool = {"count": draw(st.integers(1, 3)), "gpus": 4, "taints": taints}
    amounts = st.integers(0, 8)
    queues = [queue("org", quota=draw(amounts))]
    for name in "ab":
        limit = draw(st.sampled_from([-1, -1, 2, 6]))
        queues.append(queue(name, "org", quota=draw(amounts), limit=limit, weight=draw(st.integers(0, 2))))
    batches = [queues]
    for place in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from("jdp"))
        name, gpus, selector = f"{kind}{place}", draw(st.integers(1, 5)), draw(SELECTORS)
        spec = {"nodeSelector": selector} if selector else {}
        where, pods = draw(QUEUES), draw(st.integers(1, 4))
        if kind == "j":
            run = draw(st.sampled_from([0, 0, 120]))
            one = job(
                name, where, pods, gpus, gang=draw(st.booleans()), run=run, suspend=draw(st.integers(0, 5)) == 0, **spec
            )
        elif kind == "d":
            one = deployment(name, where, pods, gpus, priority=draw(st.sampled_from(["train", ""])), **spec)
        else:
            one = pod(name, where, gpus, **spec)
        batches.append([one])
    return pool, batches


def opened(pool: Object, batches: list[list[Object]]) -> Lab:
    lab = Lab.open(fleet(pool))
    for batch in batches:
        lab.apply(batch)
        lab.settle()
    return lab


@pytest.mark.slow
@pytest.mark.parametrize("filtered_from", [step_search.FILTERED_FROM, 0], ids=["all tried", "sifted"])
def test_every_step_lets_it_run(filtered_from: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_search, "FILTERED_FROM", filtered_from)
    told = 0

    @settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(clusters())
    def every_step(cluster: tuple[Object, list[list[Object]]]) -> None:
        nonlocal told
        pool, batches = cluster
        with opened(pool, batches) as lab:
            names = [batch[0]["metadata"]["name"] for batch in batches[1:]]
            works = [SubjectRef(KINDS[name[0]], "default", name) for name in names]
            # Of a queue with several workloads a step is several changes.
            for subject in (*works, SubjectRef("Queue", "", "a"), SubjectRef("Queue", "", "b")):
                for step in ask(lab, subject.kind, subject.name).steps:
                    told += 1
                    with opened(pool, batches) as fresh:
                        assert runs_after(fresh, subject, step) == "", (subject.name, step.do)

    every_step()
    assert told > 10
