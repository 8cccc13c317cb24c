"""A lab and the one that its snapshot opens as: the same objects, and the same decisions from there on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from checks.fuzzing.walk import LEAVES, Walk, steps_of
from checks.fuzzing.walk_objects import queue_tree
from kailab.evidence.entries import Decision
from kailab.lab.lab import Lab
from kailab.model.labels import RUN_SECONDS
from kailab.model.times import parse_time
from kailab.scheduler.cycle_record import CycleRecord
from kailab.scheduler.observers import Observer
from kailab.snapshots.opening import lab_of
from tests.evidence.test_secrets import ROLE_KINDS, TEMPLATE_KINDS, VERSIONS, Secrets, workload
from tests.snapshots.conftest import Kept


class Decisions(Observer):
    """What each cycle decided, by name, as evidence tells it."""

    wants_decisions = True

    def __init__(self) -> None:
        self.cycles: list[Any] = []

    def on_decisions(self, entries: Sequence[Decision], record: CycleRecord | None = None, number: int = 0) -> None:
        if entries:
            self.cycles.append((number, list(entries)))


def outcome(lab: Lab) -> Counter[tuple[str, str, str]]:
    return Counter((row.owner.partition("/")[0], row.phase, row.node) for row in lab.picture().rows)


WHOLE = ("Pod", "Node", "Job", "Deployment", "ReplicaSet", "StatefulSet")
PARTLY = ("PodGroup", "Queue")  # of their status the figures that reasons quote are left out, and who the children are


def identities(lab: Lab) -> list[tuple[Any, ...]]:
    """Who is there since when, and how it stands."""
    return [
        (
            kind,
            obj["metadata"]["uid"],
            obj["metadata"]["creationTimestamp"],
            _without_sentences(kind, obj.get("status")) if kind in WHOLE else None,
        )
        for kind in (*WHOLE, *PARTLY)
        for obj in lab.get(kind, None, None)
    ]


def _without_sentences(kind: str, status: Any) -> Any:
    """Of pods alone the messages of conditions are kept: of others they can say anything."""
    if kind == "Pod" or not status or "conditions" not in status:
        return status
    conditions = [{key: text for key, text in one.items() if key != "message"} for one in status["conditions"]]
    return {**status, "conditions": conditions}


@pytest.mark.parametrize("seed", range(8))
def test_a_random_lab_goes_on_as_one_that_was_saved(seed: int, kept: Kept, tmp_path: Path) -> None:
    """What was applied last is not yet decided on when the snapshot is taken."""
    walk, state = Walk(seed), tmp_path / "lab.state"
    try:
        for step in steps_of(seed, 15):
            walk.take(step)
        for step in (one for one in steps_of(seed + 1000, 40) if one.action in ("apply", "cordon", "queue")):
            getattr(walk, f"_{step.action}")(step.number, step.other)
        taken = kept(walk.lab)
        walk.lab.save(state)
    finally:
        walk.close()
    again, before = Decisions(), Decisions()
    with lab_of(taken, [again]) as opened, Lab.resume(state, [before]) as resumed:
        assert opened.now == resumed.now
        assert identities(opened) == identities(resumed)
        opened.settle()
        resumed.settle()
        assert again.cycles[0] == before.cycles[0]
        assert outcome(opened) == outcome(resumed)


@pytest.mark.parametrize("kind", [*TEMPLATE_KINDS, *ROLE_KINDS, "RayCluster", "Service.serving.knative.dev"])
def test_a_workload_is_left_as_it_is(kind: str, kept: Kept) -> None:
    """What was left out of its template makes it no other template: nothing is rolled out anew."""
    made = {"apiVersion": VERSIONS.get(kind, "apps/v1"), "kind": kind.partition(".")[0], **workload(kind, Secrets())}
    with Lab.open() as lab:
        lab.apply(queue_tree(LEAVES))
        lab.apply([{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {}}])
        lab.apply([made])
        lab.settle()
        with lab_of(kept(lab)) as opened:
            before = {pod["metadata"]["uid"] for pod in opened.get("pods")}
            opened.settle()
            assert {pod["metadata"]["uid"] for pod in opened.get("pods")} == before


SPEC = {"containers": [{"name": "c", "image": "x", "env": [{"name": "TOKEN", "value": "secret"}]}]}
OF_OPERATORS = {
    "PodCliqueSet": (
        "grove.io/v1alpha1",
        {
            "replicas": 1,
            "template": {"cliques": [{"name": "a", "spec": {"roleName": "a", "replicas": 2, "podSpec": SPEC}}]},
        },
    ),
    "InferenceService": (
        "serving.kserve.io/v1beta1",
        {"predictor": {"minReplicas": 2, "containers": [{**SPEC["containers"][0], "name": "kserve-container"}]}},
    ),
    "Workflow": (
        "argoproj.io/v1alpha1",
        {
            "entrypoint": "main",
            "templates": [
                {"name": "main", "parallelism": 2, "steps": [[{"name": n, "template": "work"} for n in "ab"]]},
                {"name": "work", "container": {"image": "x", "command": ["sleep"]}},
            ],
        },
    ),
    "Notebook": ("kubeflow.org/v1", {"template": {"spec": SPEC}}),
    "DynamoGraphDeployment": (
        "nvidia.com/v1alpha1",
        {
            "services": {
                "a": {"componentType": "worker", "replicas": 2, "extraPodSpec": {"mainContainer": {"image": "x"}}}
            }
        },
    ),
}
FOREIGN = {"grove.io/pod-template-hash", "kailab.dev/template"}


@pytest.mark.parametrize("kind", OF_OPERATORS)
@pytest.mark.parametrize("foreign", [False, True])
def test_work_of_an_operator_is_left_as_it_is(kind: str, foreign: bool, kept: Kept) -> None:
    """``foreign``: another controller made it, which writes other hashes."""
    version, spec = OF_OPERATORS[kind]
    with Lab.open() as lab:
        notes = {"serving.kserve.io/deploymentMode": "Standard"}
        lab.apply(
            [{"apiVersion": version, "kind": kind, "metadata": {"name": "a", "annotations": notes}, "spec": spec}]
        )
        lab.settle()
        source = kept(lab)
        if foreign:
            for obj in (obj for several in source.objects.values() for obj in several):
                for texts in (obj["metadata"].get("labels"), obj["metadata"].get("annotations")):
                    for key in FOREIGN & (texts or {}).keys():
                        texts[key] = "other"
        with lab_of(source) as opened:
            before = {pod["metadata"]["uid"] for pod in opened.get("pods")}
            opened.settle()
            assert {pod["metadata"]["uid"] for pod in opened.get("pods")} == before
            assert before
            phases = [obj.get("status", {}).get("phase") for obj in opened.get(kind)]
            assert phases == [obj.get("status", {}).get("phase") for obj in lab.get(kind)]


def job(name: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "template": {
                "metadata": {"labels": {"app": name, "kai.scheduler/queue": LEAVES[0]}, "annotations": annotations},
                "spec": {
                    "schedulerName": "kai-scheduler",
                    "restartPolicy": "Never",
                    "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}],
                },
            },
        },
    }


def test_pods_start_on_nodes_of_which_the_address_was_left_out(kept: Kept) -> None:
    with Lab.open() as lab:
        lab.apply(queue_tree(LEAVES))
        for node in lab.get("nodes"):
            addresses = [{"type": "InternalIP", "address": "10.1.2.3"}, {"type": "Hostname", "address": "x"}]
            lab.cluster.patch("Node", node["metadata"]["name"], None, {"status": {"addresses": addresses}}, "status")
        lab.apply([job("work")])
        taken = kept(lab)
    with lab_of(taken) as opened:
        opened.settle()
        assert {row.phase for row in opened.picture().rows} == {"Running"}


def test_how_long_work_runs_can_be_assumed(kept: Kept) -> None:
    with Lab.open() as lab:
        lab.apply(queue_tree(LEAVES))
        lab.apply([job("unknown"), job("known", **{RUN_SECONDS: "90"})])
        lab.settle()
        lab.advance(60)
        taken = kept(lab)
    with lab_of(taken) as opened:
        opened.advance(40 * 86_400)
        assert {pod["status"]["phase"] for pod in opened.get("pods")} == {"Running", "Succeeded"}
    with lab_of(taken, assumed=3600.0) as opened:
        begun = parse_time(opened.get("pods")[0]["status"]["startTime"])
        opened.advance(60)
        assert Counter(row.app for row in opened.picture().rows if row.phase == "Running") == {"unknown": 2}
        opened.advance(3600)
        ended = [pod for pod in opened.get("pods") if pod["metadata"]["labels"]["app"] == "unknown"]
        assert {pod["status"]["phase"] for pod in ended} == {"Succeeded"}
        (state,) = {pod["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] for pod in ended}
        assert 3600 <= parse_time(state) - begun <= 3602
