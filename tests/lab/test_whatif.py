"""Changes tried on forks: who runs, waits, moves and is evicted, and where queues stand, beside the lab left alone."""

from __future__ import annotations

import pytest

from kailab.errors import InputError, NotFound
from kailab.lab import Lab
from kailab.lab.change import Apply, Delete, Patch, read_changes
from kailab.lab.node_changes import drain_node, nodes_to_add
from kailab.scheduler.settings.config_file import settings_of
from kailab.whatif.alternatives import Alternative, compare_with_waiting, what_if
from kailab.whatif.fields import deletion_of, deletions_by_label, patch_of
from kailab.whatif.outcome import Outcome, Workload
from tests.explain import manifests

FIRST, SECOND = Workload("default", "Job", "first"), Workload("default", "Job", "second")


@pytest.fixture
def lab(queue, job):
    """Queue b holds 24 of the lesson's 32 GPUs, beyond its quota of 8; queue a owns 8 and asks for none."""
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 8), queue("b", 8), job("first", "b", 24)])
        lab.settle()
        yield lab


def by_workload(comparison):
    return {change.workload: change for change in comparison.workloads}


def test_a_job_that_evicts_others_is_told_with_whom_it_evicts(lab, job):
    before = lab.cluster.dump()
    found = what_if(lab, [Alternative("second", (Apply((job("second", "a", 8),)), Apply((job("third", "a", 8),))))])
    changes = by_workload(found.comparisons[0])
    first = changes[FIRST]
    assert (first.before.running, first.after.running) == (24, 24 - len(first.evicted))
    assert {(one.action, one.queue) for one in first.evicted} == {("reclaim", "b")}
    assert {one.beneficiary.name for one in first.evicted} <= {"second", "third"}
    assert "new" in changes[SECOND].what
    assert changes[SECOND].after.running == 8
    assert {change.name for change in found.comparisons[0].queues} == {"a", "b"}
    assert "evicted" in found.comparisons[0].summary()
    assert lab.cluster.dump() == before


def test_the_outcome_comes_after_the_grace_of_a_gang_that_the_change_leaves_below_its_minimum():
    gang = manifests.job("gang", "team", 4, 2, gang=True)
    with Lab.open(manifests.fleet({"count": 2, "gpus": 4})) as lab:
        lab.apply([manifests.queue("team", quota=8), gang])
        lab.settle()
        drained = [Alternative("drain", drain_node(lab, "p0-0"))]
        found, early = what_if(lab, drained), what_if(lab, drained, seconds=40)
    (change,) = found.comparisons[0].workloads
    assert (change.after.running, change.after.waiting) == (0, 4)
    assert {eviction.action for eviction in change.evicted} == {"stalegangeviction"}
    assert found.end - found.start > 60
    assert found.open_graces == ()
    # Asked for an earlier time, it says what comes after that.
    (grace,) = early.open_graces
    assert (grace.title, grace.running, grace.min_member) == ("Job default/gang", 2, 4)
    assert early.end - early.start + grace.seconds > 60
    assert early.data()["open_graces"][0]["running"] == 2


def test_a_workload_has_the_queue_of_its_pods_although_its_submitter_has_none(queue):
    container = {"name": "ray", "image": "ray", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    template = {
        "metadata": {"labels": {"kai.scheduler/queue": "b"}},
        "spec": {"schedulerName": "kai-scheduler", "containers": [container]},
    }
    spec = {"entrypoint": "x", "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": template}}}
    with Lab.open("lesson") as lab:
        lab.apply(queue("b", 8), {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "r"}, "spec": spec})
        lab.settle()
        state = Outcome.of(lab).workloads[Workload("default", "RayJob", "r")]
        assert (state.queue, state.running, state.waiting) == ("b", 1, 1)


def test_nothing_done_changes_nothing(lab):
    found = what_if(lab, [Alternative("nothing")], seconds=3600)
    assert found.comparisons[0].workloads == ()
    assert found.comparisons[0].queues == ()
    assert found.comparisons[0].summary() == "no workload and no queue changes"
    assert found.end == lab.now + 3600


def test_alternatives_stand_beside_the_same_lab_left_alone(lab, job):
    lab.apply([job("second", "a", 40)])
    lab.settle()
    one, two = what_if(
        lab,
        [
            Alternative("less", (Delete("Job", "first"),)),
            Alternative("more", (nodes_to_add(lab, "a100:2"),)),
        ],
        seconds=60,
    ).comparisons
    assert one.before == two.before
    assert by_workload(one)[FIRST].what == ("gone",)
    assert by_workload(one)[SECOND].after.running == 32
    assert by_workload(two)[SECOND].after.running > by_workload(two)[SECOND].before.running
    assert set(by_workload(two)[SECOND].after.nodes) >= {"a100-2", "a100-3"}


def test_a_drained_node_is_empty_and_its_pods_are_elsewhere(lab):
    node = next(iter(Outcome.of(lab).workloads[FIRST].nodes))
    found = what_if(lab, [Alternative("drain", drain_node(lab, node))], seconds=60)
    first = by_workload(found.comparisons[0])[FIRST]
    assert node in first.before.nodes
    assert node not in first.after.nodes
    assert first.moved == first.before.nodes[node]
    assert "moved" in first.what
    with pytest.raises(InputError, match="there are: a100-0, a100-1"):
        drain_node(lab, "a100-9")


def test_pods_that_the_api_server_refuses_are_told(lab):
    """A Job whose pods are deleted, in a namespace that has no room for new ones."""
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "default"},
        "spec": {"hard": {"pods": "4"}},
    }
    lab.apply([quota])
    lab.settle()
    node = next(iter(Outcome.of(lab).workloads[FIRST].nodes))
    found = what_if(lab, [Alternative("drain", drain_node(lab, node))], seconds=60)
    first = by_workload(found.comparisons[0])[FIRST]
    held = first.before.nodes[node]
    assert (first.before.refused, first.after.refused, first.after.running) == (0, held, first.before.running - held)
    assert "refused" in first.what
    assert first.queue == "b"


def test_another_configuration_is_tried_too(lab, job):
    lab.apply([job("second", "a", 16)])
    lab.settle()
    lab.apply([job("third", "b", 8, gang=True)])
    lab.settle()
    alone = Outcome.of(lab)
    quiet = settings_of({"actions": "allocate"})
    with Lab.open("lesson") as other:
        assert other.config != quiet.engine
    found = what_if(lab, [Alternative("more", (Apply((job("fourth", "a", 4),)),), quiet)], seconds=60)
    assert found.comparisons[0].evicted == ()
    assert found.before.workloads.keys() == alone.workloads.keys()


def test_time_alone_is_beside_the_lab_as_it_is(queue, job):
    with Lab.open("lesson") as lab:
        ends = job("first", "a", 4)
        ends["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "600"}
        lab.apply([queue("a", 8), ends])
        lab.settle()
        found = compare_with_waiting(lab, 3600)
        first = by_workload(found.comparisons[0])[FIRST]
        assert (first.before.running, first.after.done) == (4, 4)
        assert first.what == ("done",)


def test_the_answer_is_data(lab, job):
    data = what_if(lab, [Alternative("second", (Apply((job("second", "a", 8),)),))], seconds=60).data()
    assert data["seconds"] == 60
    assert data["scheduler"] == "kailab"
    (alternative,) = data["alternatives"]
    assert read_changes(alternative["changes"]) == (Apply((job("second", "a", 8),)),)
    second = next(one for one in alternative["workloads"] if one["name"] == "second")
    assert second["before"] is None
    assert second["after"]["running"] == sum(second["after"]["nodes"].values()) == 8


def test_fields_are_set_by_name(lab):
    assert patch_of(lab, "queue/a.gpu.quota=24") == Patch(
        "Queue", "a", {"spec": {"resources": {"gpu": {"quota": 24}}}}, "default"
    )
    assert patch_of(lab, "queues/a.gpu.limit=unlimited").patch == {"spec": {"resources": {"gpu": {"limit": -1}}}}
    assert patch_of(lab, "queue/a.reclaimMinRuntime=10m").patch == {"spec": {"reclaimMinRuntime": "10m"}}
    assert patch_of(lab, "node/a100-0.unschedulable=true").patch == {"spec": {"unschedulable": True}}
    assert patch_of(lab, "job/first.suspend=true").patch == {"spec": {"suspend": True}}
    training = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t"}}
    lab.cluster.create({**training, "spec": {"pytorchReplicaSpecs": {}}})
    assert patch_of(lab, "pytorchjob/t.suspend=true").patch == {"spec": {"runPolicy": {"suspend": True}}}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("queue/a.gpu.quota", "expected KIND/NAME.FIELD=VALUE"),
        ("a.gpu.quota=3", "expected KIND/NAME.FIELD=VALUE"),
        ("queue/a.gpu.qouta=3", "expected one of these fields after the name: gpu.quota"),
        ("queue/a.gpu.quota=many", "gpu.quota is a number, -1 or unlimited, not 'many'"),
        ("queue/a.gpu.quota=-3", "gpu.quota is a number"),
        ("queue/a.gpu.quota=nan", "gpu.quota is a number"),
        ("queue/a.priority=1.5", "priority is a whole number"),
        ("queue/z.gpu.quota=3", "'z' not found"),
        ("configmap/z.data=3", "no field of a ConfigMap can be set this way"),
        ("quue/a.gpu.quota=3", "quue"),
    ],
)
def test_what_can_not_be_set_is_refused(lab, text, told):
    with pytest.raises(InputError) as refused:
        patch_of(lab, text)
    assert told in str(refused.value)


@pytest.mark.parametrize("text", ["a100", "a100:0", "a100:x", ":2", "a100:99999"])
def test_nodes_are_added_by_pool_and_count(lab, text):
    with pytest.raises(InputError, match="expected POOL:COUNT"):
        nodes_to_add(lab, text)


def test_added_nodes_are_like_those_of_their_pool(lab):
    last = lab.get("Node", "a100-1")
    names = [node["metadata"]["name"] for node in nodes_to_add(lab, "a100:2").objects]
    assert names == ["a100-2", "a100-3"]
    node = nodes_to_add(lab, "a100:1").objects[0]
    assert node["status"]["allocatable"] == last["status"]["allocatable"]
    assert node["metadata"]["labels"] == {**last["metadata"]["labels"], "kubernetes.io/hostname": "a100-2"}
    with pytest.raises(InputError, match="there is no pool 'b200'; there are: a100, h100, l40s"):
        nodes_to_add(lab, "b200:1")


def test_added_nodes_publish_the_devices_of_their_pool():
    with Lab.open("lesson", devices=True) as lab, lab.fork() as fork:
        nodes_to_add(lab, "a100:1").do(fork)
        fork.settle()
        of = {
            name: [one for one in fork.get("ResourceSlice") if one["spec"]["nodeName"] == name]
            for name in ("a100-1", "a100-2")
        }
        assert (
            [one["spec"]["devices"] for one in of["a100-2"]] == [one["spec"]["devices"] for one in of["a100-1"]] != []
        )


def test_workloads_go_by_the_labels_of_their_pods(lab, job):
    lab.apply([job("second", "a", 2)])
    lab.settle()
    assert deletions_by_label(lab, "app=second") == (Delete("Job", "second", "default"),)
    assert {change.name for change in deletions_by_label(lab, "app in (first, second)")} == {"first", "second"}
    with pytest.raises(InputError, match="no pod has these labels"):
        deletions_by_label(lab, "app=none")
    with pytest.raises(InputError):
        deletions_by_label(lab, "app==")
    assert deletion_of(lab, "job/second") == Delete("Job", "second", "default")
    with pytest.raises(InputError, match="not found"):
        deletion_of(lab, "job/none")


def test_what_is_worth_saying_about_a_change_is_told(lab) -> None:
    spec = {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "x"}}
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "s"},
        "spec": spec,
    }
    found = what_if(lab, [Alternative("scaler", (Apply((scaler,)),)), Alternative("again", (Apply((scaler,)),))])
    (said,) = found.warnings
    assert "nothing in an embedded lab acts on a HorizontalPodAutoscaler" in said
    assert found.data()["warnings"] == [said]


def test_until_work_runs_with_and_without_a_change(queue, job):
    """What waits for the end of an hour runs at once with a node more."""
    short = job("have", "a", 32)
    short["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": "3600"}
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 32), short])
        lab.settle()
        lab.apply([job("want", "a", 8, gang=True)])
        lab.settle()
        more = Alternative("--add-nodes", (nodes_to_add(lab, "a100:1"),))
        nothing = Alternative("--limit", (patch_of(lab, "queue/a.gpu.limit=32"),))
        found = what_if(lab, [more, nothing], 7200, ("Job", "want", "default"))
        until = found.until
        assert 3500 < until.unchanged < 3700
        assert until.changed[0] < 60
        assert until.changed[1] == until.unchanged
        # All are compared when the last of them runs it.
        assert abs(found.end - found.start - until.unchanged) < 60
        assert found.data()["until_runs"]["changed"] == [round(seconds, 3) for seconds in until.changed]
        alone = compare_with_waiting(lab, 7200, ("Job", "want", "default")).until
        assert (alone.unchanged, alone.changed) == (until.unchanged, ())
        assert compare_with_waiting(lab, 600, ("Job", "want", "default")).until.unchanged is None
        with pytest.raises(NotFound):
            what_if(lab, [more], 600, ("Job", "ghost", "default"))
