"""``patch`` in each of kubectl's forms."""

from __future__ import annotations

import json

import pytest


def found(kailab, *what):
    return json.loads(kailab("get", *what, "-o", "json").out)


def test_a_queue_is_patched_and_the_lab_acts_on_it(busy) -> None:
    done = busy("patch", "queue", "team-a", "-p", '{"spec": {"resources": {"gpu": {"limit": 20}}}}')
    assert (done.code, done.out) == (0, "queue.scheduling.run.ai/team-a patched\n")
    assert "20 pods running" in done.err
    assert found(busy, "queue", "team-a")["spec"]["resources"]["gpu"]["quota"] == 8


def test_a_patch_of_a_queue_warns_as_apply_does(busy) -> None:
    too_much = '{"spec": {"resources": {"gpu": {"quota": 40}}}}'
    assert "is more than the limit of 16" in busy("patch", "queue", "team-a", "-p", too_much).err
    assert "is more than the limit" not in busy("patch", "queue", "team-a", "-p", '{"spec": {"priority": 5}}').err


def test_a_status_is_patched_where_that_is_said(started) -> None:
    wished = '{"status": {"conditions": [{"type": "Ready", "status": "False"}]}}'
    assert started("patch", "node", "a100-0", "-p", wished).out.endswith("patched (no change)\n")
    assert started("patch", "node", "a100-0", "--subresource", "status", "-p", wished).out.endswith("patched\n")
    assert found(started, "node", "a100-0")["status"]["conditions"][0]["status"] == "False"
    assert started("patch", "node", "a100-0", "--subresource", "scale", "-p", wished).code == 2


def test_a_patch_that_changes_nothing_says_so(busy, home) -> None:
    (home / "patch.yaml").write_text("metadata: {labels: {a: b}}")
    assert busy("patch", "queue/team-a", "--patch-file", "patch.yaml").out.endswith("patched\n")
    assert busy("patch", "queue/team-a", "--patch-file", "patch.yaml").out.endswith("patched (no change)\n")


@pytest.mark.parametrize(
    "options, said",
    [
        ([], "expected either -p PATCH or --patch-file FILE"),
        (["-p", "[1]"], "expected a mapping, as in"),
        (["-p", "{"], "not valid YAML"),
        (["-p", '[{"op": "remove", "path": "/spec"}]'], "--type json takes a list of operations"),
        (["--type", "json", "-p", "spec: {}"], "--type json: expected a list of operations"),
        (["--type", "json", "-p", '[{"op": "remove", "path": "/spec/nope"}]'], "[0]: /spec/nope: is not there"),
        (["--type", "strategic", "-p", "spec: {}"], "Queue is a custom resource"),
        (["-p", "metadata: {name: other}"], "metadata.name: is 'team-a' and can't be changed to 'other'"),
        (["-p", "{}", "--patch-file", "x"], "either -p PATCH or --patch-file FILE"),
        (["-p", "spec: {resources: {gpu: {quota: much}}}"], "spec.resources.gpu.quota"),
    ],
)
def test_a_bad_patch_is_refused(busy, options, said) -> None:
    before = found(busy, "queue", "team-a")
    done = busy("patch", "queue", "team-a", *options)
    assert done.code == 2
    assert said in done.err
    assert found(busy, "queue", "team-a") == before


def test_a_new_image_keeps_what_else_the_container_has(serving) -> None:
    """By default as kubectl: containers are merged by name. As a plain merge patch it would take the GPU away."""
    wished = '{"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "new"}]}}}}'
    assert serving("patch", "deployment", "api", "-p", wished).out == "deployment.apps/api patched\n"
    (container,) = found(serving, "deploy", "api")["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["resources"]["limits"]) == ("new", {"nvidia.com/gpu": 1})
    assert {pod["spec"]["containers"][0]["image"] for pod in found(serving, "pods")["items"]} == {"new"}
    assert serving("patch", "deployment", "api", "--type", "merge", "-p", wished).code == 0
    (container,) = found(serving, "deploy", "api")["spec"]["template"]["spec"]["containers"]
    assert "resources" not in container


def test_a_json_patch(serving) -> None:
    operations = '[{"op": "test", "path": "/spec/replicas", "value": 2}, {"op": "replace", "path": "/spec/replicas", "value": 3}]'
    done = serving("patch", "deploy/api", "--type=json", "-p", operations)
    assert (done.code, done.out) == (0, "deployment.apps/api patched\n")
    assert found(serving, "deploy", "api")["spec"]["replicas"] == 3
    done = serving("patch", "deploy/api", "--type=json", "-p", operations)
    assert (done.code, "[0]: test /spec/replicas: is 3, not 2" in done.err) == (2, True)


def test_a_mistyped_field_is_told(busy) -> None:
    done = busy("patch", "queue", "team-a", "-p", "spec: {resources: {gpu: {quotaa: 3}}}")
    assert done.code == 0
    assert (
        "warning: spec.resources.gpu.quotaa: there is no such field, so nothing acts on it; did you mean quota?"
        in done.err
    )
    # Once: what is there already was told.
    assert "no such field" not in busy("patch", "queue", "team-a", "-p", "spec: {priority: 3}").err


def test_a_field_that_nothing_here_reads_is_told(started) -> None:
    agent = (
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: c}, spec: {selector: {matchLabels: {app: c}}, template: {"
        "metadata: {labels: {app: c}}, spec: {containers: [{name: main, image: pause}]}}}}"
    )
    started("apply", "-f", "-", input=agent)
    done = started("patch", "daemonset", "c", "-p", "spec: {minReadySeconds: 5}")
    assert done.code == 0, done.err
    assert "warning: spec.minReadySeconds: kailab does not read it; in a cluster the next pod is replaced" in done.err
    assert "does not read" not in started("patch", "daemonset", "c", "-p", "metadata: {labels: {a: b}}").err
