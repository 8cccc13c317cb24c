"""Allocates ResourceClaims before their pods are bound: chooses devices and reserves the claims for the pods.

The engine picks the node by counting devices. ``ClaimAllocator`` picks the devices and writes the claim's status as kube-scheduler does:
first the finalizer that protects a claim in use, then allocation and reservations, each with a resourceVersion precondition. After a write
without an answer, its devices stay taken until the watch reports the claim.

Kubernetes' resourceclaim controller (embedded: ``kailab.workloads.resourceclaims``) does the rest: it makes claims from templates, removes
the reservations of ended pods, and frees devices that nobody reserves. The scheduler only takes back reservations for pods that it could
not bind. Source: resource.k8s.io/v1, kube-scheduler's DynamicResources plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.writes import PatchWrite
from kailab.engine.snapshot.devices import DeviceChoice, DeviceId, choose_devices, device_id
from kailab.engine.working.claims import MOST_HOLDERS
from kailab.errors import ApiError, Invalid, NotFound
from kailab.model.labels import CLAIM_FINALIZER
from kailab.model.objects import (
    Key,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    reserving_pods,
    spec_of,
    status_of,
    uid_of,
)
from kailab.scheduler.binding import Binding
from kailab.scheduler.reading.claims import DeviceInventory, held_devices, made_claims, read_device_requests

_NOTHING: Mapping[str, Any] = {}


class _ClaimUpdate:
    """The planned state of one claim."""

    def __init__(self, claim: Object) -> None:
        self.claim = claim
        status = status_of(claim)
        self.allocation: Mapping[str, Any] | None = status.get("allocation")
        self.reserved: list[Mapping[str, Any]] = list(status.get("reservedFor") or ())
        self.chosen: list[DeviceChoice] = []
        self.pods: list[str] = []  # UIDs of pods of this round that need it

    def finalizers(self) -> list[str] | None:
        """The finalizers to write; None if they are right."""
        before = list(metadata_of(self.claim).get("finalizers") or ())
        after = [name for name in before if name != CLAIM_FINALIZER] + (
            [CLAIM_FINALIZER] if self.allocation is not None else []
        )
        return None if sorted(before) == sorted(after) else after

    def status(self) -> dict[str, Any]:
        return {"allocation": self.allocation, "reservedFor": self.reserved or None}


class ClaimAllocator:
    """Allocates claims when their pods are bound (a ``Preparation``)."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watch = cluster.watch(("DeviceClass", "ResourceSlice", "ResourceClaim"))
        self._inventory = DeviceInventory()
        self._classes: dict[str, Object] = {}
        self._claims: dict[Key, Object] = {}
        self._taken: dict[DeviceId, Key] = {}
        # The devices of writes without an answer, until the next event of the claim.
        self._unanswered: dict[Key, list[DeviceId]] = {}
        self._users: dict[str, dict[Key, None]] = {}  # pod UID -> claims reserved for it

    # --- before binding ----------------------------------------------------------------------------------------------

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """Allocate and reserve the claims of these pods. Returns the errors of pods that can't be bound, by UID."""
        # Most cycles bind no pod with claims; they do not even poll the watch.
        if not any(binding.pod["spec"].get("resourceClaims") for binding in bindings):
            return {}
        self._take()
        refused: dict[str, ApiError] = {}
        changes: dict[Key, _ClaimUpdate] = {}
        taken: dict[DeviceId, None] = {}
        for binding in bindings:
            try:
                # In order: later pods can't have devices planned for earlier ones.
                self._plan(binding, changes, taken)
            except ApiError as error:
                refused[binding.uid] = error
        return refused | self._write(changes)

    def refusals(self, pod: Object, nodes: Iterable[str]) -> dict[str, ApiError]:
        """The nodes on which the claims of a pod can't be allocated, each with the error. Nothing is reserved."""
        self._take()
        found: dict[str, ApiError] = {}
        for node in nodes:
            try:
                self._plan(Binding(pod, node), {}, {})
            except ApiError as error:
                found[node] = error
        return found

    def step(self) -> bool:
        self._take()
        return False

    def close(self) -> None:
        self._watch.close()

    def _plan(self, binding: Binding, changes: dict[Key, _ClaimUpdate], taken: dict[DeviceId, None]) -> None:
        """Plan all claims of one pod, or none of them. Raises ApiError."""
        planned: list[tuple[Key, _ClaimUpdate, Mapping[str, Any] | None, list[DeviceChoice]]] = []
        chosen_here: dict[DeviceId, None] = {}
        for key in self._names(binding):
            # Pods of one round may share a claim: each continues from the plan of the one before.
            change = changes.get(key)
            if change is None:
                claim = self._claims.get(key)
                if claim is None:
                    raise NotFound(f"resourceclaim {key[0]}/{key[1]} not found")
                if is_terminating(claim):
                    raise Invalid(f"resourceclaim {key[0]}/{key[1]} is being deleted")
                change = _ClaimUpdate(claim)
            if len(change.reserved) >= MOST_HOLDERS:
                raise Invalid(
                    f"resourceclaim {key[0]}/{key[1]} is reserved for {MOST_HOLDERS} pods, the most there may be"
                )
            allocation, chosen = change.allocation, list[DeviceChoice]()
            if allocation is None:
                chosen = self._choose(key, change.claim, binding.node, taken | chosen_here)
                # A request with admin access does not use the device up.
                chosen_here.update((device_id(choice.device), None) for choice in chosen if not choice.admin)
                allocation = self._allocation(change.claim, chosen, binding.node)
            planned.append((key, change, allocation, chosen))
        # Devices are taken after all claims of the pod are planned, because a pod that lacks one of them takes nothing.
        taken.update(chosen_here)
        consumer = {"resource": "pods", "name": name_of(binding.pod), "uid": uid_of(binding.pod)}
        for key, change, allocation, chosen in planned:
            change.allocation, change.chosen = allocation, change.chosen or chosen
            if all(user.get("uid") != consumer["uid"] for user in change.reserved):
                change.reserved.append(consumer)
            change.pods.append(binding.uid)
            changes[key] = change

    def _names(self, binding: Binding) -> list[Key]:
        """The claims of a pod. Raises NotFound for a claim that does not exist yet."""
        pod = binding.pod
        namespace = namespace_of(pod)
        claim_names = made_claims(pod)
        keys = []
        for wanted in pod["spec"].get("resourceClaims") or ():
            name = wanted.get("resourceClaimName") or claim_names.get(wanted["name"])
            if name:
                keys.append((namespace, name))
            # A status without a name says that the pod needs no claim.
            elif wanted["name"] not in claim_names:
                template = wanted.get("resourceClaimTemplateName")
                raise NotFound(f"its resource claim {wanted['name']} has not been made from template {template} yet")
        return list(dict.fromkeys(keys))

    def _choose(self, key: Key, claim: Object, node: str, taken: Mapping[DeviceId, None]) -> list[DeviceChoice]:
        unanswered = {device for other, devices in self._unanswered.items() if other != key for device in devices}

        def is_taken(device: DeviceId) -> bool:
            # This claim may keep a device that it already has.
            return device in taken or device in unanswered or self._taken.get(device, key) != key

        requests = read_device_requests(spec_of(claim), self._classes)
        chosen = choose_devices(requests, self._inventory.on(node), is_taken)
        if isinstance(chosen, str):
            raise Invalid(f"resourceclaim {key[0]}/{key[1]} can't be allocated on node {node}: {chosen}")
        return chosen

    def _allocation(self, claim: Object, chosen: Sequence[DeviceChoice], node: str) -> dict[str, Any]:
        results = []
        for choice in chosen:
            result: dict[str, Any] = {
                "request": choice.request,
                "driver": choice.device.driver,
                "pool": choice.device.pool,
                "device": choice.device.name,
            }
            if choice.admin:
                result["adminAccess"] = True
            results.append(result)
        devices: dict[str, Any] = {"results": results}
        config = self._config(claim)
        if config:
            devices["config"] = config
        # By field, not by label: the hostname label may differ from the node's name.
        at = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [at]}]}}

    def _config(self, claim: Object) -> list[dict[str, Any]]:
        """The configuration for drivers: that of the classes first, so that the claim's overrides it."""
        spec = spec_of(claim).get("devices") or _NOTHING
        entries = []
        for request in spec.get("requests") or ():
            wish = request.get("exactly") or request
            device_class = self._classes.get(wish.get("deviceClassName") or "", _NOTHING)
            for entry in spec_of(device_class).get("config") or ():
                entries.append({**entry, "source": "FromClass", "requests": [request["name"]]})
        return entries + [{**entry, "source": "FromClaim"} for entry in spec.get("config") or ()]

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, changes: Mapping[Key, _ClaimUpdate]) -> dict[str, ApiError]:
        """Write the finalizers, then allocations and reservations. Returns the errors of pods whose claim could not be written, by UID."""
        refused: dict[str, ApiError] = {}
        unprotected: set[Key] = set()
        versions = _versions(changes)
        wanting = {key: names for key, change in changes.items() if (names := change.finalizers()) is not None}
        chains = [[_finalizers(key, names, versions[key])] for key, names in wanting.items()]
        # Without the finalizer nothing is allocated: if the claim were deleted in between, its devices would be free and in use at once.
        for key, outcome in zip(wanting, self._cluster.write_all(chains), strict=True):
            if outcome.error is not None:
                refused.update(dict.fromkeys(changes[key].pods, outcome.error))
                unprotected.add(key)
            # The write has changed the version that the next one requires.
            elif (written := outcome.objects[0]) is not None:
                versions[key] = metadata_of(written)["resourceVersion"]
        self._take()  # events after this are about the allocation
        protected = {key: change for key, change in changes.items() if key not in unprotected}
        for key, error in self._write_status(protected, versions).items():
            refused.update(dict.fromkeys(changes[key].pods, error))
        return refused

    def _write_status(self, changes: Mapping[Key, _ClaimUpdate], versions: Mapping[Key, str]) -> dict[Key, ApiError]:
        chains = [
            [
                PatchWrite(
                    "ResourceClaim",
                    name,
                    namespace,
                    {"metadata": {"resourceVersion": versions[namespace, name]}, "status": change.status()},
                    "status",
                )
            ]
            for (namespace, name), change in changes.items()
        ]
        failed: dict[Key, ApiError] = {}
        for key, outcome in zip(changes, self._cluster.write_all(chains), strict=True):
            if outcome.error is not None:
                failed[key] = outcome.error
                if outcome.error.unanswered:
                    chosen = changes[key].chosen
                    devices = [device_id(choice.device) for choice in chosen if not choice.admin]
                    # Extended, not replaced: the server may have carried out an earlier unanswered write instead.
                    self._unanswered.setdefault(key, []).extend(devices)
        return failed

    def undo(self, pods: Iterable[str]) -> None:
        """Remove the reservations of pods that were not bound, and free devices that nobody else reserves. Refused writes are left to the
        watch and the resourceclaim controller."""
        pods = dict.fromkeys(pods)
        if not pods:
            return
        self._take()
        changes: dict[Key, _ClaimUpdate] = {}
        reserved = [key for uid in pods for key in self._users.get(uid, ())]
        for key in dict.fromkeys(reserved):
            claim = self._claims.get(key)
            if claim is None:
                continue
            change = changes[key] = _ClaimUpdate(claim)
            # Free unreserved devices at once instead of waiting for the controller.
            change.reserved = [user for user in change.reserved if user.get("uid") not in pods]
            if not change.reserved:
                change.allocation = None
        # The finalizer goes last, when nothing is allocated any more.
        failed = self._write_status(changes, _versions(changes))
        self._take()
        freed = {
            key: names
            for key, change in changes.items()
            if key not in failed and key in self._claims and (names := change.finalizers()) is not None
        }
        current = {key: metadata_of(self._claims[key])["resourceVersion"] for key in freed}
        self._cluster.write_all([[_finalizers(key, names, current[key])] for key, names in freed.items()])

    # --- watch events -------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        for event in self._watch.poll():
            deleted, obj = event.type == "DELETED", event.object
            if event.kind == "ResourceSlice":
                self._inventory.process_slice(obj, deleted)
            elif event.kind == "DeviceClass":
                self._classes.pop(name_of(obj), None)
                if not deleted:
                    self._classes[name_of(obj)] = obj
            else:
                self._claim(obj, deleted)

    def _claim(self, claim: Object, deleted: bool) -> None:
        key = (namespace_of(claim), name_of(claim))
        before = self._claims.pop(key, None)
        self._unanswered.pop(key, None)
        if before is not None:
            for device in held_devices(before):
                # Events of two claims may arrive in either order: the device may already belong to the other one.
                if self._taken.get(device) == key:
                    del self._taken[device]
            for user in reserving_pods(before):
                self._users.get(user, {}).pop(key, None)
                if not self._users.get(user, True):
                    del self._users[user]
        if deleted:
            return
        self._claims[key] = claim
        self._taken.update(dict.fromkeys(held_devices(claim), key))
        for user in reserving_pods(claim):
            self._users.setdefault(user, {})[key] = None


def _versions(changes: Mapping[Key, _ClaimUpdate]) -> dict[Key, str]:
    return {key: metadata_of(change.claim)["resourceVersion"] for key, change in changes.items()}


def _finalizers(key: Key, names: Sequence[str], version: str) -> PatchWrite:
    metadata = {"finalizers": list(names) or None, "resourceVersion": version}
    return PatchWrite("ResourceClaim", key[1], key[0], {"metadata": metadata})
