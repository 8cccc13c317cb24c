"""The objects that a pod requires: PersistentVolumeClaims and ConfigMaps.

A pod whose ConfigMap or PersistentVolumeClaim does not exist fits no node. Source: KAI predicates ConfigMapPredicate and VolumeBinding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kailab.cluster.protocol import Object
from kailab.cluster.volumes import claim_of_volume
from kailab.model.objects import annotations_of, name_of, namespace_of

_SHARED_GPU = "runai/shared-gpu-configmap"
REFERENCED_KINDS = ("ConfigMap", "PersistentVolumeClaim")


class ObjectReference(NamedTuple):
    kind: str
    namespace: str
    name: str


def referenced_objects(pod: Object) -> tuple[ObjectReference, ...]:
    """The objects that must exist before the pod is placed. Most pods need none."""
    spec = pod["spec"]
    volumes = spec.get("volumes")
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    if not volumes and not any("env" in c or "envFrom" in c for c in containers):
        return ()
    namespace = namespace_of(pod)
    shared = annotations_of(pod).get(_SHARED_GPU)
    mounted = {mount.get("name") for c in containers for mount in c.get("volumeMounts") or ()}
    references = []
    for volume in volumes or ():
        if claim := claim_of_volume(volume, name_of(pod)):
            references.append(ObjectReference("PersistentVolumeClaim", namespace, claim))
        # As in KAI's ConfigMapPredicate, a volume that no container mounts is not required.
        if volume.get("name") in mounted:
            references.extend(ObjectReference("ConfigMap", namespace, name) for name in _volume_maps(volume))
    for container in containers:
        references.extend(ObjectReference("ConfigMap", namespace, name) for name in _env_maps(container))
    return tuple(sorted({ref for ref in references if ref.name and not _is_shared(ref.name, shared)}))


def missing_message(missing: ObjectReference) -> str:
    if missing.kind == "ConfigMap":
        return f"Missing required configmaps: [{missing.name}]"
    return f'persistentvolumeclaim "{missing.name}" not found'


def _is_shared(name: str, shared: str | None) -> bool:
    """Whether it is the ConfigMap that KAI's binder makes when it binds the pod."""
    return bool(shared) and name.startswith(str(shared))


def _volume_maps(volume: Mapping[str, Any]) -> Iterator[str]:
    sources = [volume.get("configMap")]
    sources += [source.get("configMap") for source in (volume.get("projected") or {}).get("sources") or ()]
    return (source.get("name", "") for source in sources if source and not source.get("optional"))


def _env_maps(container: Mapping[str, Any]) -> Iterator[str]:
    sources = [(entry.get("valueFrom") or {}).get("configMapKeyRef") for entry in container.get("env") or ()]
    sources += [entry.get("configMapRef") for entry in container.get("envFrom") or ()]
    return (source.get("name", "") for source in sources if source and not source.get("optional"))
