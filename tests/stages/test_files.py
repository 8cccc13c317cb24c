"""Stages as objects and as text, without KWOK."""

from __future__ import annotations

import yaml

from kailab.cluster import pod_lifecycle
from kailab.cluster.stages import stages, stages_yaml


def test_the_text_holds_the_stages_as_they_are() -> None:
    assert list(yaml.safe_load_all(stages_yaml())) == stages()


def test_every_stage_is_of_a_kind_that_kwok_is_given() -> None:
    names = [stage["metadata"]["name"] for stage in stages()]
    assert len(set(names)) == len(names)
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages()} == {"Node", "Pod"}


def test_every_status_of_a_pod_is_tied_to_the_state_it_was_made_for() -> None:
    pods = [stage["spec"]["next"] for stage in stages() if stage["spec"]["resourceRef"]["kind"] == "Pod"]
    for following in pods:
        patches = following.get("patches", [])
        assert bool(following.get("delete")) != bool(patches)
        templates = [patch["template"] for patch in patches if patch.get("subresource") == "status"]
        assert all("resourceVersion: {{ .metadata.resourceVersion | Quote }}" in template for template in templates)


def test_events_of_checkpoints_equal_those_of_the_embedded_cluster() -> None:
    events = {tuple(stage["spec"]["next"]["event"].values()) for stage in stages() if "event" in stage["spec"]["next"]}
    assert events == {tuple(pod_lifecycle.CHECKPOINTED), tuple(pod_lifecycle.CHECKPOINT_LOST)}
