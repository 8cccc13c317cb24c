"""Resource claims of pods, as kube-controller-manager's resourceclaim controller manages them. From each template that a pod names it
creates a claim that the pod owns, and writes the claim's name to the pod's status. It removes reservations of pods that are gone or have
ended; a claim without reservations gives its devices back; a claim that was created for a pod is deleted when the pod ends, or with it.
"""

from __future__ import annotations

from typing import Any

from kailab.cluster.embedded import EmbeddedCluster
from kailab.cluster.unreadable_objects import UnreadableObjects
from kailab.model.labels import CLAIM_FINALIZER
from kailab.model.objects import (
    Key,
    Object,
    annotations_of,
    is_ended,
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    object_key,
    owner_references,
    reserving_pods,
    status_of,
    uid_of,
)

POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
_LONGEST = 57  # of a name to which five characters are appended


class ResourceClaimController:
    """Creates and removes the claims of pods. It keeps soft state only, so it can be made over a resumed cluster."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self._cluster = cluster
        self._unreadable = UnreadableObjects(cluster.event, "resource_claim")
        self._wrote = False
        self._watch = cluster.watch(("ResourceClaimTemplate", "Pod", "ResourceClaim"))
        self._pods: dict[str, Object] = {}  # UID -> pod with claims that has not ended
        self._templates: dict[Key, Object] = {}
        self._claims: dict[Key, Object] = {}
        self._reserved: dict[str, dict[Key, None]] = {}  # pod UID -> claims reserved for it
        self._made: dict[str, dict[Key, None]] = {}  # pod UID -> claims made for it
        self._due: dict[str, None] = {}  # pods that may want a claim
        self._waiting: dict[str, str] = {}  # pods whose template is missing -> reported message
        self._claims_to_tidy: dict[Key, None] = {}

    def step(self) -> bool:
        """Create, update and delete claims for changed pods. Returns True if anything was written."""
        for event in self._watch.poll():
            self._unreadable.try_handling(
                event.object, self._handle_event, event.kind, event.object, event.type == "DELETED"
            )
        if not self._due and not self._claims_to_tidy:
            return False
        due, self._due = self._due, {}
        to_tidy, self._claims_to_tidy = self._claims_to_tidy, {}
        self._wrote = False
        for uid in due:
            pod = self._pods.get(uid)
            if pod is not None:
                self._unreadable.try_handling(pod, self._make, uid, pod)
        for key in to_tidy:
            claim = self._claims.get(key)
            if claim is not None:
                self._unreadable.try_handling(claim, self._tidy, key, claim)
        return self._wrote

    def close(self) -> None:
        """Stop watching."""
        self._watch.close()

    # --- watch events ------------------------------------------------------------------------------------------------

    def _handle_event(self, kind: str, obj: Object, gone: bool) -> None:
        if kind == "Pod":
            if obj["spec"].get("resourceClaims"):
                self._handle_pod(obj, gone)
        elif kind == "ResourceClaim":
            self._handle_claim(obj, gone)
        else:
            key = object_key(obj)
            self._templates.pop(key, None)
            if not gone:
                self._templates[key] = obj
                # All waiting pods are tried, because only their specs name the templates that they wait for.
                self._due.update(dict.fromkeys(self._waiting))

    def _handle_pod(self, pod: Object, gone: bool) -> None:
        uid = uid_of(pod)
        if gone or is_ended(pod):
            self._pods.pop(uid, None)
            self._waiting.pop(uid, None)
            # Its shared claims may be free now, and its own are not needed any more.
            self._claims_to_tidy.update({**self._reserved.get(uid, {}), **self._made.get(uid, {})})
        else:
            self._pods[uid] = pod
            # A pod that is being deleted keeps its claims, but gets no new ones.
            if not is_terminating(pod):
                self._due[uid] = None

    def _handle_claim(self, claim: Object, gone: bool) -> None:
        key = object_key(claim)
        before = self._claims.pop(key, None)
        if before is not None:
            self._index(before, key, False)
        if gone:
            # The claim of a living pod was deleted: create it again.
            if (owner := _owner(claim)) in self._pods:
                self._due[owner] = None
            return
        self._claims[key] = claim
        self._index(claim, key, True)
        self._claims_to_tidy[key] = None

    def _index(self, claim: Object, key: Key, there: bool) -> None:
        owner = _owner(claim)
        for index, uids in ((self._reserved, reserving_pods(claim)), (self._made, [owner] if owner else [])):
            for uid in uids:
                keys = index.setdefault(uid, {})
                if there:
                    keys[key] = None
                else:
                    keys.pop(key, None)
                if not keys:
                    del index[uid]

    # --- making ------------------------------------------------------------------------------------------------------

    def _make(self, uid: str, pod: Object) -> None:
        """Create the claims for a pod's templates."""
        namespace, pod_name = object_key(pod)
        recorded = {
            entry["name"]: entry.get("resourceClaimName") for entry in status_of(pod).get("resourceClaimStatuses") or ()
        }
        made: dict[str, str] = {}
        self._waiting.pop(uid, None)
        for wanted in pod["spec"]["resourceClaims"]:
            template = wanted.get("resourceClaimTemplateName")
            name = recorded.get(wanted["name"])
            if not template or (name and self._is_made_for((namespace, name), uid)):
                continue
            # Look for an existing claim first: after a write that failed in between, a second claim would hold a second set of devices.
            claim_name = self._found(uid, wanted["name"]) or self._created(uid, pod, wanted["name"], template)
            if claim_name is not None:
                made[wanted["name"]] = claim_name
        if not made:
            return
        statuses = [{"name": claim, "resourceClaimName": name} for claim, name in {**recorded, **made}.items()]
        self._cluster.patch("Pod", pod_name, namespace, {"status": {"resourceClaimStatuses": statuses}}, "status")
        self._wrote = True

    def _is_made_for(self, key: Key, uid: str) -> bool:
        claim = self._claims.get(key)
        return claim is not None and _owner(claim) == uid

    def _found(self, uid: str, pod_claim: str) -> str | None:
        """The name of an existing claim that is missing in the pod's status."""
        for key in self._made.get(uid, ()):
            claim = self._claims[key]
            if annotations_of(claim).get(POD_CLAIM) == pod_claim and not is_terminating(claim):
                return key[1]
        return None

    def _created(self, uid: str, pod: Object, pod_claim: str, template_name: str) -> str | None:
        namespace, pod_name = object_key(pod)
        template = self._templates.get((namespace, template_name))
        if template is None:
            text = f'PodResourceClaim {pod_claim}: resource claim template "{template_name}": not found'
            if self._waiting.get(uid) != text:
                self._cluster.event(pod, "Warning", "FailedResourceClaimCreation", text, "resource_claim")
            self._waiting[uid] = text
            return None
        spec = template["spec"]
        claim: Object = {
            # The template's version, which decides how requests are written.
            "apiVersion": template["apiVersion"],
            "kind": "ResourceClaim",
            "metadata": {
                "generateName": _base(pod_name, pod_claim),
                "namespace": namespace,
                "annotations": {**annotations_of(spec), POD_CLAIM: pod_claim},
                **({"labels": labels_of(spec)} if labels_of(spec) else {}),
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": pod_name, "uid": uid, "controller": True}
                ],
            },
            "spec": spec["spec"],
        }
        return name_of(self._cluster.create(claim))

    # --- tidying up --------------------------------------------------------------------------------------------------

    def _tidy(self, key: Key, claim: Object) -> None:
        """Remove reservations of pods that no longer exist, then the claim itself if no pod needs it."""
        status = status_of(claim)
        users = status.get("reservedFor") or []
        # Only pods are checked, because other consumers are unknown here.
        valid = [user for user in users if user.get("resource") != "pods" or user.get("uid") in self._pods]
        namespace, name = key
        if len(valid) < len(users) or (status.get("allocation") is not None and not valid):
            # In the same write, so that devices are never allocated without a reservation.
            left: dict[str, Any] = {"reservedFor": valid} if valid else {"reservedFor": None, "allocation": None}
            claim = self._cluster.patch("ResourceClaim", name, namespace, {"status": left}, "status")
            self._wrote = True
        if valid:
            return
        held = metadata_of(claim).get("finalizers") or []
        # This finalizer keeps the claim while it has devices.
        if CLAIM_FINALIZER in held and status_of(claim).get("allocation") is None:
            left = {"finalizers": [finalizer for finalizer in held if finalizer != CLAIM_FINALIZER] or None}
            claim = self._cluster.patch("ResourceClaim", name, namespace, {"metadata": left})
            self._wrote = True
        owner = _owner(claim)
        if owner and owner not in self._pods and not is_terminating(claim):
            self._cluster.delete("ResourceClaim", name, namespace)
            self._wrote = True


def _base(pod: str, pod_claim: str) -> str:
    """``pod-claim-``, with both parts cut in proportion if it is too long."""
    base = f"{pod}-{pod_claim}-"
    if len(base) <= _LONGEST:
        return base
    return f"{pod[: len(pod) * _LONGEST // len(base)]}-{pod_claim[: len(pod_claim) * _LONGEST // len(base)]}"


def _owner(claim: Object) -> str:
    """UID of the pod that a claim was created for, else ""."""
    for reference in owner_references(claim):
        if reference.get("kind") == "Pod" and reference.get("controller"):
            return str(reference["uid"])
    return ""
