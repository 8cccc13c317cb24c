"""LeaderWorkerSet: groups of one leader and its workers. As with the operator, there is a StatefulSet of leaders with the name of the set,
and for each leader pod a StatefulSet of workers that the pod owns, so that workers go with their leader. A group whose worker goes or restarts is
made again as a whole unless the restart policy says otherwise, and a changed template replaces one group after the other. Source:
LeaderWorkerSet v0.9.0, pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kailab.model.objects import (
    Object,
    full_name,
    is_active,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kailab.workloads.apps import annotate_revision, revision_of, template_hash
from kailab.workloads.controller import Controller, with_metadata

PREFIX = "leaderworkerset.sigs.k8s.io/"
_REVISION = PREFIX + "template-revision-hash"
_RECREATING = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


class LeaderWorkerSetController(Controller):
    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        template = spec["leaderWorkerTemplate"]
        size = template.get("size", 1)
        digest = template_hash(template)
        revision = revision_of(owner, digest, digest)
        leaders = self._leaders(owner, template, size, revision)
        groups = ready = 0
        if leaders is not None:
            for pod in filter(is_active, bench.owned(leaders, "Pod")):
                groups += 1
                ready += self._group(owner, template, size, revision, pod)
        done = ready >= spec.get("replicas", 1)
        ready_groups = ("AllGroupsReady", "All replicas are ready")
        missing_groups = ("GroupsNotReady", "Replicas are not all ready")
        self.set_status(
            owner,
            ("Available", done, *(ready_groups if done else missing_groups)),
            ("Progressing", not done, "GroupsAreProgressing", "Replicas are progressing"),
            replicas=groups,
            readyReplicas=ready,
            updatedReplicas=groups,
            hpaPodSelector=f"{PREFIX}name={name_of(owner)},{PREFIX}worker-index=0",
        )

    def _leaders(self, owner: Object, template: Object, size: int, revision: str) -> Object | None:
        name = name_of(owner)
        pod = template.get("leaderTemplate") or template["workerTemplate"]
        rolling = (owner["spec"].get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
        labels = {PREFIX + "name": name, PREFIX + "worker-index": "0", _REVISION: revision}
        spec = {
            "replicas": owner["spec"].get("replicas", 1),
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"rollingUpdate": {"partition": rolling.get("partition", 0)}},
            "selector": {"matchLabels": {PREFIX + "name": name, PREFIX + "worker-index": "0"}},
            "template": with_metadata(pod, labels, {PREFIX + "size": str(size), **_segments(template, leader=True)}),
        }
        return self._stateful_set(owner, owner, name, labels, spec)

    def _group(self, owner: Object, template: Object, size: int, revision: str, leader: Object) -> bool:
        """Label a leader with its group, and create its workers. Returns whether the group is ready."""
        bench, name, leader_name = self._bench, name_of(owner), name_of(leader)
        # A StatefulSet gives all pods the same labels; only the name tells the group of a leader.
        index = leader_name[len(name) + 1 :]
        labels = {
            PREFIX + "name": name,
            PREFIX + "group-index": index,
            PREFIX + "group-key": template_hash({"leader": full_name(leader)}),
            _REVISION: revision,
        }
        # Until its turn in a rolling update comes, a group is that of the older template.
        if labels_of(leader).get(_REVISION, revision) != revision:
            workers = bench.find("StatefulSet", (namespace_of(owner), leader_name))
            there = size <= 1 or (workers is not None and status_of(workers).get("readyReplicas", 0) >= size - 1)
            return is_ready(leader) and there
        if labels_of(leader).get(PREFIX + "group-index") != index:
            segment = _segment(template, size, leader, 0)
            leader = bench.patch("Pod", leader, {"metadata": {"labels": {**labels, **segment}}})
        if size <= 1:
            return is_ready(leader)
        if owner["spec"].get("startupPolicy") == "LeaderReady" and not is_ready(leader):
            return False
        notes = {PREFIX + "size": str(size), PREFIX + "leader-name": leader_name, **_segments(template)}
        spec = {
            "replicas": size - 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            # Index 0 of a group is its leader.
            "ordinals": {"start": 1},
            "selector": {
                "matchLabels": {PREFIX + key: labels[PREFIX + key] for key in ("name", "group-index", "group-key")}
            },
            "template": with_metadata(template["workerTemplate"], labels, notes),
        }
        # The leader's pod owns them: when it goes, the garbage collector deletes its workers.
        workers = self._stateful_set(owner, leader, leader_name, labels, spec)
        if workers is None:
            return False
        pods = bench.owned(workers, "Pod")
        if _is_broken(template, [leader, *pods]):
            bench.delete("Pod", leader)
            return False
        for pod in pods:
            number = name_of(pod).rpartition("-")[2]
            if labels_of(pod).get(PREFIX + "worker-index") != number:
                own = {PREFIX + "worker-index": number, **_segment(template, size, leader, int(number))}
                bench.patch("Pod", pod, {"metadata": {"labels": own}})
        return is_ready(leader) and status_of(workers).get("readyReplicas", 0) >= size - 1

    def _stateful_set(
        self, owner: Object, controller: Object, name: str, labels: dict[str, str], spec: dict[str, Any]
    ) -> Object | None:
        bench = self._bench
        result = bench.find("StatefulSet", (namespace_of(owner), name))
        if result is None:
            return bench.create(controller, "StatefulSet", {"metadata": {"name": name, "labels": labels}, "spec": spec})
        if is_terminating(result):
            return None
        if result["spec"]["replicas"] != spec["replicas"]:
            result = bench.patch("StatefulSet", result, {"spec": {"replicas": spec["replicas"]}})
        # Workers are replaced with their leader.
        # Releases of LeaderWorkerSet before rolling updates set no revision.
        if controller is owner and labels_of(result["spec"]["template"]).get(_REVISION) not in (
            None,
            labels[_REVISION],
        ):
            changed = {**result["spec"], "template": spec["template"], "updateStrategy": spec["updateStrategy"]}
            return bench.update(owner, "StatefulSet", {**result, "spec": changed})
        return result


def annotate_leaders_revision(owner: Object, owned: Iterable[Object]) -> Object:
    """A LeaderWorkerSet of another cluster, with the annotation of ``annotate_revision``; ``owned``: what it owns, its StatefulSet too."""
    named = (labels_of(spec_of(obj).get("template") or {}).get(_REVISION) for obj in owned)
    return annotate_revision(owner, next(filter(None, named), None), "leaderWorkerTemplate")


def _is_broken(template: Object, pods: list[Object]) -> bool:
    """True if a group must be recreated. ``pods``: its leader and its workers."""
    policy = template.get("restartPolicy", _RECREATING[0])
    if policy not in _RECREATING or not any(is_terminating(pod) or _restarted(pod) for pod in pods):
        return False
    return policy == _RECREATING[0] or all(status_of(pod).get("phase") != "Pending" for pod in pods)


def _restarted(pod: Object) -> bool:
    return any(status.get("restartCount") for status in status_of(pod).get("containerStatuses") or ())


def _segments(template: Object, *, leader: bool = False) -> dict[str, str]:
    """Annotations with the division of a group into subgroups."""
    policy = template.get("subGroupPolicy") or {}
    if not policy.get("subGroupSize"):
        return {}
    size = {PREFIX + "subgroup-size": str(policy["subGroupSize"])}
    kind = policy.get("subGroupPolicyType") or "LeaderWorker"
    return {**size, PREFIX + "subgroup-policy-type": kind} if leader else size


def _segment(template: Object, size: int, leader: Object, index: int) -> dict[str, str]:
    """Labels with the subgroup of a pod. ``index``: the worker's, 0 for the leader."""
    policy = template.get("subGroupPolicy") or {}
    segment = policy.get("subGroupSize")
    if not segment or (index == 0 and policy.get("subGroupPolicyType") == "LeaderExcluded"):
        return {}
    # If the workers divide evenly, the leader is an extra pod of the first subgroup.
    number = max(index - 1, 0) // segment if (size - 1) % segment == 0 else index // segment
    key = template_hash({"leader": name_of(leader), "subgroup": number})
    return {PREFIX + "subgroup-index": str(number), PREFIX + "subgroup-key": key}
