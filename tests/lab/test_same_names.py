"""Objects that are deleted and created again under their names, at odd moments: nothing of the old one is taken for the new one."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.cluster.embedded import EmbeddedCluster
from kailab.errors import ApiError
from kailab.lab import Lab
from kailab.lab.parts import Parts
from kailab.model.objects import Object, name_of, namespace_of, spec_of, status_of, uid_of
from kailab.scheduler.mirror import Mirror
from kailab.scheduler.observers import Observer

NAMES = ("a", "b")


def queue(name: str, size: int) -> Object:
    bounds = {"quota": size, "limit": -1, "overQuotaWeight": 1}
    resources = {"gpu": bounds, "cpu": {**bounds, "quota": -1}, "memory": {**bounds, "quota": -1}}
    spec = {"resources": resources, "parentQueue": "org"}
    return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def pod_spec(size: int, **more: Any) -> Object:
    amounts = {"requests": {"cpu": "100m"}, "limits": {"nvidia.com/gpu": size}}
    container = {"name": "main", "image": "busybox", "resources": amounts}
    return {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container], **more}


def metadata(name: str, **more: Any) -> Object:
    return {"name": name, "namespace": "default", "labels": {"kai.scheduler/queue": name}, **more}


def pod(name: str, size: int) -> Object:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": name}}
    spec = pod_spec(size, volumes=[volume] if size == 2 else [])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name), "spec": spec}


def member(name: str, size: int) -> Object:
    """A pod of the PodGroup of its name, which may not exist."""
    notes = {"pod-group-name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(f"m-{name}", annotations=notes),
        "spec": pod_spec(size),
    }


def pod_group(name: str, size: int) -> Object:
    spec = {"queue": name, "minMember": size}
    return {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata(name), "spec": spec}


def job(name: str, size: int) -> Object:
    spec = {
        "parallelism": size,
        "completions": size,
        "template": {"metadata": {"labels": {"kai.scheduler/queue": name}}, "spec": pod_spec(1)},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(name), "spec": spec}


def stateful_set(name: str, size: int) -> Object:
    """Its pods keep their names."""
    template = {
        "metadata": {"labels": {"app": name, "kai.scheduler/queue": name}},
        "spec": {**pod_spec(1), "restartPolicy": "Always"},
    }
    spec = {"replicas": size, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(name), "spec": spec}


def quota(name: str, size: int) -> Object:
    spec = {"hard": {"pods": str(4 * size), "requests.nvidia.com/gpu": "8"}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata(name), "spec": spec}


def volume_claim(name: str, size: int) -> Object:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "local",
        "resources": {"requests": {"storage": f"{size}Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata(name), "spec": spec}


def volume(name: str, size: int) -> Object:
    spec = {
        "capacity": {"storage": f"{size}Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
        "persistentVolumeReclaimPolicy": "Retain", "hostPath": {"path": "/data"},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def node(name: str, size: int) -> Object:
    amounts = {"cpu": "96", "memory": "1000Gi", "pods": "110", "nvidia.com/gpu": str(size)}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n-{name}"}, "spec": {}, "status": status}


MADE = {
    "Queue": queue, "Pod": pod, "Member": member, "PodGroup": pod_group, "Job": job, "StatefulSet": stateful_set, "ResourceQuota": quota,
    "PersistentVolumeClaim": volume_claim, "PersistentVolume": volume, "Node": node,
}  # fmt: skip

KIND = st.sampled_from(sorted(MADE))
NAME = st.sampled_from(NAMES)
ACTION = st.one_of(
    st.tuples(st.just("create"), KIND, NAME, st.integers(1, 2)),
    st.tuples(st.just("delete"), KIND, NAME, st.sampled_from((None, 0))),
    st.tuples(st.just("replace"), KIND, NAME, st.integers(1, 2)),
    st.tuples(st.just("step"), st.integers(0, 9)),
    st.tuples(st.just("time"), st.sampled_from((0.5, 1, 40))),
)


def act(cluster: EmbeddedCluster, parts: Parts, what: str, *how: Any) -> None:
    if what == "step":
        each = (*parts.controllers, parts.scheduler)
        each[how[0] % len(each)].step()
        return
    if what == "time":
        cluster.advance(how[0])
        return
    kind, name, value = how
    obj = MADE[kind](name, value or 1)
    # Refused are objects that exist already or that are gone, and pods beyond a quota.
    if what != "create":
        with suppress(ApiError):
            grace = 0 if what == "replace" else value
            cluster.delete("Pod" if kind == "Member" else kind, name_of(obj), namespace_of(obj) or None, grace)
    if what != "delete":
        with suppress(ApiError):
            cluster.create(obj)


def state(cluster: EmbeddedCluster) -> dict[str, Any]:
    return {kind: cluster.list(kind) for kind in cluster.kinds() if kind != "Event"}


def check_quotas(cluster: EmbeddedCluster) -> None:
    """Each quota says what one that begins to count now says."""
    copy = EmbeddedCluster.restore(cluster.dump())
    for each in cluster.list("ResourceQuota"):
        probe = {**each, "metadata": {"name": "probe", "namespace": "default"}}
        assert status_of(each) == status_of(copy.get("ResourceQuota", name_of(copy.create(probe)), "default"))
        copy.delete("ResourceQuota", "probe", "default")


def check_volumes(cluster: EmbeddedCluster) -> None:
    """A bound claim has a volume that is bound to it, and no other claim of its name."""
    volumes = {name_of(each): each for each in cluster.list("PersistentVolume")}
    for claim in cluster.list("PersistentVolumeClaim"):
        bound = volumes.get(spec_of(claim).get("volumeName", ""))
        if status_of(claim).get("phase") == "Bound":
            assert bound is not None
            assert spec_of(bound)["claimRef"]["uid"] == uid_of(claim)
    claims = {uid_of(each) for each in cluster.list("PersistentVolumeClaim")}
    for volume in volumes.values():
        bound_to = (spec_of(volume).get("claimRef") or {}).get("uid")
        assert status_of(volume)["phase"] == (
            "Available" if not bound_to else "Bound" if bound_to in claims else "Released"
        )


@settings(max_examples=60)
@given(actions=st.lists(ACTION, min_size=10, max_size=60))
def test_what_has_seen_all_and_what_begins_now_agree(actions: list[tuple[Any, ...]]) -> None:
    with Lab.open() as lab:
        cluster = lab.cluster
        assert isinstance(cluster, EmbeddedCluster)
        for obj in (queue("org", 8), *(queue(name, 2) for name in NAMES), *(node(name, 2) for name in NAMES)):
            cluster.create({**obj, "spec": {**obj["spec"], "parentQueue": ""}} if name_of(obj) == "org" else obj)
        parts, settling = lab.venue.run(lab.spec, Observer(), list)
        mirror = Mirror(cluster)
        settling.settle()
        for action in actions:
            act(cluster, parts, *action)
            mirror.update()
        settling.settle()
        mirror.update()
        fresh = Mirror(cluster)
        fresh.update()
        assert mirror.agrees(fresh)
        check_quotas(cluster)
        check_volumes(cluster)
        before = state(cluster)
        parts.close()
        again, settling = lab.venue.run(lab.spec, Observer(), list)
        settling.settle()
        assert state(cluster) == before
        for each in (mirror, fresh, again):
            each.close()
