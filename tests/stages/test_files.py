"""Stages as objects and as a file, without KWOK."""

from __future__ import annotations

from pathlib import Path

import yaml

from kailab.cluster import pod_lifecycle
from kailab.cluster.stages import stages, write_stages


def test_the_file_holds_the_stages_as_they_are(tmp_path: Path) -> None:
    path = write_stages(tmp_path / "stages.yaml")
    assert list(yaml.safe_load_all(path.read_text())) == stages()


def test_every_stage_is_of_a_kind_that_kwok_is_given() -> None:
    names = [stage["metadata"]["name"] for stage in stages()]
    assert len(set(names)) == len(names)
    assert {stage["spec"]["resourceRef"]["kind"] for stage in stages()} == {"Node", "Pod"}


def test_every_status_of_a_pod_is_tied_to_the_state_it_was_made_for() -> None:
    pods = [stage["spec"]["next"] for stage in stages() if stage["spec"]["resourceRef"]["kind"] == "Pod"]
    for following in pods:
        patches = following.get("patches", [])
        assert bool(following.get("delete")) != bool(patches)
        told = [patch["template"] for patch in patches if patch.get("subresource") == "status"]
        assert all("resourceVersion: {{ .metadata.resourceVersion | Quote }}" in template for template in told)


def test_a_lost_checkpoint_is_told_in_the_words_of_the_embedded_cluster() -> None:
    said = {tuple(stage["spec"]["next"]["event"].values()) for stage in stages() if "event" in stage["spec"]["next"]}
    assert said == {tuple(pod_lifecycle.CHECKPOINTED), tuple(pod_lifecycle.CHECKPOINT_LOST)}
