"""Steps for each cause: every step that is printed, applied to a fresh lab that was built by the same manifests, lets it run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from kailab.explain.questions import ask
from kailab.explain.step_budget import StepBudget
from kailab.explain.step_search import search_steps
from kailab.explain.subject import SubjectRef
from kailab.fleet.fleet import Fleet
from kailab.lab import Lab
from kailab.lab.answer import Cause, CauseCode, Step
from kailab.lab.change import carry_out, read_changes
from tests.explain.manifests import Object, deployment, fleet, job, pod, podgroup, queue

RACKS: list[Object] = [{"name": "halls", "levels": ["lab/hall", "lab/rack", "kubernetes.io/hostname"]}]
TWO_RACKS: Object = {
    "layout": [{"label": "lab/hall", "nodes": 4, "start": 1}, {"label": "lab/rack", "nodes": 2, "start": 1}]
}
CLAIM: Object = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "shared"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}  # fmt: skip
ORG = (queue("org"), queue("team", "org"), queue("rest", "org"))


@dataclass(frozen=True)
class Situation:
    """``said``: what one of the steps says. ``done``: changes one after the other, on the fleet."""

    code: CauseCode
    ask: tuple[str, str]
    done: tuple[Any, ...]
    said: tuple[str, ...]
    fleet: Fleet = field(default_factory=fleet)
    config: Object | None = None
    devices: bool = False

    def opened(self) -> Lab:
        lab = Lab.open(self.fleet, config=self.config, devices=self.devices)
        changes = [{"apply": one} if isinstance(one, list) else one for one in self.done]
        carry_out(lab, read_changes(changes))
        return lab

    @property
    def subject(self) -> SubjectRef:
        kind, name = self.ask
        return SubjectRef(kind, "" if kind == "Queue" else "default", name)


def affinity(key: str, *values: str) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def apart(app: str) -> Object:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def taint(node: str, **spec: Any) -> Object:
    return {"patch": {"kind": "Node", "name": node, "patch": {"spec": spec}}}


FEW_PODS = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
KEEP = [{"key": "lab/keep", "effect": "NoSchedule"}]
FULL = [deployment("full", "team", 16)]
NODES = ("p0-0", "p0-1", "p0-2", "p0-3")

SITUATIONS = [
    Situation(CauseCode.QUEUE_LABEL_MISSING, ("Job", "j"), ([*ORG, job("j", "", 2)],), ("Name queue", "Make queue default-queue")),
    Situation(CauseCode.QUEUE_MISSING, ("Deployment", "d"), ([*ORG, deployment("d", "taem", 2)],), ("Name queue team", "Make queue taem under org")),
    Situation(CauseCode.QUEUE_MISSING, ("PodGroup", "g"), ([*ORG, podgroup("g", "taem", 1), pod("g-0", "taem", annotations={"pod-group-name": "g"})],), ("Name queue team",)),
    Situation(CauseCode.QUEUE_NOT_LEAF, ("Pod", "p"), ([*ORG, pod("p", "org")],), ("Name queue",)),
    Situation(CauseCode.QUEUE_PARENT_MISSING, ("Job", "j"), ([*ORG, queue("far", "gone", quota=2), job("j", "far")],), ("Make queue gone with a quota of 2 GPUs", "the parent org")),
    Situation(CauseCode.QUEUE_HAS_NO_RESOURCES, ("Pod", "p"), ([queue("org"), {**queue("bare"), "spec": {"parentQueue": "org"}}, pod("p", "bare", 2)],), ("Give queue bare",)),
    Situation(CauseCode.QUEUE_HAS_NO_RESOURCES, ("Deployment", "d"), ([{**queue("top"), "spec": {}}, queue("team", "top"), deployment("d", "team", 2, priority="")],), ("Give queue top",)),
    Situation(CauseCode.OVER_LIMIT, ("Job", "j"), ([queue("org", limit=6), queue("team", "org", limit=5), job("j", "team", 7, gang=True)],), ("the gpu limit of queue team to 7 and the gpu limit of queue org to 7",)),
    Situation(CauseCode.NON_PREEMPTIBLE_OVER_QUOTA, ("Deployment", "d"), ([queue("org", quota=3), queue("team", "org", quota=2), deployment("d", "team", 5, priority="")],), ("Make it preemptible", "quota of queue team to 5 and the gpu quota of queue org to 5")),
    Situation(CauseCode.GANG_INCOMPLETE, ("PodGroup", "g"), ([*ORG, podgroup("g", "team", 3), *(pod(f"g-{n}", "team", annotations={"pod-group-name": "g"}) for n in (0, 2))],), ("Make the 1 pod that the gang lacks: g-1", "from 3 to 2")),
    Situation(CauseCode.GANG_INCOMPLETE, ("Job", "j"), ([*ORG, job("j", "team", 2, annotations={"kai.scheduler/batch-min-member": "3"})],), ("parallelism to 3", "from 3 to 2")),
    Situation(CauseCode.SCHEDULING_GATED, ("Deployment", "d"), ([*ORG, deployment("d", "team", 2, schedulingGates=[{"name": "lab/audit"}])],), ("Remove the scheduling gate lab/audit",)),
    Situation(CauseCode.SUSPENDED, ("Job", "j"), ([*ORG, job("j", "team", 2, suspend=True)],), ("Resume Job j",)),
    Situation(CauseCode.PODS_NOT_CREATED, ("Deployment", "d"), ([*ORG, deployment("d", "team", 0)],), ("Scale Deployment d up",)),
    Situation(CauseCode.SELECTOR_MATCHES_NO_NODE, ("Job", "j"), ([*ORG, job("j", "team", 2, nodeSelector={"nvidia.com/gpu.product": "A1000"})],), ("Select nodes by nvidia.com/gpu.product=A100",)),
    Situation(CauseCode.SELECTOR_MATCHES_NO_NODE, ("Job", "j"), ([*ORG, job("j", "team", 2, nodeSelector={"lab/owner": "me"})],), ("Remove lab/owner=me", "Label node p0-0 lab/owner=me")),
    Situation(CauseCode.SELECTOR_MATCHES_NO_NODE, ("Pod", "p"), ([*ORG, pod("p", "team", affinity=affinity("nvidia.com/gpu.product", "B200"))],), ("Require nvidia.com/gpu.product in [A100]", "a preference")),
    Situation(CauseCode.TAINT_NOT_TOLERATED, ("Job", "j"), ([*ORG, job("j", "team", 2)],), ("toleration for the taint lab/keep", "Remove the taint lab/keep from node p0-0"), fleet({"taints": [{"key": "lab/keep", "effect": "NoExecute"}]})),
    Situation(CauseCode.NODES_CORDONED, ("Job", "j"), (*(taint(one, unschedulable=True) for one in NODES), [*ORG, job("j", "team", 3, 4, gang=True)]), ("Uncordon node",)),
    Situation(CauseCode.NOT_ENOUGH_GPUS, ("Job", "j"), ([*ORG, job("full", "team", 16, run=300)], [job("j", "team", 4, gang=True)]), ("Wait", "Add 1 node to the pool p0")),
    Situation(CauseCode.NOT_ENOUGH_GPUS, ("Job", "j"), ([*ORG], FULL, [job("j", "team", 4, gang=True)]), ("Scale Deployment full down from 16 to 12, which ends 4 pods", "Add 1 node to")),
    Situation(CauseCode.NOT_ENOUGH_CPU, ("Pod", "p"), ([*ORG, deployment("eater", "team", 4, requests={"cpu": "30"})], [pod("p", "team", requests={"cpu": "8"})]), ("Ask for 2 CPU a pod (now 8)",)),
    Situation(CauseCode.NOT_ENOUGH_MEMORY, ("Pod", "p"), ([*ORG, deployment("eater", "team", 4, requests={"memory": "120Gi"})], [pod("p", "team", requests={"memory": "20Gi"})]), ("Ask for 8192Mi memory",)),
    Situation(CauseCode.NO_POD_SLOTS, ("Pod", "p"), ([*ORG, deployment("small", "team", 8, 0)], [pod("p", "team")]), ("Scale Deployment small down from 8 to 7", "Add 1 node to"), fleet({"pods": 2})),
    Situation(CauseCode.FRAGMENTED, ("Pod", "p"), ([*ORG, deployment("spread", "team", 4, 2, priority="", affinity=apart("spread"))], [pod("p", "team", 3)]), ("Add 1 node to", "Scale Deployment spread down")),
    Situation(CauseCode.LARGER_THAN_ANY_NODE, ("Job", "j"), ([*ORG, job("j", "team", 2, 6)],), ("Ask for 4 GPUs a pod (now 6)",)),
    Situation(CauseCode.LARGER_THAN_ANY_NODE, ("Pod", "p"), ([*ORG, pod("p", "team", requests={"cpu": "100"})],), ("Ask for 32 CPU",)),
    Situation(CauseCode.LARGER_THAN_ANY_NODE, ("Pod", "p"), ([*ORG, pod("p", "team", resource="lab/hca")],), ("Ask for 0 lab/hca a pod (now 1)",)),
    Situation(CauseCode.PODS_NOT_CREATED, ("Deployment", "d"), ([*ORG, FEW_PODS, deployment("d", "team", 2)],), ("Raise what ResourceQuota few allows: pods 2 (now 1)",)),
    Situation(CauseCode.LARGER_THAN_THE_FLEET, ("Job", "j"), ([*ORG, job("j", "team", 9, 2, gang=True)],), ("Make it a gang of 8 pods", "Add 1 node to")),
    Situation(CauseCode.GPU_SHARE_TOO_LARGE, ("Pod", "p"), ([*ORG, pod("p", "team", 0, annotations={"gpu-memory": "90000"})],), ("Ask for 40900 MiB",), fleet({"gpuMemory": "40Gi"})),
    Situation(CauseCode.GPU_SHARE_TOO_LARGE, ("Pod", "p"), ([*ORG, pod("p", "team", 0, annotations={"gpu-fraction": "0.5", "gpu-fraction-num-devices": "6"})],), ("a share of 4 GPUs",)),
    Situation(CauseCode.GPU_MEMORY_UNKNOWN, ("Pod", "p"), ([*ORG, pod("p", "team", 0, annotations={"gpu-memory": "3000"})],), ("nvidia.com/gpu.memory",)),
    Situation(CauseCode.MIG_PROFILE_ABSENT, ("Pod", "p"), ([*ORG, pod("p", "team", 0, resource="nvidia.com/mig-2g.20gb")],), ("Ask for nvidia.com/mig-3g.40gb",), fleet({"gpus": 1, "mig": {"strategy": "mixed", "profiles": {"1g.10gb": 2, "3g.40gb": 1}}})),
    Situation(CauseCode.VOLUME_MISSING, ("Job", "j"), ([*ORG, job("j", "team", 2, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "books"}}])],), ("Make PersistentVolumeClaim books",)),
    Situation(CauseCode.CLAIM_REFUSED, ("Pod", "p"), ([*ORG, CLAIM, pod("p", "team", 0, resourceClaims=[{"name": "g", "resourceClaimName": "shared"}])],), ("Label ResourceClaim shared kai.scheduler/queue=team",), devices=True),
    Situation(CauseCode.TOPOLOGY_UNKNOWN, ("Job", "j"), ([*ORG, job("j", "team", 2, gang=True, annotations={"kai.scheduler/topology": "hals", "kai.scheduler/topology-required-placement": "lab/rak"})],), ("topology halls, requiredTopologyLevel lab/rack",), fleet(TWO_RACKS, topologies=RACKS)),
    Situation(CauseCode.LARGER_THAN_ANY_DOMAIN, ("Job", "j"), ([*ORG, job("j", "team", 3, 4, gang=True, annotations={"kai.scheduler/topology": "halls", "kai.scheduler/topology-required-placement": "lab/rack"})],), ("Require one lab/hall instead", "Prefer one lab/rack", "Make it a gang of 2"), fleet(TWO_RACKS, topologies=RACKS)),
    Situation(CauseCode.NO_DOMAIN_FREE, ("Job", "j"), ([*ORG, deployment("spread", "team", 2, 4, priority="", nodeSelector={"kubernetes.io/hostname": "p0-0"}), deployment("second", "team", 1, 4, priority="", nodeSelector={"kubernetes.io/hostname": "p0-2"})], [job("j", "team", 2, 4, gang=True, annotations={"kai.scheduler/topology": "halls", "kai.scheduler/topology-required-placement": "lab/rack"})]), ("Require one lab/hall",), fleet(TWO_RACKS, topologies=RACKS)),
    Situation(CauseCode.FAIR_SHARE_REACHED, ("Job", "j"), ([queue("a", quota=0), queue("b", quota=0)], [deployment("d", "b", 16)], [job("j", "a", 10)]), ("over-quota weight of queue a from 1 to 2", "the gpu quota of queue a")),
    Situation(CauseCode.NO_WEIGHT, ("Queue", "a"), ([queue("a", quota=2, weight=0), queue("b", quota=2)], [deployment("d", "b", 16)], [job("j", "a", 4)]), ("over-quota weight of queue a from 0 to 1",)),
    Situation(CauseCode.NO_WEIGHT, ("Queue", "a"), ([queue("top", quota=2, weight=0), queue("mid", "top", quota=2, weight=0), queue("a", "mid", quota=2), queue("b", quota=2)], [deployment("d", "b", 16)], [job("j", "a", 4)]), ("over-quota weight of mid and top from 0 to 1",)),
    Situation(CauseCode.VICTIMS_PROTECTED, ("Job", "j"), ([queue("a", quota=8), queue("b", quota=8, reclaimMinRuntime="5m")], [deployment("d", "b", 16)], [job("j", "a", 2)]), ("Wait 5m", "End the protection")),
    Situation(CauseCode.VICTIMS_WITHIN_QUOTA, ("Job", "j"), ([queue("a", quota=8), queue("b", quota=16)], [deployment("d", "b", 16)], [job("j", "a", 2)]), ("Lower the GPU quota of queue b to 14",)),
    Situation(CauseCode.VICTIMS_NON_PREEMPTIBLE, ("Job", "j"), ([queue("a", quota=8), queue("b", quota=16)], [deployment("d", "b", 16, priority="")], [{**queue("b", quota=4)}, job("j", "a", 2)]), ("Scale Deployment d down from 16 to 14",)),
    Situation(CauseCode.PREEMPTION_DELAY, ("Job", "j"), ([queue("a", quota=8), queue("b", quota=8)], [deployment("d", "b", 16)], [job("j", "a", 2, annotations={"kai.scheduler/preemption-delay": "40s"})]), ("Wait 4", "Remove its preemption delay")),
    Situation(CauseCode.STALE_GANG, ("PodGroup", "g"), ([*ORG, podgroup("g", "team", 3), *(pod(f"g-{n}", "team", annotations={"pod-group-name": "g"}) for n in range(3))], {"delete": {"kind": "Pod", "name": "g-1"}}), ("Make the 1 pod that the gang lacks: g-1",)),
    Situation(CauseCode.BEHIND_OTHERS, ("Pod", "p"), ([*ORG, pod("small", "rest", 1)], [job("wide", "team", 16, gang=True)], [pod("p", "team")]), ("Suspend Job wide", "priority class"), config={"queueDepthPerAction": {"allocate": 1}}),
    Situation(CauseCode.NODE_POOL_NOT_SERVED, ("Deployment", "d"), ([*ORG, deployment("d", "team", 2, labels={"kai.scheduler/node-pool": "blue"})],), ("Remove its label kai.scheduler/node-pool",)),
    Situation(CauseCode.PRIORITY_CLASS_MISSING, ("Deployment", "d"), ([*ORG, deployment("d", "team", 2, priority="", priorityClassName="gold")],), ("Make the priority class gold", "existing priority class")),
    Situation(CauseCode.RUNTIME_CLASS_MISSING, ("Deployment", "d"), ([*ORG, deployment("d", "team", 2, runtimeClassName="nvidia")],), ("Make the RuntimeClass nvidia", "Name no RuntimeClass")),
    Situation(CauseCode.KEPT_APART, ("Deployment", "d"), ([*ORG, deployment("d", "team", 5, affinity=apart("d"))],), ("anti-affinity a preference", "Add 1 node to")),
    Situation(CauseCode.EVICTED, ("Deployment", "d"), ([queue("a", quota=8), queue("b", quota=8)], [deployment("d", "b", 16)], [job("j", "a", 2)]), ("Delete Job j",)),
]  # fmt: skip


_NUMBER = re.compile(r"(?<![\w./=-])\d+(?:\.\d+)?(?![\w./-]|\.\d)")


def unsaid(step: Step) -> set[str]:
    """Numbers of a step's words that its changes do not have: but for what was before, what is held, and how much less it is."""
    words = step.do.partition(": kailab ")[0]
    words = re.sub(r"\([^)]*\)|from [\d.]+|which holds [\d.]+|which ends \d+", "", words)
    made = [obj["kind"] for change in step.changes for obj in change.get("apply", ())]
    counted = {str(made.count(kind)) for kind in made}
    return set(_NUMBER.findall(words)) - set(re.findall(r"\d+(?:\.\d+)?", json.dumps(step.changes))) - counted


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda one: f"{one.code}-{one.ask[0]}-{'-'.join(one.said)[:24]}")
def test_every_step_lets_it_run(situation: Situation) -> None:
    with situation.opened() as lab:
        before = state(lab)
        steps = found(lab, situation.subject, situation.code)
        assert state(lab) == before, "the lab itself was changed"
    told = [step.do for step in steps]
    for said in situation.said:
        assert any(said in do for do in told), told
    assert len(steps) <= 5
    for step in steps:
        assert step.checked
        assert not unsaid(step), (step.do, step.changes)
        # What a reader needs is told: nothing of these is an environment or the like.
        assert step.data()["changes"] == [dict(change) for change in step.changes]
        plain(step)
        with situation.opened() as fresh:
            assert runs_after(fresh, situation.subject, step) == "", step.do


@pytest.mark.parametrize("situation", SITUATIONS[::5], ids=lambda one: str(one.code))
def test_the_same_lab_has_the_same_steps(situation: Situation) -> None:
    answers = []
    for _ in range(2):
        with situation.opened() as lab:
            answers.append([step.data() for step in found(lab, situation.subject, situation.code)])
    assert answers[0] == answers[1]


TWO = {
    "queue and selector": ({}, job("j", "taem", 2, nodeSelector={"nvidia.com/gpu.product": "H200"})),
    "taint and selector": ({"taints": KEEP}, job("j", "team", 2, nodeSelector={"nvidia.com/gpu.product": "H200"})),
    "taint and limit": ({"taints": KEEP}, job("j", "tight", 2, gang=True)),
    "suspended, and queue": ({}, job("j", "taem", 2, suspend=True)),
    "queue and size": ({}, job("j", "taem", 2, 6)),
}


@pytest.mark.parametrize("case", TWO)
def test_two_things_wrong_are_mended_together(case: str) -> None:
    pool, wrong = TWO[case]
    situation = Situation(
        CauseCode.QUEUE_MISSING, ("Job", "j"), ([*ORG, queue("tight", "org", limit=1), wrong],), (), fleet(pool)
    )
    with situation.opened() as lab:
        # A correction of a mistyped name comes first, and says that the work still waits with it alone.
        steps = [step for step in ask(lab, "Job", "j").steps if step.checked]
    assert steps
    for step in steps:
        with situation.opened() as fresh:
            assert runs_after(fresh, situation.subject, step) == "", step.do


def test_nothing_is_told_that_does_not_help() -> None:
    situation = Situation(CauseCode.BIND_REFUSED, ("Pod", "p"), ([*ORG],), ())
    with situation.opened() as lab:
        lab.cluster.refuse_binds("default", "p", "no")
        lab.apply([pod("p", "team")])
        lab.settle()
        for code in (CauseCode.BIND_REFUSED, CauseCode.NOT_ENOUGH_GPUS, CauseCode.OVER_LIMIT):
            assert found(lab, situation.subject, code) == ()


def found(lab: Lab, subject: SubjectRef, *codes: CauseCode) -> tuple[Step, ...]:
    causes = [Cause(code, "") for code in codes]
    return tuple(search_steps(subject.state(lab), causes, False, False, StepBudget()))


def plain(step: Step) -> None:
    """Its changes are manifests that can be applied anew: nothing that a server wrote."""
    text = json.dumps(step.data()["changes"])
    assert json.loads(text) == step.data()["changes"]
    written = {key for change in step.changes for key in keys_in(change)}
    assert not written & {"uid", "resourceVersion", "managedFields", "ownerReferences", "creationTimestamp"}, text
    assert "last-applied" not in text


def state(lab: Lab) -> Any:
    return lab.now, {kind: lab.cluster.list(kind) for kind in lab.cluster.kinds()}


def runs_after(lab: Lab, subject: SubjectRef, step: Step) -> str:
    """What is wrong; empty where it runs, or the part of it that the step promises, with more pods than before."""
    before = len(subject.state(lab).running)
    may_wait = 0 if step.outcome is None else step.outcome.waiting
    carry_out(lab, read_changes([dict(change) for change in step.changes]))
    after = subject.state(lab)
    if not after.runs and not 0 < len(after.waiting) <= may_wait:
        return f"{len(after.running)} of {after.wanted} run, {len(after.waiting)} wait"
    return "" if len(after.running) > before else f"runs no more pods than before: {before}"


def keys_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from keys_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from keys_in(inner)
