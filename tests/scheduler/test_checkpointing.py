"""Victims save their state before they end: the scheduler and the fake kubelet over an embedded cluster."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.engine.config import EngineConfig
from kailab.engine.policies.settings import Checkpoint
from kailab.model.times import format_time

SECONDS = "kailab.dev/checkpoint-seconds"
REQUESTED = "kailab.dev/checkpoint-requested"
DONE = "kailab.dev/checkpoint-done"


@pytest.fixture
def contested(build) -> Any:
    """One GPU that ``low`` holds; ``run(config, **spec of low)`` submits ``high`` and settles."""
    lab = build.lab(nodes=1, gpus=1)
    lab.apply(build.queue("team"))

    def run(config: EngineConfig, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
        lab.restart(config=config)
        lab.apply(build.pod("low", 1, "team", annotations=annotations, **spec))
        lab.settle()
        assert lab.running() == ["low"]
        lab.asked = lab.cluster.now()
        lab.apply(build.pod("high", 1, "team", labels={"priorityClassName": "build-preemptible"}))
        lab.settle()
        return lab

    return run


def names(lab: Any) -> list[str]:
    return [pod["metadata"]["name"] for pod in lab.cluster.list("Pod")]


def reasons(lab: Any, name: str) -> list[str]:
    return [reason for reason, _ in lab.events(name)]


def test_the_victim_keeps_its_gpu_until_its_state_is_saved(contested) -> None:
    lab = contested(EngineConfig(checkpoint=Checkpoint(grace=120)), {SECONDS: "60"})
    low = lab.cluster.get("Pod", "low", "default")
    assert low["metadata"]["annotations"][REQUESTED] == format_time(lab.asked)
    assert "Checkpointing" in reasons(lab, "low")
    assert lab.node_of("high") == ""
    assert "Pipelined" in reasons(lab, "high")

    lab.cluster.advance(50)
    lab.settle()
    assert (names(lab), lab.running()) == (["high", "low"], ["low"])

    lab.cluster.advance(20)
    lab.settle()
    assert lab.running() == names(lab) == ["high"]
    assert "Checkpointed" in reasons(lab, "low")


def test_the_grace_period_ends_a_slow_save(contested) -> None:
    lab = contested(EngineConfig(checkpoint=Checkpoint(grace=30)), {SECONDS: "60"})
    lab.cluster.advance(32)
    lab.settle()
    assert lab.running() == ["high"]
    assert "CheckpointLost" in reasons(lab, "low")
    assert "Checkpointed" not in reasons(lab, "low")


def test_without_a_grace_of_the_policy_the_pods_own_counts(contested) -> None:
    lab = contested(EngineConfig(checkpoint=Checkpoint()), {SECONDS: "60"}, terminationGracePeriodSeconds=90)
    message = next(message for reason, message in lab.events("low") if reason == "Checkpointing")
    assert message.endswith("it has 90 s")
    lab.cluster.advance(62)
    lab.settle()
    assert "Checkpointed" in reasons(lab, "low")


def test_a_pod_may_say_that_it_is_done(contested) -> None:
    lab = contested(EngineConfig(checkpoint=Checkpoint(grace=600)), {SECONDS: "300"})
    lab.cluster.advance(10)
    lab.cluster.patch("Pod", "low", "default", {"metadata": {"annotations": {DONE: "true"}}})
    lab.cluster.advance(1)
    lab.settle()
    assert lab.running() == ["high"]
    assert "Checkpointed" in reasons(lab, "low")


@pytest.mark.parametrize(
    ("config", "annotations"),
    [(EngineConfig(checkpoint=Checkpoint(grace=120)), None), (EngineConfig(), {SECONDS: "60"})],
    ids=["a pod without a hook", "no such policy"],
)
def test_otherwise_the_victim_goes_at_once(contested, config, annotations) -> None:
    lab = contested(config, annotations)
    assert lab.running() == names(lab) == ["high"]
    assert not {"Checkpointing", "Checkpointed", "CheckpointLost"} & set(reasons(lab, "low"))


def test_a_resumed_cluster_saves_on(contested, tmp_path) -> None:
    from kailab.cluster.embedded import EmbeddedCluster

    lab = contested(EngineConfig(checkpoint=Checkpoint(grace=120)), {SECONDS: "60"})
    lab.cluster.save(tmp_path / "state")
    lab.cluster = EmbeddedCluster.load(tmp_path / "state")
    lab.restart(config=EngineConfig(checkpoint=Checkpoint(grace=120)))
    lab.cluster.advance(62)
    lab.settle()
    assert lab.running() == ["high"]
    assert "Checkpointed" in reasons(lab, "low")


SAVE = "curl -X POST localhost:5000/save; while [ ! -f /checkpoints/latest ]; do sleep 1; done"


def hooked(*command: str) -> list[dict[str, Any]]:
    """A container with a preStop hook, as lessons on checkpoints give it."""
    hook = {"preStop": {"exec": {"command": list(command)}}}
    return [{"name": "main", "image": "pause", "resources": {"limits": {"nvidia.com/gpu": 1}}, "lifecycle": hook}]


def test_a_pod_with_a_hook_keeps_its_grace(contested) -> None:
    """terminationGracePeriodSeconds: 120, a preStop hook, gracePeriod: 2m, and no annotation of kailab's."""
    lab = contested(
        EngineConfig(checkpoint=Checkpoint(grace=120)),
        terminationGracePeriodSeconds=120,
        containers=hooked("/bin/bash", "-c", SAVE),
    )
    assert "Checkpointing" in reasons(lab, "low")
    lab.cluster.advance(110)
    lab.settle()
    assert (names(lab), lab.running()) == (["high", "low"], ["low"])
    lab.cluster.advance(15)
    lab.settle()
    assert lab.running() == names(lab) == ["high"]


def test_a_hook_that_sleeps_takes_as_long_as_it_says(contested) -> None:
    lab = contested(EngineConfig(), terminationGracePeriodSeconds=120, containers=hooked("sh", "-c", "sleep 40"))
    lab.cluster.advance(35)
    lab.settle()
    assert lab.running() == ["low"]
    lab.cluster.advance(10)
    lab.settle()
    assert lab.running() == ["high"]


def test_a_hook_may_say_that_it_is_done(contested) -> None:
    lab = contested(EngineConfig(checkpoint=Checkpoint(grace=120)), containers=hooked("save"))
    lab.cluster.advance(30)
    lab.cluster.patch("Pod", "low", "default", {"metadata": {"annotations": {DONE: "true"}}})
    lab.cluster.advance(1)
    lab.settle()
    assert lab.running() == ["high"]
    assert "Checkpointed" in reasons(lab, "low")


def test_without_a_hook_sigterm_ends_it_whatever_the_grace(contested) -> None:
    lab = contested(EngineConfig(), terminationGracePeriodSeconds=3600)
    assert lab.running() == names(lab) == ["high"]
