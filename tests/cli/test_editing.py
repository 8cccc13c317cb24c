"""Fields of objects changed as kubectl does it."""

from __future__ import annotations

import json

import pytest


def found(kailab, *what):
    return json.loads(kailab("get", *what, "-o", "json").out)


def test_a_deployment_is_scaled(serving) -> None:
    done = serving("scale", "deploy/api", "--replicas", "5")
    assert (done.code, done.out) == (0, "deployment.apps/api scaled\n")
    assert "5 pods running" in done.err
    assert len(found(serving, "pods")["items"]) == 5


def test_it_is_scaled_only_from_where_it_was_thought_to_be(serving) -> None:
    done = serving("scale", "deployment", "api", "--replicas=3", "--current-replicas=4")
    assert (done.code, done.err) == (2, "error: deployment.apps/api has 2 replicas, not 4\n")
    assert found(serving, "deploy", "api")["spec"]["replicas"] == 2


def test_what_has_no_replicas_is_not_scaled(serving) -> None:
    done = serving("scale", "queue/team-a", "--replicas", "1")
    assert done.code == 2
    assert "Queue can't be scaled; expected one of: ReplicationController, Deployment" in done.err


def test_labels_are_set_and_taken_away(serving) -> None:
    assert serving("label", "deploy", "api", "team=blue", "tier-").out == "deployment.apps/api labeled\n"
    assert found(serving, "deploy", "api")["metadata"]["labels"] == {"team": "blue"}
    assert serving("label", "deploy", "api", "team=blue").out == "deployment.apps/api not labeled\n"


def test_a_label_is_overwritten_only_where_that_is_said(serving) -> None:
    done = serving("label", "deploy/api", "tier=back")
    assert (done.code, done.err) == (2, "error: deployment.apps/api has tier=web already; --overwrite changes it\n")
    assert serving("label", "deploy/api", "tier=back", "--overwrite").code == 0
    assert found(serving, "deploy", "api")["metadata"]["labels"] == {"tier": "back"}


def test_one_of_several_that_is_not_there_leaves_all_as_they_are(serving) -> None:
    done = serving("label", "queue/team-a", "queue/nope", "a=b")
    assert done.code == 2
    assert "'nope' not found" in done.err
    assert "a" not in (found(serving, "queue", "team-a")["metadata"].get("labels") or {})


@pytest.mark.parametrize(
    "words, said",
    [
        (["queue", "team-a"], "there is nothing to change; KEY=VALUE sets a key"),
        (["queue", "a=b", "team-a"], "expected objects before changes"),
        (["queue", "team-a", "=b"], "expected KEY=VALUE or KEY-"),
        (["queue", "team-a", "a=b", "a-"], "each key once"),
        (["queue", "team-a", "a=not a value"], "metadata.labels"),
    ],
)
def test_bad_labels_are_refused(busy, words, said) -> None:
    done = busy("label", *words)
    assert done.code == 2
    assert said in done.err


def test_annotations_of_all_pods_of_a_label(busy) -> None:
    assert len(busy("annotate", "pods", "-l", "app=train", "note=later = better").out.splitlines()) == 20
    assert {pod["metadata"]["annotations"]["note"] for pod in found(busy, "pods")["items"]} == {"later = better"}
