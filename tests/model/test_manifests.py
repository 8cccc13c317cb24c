from __future__ import annotations

import io
import json
import re
import sys

import pytest

from kailab.errors import InputError, InputErrors
from kailab.model.manifests import from_objects, load, load_text
from kailab.model.yamltext import write_documents

QUEUE = """\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata:
  name: team-a
spec:
  resources:
    gpu: {quota: 8, limit: -1, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1}
    memory: {quota: -1, limit: -1}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: worker
  labels:
    kai.scheduler/queue: team-a
spec:
  containers:
  - name: main
    resources:
      limits:
        nvidia.com/gpu: 1
  schedulerName: kai-scheduler
"""


def test_many_documents_in_order():
    loaded = load_text(f"---\n{QUEUE}---\n# nothing here\n---\n{POD}", "f.yaml")
    assert [m.name for m in loaded] == ["Queue/team-a", "Pod/worker"]
    assert [m.kind for m in loaded] == ["Queue", "Pod"]
    assert loaded[1].line == 14
    assert loaded.notices == []


def test_every_field_knows_its_line():
    pod = load_text(POD, "f.yaml")[0]
    assert str(pod.where("spec.containers[0].name")) == "f.yaml:9: Pod/worker: spec.containers[0].name"
    assert pod.where("metadata.labels[kai.scheduler/queue]").line == 6
    assert pod.where("spec.containers[0].resources.limits[nvidia.com/gpu]").line == 12
    assert pod.where("spec.containers[0].resources.requests.cpu").line == 10  # not there: the nearest around it
    assert pod.where("spec.containers[7].name").line == 8
    assert pod.where().line == 1


def test_lists_stand_for_their_items():
    items = json.dumps([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": n}} for n in "ab"])
    loaded = load_text(f"apiVersion: v1\nkind: List\nitems: {items}\n")
    assert [m.name for m in loaded] == ["Namespace/a", "Namespace/b"]
    short = load_text("apiVersion: v1\nkind: NamespaceList\nitems:\n- metadata: {name: c}\n- metadata: {name: d}\n")
    assert [m.object["kind"] for m in short] == ["Namespace", "Namespace"]
    assert short[1].where("metadata.name").line == 5


def test_unknown_fields_survive_and_unknown_kinds_are_kept_and_said_so():
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x, odd: 1}\nspec: {deep: [{er: 1}]}\n"
    loaded = load_text(text, "t.yaml")
    assert loaded.objects[0]["spec"] == {"deep": [{"er": 1}]}
    assert loaded.objects[0]["metadata"]["odd"] == 1
    assert loaded[0].kind == "Thing.example.com"
    assert "t.yaml:1: Thing/x: kind Thing of example.com/v1 is not known" in str(loaded.notices[0])


def test_a_version_not_known_is_said_so():
    loaded = load_text("apiVersion: batch/v7\nkind: CronJob\nmetadata: {name: x}\n", validated=False)
    assert "read as batch/v1" in str(loaded.notices[0])


@pytest.mark.parametrize(
    ("api_version", "kind", "message"),
    [
        ("v1", "Job", "v1 has no kind Job; expected batch/v1"),
        ("v1", "Queue", "v1 has no kind Queue; expected scheduling.run.ai/v2"),
        ("<queue-version>", "Queue", "'<queue-version>' is not valid; expected group/version, or v1"),
        ("batch/v1/x", "Job", "'batch/v1/x' is not valid; expected group/version, or v1"),
    ],
)
def test_a_version_that_can_not_be_is_refused(api_version, kind, message):
    with pytest.raises(InputError, match=re.escape(f"apiVersion: {message}")):
        load_text(f"apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: a}}\n")


def test_a_queue_without_resources_is_a_trap_worth_a_notice():
    loaded = load_text("apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\nspec: {}\n", "q.yaml")
    assert "runs nothing" in str(loaded.notices[0])


def test_files_folders_and_stdin(tmp_path, monkeypatch):
    (tmp_path / "b.yaml").write_text(POD)
    (tmp_path / "a.yml").write_text(QUEUE)
    (tmp_path / "c.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}}, indent="\t")
    )
    (tmp_path / "notes.txt").write_text("no manifest")
    assert [m.name for m in load(tmp_path)] == ["Queue/team-a", "Pod/worker", "Namespace/n"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(QUEUE.encode())))
    loaded = load(["-", str(tmp_path / "b.yaml")])
    assert [m.file for m in loaded] == ["<stdin>", str(tmp_path / "b.yaml")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", r"f.yaml:2: key 'a' is given twice"),
        ("kind: Pod\nmetadata: {name: x}", r"f.yaml:1: Pod/x: apiVersion: is missing"),
        ("apiVersion: v1\nmetadata: {name: x}", r"kind: is missing"),
        ("apiVersion: v1\nkind: 3\nmetadata: {name: x}", r"f.yaml:2: kind: must be text, not 3"),
        ("apiVersion: v1\nkind: Pod", r"f.yaml:1: Pod: metadata: is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {}", r"f.yaml:3: Pod: metadata.name: is missing"),
        ("apiVersion: v1\nkind: Pod\nmetadata:\n  name: 7", r"f.yaml:4: Pod: metadata.name: must be text, not 7; put it in quotes"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: true}", r"Pod: metadata.generateName: must be text, not true"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: ''}", r"Pod: metadata.name: is missing"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: Big_Name}", r"f.yaml:3: Namespace/Big_Name: metadata.name: .* lower-case"),
        ("just text", r"f.yaml:1: 'just text' is not an object"),
        ("- 1\n- 2", r"a list is not an object"),
        (f"{QUEUE}---\n{QUEUE}", r"f.yaml:14: Queue/team-a: metadata.name: the same name twice: first given at f.yaml:1"),
        (QUEUE.replace("quota: 8", "quota: -8"), r"f.yaml:7: Queue/team-a: spec.resources.gpu.quota: -8 is negative"),
        (QUEUE.replace("quota: 8", "quota: lots"), r"f.yaml:7: Queue/team-a: spec.resources.gpu.quota: 'lots' is not valid; expected a number"),
        (POD.replace("gpu: 1", "gpu: -1"), r"f.yaml:12: Pod/worker: spec.containers\[0\].resources.limits\[nvidia.com/gpu\]: -1 is negative"),
        (POD.replace("gpu: 1", "gpu: 1e99"), r"too large"),
        (POD.replace("gpu: 1", "gpu: 0.5"), r"expected a whole number"),
        (POD.replace("queue: team-a", "queue: 3"), r"f.yaml:6: .*expected text \(quote numbers"),
    ],
)  # fmt: skip
def test_errors_name_file_line_object_and_field(text, message):
    with pytest.raises(InputError, match=message):
        load_text(text, "f.yaml")


def test_all_errors_of_a_load_are_told_together(tmp_path):
    (tmp_path / "a.yaml").write_text(QUEUE.replace("quota: 8", "quota: -8"))
    (tmp_path / "b.yaml").write_text("a: [")
    (tmp_path / "c.yaml").write_text(POD.replace("name: main", "name: MAIN"))
    with pytest.raises(InputErrors) as caught:
        load(tmp_path)
    assert len(caught.value.errors) == 3
    assert [error.where.file[-6:] for error in caught.value.errors] == ["a.yaml", "b.yaml", "c.yaml"]


def test_same_name_in_other_namespaces_is_no_duplicate():
    other = POD.replace("name: worker\n", "name: worker\n  namespace: other\n")
    assert len(load_text(f"{POD}---\n{other}")) == 2
    with pytest.raises(InputError, match="the same name twice"):
        load_text(f"{POD}---\n{other}", namespace="other")


def test_what_can_not_be_read(tmp_path):
    with pytest.raises(InputError, match=r"missing.yaml: can't be read: No such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(InputError, match="holds no manifests"):
        load(tmp_path)
    (tmp_path / "x.yaml").write_bytes(b"a: 1\nb: \xff\n")
    with pytest.raises(InputError, match=r"x.yaml:2: not UTF-8"):
        load(tmp_path)
    with pytest.raises(InputError, match="can't be read"):
        load("a\0b")


def test_dump_reads_back_equal_and_is_stable():
    objects = load_text(f"{QUEUE}---\n{POD}").objects
    text = write_documents(objects)
    assert load_text(text).objects == objects
    assert write_documents(load_text(text).objects) == text


def test_objects_of_a_program_get_the_same_checks():
    assert from_objects([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}])[0].name == "Namespace/x"
    with pytest.raises(InputError, match=r"steps.json: Namespace/x: spec: "):
        from_objects(
            [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}, "spec": "none"}], "steps.json"
        )


def test_a_namespace_of_a_kind_outside_namespaces_is_left_out_and_told():
    (manifest,) = (loaded := load_text("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: x\n  namespace: y\n"))
    assert manifest.object["metadata"] == {"name": "x"}
    (notice,) = loaded.notices
    assert str(notice).startswith("<text>:5: Namespace/y/x: metadata.namespace: is left out")


def test_nulls_of_templates_do_no_harm():
    text = POD.replace("  labels:\n", "  creationTimestamp: null\n  annotations: null\n  labels:\n")
    assert "annotations" not in load_text(text).objects[0]["metadata"]


def test_what_helm_renders_is_read_and_its_hooks_are_told() -> None:
    text = """\
---
# Source: chart/templates/none.yaml
---
# Source: chart/templates/test.yaml
apiVersion: v1
kind: Pod
metadata: {name: check, annotations: {helm.sh/hook: test}}
spec: {containers: [{name: c, image: x}]}
---

---
# Source: chart/templates/config.yaml
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
"""
    manifests = load_text(text, "rendered.yaml")
    assert [manifest.name for manifest in manifests] == ["Pod/check", "ConfigMap/settings"]
    assert [str(notice) for notice in manifests.notices if "hook" in str(notice)] == [
        "rendered.yaml:7: Pod/check: metadata.annotations[helm.sh/hook]: is a hook of Helm (test), which Helm makes only at that time; here it is "
        "applied, as kubectl would"
    ]
