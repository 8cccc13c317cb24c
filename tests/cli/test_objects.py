"""Objects into the lab and out of it; bad input changes nothing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from kailab.components.cache import ComponentCache

POD = """\
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec: {{containers: [{{name: main, image: x}}]}}
"""


def test_apply_tells_what_became_of_each_object(busy, home: Path) -> None:
    again = busy("apply", "-f", "work.yaml")
    assert again.code == 0
    assert again.out == "queue.scheduling.run.ai/team-a unchanged\njob.batch/train unchanged\n"
    text = (home / "work.yaml").read_text().replace("limit: 16", "limit: 20")
    changed = busy("apply", "-f", "-", input=text)
    assert changed.out == "queue.scheduling.run.ai/team-a configured\njob.batch/train unchanged\n"
    assert changed.err == "settled after 2s of lab time: 20 pods running\n"


def test_apply_settles_unless_told_not_to(started, home: Path) -> None:
    (home / "q.yaml").write_text(POD.format(name="alone"))
    done = started("apply", "-f", "q.yaml", "--no-settle")
    assert done.out == "pod/alone created\n"
    assert done.err.splitlines()[-1].startswith("not settled")
    assert started("run").out.startswith("settled after")


def test_warnings_go_to_stderr(busy, home: Path) -> None:
    text = (home / "work.yaml").read_text().split("---")[1].replace("team-a", "team-b").replace("train", "typo")
    done = busy("apply", "-f", "-", input=text)
    assert done.code == 0
    assert done.out == "job.batch/typo created\n"
    warning, settled = done.err.splitlines()
    assert warning.startswith("warning: <stdin>:")
    assert "no queue 'team-b'" in warning
    assert settled.endswith("16 pods running, 24 pending (20 QueueDoesNotExist, 4 OverLimit)")


def test_several_files_and_folders(started, home: Path) -> None:
    folder = home / "folder"
    folder.mkdir()
    (folder / "a.yaml").write_text(POD.format(name="a"))
    (folder / "b.yml").write_text(POD.format(name="b"))
    (folder / "notes.txt").write_text("not a manifest")
    (home / "c.yaml").write_text(POD.format(name="c"))
    done = started("apply", "-f", "folder", "-f", "c.yaml")
    assert done.out.split() == ["pod/a", "created", "pod/b", "created", "pod/c", "created"]


def test_the_namespace_of_what_names_none(started) -> None:
    space = "apiVersion: v1\nkind: Namespace\nmetadata: {name: lab}\n---\n"
    assert started("apply", "-n", "lab", "-f", "-", input=space + POD.format(name="a")).code == 0
    assert started("get", "pods", "-n", "lab", "-o", "name").out == "pod/a\n"
    assert started("get", "pods", "-o", "name").out == ""


def test_a_dry_run_changes_nothing(busy, state: Path, home: Path) -> None:
    before = state.read_bytes()
    text = (home / "work.yaml").read_text().replace("limit: 16", "limit: 20")
    done = busy("apply", "--dry-run", "-f", "-", input=text)
    assert done.out.splitlines()[0] == "queue.scheduling.run.ai/team-a configured (dry run)"
    assert state.read_bytes() == before


QUEUE = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: %s}\nspec: {%s}\n"
GOOD = POD.format(name="good") + "---\n"
BAD = {
    "broken YAML": ("a: [1, 2", "<stdin>:"),
    "no object": ("just words", "<stdin>"),
    "no kind": ("apiVersion: v1\nmetadata: {name: x}", "kind"),
    "nothing at all": ("", "no objects in -"),
    "a wrong type": (GOOD + QUEUE % ("q", "resources: {gpu: {quota: many}}"), "spec.resources.gpu.quota"),
    "a negative quantity": (
        GOOD + POD.format(name="x").replace("image: x", "image: x, resources: {limits: {cpu: -1}}"),
        "limits",
    ),
    "an absurd quantity": (
        GOOD + POD.format(name="x").replace("image: x", "image: x, resources: {limits: {cpu: 1e999}}"),
        "1e999",
    ),
    "half a GPU device": (
        GOOD + POD.format(name="x").replace("image: x", 'image: x, resources: {limits: {nvidia.com/gpu: "0.5"}}'),
        "nvidia.com/gpu",
    ),
    "a queue that is its own parent": (GOOD + QUEUE % ("q", "parentQueue: q"), "q"),
    "a cycle of queues": (GOOD + QUEUE % ("a", "parentQueue: b") + "---\n" + QUEUE % ("b", "parentQueue: a"), "cycle"),
    "a name twice": (GOOD + GOOD, "good"),
    "no such namespace": (GOOD + POD.format(name="x").replace("name: x,", "name: x, namespace: nowhere,"), "nowhere"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_told_and_nothing_of_it_applied(busy, state: Path, what: str) -> None:
    text, said = BAD[what]
    before = state.read_bytes()
    done = busy("apply", "-f", "-", input=text)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("error: ")
    assert said in done.err
    assert "Traceback" not in done.err
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("apply",), "-f"),
        (("apply", "-f", "missing.yaml"), "missing.yaml"),
        (("apply", "-f", "-", "-f", "-"), "once"),
        (("apply", "-f", "empty"), "empty"),
        (("delete",), "KIND NAME"),
        (("delete", "pods"), "--all"),
        (("delete", "pod", "x"), "'x'"),
        (("delete", "pod", "x", "-l", "app=y"), "-l"),
        (("delete", "pod", "x", "-f", "work.yaml"), "either"),
        (("delete", "pods", "-l", "a==(b"), "a==(b"),
        (("delete", "nonsense", "x"), "nonsense"),
        (("delete", "job/train", "x"), "KIND/NAME"),
        (("delete", "job", "train", "ghost"), "ghost"),
    ],
)
def test_wrong_use_is_told_and_changes_nothing(
    busy, state: Path, home: Path, arguments: tuple[str, ...], said: str
) -> None:
    (home / "empty").mkdir()
    before = state.read_bytes()
    done = busy(*arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
    assert state.read_bytes() == before


def test_a_quota_beyond_the_parents_is_a_warning(busy) -> None:
    text = QUEUE % ("top", "resources: {gpu: {quota: 4}}") + "---\n"
    text += QUEUE % ("leaf", "parentQueue: top, resources: {gpu: {quota: 8}}")
    done = busy("apply", "-f", "-", input=text)
    assert done.code == 0
    assert "warning: " in done.err


def test_a_gang_larger_than_its_pods_waits_and_says_why(busy) -> None:
    text = """
apiVersion: scheduling.run.ai/v2alpha2
kind: PodGroup
metadata: {name: big}
spec: {queue: team-a, minMember: 50}
---
apiVersion: v1
kind: Pod
metadata: {name: only, annotations: {pod-group-name: big}, labels: {kai.scheduler/queue: team-a}}
spec: {schedulerName: kai-scheduler, containers: [{name: main, image: x}]}
"""
    assert busy("apply", "-f", "-", input=text).code == 0
    assert busy("get", "pod", "only", "--no-headers").out.split()[2] == "Pending"
    assert "50" in busy("explain", "podgroup", "big").out


def test_delete_by_name_label_and_file(busy) -> None:
    done = busy("delete", "job", "train")
    assert done.out == 'job.batch "train" deleted\n'
    assert done.err.startswith("settled after ")
    assert done.err.endswith(" of lab time: no pods\n")
    busy("apply", "-f", "work.yaml")
    assert busy("delete", "jobs", "-l", "kai.scheduler/queue=team-a").out == 'job.batch "train" deleted\n'
    busy("apply", "-f", "work.yaml")
    done = busy("delete", "-f", "work.yaml")
    assert done.out == 'queue.scheduling.run.ai "team-a" deleted\njob.batch "train" deleted\n'
    assert busy("get", "queues").err == "No resources found\n"


def test_delete_what_is_not_there(busy) -> None:
    assert busy("delete", "job", "ghost", "--ignore-not-found").code == 0
    assert busy("delete", "jobs", "-l", "app=ghost").err == "No resources found\n"
    both = busy("delete", "job/train", "job/ghost", "--ignore-not-found")
    assert both.out == 'job.batch "train" deleted\n'


def test_a_deleted_pod_is_replaced_by_its_job(busy) -> None:
    name = busy("get", "pods", "-o", "name").out.split()[0]
    assert busy("delete", name).code == 0
    assert name not in busy("get", "pods", "-o", "name").out.split()
    assert "16 Running" in busy("status").out


IMPOSSIBLE = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: gang
  annotations: {kai.scheduler/batch-min-member: "12"}
spec:
  parallelism: 8
  completions: 8
  template:
    spec: {restartPolicy: Never, containers: [{name: main, image: x}]}
"""


def test_a_gang_larger_than_its_job_is_refused_unless_forced(started, state: Path) -> None:
    before = state.read_bytes()
    done = started("apply", "-f", "-", input=POD.format(name="fine") + "---\n" + IMPOSSIBLE)
    assert done.code == 2
    assert "<stdin>:" in done.err
    assert "12 pods must start together, but there are 8 in all" in done.err
    assert state.read_bytes() == before
    assert started("apply", "--force", "-f", "-", input=IMPOSSIBLE).code == 0


def test_a_gang_that_may_grow_into_its_minimum_is_taken(started) -> None:
    text = IMPOSSIBLE.replace("completions: 8", "completions: 12")
    done = started("apply", "-f", "-", input=text)
    assert done.code == 0
    assert "can't start unless that is raised" in done.err


SPACE = "{apiVersion: v1, kind: Namespace, metadata: {name: NAME}}\n"


def test_folders_in_a_folder_are_applied_only_where_that_is_said(started, home) -> None:
    (home / "all" / "inner").mkdir(parents=True)
    (home / "all" / "a.yaml").write_text(SPACE.replace("NAME", "one"))
    (home / "all" / "inner" / "b.yaml").write_text(SPACE.replace("NAME", "two"))
    assert started("apply", "-f", "all").out == "namespace/one created\n"
    assert started("apply", "-f", "all", "-R").out == "namespace/one unchanged\nnamespace/two created\n"
    assert len(started("delete", "-R", "-f", "all").out.splitlines()) == 2


def test_a_kustomization_is_applied(started, home) -> None:
    if not (shutil.which("kustomize") or shutil.which("kubectl") or (ComponentCache().root / "kubernetes").is_dir()):
        pytest.skip("neither kustomize nor kubectl is here")
    (home / "kustomization.yaml").write_text("resources: [pod.yaml]\nnamePrefix: my-\n")
    (home / "pod.yaml").write_text(POD.format(name="one"))
    assert started("apply", "-k", ".").out == "pod/my-one created\n"
    (home / "kustomization.yaml").write_text("resources: [nope.yaml]\n")
    done = started("apply", "-k", ".")
    assert done.code == 2
    assert "nope.yaml" in done.err


@pytest.mark.parametrize(
    "options, said",
    [
        (["-R"], "-R needs -f FOLDER"),
        (["-k", "nope"], "nope: is not a folder; expected a folder with a kustomization.yaml"),
        (["-R", "-f", "."], "the folder and those below it have no manifests"),
    ],
)
def test_a_folder_that_is_none(started, options, said) -> None:
    done = started("apply", *options)
    assert done.code == 2
    assert said in done.err


POD_SPEC = "{schedulerName: kai-scheduler, restartPolicy: Never, %scontainers: [{name: main, image: x}]}"
JOB = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: one}\nspec:\n  %stemplate: {spec: " + POD_SPEC % "" + "}\n"
SPREAD = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}], "
OUTCOMES = {
    "unknown field": (
        JOB % "paralelism: 2\n  ",
        2,
        "",
        "error: <stdin>:5: Job/one: spec.paralelism: unknown field; did you mean parallelism?",
    ),
    "unknown kind": (
        "apiVersion: example.com/v1\nkind: Robot\nmetadata: {name: one}\nspec: {arms: 2}\n",
        0,
        "robot.example.com/one created\n",
        "warning: <stdin>:1: Robot/one: kind Robot of example.com/v1 is not known to kailab: kept, and nothing of kailab's acts on it; in a cluster the object is refused",
    ),
    "kind without a controller": (
        "apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nmetadata: {name: one}\nspec: {schedule: '0 0 * * *', workflowSpec: {}}\n",
        0,
        "cronworkflow.argoproj.io/one created\n",
        "warning: <stdin>:2: CronWorkflow/one: kind: is kept, but kailab makes no pods for a CronWorkflow; in a cluster Argo makes",
    ),
    "field without effect": (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: one}\nspec: " + POD_SPEC % SPREAD + "\n",
        0,
        "pod/one created\n",
        "warning: <stdin>:4: Pod/one: spec.topologySpreadConstraints: has no effect: KAI does not spread pods by it",
    ),
    "version that is not served": (
        (JOB % "").replace("batch/v1", "batch/v1beta1"),
        0,
        "job.batch/one created\n",
        "warning: <stdin>:1: Job/one: apiVersion: batch/v1beta1 is not a version kailab knows; read as batch/v1; in a cluster the object is refused",
    ),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_apply_says_what_does_not_act_as_in_a_cluster(started, outcome: str) -> None:
    manifest, code, out, said = OUTCOMES[outcome]
    done = started("apply", "-f", "-", input=manifest)
    assert (done.code, done.out) == (code, out)
    assert any(line.startswith(said) for line in done.err.splitlines()), done.err
    strict = started("apply", "-f", "-", "--strict", "--dry-run", input=manifest)
    assert strict.code == 2
    assert said.partition(": ")[2] in strict.err


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_apply_says_the_same_to_programs(started, outcome: str) -> None:
    manifest, code, out, said = OUTCOMES[outcome]
    done = started("apply", "-f", "-", "-o", "json", input=manifest)
    answer = json.loads(done.out)
    assert (done.code, answer["dry_run"]) == (code, False)
    applied = [(obj["name"], obj["namespace"], obj["action"]) for obj in answer["objects"]]
    assert applied == ([("one", "" if "Robot" in manifest else "default", "created")] if out else [])
    assert bool(answer["errors"]) is (code == 2)
    prefix = "warning" if out else "error"
    lines = [_line(prefix, record) for record in answer["notices"] + answer["errors"]]
    assert any(line.startswith(said) for line in lines), lines
    # People read the same lines on stderr.
    assert lines == [line for line in done.err.splitlines() if line.startswith(prefix)]


def _line(prefix: str, record: dict[str, Any]) -> str:
    in_cluster = f"; in a cluster {record['in_cluster']}" if record.get("in_cluster") else ""
    parts = (f"{record['file']}:{record['line']}", record["object"], record["field"], record["message"] + in_cluster)
    return f"{prefix}: {': '.join(part for part in parts if part)}"


def test_apply_refuses_for_programs_as_for_people(kailab) -> None:
    (error,) = json.loads(kailab("apply", "-f", "-", "-o", "json", input=POD.format(name="a")).out)["errors"]
    assert "no lab" in error["message"]
    assert kailab("up").code == 0
    both = QUEUE % ("q", "parentQueue: q") + "---\n" + POD.format(name="a").replace("image: x", "image: [x]")
    done = kailab("apply", "-f", "-", "-o", "json", input=both)
    answer = json.loads(done.out)
    assert (done.code, answer["objects"]) == (2, [])
    assert len(answer["errors"]) == len(done.err.splitlines())
    # A warning is an error with its place, too.
    strict = kailab("apply", "-f", "-", "-o", "json", "--strict", input=JOB % "")
    assert {error["object"] for error in json.loads(strict.out)["errors"]} == {"Job/one"}
    assert all(error["field"] for error in json.loads(strict.out)["errors"])


def test_apply_prints_names_alone(started) -> None:
    manifest = POD.format(name="a") + "---\n" + JOB % ""
    assert started("apply", "-f", "-", "-o", "name", "--dry-run", input=manifest).out == "pod/a\njob.batch/one\n"


def test_strict_takes_manifests_of_stdin_and_validates_as_it_is_told(busy, home: Path) -> None:
    text = (home / "work.yaml").read_text()
    assert busy("apply", "-f", "-", "--strict", input=text).code == 0
    mistyped = text.replace("parallelism: 20", "parallelism: 20\n  paralelism: 2")
    assert busy("apply", "-f", "-", "--strict", input=mistyped).code == 2
    assert busy("apply", "-f", "-", "--strict", "--validate=ignore", input=mistyped).code == 0


def test_other_changes_answer_programs_as_apply_does(started) -> None:
    assert started("apply", "-f", "-", input=QUEUE % ("q", "priority: 1")).code == 0

    def answer(*words: str, code: int = 0) -> dict[str, Any]:
        done = started(*words, "-o", "json")
        assert done.code == code, done.err
        return json.loads(done.out)

    def queue(action: str) -> dict[str, Any]:
        objects = [{"kind": "Queue", "namespace": "", "name": "q", "action": action}]
        return {"dry_run": False, "objects": objects, "notices": [], "errors": []}

    assert answer("label", "queue", "q", "team=a") == queue("labeled")
    assert answer("annotate", "queue", "q", "note=b") == queue("annotated")
    assert answer("patch", "queue", "q", "-p", '{"spec": {"priority": 2}}') == queue("patched")
    assert answer("patch", "queue", "q", "-p", '{"spec": {"priority": 2}}') == queue("patched (no change)")
    (notice,) = answer("patch", "queue", "q", "-p", '{"spec": {"priorty": 2}}')["notices"]
    assert "priorty" in notice["field"]
    assert answer("scale", "deployment", "none", "--replicas", "2", code=2)["errors"]
    assert answer("delete", "queue", "q") == queue("deleted")
    assert answer("delete", "queue", "q", code=2)["objects"] == []


def test_commands_of_nodes_answer_programs_as_apply_does(started) -> None:
    node = started("get", "nodes", "-o", "name").out.split()[0]

    def answer(*words: str, code: int = 0) -> dict[str, Any]:
        done = started(*words, "-o", "json")
        assert done.code == code, done.err
        return json.loads(done.out)

    (done,) = answer("cordon", node)["objects"]
    assert done == {"kind": "Node", "namespace": "", "name": node.partition("/")[2], "action": "cordoned"}
    assert answer("drain", node)["objects"][0]["action"] == "drained"
    assert answer("uncordon", node)["objects"][0]["action"] == "uncordoned"
    assert answer("taint", node, "team=a:NoSchedule")["objects"][0]["action"] == "tainted"
    refused = answer("taint", node, "team=b:NoSchedule", code=2)
    assert refused["objects"] == []
    assert refused["errors"]
    assert answer("cordon", "no-such-node", code=2)["errors"]


@pytest.mark.parametrize("command", ["simulate", "whatif", "diff"])
def test_what_tries_manifests_has_the_notices_and_errors_of_apply_for_programs(started, home, command: str) -> None:
    (home / "job.yaml").write_text(JOB % "")
    (home / "bad.yaml").write_text((JOB % "").replace("spec:", "spec:\n  paralelism: 2", 1))
    expected = json.loads(started("apply", "-f", "job.yaml", "--dry-run", "-o", "json").out)["notices"]
    answer = json.loads(started(command, "-f", "job.yaml", "-o", "json").out)
    assert expected
    assert answer["notices"] == expected
    refused = started(command, "-f", "bad.yaml", "-o", "json")
    (error,) = json.loads(refused.out)["errors"]
    assert (refused.code, error["field"]) == (2, "spec.paralelism")
