"""What an API server would refuse: field checks of one object by itself, and advice about it.

``validate`` gives faults, ``advise`` gives what is allowed but probably not meant. Both take any object that
has apiVersion, kind and metadata, whatever its fields hold, and never raise. They check what kailab reads;
fields it does not know are not judged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kailab.model import objects, typed
from kailab.model.validation import core, operators
from kailab.model.validation.devices import (
    check_device_class,
    check_resource_claim,
    check_resource_claim_template,
    check_resource_slice,
)
from kailab.model.validation.fields import Fault, Faults
from kailab.model.validation.hints import advise_work
from kailab.model.validation.metadata import check_metadata
from kailab.model.validation.nodes import check_node
from kailab.model.validation.pods import check_pod
from kailab.model.validation.scheduling import (
    advise_podgroup,
    advise_queue,
    check_podgroup,
    check_priority_class,
    check_queue,
    check_topology,
)
from kailab.model.validation.workloads import (
    check_cron_job,
    check_daemon_set,
    check_job,
    check_leader_worker_set,
    check_ray_cluster,
    check_replicated,
    check_training_job,
)

__all__ = ["Fault", "advise", "validate", "validate_status"]

MOST_TOLD = 25  # faults of one object
_CHECKS: dict[str, Callable[[Faults, dict[str, Any]], None]] = {
    "Pod": check_pod,
    "Node": check_node,
    "Queue": check_queue,
    "PodGroup": check_podgroup,
    "Topology": check_topology,
    "PriorityClass": check_priority_class,
    "Deployment": check_replicated,
    "ReplicaSet": check_replicated,
    "StatefulSet": check_replicated,
    "DaemonSet": check_daemon_set,
    "Job": check_job,
    "CronJob": check_cron_job,
    "PyTorchJob": check_training_job,
    "TFJob": check_training_job,
    "XGBoostJob": check_training_job,
    "JAXJob": check_training_job,
    "MPIJob": check_training_job,
    "LeaderWorkerSet": check_leader_worker_set,
    "RayCluster": check_ray_cluster,
    "ResourceClaim": check_resource_claim,
    "ResourceClaimTemplate": check_resource_claim_template,
    "DeviceClass": check_device_class,
    "ResourceSlice": check_resource_slice,
    "PaddleJob": check_training_job,
}
# What kailab decodes of a kind. The decoder judges the types of all that the checks leave out.
_SHAPES: dict[str, type[msgspec.Struct]] = {
    "Pod": objects.Pod,
    "Node": objects.Node,
    "Queue": objects.QueueObject,
    "PodGroup": objects.PodGroupObject,
    "Topology": objects.TopologyObject,
    "PriorityClass": objects.PriorityClass,
    "ResourceClaim": objects.ResourceClaim,
    "ResourceClaimTemplate": objects.ResourceClaimTemplate,
    "DeviceClass": objects.DeviceClass,
    "ResourceSlice": objects.ResourceSlice,
}
_ADVICE: dict[str, Callable[[Faults, dict[str, Any]], None]] = {
    "Queue": advise_queue,
    "PodGroup": advise_podgroup,
}


def validate(obj: dict[str, Any], kind: str) -> list[Fault]:
    """What is wrong with an object: (field path, message), in the order of the checks. Empty: nothing.

    ``kind`` is the kind key. Field paths read ``spec.containers[0].resources.limits[nvidia.com/gpu]``.
    """
    faults = Faults()
    check_metadata(faults, obj, kind)
    check = _CHECKS.get(kind)
    if check is not None:
        check(faults, obj)
    if not faults.found:
        of_kind = operators.of_kind(kind) or core.of_kind(kind)
        if of_kind is not None:
            faults.found.extend(of_kind(obj) or ())
    if not faults.found:
        _check_shape(faults, obj, _SHAPES.get(kind, objects.AnyObject))
    if len(faults.found) > MOST_TOLD:
        more = Fault("", f"and {len(faults.found) - MOST_TOLD} more faults")
        return [*faults.found[:MOST_TOLD], more]
    return faults.found


def validate_status(status: Any, kind: str) -> list[Fault]:
    """As ``validate``, of a status by itself."""
    check = core.of_status(kind)
    return (check(status) if check is not None else None) or []


def _check_shape(faults: Faults, obj: dict[str, Any], shape: type[msgspec.Struct]) -> None:
    """Whatever passes can be decoded: no reader of the object needs to think of wrong types."""
    try:
        typed.convert(obj, shape)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$")
        faults.add(place.rstrip("`").lstrip("."), message.replace("`", ""))


def advise(obj: dict[str, Any], kind: str) -> list[Fault]:
    """What is allowed but likely a mistake, for an object without faults."""
    faults = Faults()
    advise_work(faults, obj)
    check = _ADVICE.get(kind)
    if check is not None:
        check(faults, obj)
    return faults.found
