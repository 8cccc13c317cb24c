"""Feasibility of a job in a cluster agrees with what a lab decides for the job alone."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.fleet.fleet import Fleet, Pool
from kailab.lab import Lab
from kailab.model.labels import FAKE_NODE_TAINT
from kailab.replay.clusters.feasibility import JobFeasibility
from kailab.replay.clusters.queue_bounds import QueueBounds
from kailab.replay.job import TraceJob
from kailab.replay.plan import ReplayPlan
from kailab.replay.queues import TeamQueues
from kailab.replay.run import replay
from kailab.replay.trace import Trace

# Mostly nothing is in the way, so that about half of all jobs begin.
BOUNDS = st.sampled_from([-1, -1, -1, -1, -1, 0, 2, 4])
PROCESSORS = st.sampled_from([-1, -1, -1, -1, 2000, 9000])
TAINTS = [
    ({"key": "only-others", "effect": "NoSchedule"},),
    ({"key": FAKE_NODE_TAINT, "value": "fake", "effect": "NoSchedule"},),
    ({"key": FAKE_NODE_TAINT, "value": "fake", "effect": "NoExecute"},),
    ({"key": "only-others", "effect": "PreferNoSchedule"},),
]


def queue(name, parent="", **bounds):
    """``bounds``: of GPUs and CPU, (quota, limit)."""
    resources = {
        resource: {"quota": quota, "limit": limit, "overQuotaWeight": 1}
        for resource, (quota, limit) in ({"gpu": (-1, -1), "cpu": (-1, -1), "memory": (-1, -1)} | bounds).items()
    }
    spec = {"resources": resources} | ({"parentQueue": parent} if parent else {})
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


@st.composite
def fleets(draw):
    pools = [
        Pool(
            name=name,
            count=draw(st.integers(1, 3)),
            cpu=draw(st.sampled_from(["8", "4"])),
            memory="64Gi",
            pods=draw(st.sampled_from([110, 110, 3])),
            gpus=draw(st.sampled_from([4, 8, 2, 1, 0])),
            gpu_model=model,
            gpu_vendor=draw(st.sampled_from(["nvidia", "nvidia", "nvidia", "amd"])),
            gpu_memory_mib=draw(st.sampled_from([0, 40_960])),
            taints=draw(st.sampled_from([None, None, None, *TAINTS])),
        )
        for name, model in (("a", "A100"), ("b", "H100"))
    ]
    default = draw(st.sampled_from([None, None, None, 40, 200]))
    gold = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "gold"},
        "value": default,
        "globalDefault": True,
    }
    classes = () if default is None else (gold,)
    return Fleet(name="some", priority_classes=classes, pools=tuple(_split(pool, draw) for pool in pools))


def _split(pool, draw):
    """Some have all their GPUs split into instances."""
    strategy = draw(st.sampled_from(["", "", "", "mixed", "single"]))
    if not strategy or not pool.gpus or pool.gpu_vendor == "amd":
        return pool
    return replace(pool, mig_strategy=strategy, mig={"1g.5gb": 7})


@st.composite
def jobs(draw):
    pods = draw(st.sampled_from([0, 0, 1, 2, 3, 5]))
    share = draw(st.sampled_from([1000, 1000, 250, 400, 700, 1, 334, 501]))
    gpus = (pods or 1) if share < 1000 else draw(st.sampled_from([0, 1, 1, 2, 2, 3, 8])) * (pods or 1)
    return TraceJob(
        name="one",
        arrival=0,
        seconds=10,
        gpus=gpus,
        share=share,
        pods=pods,
        cpu_millis=draw(st.sampled_from([0, 0, 100, 3000, 5000])),
        memory_mib=draw(st.sampled_from([0, 0, 0, 30_000, 70_000])),
        models=draw(st.sampled_from([(), (), (), ("A100",), ("H100", "A100"), ("V100",)])),
        team="team",
        priority=draw(st.sampled_from(["", "", "train", "build"])),
    )


@settings(max_examples=40, deadline=None)
@given(jobs(), fleets(), st.tuples(BOUNDS, BOUNDS), st.tuples(BOUNDS, BOUNDS), st.tuples(PROCESSORS, PROCESSORS))
def test_what_could_begin_is_what_begins_where_nobody_else_is(job, fleet, above, own, cpu) -> None:
    queues = TeamQueues([queue("all", gpu=above), queue("team", "all", gpu=own, cpu=cpu)], {"team": "team"})
    plan = ReplayPlan(trace=Trace("trace.csv", "csv", [job]), fleet=fleet, queues=queues)
    with Lab.open(fleet) as lab:
        found = JobFeasibility(plan, QueueBounds(plan, lab.cluster.list("PriorityClass"))).possible(job)
    (work,) = replay(plan).accounts.works.values()
    assert found == (work.began is not None)
