"""StatefulSet: pods with numbers and names that stay, one after the other or all at once."""

from __future__ import annotations

from typing import Any

from kailab.cluster.protocol import Object
from kailab.errors import ApiError
from kailab.model.quantities import counted
from kailab.workloads.bench import is_active, is_ended, is_ready, owner_reference
from kailab.workloads.controller import Controller
from kailab.workloads.revisions import REVISION, revision_of, template_hash


class StatefulSetController(Controller):
    def sync(self, owner: Object) -> None:
        if "deletionTimestamp" in owner["metadata"]:
            return
        bench, spec = self._bench, owner["spec"]
        digest = template_hash(spec["template"])
        revision = revision_of(owner, digest, f"{owner['metadata']['name']}-{digest}")
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy", "OrderedReady") == "Parallel"
        self._arrange(owner, wanted, revision, parallel)
        pods = bench.owned(owner, "Pod")
        alive = [pod for pod in pods if is_active(pod)]
        current = [pod for pod in alive if pod["metadata"]["labels"].get(REVISION) == revision]
        ready = sum(map(is_ready, alive))
        bench.set_status(
            self.kind,
            owner,
            replicas=len(alive),
            readyReplicas=ready,
            availableReplicas=ready,
            currentReplicas=len(current),
            updatedReplicas=len(current),
            currentRevision=revision,
            updateRevision=revision,
            collisionCount=0,
            observedGeneration=owner["metadata"]["generation"],
        )

    def _arrange(self, owner: Object, wanted: range, revision: str, parallel: bool) -> None:
        bench = self._bench
        there = {_ordinal(owner, pod): pod for pod in bench.owned(owner, "Pod")}
        for pod in there.values():
            if is_ended(pod):
                bench.delete("Pod", pod)  # its place is taken again once it is gone
        there = {_ordinal(owner, pod): pod for pod in bench.owned(owner, "Pod")}
        waiting = False
        for ordinal in wanted:
            found = there.get(ordinal)
            if found is None:
                self._create(owner, ordinal, revision)
            # OrderedReady: nothing further is done, neither made nor taken away, before this one is ready.
            if not parallel and (found is None or not is_active(found) or not is_ready(found)):
                waiting = True
                break
        if waiting:
            return
        # The highest first, so that the numbers that stay begin at the start without a gap.
        surplus = sorted((ordinal for ordinal in there if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            bench.delete("Pod", there[ordinal])
            if not parallel:
                return
        self._update(owner, wanted, there, revision)

    def _update(self, owner: Object, wanted: range, there: dict[int, Object], revision: str) -> None:
        """Replace pods of an older template, from the highest number down, one at a time."""
        strategy = owner["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for ordinal in reversed(wanted):
            pod = there.get(ordinal)
            # One replacement at a time: the one before it has to be there again.
            if pod is None or not is_active(pod):
                return
            if ordinal >= partition and pod["metadata"]["labels"].get(REVISION) != revision:
                self._bench.delete("Pod", pod)
                return
            if not is_ready(pod):
                return

    def _create(self, owner: Object, ordinal: int, revision: str) -> None:
        bench, spec = self._bench, owner["spec"]
        name = f"{owner['metadata']['name']}-{ordinal}"
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            REVISION: revision,
        }
        changes: dict[str, Any] = {"hostname": name}
        if spec.get("serviceName"):
            changes["subdomain"] = spec["serviceName"]
        if claims := spec.get("volumeClaimTemplates"):
            try:
                changes["volumes"] = self._volumes(owner, claims, name)
            except ApiError as error:
                bench.refused(owner, "PersistentVolumeClaim", error)
                return
        bench.create_pod(
            owner, spec["template"], name=name, labels=labels, spec=changes, reference=owner_reference(owner)
        )

    def _volumes(self, owner: Object, claims: list[Object], pod: str) -> list[Object]:
        """The pod's volumes, its claims made where they are not there; claims outlive the pods."""
        cluster, namespace = self._bench.cluster, owner["metadata"]["namespace"]
        volumes = list(owner["spec"]["template"]["spec"].get("volumes") or ())
        for claim in claims:
            inner = claim["metadata"]["name"]
            name = f"{inner}-{pod}"
            if self._bench.find("PersistentVolumeClaim", (namespace, name)) is None:
                cluster.create({
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim",
                    "metadata": {"name": name, "namespace": namespace, "labels": claim["metadata"].get("labels") or {}},
                    "spec": claim.get("spec") or {},
                })  # fmt: skip
                # Nobody provisions volumes here; unbound, it would keep the pod from being scheduled.
                cluster.patch("PersistentVolumeClaim", name, namespace, {"status": {"phase": "Bound"}}, "status")
            volumes = [volume for volume in volumes if volume["name"] != inner]
            volumes.append({"name": inner, "persistentVolumeClaim": {"claimName": name}})
        return volumes


def _ordinal(owner: Object, pod: Object) -> int:
    text = pod["metadata"]["name"][len(owner["metadata"]["name"]) + 1 :]
    return counted(text, -1)
