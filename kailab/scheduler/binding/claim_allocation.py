"""ResourceClaims on their way to a node: devices allocated and the claim reserved for its pods, before those are bound.

The engine decides on the node by counting devices; which ones a claim gets is decided here, and written to the claim's status
as kube-scheduler writes it: first the finalizer that keeps a claim in use from being deleted, then allocation and
reservations, each only on the state of the claim that was decided on. Devices that a claim may have been given, because no
answer said so, are nobody else's until the cluster tells of the claim.

What becomes of claims afterwards is the work of Kubernetes' resourceclaim controller (in the embedded cluster
``kailab.workloads.resourceclaims``): it makes them from templates, takes back the reservations of pods that have gone or ended,
and frees devices that nobody has reserved. Left to a scheduler is to take back what it reserved for pods that it then could
not bind. Source: resource.k8s.io/v1, kube-scheduler's DynamicResources plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from kailab.cluster.protocol import Cluster, Object
from kailab.cluster.writes import PatchWrite
from kailab.engine.snapshot.devices import DeviceChoice, DeviceId, choose_devices, device_id
from kailab.engine.working.claims import MOST_HOLDERS
from kailab.errors import ApiError, Invalid, NotFound
from kailab.model.labels import CLAIM_FINALIZER
from kailab.scheduler.binding.preparation import Binding
from kailab.scheduler.reading.claims import DeviceInventory, held_devices, read_device_requests

Key: TypeAlias = tuple[str, str]
_NOTHING: Mapping[str, Any] = {}


class _Change:
    """What one claim is to become."""

    def __init__(self, claim: Object) -> None:
        self.claim = claim
        status = claim.get("status") or _NOTHING
        self.allocation: Mapping[str, Any] | None = status.get("allocation")
        self.reserved: list[Mapping[str, Any]] = list(status.get("reservedFor") or ())
        self.chosen: list[DeviceChoice] = []
        self.pods: list[str] = []  # that depend on it in this round

    def finalizers(self) -> list[str] | None:
        """As they have to be; None where they are."""
        before = list(self.claim["metadata"].get("finalizers") or ())
        after = [name for name in before if name != CLAIM_FINALIZER] + (
            [CLAIM_FINALIZER] if self.allocation is not None else []
        )
        return None if sorted(before) == sorted(after) else after

    def status(self) -> dict[str, Any]:
        return {"allocation": self.allocation, "reservedFor": self.reserved or None}


class ClaimAllocator:
    """Allocates at bind."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._watch = cluster.watch(("DeviceClass", "ResourceSlice", "ResourceClaim"))
        self._inventory = DeviceInventory()
        self._classes: dict[str, Object] = {}
        self._claims: dict[Key, Object] = {}
        self._taken: dict[DeviceId, Key] = {}
        self._perhaps: dict[Key, list[DeviceId]] = {}  # what a claim may have been given: the next news of it says
        self._users: dict[str, dict[Key, None]] = {}  # pod UID -> claims reserved for it

    # --- before binding ----------------------------------------------------------------------------------------------

    def prepare(self, bindings: Sequence[Binding]) -> dict[str, ApiError]:
        """Allocate and reserve the claims of these pods."""
        # Most cycles bind no pod with claims: then not even the watch is looked at.
        if not any(binding.pod["spec"].get("resourceClaims") for binding in bindings):
            return {}
        self._take()
        refused: dict[str, ApiError] = {}
        changes: dict[Key, _Change] = {}
        taken: dict[DeviceId, None] = {}
        for binding in bindings:
            try:
                # One pod after the other: devices planned for an earlier one are taken for the later ones.
                self._plan(binding, changes, taken)
            except ApiError as error:
                refused[binding.uid] = error
        return refused | self._write(changes)

    def undo(self, pods: Iterable[str]) -> None:
        """Take back what is reserved for pods that were not bound, and free what nobody else has reserved."""
        self._release(pods)

    def step(self) -> bool:
        self._take()
        return False

    def close(self) -> None:
        self._watch.close()

    def _plan(self, binding: Binding, changes: dict[Key, _Change], taken: dict[DeviceId, None]) -> None:
        """Add what one pod needs to what is to be written: all of it, or nothing. Raises ApiError."""
        planned: list[tuple[Key, _Change, Mapping[str, Any] | None, list[DeviceChoice]]] = []
        own: dict[DeviceId, None] = {}
        for key in self._names(binding):
            # Pods of one round may share a claim: the later one finds it as the earlier one leaves it.
            change = changes.get(key)
            if change is None:
                claim = self._claims.get(key)
                if claim is None:
                    raise NotFound(f"resourceclaim {key[0]}/{key[1]} not found")
                if "deletionTimestamp" in claim["metadata"]:
                    raise Invalid(f"resourceclaim {key[0]}/{key[1]} is being deleted")
                change = _Change(claim)
            if len(change.reserved) >= MOST_HOLDERS:
                raise Invalid(
                    f"resourceclaim {key[0]}/{key[1]} is reserved for {MOST_HOLDERS} pods, the most there may be"
                )
            allocation, chosen = change.allocation, list[DeviceChoice]()
            if allocation is None:
                chosen = self._choose(key, change.claim, binding.node, taken | own)
                # Administrative access takes a device from nobody.
                own.update((device_id(choice.device), None) for choice in chosen if not choice.admin)
                allocation = self._allocation(change.claim, chosen, binding.node)
            planned.append((key, change, allocation, chosen))
        # Only now, with all claims of the pod planned: a pod that lacks one of them takes nothing from the others.
        taken.update(own)
        metadata = binding.pod["metadata"]
        consumer = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        for key, change, allocation, chosen in planned:
            change.allocation, change.chosen = allocation, change.chosen or chosen
            if all(user.get("uid") != consumer["uid"] for user in change.reserved):
                change.reserved.append(consumer)
            change.pods.append(binding.uid)
            changes[key] = change

    def _names(self, binding: Binding) -> list[Key]:
        """The claims of a pod. Raises NotFound for one that is still to be made."""
        pod = binding.pod
        namespace = pod["metadata"]["namespace"]
        made = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or _NOTHING).get("resourceClaimStatuses") or ()
        }
        found = []
        for wanted in pod["spec"].get("resourceClaims") or ():
            name = wanted.get("resourceClaimName") or made.get(wanted["name"])
            if name:
                found.append((namespace, name))
            # A status without a name says that there is deliberately no claim: the pod needs none.
            elif wanted["name"] not in made:
                template = wanted.get("resourceClaimTemplateName")
                raise NotFound(f"its resource claim {wanted['name']} has not been made from template {template} yet")
        return list(dict.fromkeys(found))

    def _choose(self, key: Key, claim: Object, node: str, taken: Mapping[DeviceId, None]) -> list[DeviceChoice]:
        # A write without an answer may have given these away: nobody else gets them until the watch tells.
        perhaps = {device for other, devices in self._perhaps.items() if other != key for device in devices}

        def is_taken(device: DeviceId) -> bool:
            # What this very claim was given already is no obstacle to it.
            return device in taken or device in perhaps or self._taken.get(device, key) != key

        wanted = read_device_requests(claim.get("spec") or _NOTHING, self._classes)
        chosen = choose_devices(wanted, self._inventory.on(node), is_taken)
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
        # By field and not by label, as for all devices of one node: the hostname label may differ from the name.
        at = {"key": "metadata.name", "operator": "In", "values": [node]}
        return {"devices": devices, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [at]}]}}

    def _config(self, claim: Object) -> list[dict[str, Any]]:
        """What drivers are to be told: of the classes first, so that the claim has the last word."""
        spec = (claim.get("spec") or _NOTHING).get("devices") or _NOTHING
        found = []
        for request in spec.get("requests") or ():
            wish = request.get("exactly") or request
            device_class = self._classes.get(wish.get("deviceClassName") or "", _NOTHING)
            for entry in (device_class.get("spec") or _NOTHING).get("config") or ():
                found.append({**entry, "source": "FromClass", "requests": [request["name"]]})
        return found + [{**entry, "source": "FromClaim"} for entry in spec.get("config") or ()]

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, changes: Mapping[Key, _Change]) -> dict[str, ApiError]:
        """By UID, the pods of which a claim could not be written. The finalizer comes on before the allocation."""
        refused: dict[str, ApiError] = {}
        guarded: dict[Key, _Change] = {}
        versions: dict[Key, str] = {key: change.claim["metadata"]["resourceVersion"] for key, change in changes.items()}
        wanting = {key: names for key, change in changes.items() if (names := change.finalizers()) is not None}
        chains = [[_finalizers(key, names, versions[key])] for key, names in wanting.items()]
        # Of a claim without its finalizer nothing is allocated: deleted in between, its devices would be free and in
        # use at once.
        for key, outcome in zip(wanting, self._cluster.write_all(chains), strict=True):
            if outcome.error is not None:
                refused.update(dict.fromkeys(changes[key].pods, outcome.error))
                guarded[key] = changes[key]
            # This write has moved the version on: the next one is made on the state after it.
            elif (written := outcome.objects[0]) is not None:
                versions[key] = written["metadata"]["resourceVersion"]
        self._take()  # from here on news is news of the allocation
        going = {key: change for key, change in changes.items() if key not in guarded}
        for key, error in self._write_status(going, versions).items():
            refused.update(dict.fromkeys(changes[key].pods, error))
        return refused

    def _write_status(self, changes: Mapping[Key, _Change], versions: Mapping[Key, str]) -> dict[Key, ApiError]:
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
                if outcome.error.doubtful:
                    chosen = changes[key].chosen
                    given = [device_id(choice.device) for choice in chosen if not choice.admin]
                    # Added to, not replaced: an earlier try in doubt may have been carried out instead of this one.
                    self._perhaps.setdefault(key, []).extend(given)
        return failed

    def _release(self, leaving: Iterable[str]) -> bool:
        """Take reservations back. What is refused is news to come, or the controller's to do."""
        pods = dict.fromkeys(leaving)
        if not pods:
            return False
        self._take()
        changes: dict[Key, _Change] = {}
        reserved = [key for uid in pods for key in self._users.get(uid, ())]
        for key in dict.fromkeys(reserved):
            claim = self._claims.get(key)
            if claim is None:
                continue
            change = changes[key] = _Change(claim)
            # Devices that nobody has reserved are free: left allocated, they would wait for the controller.
            change.reserved = [user for user in change.reserved if user.get("uid") not in pods]
            if not change.reserved:
                change.allocation = None
        if not changes:
            return False
        versions = {key: change.claim["metadata"]["resourceVersion"] for key, change in changes.items()}
        # The reverse of allocating: the finalizer goes last, when nothing is allocated any more.
        failed = self._write_status(changes, versions)
        self._take()
        freed = {
            key: names
            for key, change in changes.items()
            if key not in failed and key in self._claims and (names := change.finalizers()) is not None
        }
        current = {key: self._claims[key]["metadata"]["resourceVersion"] for key in freed}
        self._cluster.write_all([[_finalizers(key, names, current[key])] for key, names in freed.items()])
        return len(failed) < len(changes)

    # --- what the watch says -----------------------------------------------------------------------------------------

    def _take(self) -> None:
        for event in self._watch.poll():
            gone, obj = event.type == "DELETED", event.object
            if event.kind == "ResourceSlice":
                self._inventory.take(obj, gone)
            elif event.kind == "DeviceClass":
                self._classes.pop(obj["metadata"]["name"], None)
                if not gone:
                    self._classes[obj["metadata"]["name"]] = obj
            else:
                self._claim(obj, gone)

    def _claim(self, claim: Object, gone: bool) -> None:
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        before = self._claims.pop(key, None)
        self._perhaps.pop(key, None)
        if before is not None:
            for device in held_devices(before):
                # News of two claims may come in either order: the device may be the next one's already.
                if self._taken.get(device) == key:
                    del self._taken[device]
            for user in _users(before):
                self._users.get(user, {}).pop(key, None)
                if not self._users.get(user, True):
                    del self._users[user]
        if gone:
            return
        self._claims[key] = claim
        self._taken.update(dict.fromkeys(held_devices(claim), key))
        for user in _users(claim):
            self._users.setdefault(user, {})[key] = None


def _finalizers(key: Key, names: Sequence[str], version: str) -> PatchWrite:
    metadata = {"finalizers": list(names) or None, "resourceVersion": version}
    return PatchWrite("ResourceClaim", key[1], key[0], {"metadata": metadata})


def _users(claim: Object) -> list[str]:
    return [str(user["uid"]) for user in (claim.get("status") or _NOTHING).get("reservedFor") or () if user.get("uid")]
