"""The pods that a manifest is or has, found by their containers, independently of the code under test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kailab.cluster.protocol import Object


def pod_templates(manifest: Object) -> Iterator[Object]:
    """The pod itself, or each pod template of a workload of any kind: an object with ``metadata`` and ``spec``."""
    yield from _below(manifest)


def _below(holder: Any) -> Iterator[Object]:
    if isinstance(holder, list):
        for entry in holder:
            yield from _below(entry)
    elif isinstance(holder, dict):
        spec = holder.get("spec")
        if isinstance(spec, dict) and "containers" in spec:
            holder.setdefault("metadata", {})
            yield holder
        else:
            for value in holder.values():
                yield from _below(value)
