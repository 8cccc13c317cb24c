"""The rights in the manifests are sufficient for the scheduler, and it uses all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.kubernetes.apiclient.transport import Transport
from kailab.engine.config import EngineConfig
from kailab.errors import InputError, NotFound
from kailab.model.kinds import KINDS
from kailab.scheduler.service.election import Election
from kailab.scheduler.service.manifests import scheduler_manifests
from kailab.scheduler.service.service_loop import SchedulerService, ServiceSettings

USER = "system:serviceaccount:kai-scheduler:kailab-scheduler"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kai-scheduler")
IMAGE = "registry.example.com/kailab:1.0"

Right = tuple[str, str, str]  # group, resource with subresource, verb

# What only comes up when an answer is lost, a watch is late or an event repeats, so that no exercise can be sure to need it.
RARE = {
    ("", "events", "patch"),
    ("resource.k8s.io", "resourceclaims/binding", "patch"),  # no request of its own: Kubernetes 1.36 asks for it, too
    ("", "pods", "get"),
    ("scheduling.run.ai", "podgroups", "get"),
    ("", "replicationcontrollers", "get"),
    *(("apps", name, "get") for name in ("daemonsets", "deployments", "replicasets", "statefulsets")),
    *(("batch", name, "get") for name in ("cronjobs", "jobs")),
}
# Groups of kinds that no test cluster here has.
ELSEWHERE = {
    kind.group
    for kind in KINDS.values()
    if kind.group
    not in ("", "apps", "batch", "resource.k8s.io", "scheduling.run.ai", "kai.scheduler", "coordination.k8s.io")
    and not kind.group.startswith("scheduling.")
}


def documents():
    return [document for document in yaml.safe_load_all(scheduler_manifests("kai-scheduler", IMAGE)) if document]


def granted() -> set[Right]:
    return {
        (group, resource, verb)
        for document in documents()
        for rule in document.get("rules") or ()
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def right(method: str, path: str) -> Right | None:
    """The right that a request needs; None for requests that everybody may make (versions, kinds)."""
    parts = urlsplit(path)
    steps = [step for step in parts.path.split("/") if step]
    if steps[0] == "api":
        group, rest = "", steps[2:]
    elif steps[0] == "apis":
        group, rest = (steps[1] if len(steps) > 1 else ""), steps[3:]
    else:
        return None
    if not rest:
        return None
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    resource, name, sub = (*rest, "", "")[:3]
    if method == "GET":
        verb = "get" if name else "watch" if "watch" in parse_qs(parts.query) else "list"
    else:
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[method]
    return group, f"{resource}/{sub}" if sub else resource, verb


@pytest.mark.parametrize(
    ("method", "path", "needed"),
    [
        ("GET", "/api/v1/pods?limit=5", ("", "pods", "list")),
        ("GET", "/apis/apps/v1/deployments?watch=1", ("apps", "deployments", "watch")),
        ("POST", "/api/v1/namespaces/d/pods/p/binding", ("", "pods/binding", "create")),
        ("GET", "/api/v1/namespaces/default", ("", "namespaces", "get")),
        ("PATCH", "/apis/a.b/v2/queues/q/status", ("a.b", "queues/status", "patch")),
        ("GET", "/apis/a.b/v2", None),
        ("GET", "/version", None),
    ],
)
def test_requests_are_read_as_rights(method, path, needed) -> None:
    assert right(method, path) == needed


def test_the_manifests_name_each_kind_of_owner_that_is_known() -> None:
    named = {(group, resource) for group, resource, _ in granted()}
    owners = {
        (kind.group, kind.plural)
        for kind in KINDS.values()
        if kind.group in ELSEWHERE | {"apps", "batch"} and kind.owns_pods
    }
    apart = {
        group
        for group in ELSEWHERE
        if group.endswith("k8s.io") and group not in ("jobset.x-k8s.io", "leaderworkerset.x-k8s.io")
    } | {"policy", "autoscaling", "kai.scheduler"}
    assert {pair for pair in owners if pair[0] not in apart} <= named


def test_nothing_is_granted_with_a_wildcard() -> None:
    assert not [found for found in granted() if "*" in "".join(found)]


@pytest.mark.parametrize(("namespace", "image"), [("Not_One", IMAGE), ("x", ""), ("x", "a b"), ("x", "${image}")])
def test_what_can_not_be_a_namespace_or_an_image_is_refused(namespace, image) -> None:
    with pytest.raises(InputError):
        scheduler_manifests(namespace, image)


def test_another_namespace_holds_the_lease_too() -> None:
    objects = [document for document in yaml.safe_load_all(scheduler_manifests("elsewhere", IMAGE)) if document]
    (role,) = [one for one in objects if one["metadata"]["name"] == "kailab-scheduler-lease" and one["kind"] == "Role"]
    assert role["metadata"]["namespace"] == "elsewhere"
    (deployment,) = [one for one in objects if one["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == IMAGE
    assert "--lease-namespace=elsewhere" in container["command"]


# --- on a real API server ----------------------------------------------------------------------------------------------


@pytest.fixture
def kubeconfig(plane, live) -> Iterator:
    """The credentials of a user with exactly the rights of the manifests."""
    made = [one for one in documents() if one["kind"] != "Deployment"]
    for obj in made:
        live.apply(obj)
    yield plane.kubeconfig_for(USER, GROUPS)
    for obj in made:
        live.delete(obj["kind"], obj["metadata"]["name"], obj["metadata"].get("namespace"))


def work(build) -> list:
    """Work of every sort: owners of each kind, shares of GPUs, pending pods, victims."""
    labels = {"kai.scheduler/queue": "team"}
    small = build.live_pod("template", 0)["spec"]

    def template(**more):
        return {"metadata": {"labels": {"app": "x", **labels}}, "spec": {**small, **more}}

    def owner(kind, api, name, **spec):
        return {
            "apiVersion": api,
            "kind": kind,
            "metadata": {"name": name, "namespace": "default", "labels": labels},
            "spec": spec,
        }

    chosen = {"selector": {"matchLabels": {"app": "x"}}}
    once = {"template": template(restartPolicy="Never")}
    named = {**template(), "metadata": {"labels": {"app": "rc", **labels}}}
    unknown = build.live_pod("unknown-class", 0)
    unknown["metadata"]["labels"]["priorityClassName"] = "nosuch"
    return [
        owner("Deployment", "apps/v1", "d", replicas=2, template=template(), **chosen),
        owner("StatefulSet", "apps/v1", "s", replicas=1, serviceName="s", template=template(), **chosen),
        owner("DaemonSet", "apps/v1", "ds", template=template(), **chosen),
        owner("ReplicationController", "v1", "rc", replicas=1, selector={"app": "rc"}, template=named),
        owner("Job", "batch/v1", "j", parallelism=2, completions=2, **once),
        owner("CronJob", "batch/v1", "c", schedule="* * * * *", jobTemplate={"spec": once}),
        build.live_pod("shared", 0, annotations={"gpu-fraction": "0.5"}),
        *(build.live_pod(f"whole-{number}", 8) for number in range(3)),
        build.live_pod("too-large", 9),
        unknown,
    ]


class Steps:
    """A service stepped by the test, under the rights of the manifests."""

    def __init__(self, kubeconfig) -> None:
        self.clusters = [KubernetesCluster(Connection.from_kubeconfig(kubeconfig)) for _ in range(2)]
        election = Election(self.clusters[1], "steps", "kai-scheduler", "kailab-scheduler")
        settings = ServiceSettings(config=EngineConfig(k_value=1.0), identity="steps")
        self.election = election
        self.service = SchedulerService(self.clusters[0], settings, election)

    def until(self, build, holds) -> None:
        def turn() -> bool:
            self.election.step()
            self.service.turn()
            return bool(holds())

        build.eventually(turn)

    def close(self) -> None:
        self.service.close()
        self.election.release()
        for cluster in self.clusters:
            cluster.close()


@pytest.fixture
def used(live, monkeypatch) -> set[Right]:
    """The rights that requests need, without those of the test itself."""
    used: set[Right] = set()
    once, stream = Transport._once, Transport.stream

    def note(method, path) -> None:
        found = right(method, path)
        if found is not None:
            used.add(found)

    async def noting(self, request, tries):
        if self.connection.configuration.host and self is not live.transport:
            note(request.method, request.path)
        return await once(self, request, tries)

    def watching(self, path):
        if self is not live.transport:
            note("GET", path)
        return stream(self, path)

    monkeypatch.setattr(Transport, "_once", noting)
    monkeypatch.setattr(Transport, "stream", watching)
    return used


def claimed_device(node: str) -> list:
    """A claim for all devices of a class, and a node with the only device."""
    device = {
        "driver": "other.example.com",
        "nodeName": node,
        "pool": {"name": "one", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "first"}],
    }
    everything = {"name": "r", "exactly": {"deviceClassName": "any", "allocationMode": "All"}}
    claim = {"name": "c", "namespace": "default", "labels": {"kai.scheduler/queue": "team"}}
    objects = [
        ("DeviceClass", {"name": "any"}, {}),
        ("ResourceSlice", {"name": "one"}, device),
        ("ResourceClaim", claim, {"devices": {"requests": [everything]}}),
    ]
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
        for kind, metadata, spec in objects
    ]


def do_everything(live, steps: Steps, build, used: set[Right]) -> None:
    """Everything that can happen to work while the service runs."""
    for obj in work(build):
        live.create(obj)
    steps.until(build, lambda: build.bound(live, "shared", "whole-0", "whole-1", "whole-2"))

    def condition(name):
        conditions = live.get("Pod", name, "default")["status"].get("conditions") or ()
        return [one.get("reason") for one in conditions if one["type"] == "PodScheduled"]

    steps.until(build, lambda: condition("too-large") == ["Unschedulable"])
    # Higher work in the same queue, for which somebody must go.
    urgent = [build.live_pod(f"urgent-{number}", 8) for number in range(3)]
    for obj in urgent:
        obj["metadata"]["labels"]["priorityClassName"] = "build"
        live.create(obj)
    steps.until(build, lambda: build.bound(live, *(obj["metadata"]["name"] for obj in urgent)))
    # A group that is to be another: its Job gets a class, and a new pod for which that is seen.
    live.patch("Job", "j", "default", {"metadata": {"labels": {"priorityClassName": "build"}}})
    for pod in live.list("Pod", "default", {"job-name": "j"}):
        live.delete("Pod", pod["metadata"]["name"], "default", 0)
    steps.until(build, lambda: ("scheduling.run.ai", "podgroups", "update") in used)
    live.delete("Pod", "shared", "default", 0)
    for number in range(3):
        live.delete("Pod", f"urgent-{number}", "default", 0)
    live.create(build.live_pod("later", 1))
    steps.until(build, lambda: build.bound(live, "later"))
    for obj in claimed_device(live.list("Node")[0]["metadata"]["name"]):
        live.apply(obj)
    live.create(build.live_pod("claims", 0, resourceClaims=[{"name": "c", "resourceClaimName": "c"}]))
    steps.until(build, lambda: build.bound(live, "claims"))
    steps.until(build, lambda: ("batch", "cronjobs", "watch") in used)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_every_right_is_used(live, kubeconfig, build, used) -> None:
    with suppress(NotFound):  # left by a test before this one
        live.delete("Lease", "kailab-scheduler", "kai-scheduler")
    steps = Steps(kubeconfig)
    try:
        do_everything(live, steps, build, used)
        wanted = {found for found in granted() if found[0] not in ELSEWHERE} - RARE
        refused = {
            code: count
            for cluster in steps.clusters
            for code, count in cluster.transport.answers.counted.items()
            if code[1] == 403
        }
        assert refused == {}
        assert wanted - used == set()
        assert used - granted() == set()
    finally:
        steps.close()
        for kind, name in (("ResourceSlice", "one"), ("DeviceClass", "any"), ("CronJob", "c"), ("Job", "j")):
            with suppress(NotFound):
                live.delete(kind, name, "default" if kind.endswith("ob") else None)
        for kind, name in (("StatefulSet", "s"), ("DaemonSet", "ds"), ("ReplicationController", "rc")):
            live.delete(kind, name, "default")


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_process_works_with_these_rights_alone(live, kubeconfig, start, build) -> None:
    one = start("one", kubeconfig=kubeconfig)
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
    live.create(build.live_pod("a"))
    live.create(build.live_pod("half", 0, annotations={"gpu-fraction": "0.5"}))
    build.eventually(lambda: build.bound(live, "a", "half"))
    assert len(live.list("Pod", "kai-resource-reservation")) == 1
    live.delete("Pod", "half", "default", 0)
    build.eventually(lambda: not live.list("Pod", "kai-resource-reservation"))
    assert not [key for key in one.metrics() if key[0] == "kailab_api_requests_total" and ("code", "403") in key[1]]
    assert one.end() == 0
    assert not re.search(r"WARNING|ERROR|\b403\b|orbidden", one.log()), one.log()


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_without_a_right_it_says_which_one_and_works_once_it_has_it(live, kubeconfig, start, build) -> None:
    role = live.get("ClusterRole", "kailab-scheduler")
    less = [rule for rule in role["rules"] if "queues" not in rule["resources"]]
    live.patch("ClusterRole", "kailab-scheduler", None, {"rules": less})
    one = start("one", kubeconfig=kubeconfig)
    build.eventually(lambda: one.ask("/readyz")[0] == 503 and "queues" in one.ask("/readyz")[1])
    assert one.process.running
    live.patch("ClusterRole", "kailab-scheduler", None, {"rules": role["rules"]})
    build.eventually(lambda: one.is_ready(f"leading as {one.name}"))
