"""What hands used to kubectl type: it does what they mean, or says what to type here."""

from __future__ import annotations

import json

import pytest

from kailab.cli.table import fit_table

LONG = """\
apiVersion: batch/v1
kind: Job
metadata: {name: a-training-job-with-a-name-as-long-as-names-get-here, labels: {kai.scheduler/queue: team-a}}
spec:
  template:
    metadata: {labels: {app: long, kai.scheduler/queue: team-a}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
"""

BARE = """\
apiVersion: v1
kind: Pod
metadata: {name: bare, labels: {kai.scheduler/queue: team-a}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: main, image: x, resources: {limits: {nvidia.com/gpu: 1}}}]
  volumes: [{name: shm, emptyDir: {medium: Memory}}]
"""


def test_a_name_copied_from_a_narrow_table_is_understood(serving) -> None:
    """A table of 80 columns has no room for the name of a PodGroup."""
    assert serving("apply", "-f", "-", input=LONG).code == 0
    name = next(one for one in serving("get", "podgroups", "-o", "name").out.split() if "training" in one).partition(
        "/"
    )[2]
    short = f"{name[:11]}…{name[-4:]}"
    for words in (["get", "podgroup", short], ["describe", f"pg/{short}"], ["explain", "pg", short]):
        done = serving(*words)
        assert done.code == 0
        assert name in done.out
    assert serving("label", "pg", short, "a=b").out == f"podgroup.scheduling.run.ai/{name} labeled\n"


def test_a_shortened_name_that_fits_none_or_several_is_refused(serving) -> None:
    done = serving("get", "pods", "api…")
    assert (done.code, "'api…' matches 2 of Pod; give the full name: api-" in done.err) == (2, True)
    assert serving("describe", "pod", "x…y").err == "error: no Pod has a name that is shortened to 'x…y'\n"


@pytest.mark.parametrize("verb", ["get", "describe", "delete"])
def test_a_mistyped_name_is_told_what_may_have_been_meant(busy, verb) -> None:
    done = busy(verb, "queue", "team-aa")
    assert (done.code, done.err) == (2, "error: Queue 'team-aa' not found; did you mean team-a?\n")


def test_what_is_not_there_may_be_no_failure(busy) -> None:
    assert busy("get", "pod", "ghost", "--ignore-not-found", "-o", "name").code == 0
    done = busy("get", "queue", "ghost", "team-a", "--ignore-not-found", "-o", "name")
    assert (done.code, done.out) == (0, "queue.scheduling.run.ai/team-a\n")


@pytest.mark.parametrize("form", [["--dry-run"], ["--dry-run=client"], ["--dry-run=server"]])
def test_dry_runs_in_kubectls_words(serving, form) -> None:
    done = serving("apply", *form, "-f", "-", input=BARE)
    assert (done.code, done.out) == (0, "pod/bare created (dry run)\n")
    assert serving("get", "pod", "bare").code == 2


def test_dry_run_none_applies_and_others_are_refused(serving) -> None:
    assert serving("apply", "--dry-run=some", "-f", "-", input=BARE).code == 2
    assert serving("apply", "--dry-run=none", "-f", "-", input=BARE).out == "pod/bare created\n"


def test_data_on_a_node_holds_its_pod_back(serving) -> None:
    assert serving("apply", "-f", "-", input=BARE).code == 0
    node = json.loads(serving("get", "pod", "bare", "-o", "json").out)["spec"]["nodeName"]
    done = serving("drain", node)
    assert done.code == 2
    assert "has no controller that replaces it; --force deletes it" in done.err
    assert "has data in an emptyDir, which would be lost; --delete-emptydir-data allows it" in done.err
    assert serving("drain", node, "--force").code == 2
    assert serving("get", "pod", "bare").code == 0
    done = serving("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force")
    assert (done.code, done.out) == (0, f"node/{node} drained\n")
    assert serving("get", "pod", "bare").code == 2


def test_labels_are_listed_and_what_is_taken_away_is_called_so(serving) -> None:
    assert serving("label", "deploy", "api", "team=blue").out == "deployment.apps/api labeled\n"
    assert serving("label", "deploy", "api", "--list").out == "team=blue\ntier=web\n"
    assert serving("label", "deploy", "api", "team-").out == "deployment.apps/api unlabeled\n"
    listed = serving("label", "nodes", "--all", "--list").out
    assert "Listing labels for node/a100-0:\n kubernetes.io/arch=amd64\n" in listed
    assert serving("annotate", "deploy", "api", "note=x").code == 0
    assert "note=x\n" in serving("annotate", "deploy", "api", "--list").out


@pytest.mark.parametrize(
    "words, said",
    [
        (
            ["delete", "pod", "a", "--force", "--grace-period=0"],
            "No such option '--force'; a pod's spec.terminationGracePeriodSeconds",
        ),
        (["delete", "pod", "a", "--now"], "passes at once, because a lab's time is virtual"),
        (
            ["apply", "-f", "x", "--server-side"],
            "No such option '--server-side'; `kailab apply` checks all manifests first",
        ),
        (["get", "-f", "x.yaml"], "name the objects: KIND NAME, or KIND/NAME"),
        (["get", "pods", "--context", "prod"], "--state selects a lab"),
        (
            ["apply", "-f", "https://example.com/job.yaml"],
            "kailab does not download files; use: curl -sL https://example.com/job.yaml | kailab apply -f -",
        ),
    ],
)
def test_what_kubectl_has_and_kailab_has_not(started, words, said) -> None:
    done = started(*words)
    assert done.code == 2
    assert said in done.err
    assert "Did you mean" not in done.err


def test_other_commands_get_no_advice_about_pods(started) -> None:
    assert "terminationGracePeriodSeconds" not in started("fleet", "--force").err


def test_labels_are_readable_on_a_narrow_terminal() -> None:
    """Each whole, below its row: a label of which the middle is left out says nothing."""
    labels = "app=train,batch.kubernetes.io/job-name=a-training-job-with-a-long-name,kai.scheduler/queue=team-a"
    headers = ["NAME", "STATUS", "LABELS"]
    laid = fit_table(headers, [headers, ["a-training-job-with-a-long-name-0", "Running", labels]], 60)
    alone = [line.strip() for _, line in laid.lines() if line]
    assert "".join(alone[1:]) == labels
    assert alone[1:] == [
        "app=train,",
        "batch.kubernetes.io/job-name=a-training-job-with-a-long-name,",
        "kai.scheduler/queue=team-a",
    ]
