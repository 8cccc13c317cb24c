"""What KAI's chart is told, so that it fits clusters of fake GPUs, and what it then makes: its objects, the images that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from kailab.cluster.helm import Release
from kailab.errors import InputError
from kailab.undertest.kai.chart.source import NAME, ChartSource
from kailab.undertest.kai.dialects import Dialect

RELEASE = Release(NAME, NAME)
_OPERATOR = (0, 9, 0)
"""Since then the chart installs an operator, which starts the others as a Config says."""

_REAL_NODES = [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}]
"""What KAI's own pods tolerate: a cluster may have no other real node. Fake nodes have taints of their own."""

_EVICTED = "update-pod-eviction-condition"
_CONFIG = "Config"


def values(source: ChartSource) -> dict[str, Any]:
    """For the chart of this release. A chart passes over what it does not know."""
    registry, tag = source.registry
    common: dict[str, Any] = {"leaderElection": False, "gpuSharing": True, "tolerations": _REAL_NODES}
    if registry:
        common |= {"registry": registry, "tag": tag}
    found: dict[str, Any] = {
        "global": common,
        # Labs bring their queues, and these would take part in what they share.
        "defaultQueue": {"createDefaultQueue": False},
        # A runtime class that only nodes with NVIDIA's runtime have: no pod with a part of a GPU could be made.
        "admission": {"gpuPodRuntimeClassName": "", "gpuFractionRuntimeClassName": ""},
    }
    if source.dialect.number < _OPERATOR:
        found["binder"] = {"additionalArgs": ["--fake-gpu-nodes=true"]}
        told = shard_arguments(source.dialect)
        found["scheduler"] = {"additionalArgs": [f"--{flag}={value}" for flag, value in told.items()]}
    return found


def has_operator(dialect: Dialect) -> bool:
    return dialect.number >= _OPERATOR


def shard_arguments(dialect: Dialect, flags: Mapping[str, str] | None = None) -> dict[str, str]:
    """Flags of the scheduler, by name. ``flags``: further ones."""
    # The condition that an eviction leaves on its pod is how a lab sees that it was one.
    own = {_EVICTED: "true"} if dialect.has_flag("scheduler", _EVICTED) else {}
    return {**own, **(flags or {})}


def check_images(source: ChartSource, objects: list[dict[str, Any]]) -> None:
    """Raises InputError where archives were given, and lack an image that these objects need."""
    if not source.archives:
        return
    lacking = sorted(set(images_of(objects)) - source.images)
    if lacking:
        there = ", ".join(sorted(source.images))
        raise InputError(
            f"the image archives beside the chart lack {', '.join(lacking)}; they have {there}. Save each by its name: "
            f"docker save -o FILE.tar {lacking[0]}"
        )


def images_of(objects: list[dict[str, Any]]) -> Iterator[str]:
    """Those that run on real nodes: of containers, and of what an operator is told to start."""
    for obj in objects:
        yield from _of_containers(obj)
        if obj.get("kind") == _CONFIG:
            yield from _of_services(obj.get("spec") or {})
        elif obj.get("kind") == "ConfigMap":
            # Newer charts have the operator's Config applied by a Job, from a file.
            for text in (obj.get("data") or {}).values():
                yield from _of_services(_config_in(text))


def _config_in(text: str) -> Mapping[str, Any]:
    if f"kind: {_CONFIG}" not in text:
        return {}
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return found.get("spec") or {} if isinstance(found, dict) and found.get("kind") == _CONFIG else {}


def _of_containers(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inside in value.items():
            if key in ("containers", "initContainers") and isinstance(inside, list):
                yield from (str(one["image"]) for one in inside if isinstance(one, Mapping) and one.get("image"))
            else:
                yield from _of_containers(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _of_containers(inside)


def _of_services(spec: Mapping[str, Any]) -> Iterator[str]:
    for part in spec.values():
        service = part.get("service") if isinstance(part, Mapping) else None
        # Its default is off for those that are only there on demand.
        if not isinstance(service, Mapping) or service.get("enabled") is not True:
            continue
        image = service.get("image") or {}
        if image.get("repository") and image.get("name"):
            yield f"{image['repository']}/{image['name']}:{image.get('tag', 'latest')}"
