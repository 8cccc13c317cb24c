"""Reservation pods: one pod for each shared GPU requests the whole GPU.

Kubernetes does not count shares of a GPU: kube-scheduler sees a GPU shared by four pods as free. So for each shared GPU (a *GPU group*,
named by a label on the pods that share it) one pod in a namespace of its own requests a whole GPU on the same node. It is made before the
first pod of the group is bound and deleted after the last one. Names and labels are KAI's, so that a KAI in the same cluster counts the
same.

On a node with real GPUs the device plugin gives the reservation pod a device; KAI's pod reports its index to the binder, which passes it
to the sharing containers (NVIDIA_VISIBLE_DEVICES). kailab does not do this: fake nodes have no device plugin (KAI's binder has
``--fake-gpu-nodes`` for them). So only the count is reserved, and no pod learns which device it shares.
Source: KAI pkg/binder/binding/resourcereservation.
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
from kailab.model.objects import is_active, is_ended, is_terminating, labels_of, metadata_of, name_of, node_of
from kailab.scheduler.binding import Binding
from kailab.scheduler.reading.tasks import gpu_groups

APP = "kai-resource-reservation"
MANAGED_BY = "app.kubernetes.io/managed-by"
OURS = "kailab"
IMAGE = "registry.k8s.io/pause:3.10"

_NOTHING: Mapping[str, Any] = {}


def reservation_name(node: str, group: str) -> str:
    """A name that depends only on node and group, so that no GPU is reserved twice."""
    return f"gpu-reservation-{hashlib.sha256(f'{node}/{group}'.encode()).hexdigest()[:16]}"


def reservation_pod(node: str, group: str, tolerations: Sequence[Any] = (), image: str = IMAGE) -> Object:
    """``tolerations``: of a pod that shares the GPU, so that both may stay on the node."""
    amount = {names.GPU_RESOURCE: "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": reservation_name(node, group),
            "namespace": names.RESERVATION_NAMESPACE,
            "labels": {"app": APP, names.GPU_GROUP: group, MANAGED_BY: OURS},
            # As KAI's binder: Karpenter must not consolidate a node whose shared GPUs are in use.
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
        },
        "spec": {
            # No scheduler places it: it must run on the node that was decided on.
            "nodeName": node,
            "automountServiceAccountToken": False,
            "tolerations": list(tolerations),
            # The container needs no shutdown, and other work waits for the GPU.
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
    """Keeps exactly one reservation for every shared GPU (a ``Preparation``). Reservations that others made count too, but are never
    deleted. The first step deletes what an earlier scheduler left behind."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watch = cluster.watch(("Pod",))
        self._sharing: dict[str, dict[str, Object]] = {}  # group -> UID -> pod
        self._groups_of: dict[str, tuple[str, ...]] = {}
        self._reserving: dict[str, dict[str, Object]] = {}  # group -> UID -> pod
        self._dirty: dict[str, None] = {}
        self._retries: Retries[str] = Retries()

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """Reserve the GPUs that these pods share. Returns the errors of pods whose GPU could not be reserved, by UID."""
        self._take()
        missing: dict[str, Binding] = {}
        for binding in bindings:
            for group in binding.gpu_groups:
                if not self._reserved(group):
                    missing.setdefault(group, binding)
        refused = self._reserve({group: (binding.node, binding.pod) for group, binding in missing.items()})
        # If a GPU could not be reserved, none of the pods of this round that share it can be bound.
        return {binding.uid: refused[group] for binding in bindings for group in binding.gpu_groups if group in refused}

    def undo(self, pods: Iterable[str]) -> None:
        """Do nothing: the next step deletes reservations of GPUs that nobody shares."""

    def step(self) -> bool:
        """Make missing reservations and delete needless ones. Returns whether anything was written."""
        self._take()
        now = self._cluster.now()
        self._dirty.update(dict.fromkeys(self._retries.due(now)))
        # Only groups with new events, and groups whose pause after a failure is over.
        groups, self._dirty = self._dirty, {}
        missing: dict[str, tuple[str, Object]] = {}
        doomed: list[tuple[str, Object]] = []
        for group in groups:
            # A pod may have the label of a GPU although its binding failed.
            sharing = [pod for pod in self._sharing.get(group, _NOTHING).values() if node_of(pod)]
            own = [
                pod for pod in self._reserving.get(group, _NOTHING).values() if labels_of(pod).get(MANAGED_BY) == OURS
            ]
            needless = [pod for pod in own if not sharing or is_ended(pod)]
            doomed += [(group, pod) for pod in needless if not is_terminating(pod)]
            # An ended reservation blocks the name until it is deleted, which the watch will report.
            if sharing and not needless and not self._reserved(group):
                missing[group] = (node_of(sharing[0]), sharing[0])
        chains = [[DeleteWrite("Pod", name_of(pod), names.RESERVATION_NAMESPACE, 0)] for _, pod in doomed]
        failed: dict[str, ApiError] = self._reserve(missing)
        for (group, _), outcome in zip(doomed, self._cluster.write_all(chains), strict=True):
            if outcome.error is not None and not isinstance(outcome.error, NotFound):
                failed[group] = outcome.error
        for group in groups:
            if group in failed:
                self._retries.failed(group, now)
            else:
                self._retries.forget(group)
        return len(failed) < len(missing) + len({group for group, _ in doomed})

    def close(self) -> None:
        self._watch.close()

    def _reserve(self, groups: Mapping[str, tuple[str, Object]]) -> dict[str, ApiError]:
        """Make reservations. ``groups``: group -> (node, a pod that shares it). Returns the errors by group."""
        pods = [
            reservation_pod(node, group, pod["spec"].get("tolerations") or ()) for group, (node, pod) in groups.items()
        ]
        refused: dict[str, ApiError] = {}
        for group, outcome in zip(groups, self._cluster.write_all([[CreateWrite(pod)] for pod in pods]), strict=True):
            if outcome.error is not None and not isinstance(outcome.error, AlreadyExists):
                refused[group] = outcome.error
        return refused

    def _reserved(self, group: str) -> bool:
        return any(is_active(pod) for pod in self._reserving.get(group, _NOTHING).values())

    # --- watch events -------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        for event in self._watch.poll():
            pod = event.object
            metadata = metadata_of(pod)
            uid, labels = metadata["uid"], metadata.get("labels") or _NOTHING
            groups = gpu_groups(labels) if labels and event.type != "DELETED" else ()
            if not groups and uid not in self._groups_of:
                continue  # most pods share nothing
            table = self._reserving if metadata["namespace"] == names.RESERVATION_NAMESPACE else self._sharing
            # An ended pod keeps its labels but shares nothing.
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
