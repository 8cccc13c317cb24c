"""LeaderWorkerSet: groups of one leader and its workers. As with the operator, there is a StatefulSet of leaders with the name of the set,
and for each leader pod a StatefulSet of workers that the pod owns, so that workers go with their leader. A group whose worker goes or restarts is
made again as a whole unless the restart policy says otherwise, and a changed template replaces one group after the other. Source:
LeaderWorkerSet v0.9.0, pkg/controllers/pod_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kailab.cluster.protocol import WatchEvent
from kailab.errors import Forbidden
from kailab.model.labels import SUBGROUP_EXCLUSIVE
from kailab.model.objects import (
    Object,
    annotations_of,
    is_active,
    is_ready,
    is_terminating,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    spec_of,
    status_of,
)
from kailab.workloads.apps import annotate_revision, revision_of, template_hash
from kailab.workloads.controller import Controller, Reference, with_metadata
from kailab.workloads.exclusive_placement import domain_of
from kailab.workloads.leader_worker_pods import EXCLUSIVE, GROUP_KEY, PREFIX

_REVISION = PREFIX + "template-revision-hash"
_AFTER_START = PREFIX + "experimental-recreate-group-after-start"
"""The annotation of releases before the restart policy RecreateGroupAfterStart."""
_RECREATING = ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart")


class LeaderWorkerSetController(Controller):
    def concerned(self, event: WatchEvent) -> Iterable[Reference]:
        """A set is synced after changes of all pods of its groups: its policy decides what a restart of a worker means."""
        name = labels_of(event.object).get(PREFIX + "name")
        return [(self.kind, (namespace_of(event.object), name))] if name else []

    def sync(self, owner: Object) -> None:
        if is_terminating(owner):
            return
        bench, spec = self._bench, owner["spec"]
        template = spec["leaderWorkerTemplate"]
        size = template.get("size", 1)
        digest = template_hash(template)
        revision = revision_of(owner, digest, digest)
        leaders = self._leaders(owner, template, size, revision)
        groups = ready = updated = 0
        if leaders is not None:
            for pod in filter(is_active, bench.owned(leaders, "Pod")):
                groups += 1
                updated += labels_of(pod).get(_REVISION, revision) == revision
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
            updatedReplicas=updated,
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
            "template": with_metadata(
                pod, labels, {PREFIX + "size": str(size), **_marks(owner, template, leader=True)}
            ),
            **_claims(template),
        }
        return self._stateful_set(owner, owner, name, labels, spec)

    def _group(self, owner: Object, template: Object, size: int, revision: str, leader: Object) -> bool:
        """Create the workers of a leader. Returns whether the group is ready."""
        bench, name, leader_name = self._bench, name_of(owner), name_of(leader)
        index = leader_name[len(name) + 1 :]
        labels = {
            PREFIX + "name": name,
            PREFIX + "group-index": index,
            GROUP_KEY: labels_of(leader)[GROUP_KEY],
            _REVISION: revision,
        }
        # Until its turn in a rolling update comes, a group is that of the older template.
        if labels_of(leader).get(_REVISION, revision) != revision:
            workers = bench.find("StatefulSet", (namespace_of(owner), leader_name))
            there = size <= 1 or (workers is not None and status_of(workers).get("readyReplicas", 0) >= size - 1)
            return is_ready(leader) and there
        if size <= 1:
            return is_ready(leader)
        if owner["spec"].get("startupPolicy") == "LeaderReady" and not is_ready(leader):
            return False
        worker = template["workerTemplate"]
        if topology := annotations_of(owner).get(EXCLUSIVE):
            if not node_of(leader):
                return False
            domain = domain_of(bench.cluster, leader, topology)
            if domain is None:
                error = Forbidden(f"the node of its leader {leader_name} has no label {topology}")
                bench.record_refusal(owner, "StatefulSet", error)
                return False
            selected = {**(worker["spec"].get("nodeSelector") or {}), topology: domain}
            worker = {**worker, "spec": {**worker["spec"], "nodeSelector": selected}}
        notes = {PREFIX + "size": str(size), PREFIX + "leader-name": leader_name, **_marks(owner, template)}
        spec = {
            "replicas": size - 1,
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            # Index 0 of a group is its leader.
            "ordinals": {"start": 1},
            "selector": {
                "matchLabels": {PREFIX + key: labels[PREFIX + key] for key in ("name", "group-index", "group-key")}
            },
            "template": with_metadata(worker, labels, notes),
            **_claims(template),
        }
        # The leader's pod owns them: when it goes, the garbage collector deletes its workers.
        workers = self._stateful_set(owner, leader, leader_name, labels, spec)
        if workers is None:
            return False
        pods = bench.owned(workers, "Pod")
        if _is_broken(owner, template, size, [leader, *pods]):
            bench.delete("Pod", leader)
            return False
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
        # A partition that is lowered after a part of the groups was replaced lets the others follow.
        strategy = spec.get("updateStrategy")
        if strategy and _partition(result["spec"].get("updateStrategy")) != _partition(strategy):
            result = bench.patch("StatefulSet", result, {"spec": {"updateStrategy": strategy}})
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


def _partition(strategy: Object | None) -> int:
    return ((strategy or {}).get("rollingUpdate") or {}).get("partition", 0)


def _is_broken(owner: Object, template: Object, size: int, pods: list[Object]) -> bool:
    """True if a group must be recreated. ``pods``: its leader and its workers."""
    policy = template.get("restartPolicy", _RECREATING[0])
    if policy not in _RECREATING or not any(is_terminating(pod) or _restarted(pod) for pod in pods):
        return False
    if policy == _RECREATING[0] and _AFTER_START not in annotations_of(owner):
        return True
    return len(pods) == size and all(status_of(pod).get("phase") != "Pending" for pod in pods)


def _restarted(pod: Object) -> bool:
    return any(status.get("restartCount") for status in status_of(pod).get("containerStatuses") or ())


def _claims(template: Object) -> dict[str, Any]:
    """The fields of both StatefulSets with the volumes of their pods."""
    return {
        field: template[field]
        for field in ("volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy")
        if template.get(field)
    }


def _marks(owner: Object, template: Object, *, leader: bool = False) -> dict[str, str]:
    """Annotations with the division of a group into subgroups, and with the topologies of exclusive placement."""
    given, policy = annotations_of(owner), template.get("subGroupPolicy") or {}
    marks = {EXCLUSIVE: given[EXCLUSIVE]} if given.get(EXCLUSIVE) else {}
    if not policy.get("subGroupSize"):
        return marks
    marks[PREFIX + "subgroup-size"] = str(policy["subGroupSize"])
    if given.get(SUBGROUP_EXCLUSIVE):
        marks[SUBGROUP_EXCLUSIVE] = given[SUBGROUP_EXCLUSIVE]
    if leader:
        marks[PREFIX + "subgroup-policy-type"] = policy.get("subGroupPolicyType") or "LeaderWorker"
    return marks
