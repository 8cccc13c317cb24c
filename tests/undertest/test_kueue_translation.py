"""What the real Kueue decides on a real control plane, kube-scheduler placing: quota, borrowing, reclaim, gangs.

It is found and never got here: a build takes a quarter of an hour and more. `kailab components get --with kueue` makes these tests run, and
so does KAILAB_REQUIRE_BUILD=1 in tests/components/test_addons.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.protocol import Cluster, Object
from kailab.components import MissingComponents, find_addon
from kailab.evidence.recorder import Recorder
from kailab.lab import Lab, expect
from kailab.lab.intake import load_sources
from kailab.lab.venues import open_venue
from kailab.lab.venues.contract import Venue
from kailab.undertest.contract import NotExpressible, SchedulerUnderTest
from kailab.undertest.selection import choose_scheduler

pytestmark = pytest.mark.slow

EXERCISES = Path(__file__).parents[2] / "exercises"
QUEUES = EXERCISES / "borrow" / "manifests" / "queues.yaml"
RECLAIM = EXERCISES / "reclaim" / "manifests"


@pytest.fixture(scope="module")
def venue(components: object) -> Iterator[Venue]:
    try:
        find_addon("kueue")
    except MissingComponents as missing:
        pytest.skip(str(missing))
    opened = open_venue("controlplane", scheduler="kueue")
    yield opened
    opened.close()


@pytest.fixture
def bare(venue: Venue) -> Iterator[Lab]:
    """32 GPUs, and no queues yet."""
    with Lab.open(backend="controlplane", scheduler="kueue", venue=venue, observers=[Recorder("lab")]) as opened:
        yield opened


@pytest.fixture
def lab(bare: Lab) -> Lab:
    """team-a and team-b own half of the GPUs each."""
    bare.apply(QUEUES)
    return bare


def of(team: str, name: str, pods: int = 1, together: int | None = None, **labels: str) -> Object:
    """A Job that runs until it is deleted, on the fleet's fake nodes."""
    made = job(name, pods, together, **{"app": name, "kai.scheduler/queue": team, **labels})
    spec = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 0
    spec["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    made["spec"]["template"]["metadata"]["labels"]["app"] = name
    return made


def kueue_queue(name: str, gpus: int, parent: str = "") -> Object:
    """Of which nothing but GPUs is bounded."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": {**free, "quota": gpus}, "cpu": free, "memory": free}}
    above = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**above, **spec},
    }


def test_quota_and_unused_capacity(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(32)])
    expect(lab.queue("team-a")).running(gpus=32).borrows(gpus=16, from_queue="team-b")


def test_lent_capacity_comes_back(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(32)])
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply([of("team-b", f"b-{number}") for number in range(32)])
    expect(lab.queue("team-b")).running(gpus=16)
    expect(lab.queue("team-a")).running(gpus=16).evicted(pods=16, by="reclaim", for_queue="team-b")


def test_a_gang_runs_whole_or_not_at_all(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(28)])
    lab.apply([of("team-a", "gang", 8, together=8)])
    expect(lab.job("gang")).running(pods=0)
    for number in range(4):
        lab.delete("Job", f"a-{number}")
    expect(lab.job("gang")).runs_whole(pods=8)


def test_non_preemptible_work_stays_within_its_quota(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}", priorityClassName="build") for number in range(20)])
    expect(lab.queue("team-a")).running(gpus=16)


def many(team: str, app: str, count: int) -> list[Object]:
    """A Job for each pod: Kueue admits and preempts Jobs as wholes."""
    return [of(team, f"{app}-{number}") for number in range(count)]


def test_a_department_helps_its_own_first(bare: Lab) -> None:
    """Two departments of 16 GPUs, team-a and team-b share the first. The owner takes from its sister, whose department is within its own;
    the other department notices nothing."""
    bare.apply(RECLAIM / "queues-departments.yaml", many("team-a", "a", 16), many("team-c", "c", 16))
    expect(bare).running(gpus=32)
    bare.apply(many("team-b", "b", 8))
    expect(bare.queue("team-b")).running(gpus=8)
    expect(bare.queue("team-a")).running(gpus=8).evicted(pods=8, by="reclaim", for_queue="team-b")
    expect(bare.queue("team-c")).running(gpus=16).not_evicted()


def test_a_department_gets_its_quota_back_from_another(bare: Lab) -> None:
    bare.apply(RECLAIM / "queues-departments.yaml", many("team-a", "a", 32))
    expect(bare.queue("dept-1")).running(gpus=32)
    bare.apply(many("team-c", "c", 16))
    expect(bare.queue("team-c")).running(gpus=16)
    expect(bare.queue("dept-1")).running(gpus=16).evicted(pods=16, by="reclaim", for_queue="team-c")


def test_teams_share_borrowed_capacity_of_their_department_equally(bare: Lab) -> None:
    """Three levels: of 32 GPUs 20 are d1's (12 and 8 of its teams) and 12 are d2's, who asks for them last. Meanwhile each team of d1 has
    half of them beside its own."""
    # Step by step: what was a leaf when it was applied is none any more.
    bare.apply([kueue_queue("root", 32), kueue_queue("d1", 20, "root"), kueue_queue("d2", 12, "root")])
    bare.apply([kueue_queue("t11", 12, "d1"), kueue_queue("t12", 8, "d1"), kueue_queue("t21", 12, "d2")])
    bare.apply(many("t11", "a", 32))
    expect(bare.queue("t11")).running(gpus=32)
    bare.apply(many("t12", "b", 20))
    expect(bare.queue("t12")).running(gpus=14)
    expect(bare.queue("t11")).running(gpus=18)
    bare.apply(many("t21", "c", 20))
    expect(bare.queue("t21")).running(gpus=12)
    expect(bare.queue("t12")).running(gpus=8)
    expect(bare.queue("t11")).running(gpus=12)


def test_a_later_queue_gets_unowned_capacity_by_its_weight(bare: Lab) -> None:
    """4 GPUs are each team's, the other 24 are shared 3:1. team-b has taken all 32."""
    bare.apply(QUEUES.with_name("queues-weights.yaml"), many("team-b", "b", 32))
    expect(bare.queue("team-b")).running(gpus=32)
    bare.apply(many("team-a", "a", 32))
    expect(bare.queue("team-a")).running(gpus=22)
    expect(bare.queue("team-b")).running(gpus=10)


def test_a_flood_is_waited_for_until_kueue_is_done_with_it(lab: Lab) -> None:
    """Bare pods, each with a Workload of its own: Kueue admits 32 of them long before it lets the last of these go."""
    pods = []
    for number in range(60):
        template = of("team-a", f"a-{number}")["spec"]["template"]
        template["metadata"]["name"] = f"a-{number}"
        template["metadata"]["labels"] |= {"kai.scheduler/queue": "team-a", "priorityClassName": "train"}
        pods.append({"apiVersion": "v1", "kind": "Pod", **template})
    lab.apply(pods)
    lab.settle()
    assert sum(bool(pod["spec"].get("nodeName")) for pod in lab.get("pods")) == 32


def test_its_version_is_reported(lab: Lab) -> None:
    assert lab.venue.versions(lab.under_test)["scheduler"] == "kueue v0.19.2"


# What is said in Kueue's words, concept by concept of its documentation (kueue.sigs.k8s.io/docs/concepts), and what has none.


UNBOUNDED = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@pytest.fixture(scope="module")
def there() -> Iterator[Cluster]:
    """The lesson's fleet: 32 GPUs, KAI's priority classes."""
    with Lab.open() as lab:
        yield lab.cluster


@pytest.fixture
def kueue() -> SchedulerUnderTest:
    return choose_scheduler("kueue")


def queue(name: str, parent: str = "", **resources: Any) -> Object:
    gpu = {"quota": 0, "limit": -1, "overQuotaWeight": 1, **resources}
    spec: Object = {"resources": {"gpu": gpu, "cpu": dict(UNBOUNDED), "memory": dict(UNBOUNDED)}}
    if parent:
        spec["parentQueue"] = parent
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def template(**labels: str) -> Object:
    main = {"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {
        "metadata": {"labels": {"app": "work", **labels}},
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [main]},
    }


def job(name: str = "work", pods: int = 8, together: int | None = None, **labels: str) -> Object:
    labels = {"kai.scheduler/queue": "team-a", **labels}
    metadata: Object = {"name": name, "namespace": "default", "labels": labels}
    if together is not None:
        metadata["annotations"] = {"kai.scheduler/batch-min-member": str(together)}
    spec = {"parallelism": pods, "completions": pods, "template": template(**labels)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


ORG = [queue("org", quota=32), queue("team-a", "org", quota=16), queue("team-b", "org", quota=8)]


def said(kueue: SchedulerUnderTest, there: Cluster, *objects: Object) -> dict[str, Object]:
    """``Kind/name`` -> object, in the order in which they are to be applied."""
    became = [one for several in kueue.translate(objects, there) for one in several]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in became}


def gpus(obj: Object) -> Object:
    """What a Cohort or a ClusterQueue says of GPUs."""
    (group,) = obj["spec"]["resourceGroups"]
    assert group["coveredResources"] == ["nvidia.com/gpu"]
    (flavor,) = group["flavors"]
    (resource,) = flavor["resources"]
    return {key: value for key, value in resource.items() if key != "name"}


# --- concepts/cohort, concepts/cluster_queue -----------------------------------------------------------------------


def test_a_queue_is_a_cohort_below_that_of_its_parent(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, *ORG)
    assert [name for name in found if not name.startswith("Queue/")] == [
        "ResourceFlavor/fleet",
        "Cohort/kailab-fleet",
        "Cohort/org",
        "Cohort/team-a",
        "Cohort/team-b",
        "ClusterQueue/team-a",
        "ClusterQueue/team-a-non-preemptible",
        "ClusterQueue/team-b",
        "ClusterQueue/team-b-non-preemptible",
    ]
    assert "parentName" not in found["Cohort/kailab-fleet"]["spec"]
    assert found["Cohort/org"]["spec"]["parentName"] == "kailab-fleet"
    assert found["Cohort/team-a"]["spec"]["parentName"] == "org"
    assert found["ClusterQueue/team-a"]["spec"]["cohortName"] == "team-a"
    assert found["ClusterQueue/team-a"]["spec"]["namespaceSelector"] == {}


def test_quota_is_nominal_quota_once(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """A Cohort's nominalQuota comes on top of what its members have: a parent has what its children don't."""
    found = said(kueue, there, *ORG)
    assert gpus(found["ClusterQueue/team-a-non-preemptible"])["nominalQuota"] == "16"
    assert gpus(found["ClusterQueue/team-b-non-preemptible"])["nominalQuota"] == "8"
    assert gpus(found["ClusterQueue/team-a"])["nominalQuota"] == "0"
    assert gpus(found["Cohort/team-a"])["nominalQuota"] == "0"
    assert gpus(found["Cohort/org"])["nominalQuota"] == "8"
    assert gpus(found["Cohort/kailab-fleet"])["nominalQuota"] == "0"


def test_a_leaf_that_gets_children_loses_its_own_quota(kueue: SchedulerUnderTest) -> None:
    """Its ClusterQueues are there, and would have it beside those below."""
    with Lab.open() as lab:
        first = queue("org", quota=32)
        for obj in said(kueue, lab.cluster, first).values():
            lab.cluster.create(obj)
        found = said(kueue, lab.cluster, queue("team-a", "org", quota=20))
        for name in ("org", "org-non-preemptible"):
            assert gpus(found[f"ClusterQueue/{name}"]) == {"nominalQuota": "0", "borrowingLimit": "0"}
        assert gpus(found["Cohort/org"])["nominalQuota"] == "12"
        assert gpus(found["ClusterQueue/team-a-non-preemptible"])["nominalQuota"] == "20"


def test_unowned_capacity_belongs_to_the_root(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, queue("team-a", quota=8), queue("team-b", quota=4))
    assert gpus(found["Cohort/kailab-fleet"])["nominalQuota"] == "20"
    over = said(kueue, there, queue("team-a", quota=30), queue("team-b", quota=30))
    assert gpus(over["Cohort/kailab-fleet"])["nominalQuota"] == "0"


def test_an_unlimited_quota_is_the_whole_capacity(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, queue("org", quota=-1), queue("team-a", "org", quota=-1), queue("team-b", "org"))
    assert gpus(found["ClusterQueue/team-a-non-preemptible"])["nominalQuota"] == "32"
    assert gpus(found["Cohort/org"])["nominalQuota"] == "0"
    assert gpus(found["ClusterQueue/team-b-non-preemptible"])["nominalQuota"] == "0"


def test_the_borrowing_limit_is_the_limit_beyond_the_quota(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, queue("org", quota=12, limit=12), queue("team-a", "org", quota=6, limit=10))
    assert gpus(found["Cohort/team-a"]) == {"nominalQuota": "0", "borrowingLimit": "4"}
    assert gpus(found["Cohort/org"]) == {"nominalQuota": "6", "borrowingLimit": "0"}
    # Beyond its limit a quota is worth nothing.
    less = said(kueue, there, queue("team-a", quota=16, limit=4))
    assert gpus(less["ClusterQueue/team-a-non-preemptible"])["nominalQuota"] == "4"
    assert gpus(less["Cohort/team-a"])["borrowingLimit"] == "0"
    # And no limit is none.
    assert "borrowingLimit" not in gpus(said(kueue, there, queue("team-a", quota=4))["Cohort/team-a"])


def test_a_resource_that_a_queue_bounds_is_covered_in_all(kueue: SchedulerUnderTest, there: Cluster) -> None:
    first, second = queue("team-a", quota=8), queue("team-b", quota=8)
    first["spec"]["resources"]["cpu"] = {"quota": 4000, "limit": 6000, "overQuotaWeight": 1}
    found = said(kueue, there, first, second)
    for name in ("ClusterQueue/team-a", "ClusterQueue/team-b", "Cohort/team-b"):
        assert found[name]["spec"]["resourceGroups"][0]["coveredResources"] == ["nvidia.com/gpu", "cpu"]
    (flavor,) = found["Cohort/team-a"]["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["resources"][1] == {"name": "cpu", "nominalQuota": "0m", "borrowingLimit": "2000m"}


# --- concepts/fair_sharing, concepts/preemption ----------------------------------------------------------------------


def test_over_quota_weight_is_the_fair_sharing_weight(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, queue("team-a", overQuotaWeight=3), queue("team-b", overQuotaWeight=0))
    assert found["Cohort/team-a"]["spec"]["fairSharing"] == {"weight": "3"}
    assert found["Cohort/team-b"]["spec"]["fairSharing"] == {"weight": "0"}


def test_quota_is_taken_back_from_any_and_priority_counts_within(kueue: SchedulerUnderTest, there: Cluster) -> None:
    found = said(kueue, there, *ORG)
    assert found["ClusterQueue/team-a"]["spec"]["preemption"] == {
        "reclaimWithinCohort": "Any",
        "withinClusterQueue": "LowerPriority",
    }
    assert found["ClusterQueue/team-a-non-preemptible"]["spec"]["preemption"] == {
        "reclaimWithinCohort": "Any",
        "withinClusterQueue": "Never",
    }


def test_non_preemptible_work_borrows_nothing(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """So it is within its quota, and never among those that are to give something back."""
    found = said(kueue, there, *ORG, job("build", priorityClassName="build"))
    assert gpus(found["ClusterQueue/team-a-non-preemptible"]) == {"nominalQuota": "16", "borrowingLimit": "0"}
    assert found["Job/build"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a-non-preemptible"
    assert said(kueue, there, *ORG, job())["Job/work"]["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


# --- concepts/local_queue, concepts/workload_priority_class, tasks/run -----------------------------------------------


def test_a_job_is_submitted_to_a_local_queue_of_its_namespace(kueue: SchedulerUnderTest, there: Cluster) -> None:
    *_, first, second = kueue.translate([*ORG, job("one"), job("two")], there)
    assert [one["kind"] for one in first] == ["LocalQueue", "WorkloadPriorityClass", "Job"]
    assert first[0]["metadata"] == {"name": "team-a", "namespace": "default"}
    assert first[0]["spec"] == {"clusterQueue": "team-a"}
    assert (first[1]["metadata"]["name"], first[1]["value"]) == ("train", 50)
    assert first[2]["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] == "train"
    assert first[2]["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"
    # What both are submitted to is brought once.
    assert [one["kind"] for one in second] == ["Job"]


def test_a_job_is_admitted_whole_unless_less_is_enough(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """Partial admission (tasks/run/jobs): the least number of pods is said by an annotation, for less than all alone."""
    found = said(kueue, there, *ORG, job("gang", 8, 8), job("elastic", 8, 4), job("loose", 8), job("single", 1))
    least = "kueue.x-k8s.io/job-min-parallelism"
    assert {
        name: (found[f"Job/{name}"]["metadata"].get("annotations") or {}).get(least)
        for name in ("gang", "elastic", "loose", "single")
    } == {"gang": None, "elastic": "4", "loose": "1", "single": None}


def test_each_pod_of_a_deployment_is_admitted_for_itself(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """tasks/run/deployment: Kueue's webhook hands the labels on to the pods. A Deployment serves, and is not preemptible."""
    deployment = next(iter(load_sources([EXERCISES / "quota" / "manifests" / "within-quota.yaml"]).manifests)).object
    found = said(kueue, there, *ORG, deployment)
    labels = found["Deployment/a-serve"]["metadata"]["labels"]
    assert labels["kueue.x-k8s.io/queue-name"] == "team-a-non-preemptible"
    assert labels["kueue.x-k8s.io/priority-class"] == "inference"
    template = found["Deployment/a-serve"]["spec"]["template"]
    assert template["metadata"]["labels"]["kai.scheduler/queue"] == "team-a"


def test_a_pod_carries_the_labels_itself(kueue: SchedulerUnderTest, there: Cluster) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", **template(**{"kai.scheduler/queue": "team-a"})}
    pod["metadata"]["name"] = "one"
    found = said(kueue, there, *ORG, pod)["Pod/one"]
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert "kueue.x-k8s.io/pod-group-name" not in found["metadata"]["labels"]
    assert found["spec"]["schedulerName"] == "default-scheduler"


def test_pods_that_name_one_group_are_a_pod_group(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """tasks/run/plain_pods: as many pods as the group says that it has."""
    group = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "ring", "namespace": "default"},
        "spec": {"queue": "team-a", "minMember": 2},
    }
    pods = [{"apiVersion": "v1", "kind": "Pod", **template()} for _ in range(3)]
    for number, pod in enumerate(pods):
        pod["metadata"] |= {"name": f"ring-{number}", "annotations": {"pod-group-name": "ring"}}
    found = said(kueue, there, *ORG, group, *pods[:2])
    for name in ("Pod/ring-0", "Pod/ring-1"):
        assert found[name]["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"] == "ring"
        assert found[name]["metadata"]["annotations"]["kueue.x-k8s.io/pod-group-total-count"] == "2"
    with pytest.raises(NotExpressible, match="group of pods of which some are enough"):
        said(kueue, there, *ORG, group, *pods)


def test_a_cron_jobs_jobs_carry_the_labels(kueue: SchedulerUnderTest, there: Cluster) -> None:
    made = job()
    cron = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "small", "namespace": "default"},
        "spec": {
            "schedule": "* * * * *",
            "jobTemplate": {"metadata": {"labels": made["metadata"]["labels"]}, "spec": made["spec"]},
        },
    }
    found = said(kueue, there, *ORG, cron)["CronJob/small"]["spec"]["jobTemplate"]
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"


def test_objects_that_are_no_work_of_kai_stay_unchanged(kueue: SchedulerUnderTest, there: Cluster) -> None:
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}}
    pod = {"apiVersion": "v1", "kind": "Pod", **template()}
    pod["metadata"]["name"] = "daemon"
    pod["spec"]["schedulerName"] = "default-scheduler"
    became = kueue.translate([other, pod], there)
    assert became[0][0] is other
    assert became[1][0] is pod


# --- what it has no words for ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("objects", "concept"),
    [
        (
            [queue("org", quota=8), queue("a", "org", quota=8), queue("b", "org", quota=8)],
            "quota is less than that of those below",
        ),
        ([queue("a", quota=0.5)], "quota of a part of a device"),
        ([queue("a", "nobody")], "until its parent exists"),
        ([*ORG, job(**{"kai.scheduler/queue": "team-z"})], "queue that there is not"),
        ([*ORG, job(**{"kai.scheduler/queue": "org"})], "queue that has others below it"),
    ],
)
def test_concepts_that_kueue_lacks_are_reported(
    kueue: SchedulerUnderTest, there: Cluster, objects: list[Object], concept: str
) -> None:
    with pytest.raises(NotExpressible, match="not expressible for Kueue") as caught:
        said(kueue, there, *objects)
    assert concept in caught.value.concept


def test_a_kind_without_an_integration_here_has_no_words(kueue: SchedulerUnderTest, there: Cluster) -> None:
    """Labelled all the same it would run past Kueue, held to no quota."""
    sets: Object = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "ring", "namespace": "default", "labels": {"kai.scheduler/queue": "team-a"}},
        "spec": {
            "serviceName": "ring",
            "replicas": 3,
            "selector": {"matchLabels": {"app": "work"}},
            "template": template(),
        },
    }
    with pytest.raises(
        NotExpressible, match=r"StatefulSet/default/ring: .* no integration here for the kind StatefulSet"
    ):
        said(kueue, there, *ORG, sets)


def test_priorities_of_queues_and_minimum_run_times_have_no_words(kueue: SchedulerUnderTest, there: Cluster) -> None:
    first, second = queue("a"), queue("b")
    first["spec"]["priority"] = 200
    with pytest.raises(NotExpressible, match="priority of queues"):
        said(kueue, there, first, second)
    protected = queue("a")
    protected["spec"]["reclaimMinRuntime"] = "5m"
    with pytest.raises(NotExpressible, match="minimum run time"):
        said(kueue, there, protected)
