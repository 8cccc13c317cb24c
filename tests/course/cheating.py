"""Changes of a student's files that make pods run without solving the task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from kailab.model.manifests import load_text
from kailab.model.validation.advice import pod_templates
from kailab.model.yamltext import write_documents

_SHARES = ("gpu-fraction", "gpu-memory")


def rewrite(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """``change``: of each pod that the file's objects are or describe."""
    objects = load_text(file.read_text()).objects
    for obj in objects:
        for _, pod in pod_templates(obj):
            change(pod)
    file.write_text(write_documents(objects))


def without_gpus(pod: dict[str, Any]) -> None:
    for container in pod["spec"]["containers"]:
        for asked in (container.get("resources") or {}).values():
            for name in [one for one in asked if one.startswith("nvidia.com/")]:
                del asked[name]
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    for name in _SHARES:
        annotations.pop(name, None)


def on_a_node_by_name(pod: dict[str, Any]) -> None:
    pod["spec"]["nodeName"] = "h100-0"
