"""GPUs that are shared, reserved as a whole: a pod for each keeps everybody else off it.

A share of a GPU is no resource that Kubernetes counts: to kube-scheduler, and to whoever else adds up requests, a GPU of
which four pods have a quarter each is free. So for each shared GPU (a *GPU group*, named by a label on the pods that share
it) one pod in a namespace of its own asks for a whole one on the same node. It comes before the first pod of the group is
bound and goes with the last. Names and labels are KAI's, so that a KAI beside us counts the same.

Where this ends: on a node with GPUs the reserving container is given one by the device plugin, and KAI's reads which one it
is and tells the binder, which passes it on to the sharing containers (NVIDIA_VISIBLE_DEVICES). Here nobody asks for that
index: on fake nodes there is no device plugin to answer (KAI's binder has ``--fake-gpu-nodes`` for them), so what is reserved
is the count, and no pod learns which device it shares. Source: KAI pkg/binder/binding/resourcereservation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.retries import Retries
from kailab.cluster.writes import CreateWrite, DeleteWrite
from kailab.errors import AlreadyExists, ApiError, NotFound
from kailab.model import labels as names
from kailab.model.objects import is_ended
from kailab.scheduler.binding.preparation import Binding
from kailab.scheduler.reading.tasks import gpu_groups

APP = "kai-resource-reservation"
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "kailab"
IMAGE = "registry.k8s.io/pause:3.10"

_NOTHING: Mapping[str, Any] = {}
_ENDED = ("Succeeded", "Failed")


def reservation_name(node: str, group: str) -> str:
    """The same for all who reserve the same, so that no GPU is reserved twice."""
    return f"gpu-reservation-{hashlib.sha256(f'{node}/{group}'.encode()).hexdigest()[:16]}"


def reservation_pod(node: str, group: str, tolerations: Sequence[Any] = (), image: str = IMAGE) -> Object:
    """``tolerations``: of a pod that shares the GPU, so that this one may stay where that one may."""
    amount = {names.GPU_RESOURCE: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(node, group),
            "namespace": names.RESERVATION_NAMESPACE,
            "labels": {"app": APP, names.GPU_GROUP: group, MANAGED_BY: OURS},
            # KAI's binder sets it as well: a node whose shared GPUs are in use must not be consolidated away by
            # Karpenter.
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            # Placed by no scheduler: it has to be on the very node that was decided on.
            "nodeName": node,
            "automountServiceAccountToken": False,
            "tolerations": list(tolerations),
            # Nothing in it has to end in order, and the GPU is waited for.
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "resource-reservation",
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {"requests": amount, "limits": amount},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                        "runAsNonRoot": True,
                        "runAsUser": 65535,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                }
            ],
        },
    }


class ReservationPods:
    """Keeps a reservation for every shared GPU, and none for others. Those that somebody else made serve as well as ours,
    but are left alone. What an earlier scheduler left behind is cleared up at the first step."""

    def __init__(self, cluster: Cluster, image: str = IMAGE) -> None:
        self._cluster = cluster
        self._image = image
        self._watch = cluster.watch(("Pod",))
        self._sharing: dict[str, dict[str, Object]] = {}  # group -> UID -> pod
        self._groups_of: dict[str, tuple[str, ...]] = {}
        self._reserving: dict[str, dict[str, Object]] = {}  # group -> UID -> pod
        self._dirty: dict[str, None] = {}
        self._retries: Retries[str] = Retries()

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """Reserve what pods that share GPUs will sit on."""
        self._take()
        wanted: dict[str, Binding] = {}
        for binding in bindings:
            # A reservation that is there already serves, whoever made it.
            for group in binding.gpu_groups:
                if not self._reserved(group):
                    wanted.setdefault(group, binding)
        refused = self._reserve({group: (one.node, one.pod) for group, one in wanted.items()})
        # A GPU that could not be reserved takes all pods with it that were to share it in this round.
        return {binding.uid: refused[group] for binding in bindings for group in binding.gpu_groups if group in refused}

    def undo(self, pods: Iterable[str]) -> None:
        """Nothing at once: the next step sees whether anybody shares those GPUs."""

    def step(self) -> bool:
        """Reserve what is shared and not reserved, let go what nobody shares. True if anything was written."""
        self._take()
        now = self._cluster.now()
        self._dirty.update(dict.fromkeys(self._retries.due(now)))
        # Only groups with news are looked at, and those whose pause after a failure is over.
        groups, self._dirty = self._dirty, {}
        missing: dict[str, tuple[str, Object]] = {}
        doomed: list[tuple[str, Object]] = []
        for group in groups:
            # A pod may carry the label of a GPU that it was not bound to after all.
            sharing = [pod for pod in self._sharing.get(group, _NOTHING).values() if pod["spec"].get("nodeName")]
            ours = [pod for pod in self._reserving.get(group, _NOTHING).values() if _is_ours(pod)]
            needless = [pod for pod in ours if not sharing or is_ended(pod)]
            doomed += [(group, pod) for pod in needless if "deletionTimestamp" not in pod["metadata"]]
            # One that has ended keeps the name until it is gone, which will be news.
            if sharing and not needless and not self._reserved(group):
                missing[group] = (sharing[0]["spec"]["nodeName"], sharing[0])
        chains = [[DeleteWrite("Pod", pod["metadata"]["name"], names.RESERVATION_NAMESPACE, 0)] for _, pod in doomed]
        failed: dict[str, ApiError] = self._reserve(missing)
        for (group, _), outcome in zip(doomed, self._cluster.write_all(chains), strict=True):
            if outcome.error is not None and not isinstance(outcome.error, NotFound):
                failed[group] = outcome.error
        for group in groups:
            if group in failed:
                self._retries.failed(group, now)
            else:
                self._retries.done(group)
        return len(failed) < len(missing) + len({group for group, _ in doomed})

    def close(self) -> None:
        self._watch.close()

    def _reserve(self, wanted: Mapping[str, tuple[str, Object]]) -> dict[str, ApiError]:
        """Groups for which that failed. ``wanted``: group -> node, a pod that shares it."""
        pods = [
            reservation_pod(node, group, pod["spec"].get("tolerations") or (), self._image)
            for group, (node, pod) in wanted.items()
        ]
        refused: dict[str, ApiError] = {}
        for group, outcome in zip(wanted, self._cluster.write_all([[CreateWrite(pod)] for pod in pods]), strict=True):
            if outcome.error is not None and not isinstance(outcome.error, AlreadyExists):
                refused[group] = outcome.error
        return refused

    def _reserved(self, group: str) -> bool:
        return any(
            not is_ended(pod) and "deletionTimestamp" not in pod["metadata"]
            for pod in self._reserving.get(group, _NOTHING).values()
        )

    # --- what the watch says -----------------------------------------------------------------------------------------

    def _take(self) -> None:
        for event in self._watch.poll():
            pod = event.object
            metadata = pod["metadata"]
            uid, labels = metadata["uid"], metadata.get("labels") or _NOTHING
            groups = gpu_groups(labels) if labels and event.type != "DELETED" else ()
            if not groups and uid not in self._groups_of:
                continue  # most pods share nothing
            table = self._reserving if metadata["namespace"] == names.RESERVATION_NAMESPACE else self._sharing
            # An ended pod shares nothing any more, though its labels stay.
            if table is self._sharing and is_ended(pod):
                groups = ()
            before = self._groups_of.pop(uid, ())
            for group in before:
                table[group].pop(uid, None)
                if not table[group]:
                    del table[group]
            if groups:
                self._groups_of[uid] = groups
            for group in groups:
                table.setdefault(group, {})[uid] = pod
            self._dirty.update(dict.fromkeys((*before, *groups)))


def _is_ours(pod: Object) -> bool:
    return (pod["metadata"].get("labels") or _NOTHING).get(MANAGED_BY) == OURS
