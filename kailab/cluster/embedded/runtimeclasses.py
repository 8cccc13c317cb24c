"""What a RuntimeClass puts on the pods that name it when they are created: its overhead, and the nodes that have its runtime.

Source: Kubernetes' RuntimeClass admission plugin. It refuses a pod whose class is not there; here such a pod is taken, because work
is often tried without the classes of its cluster, and ``kailab.lab.references`` tells it when it is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kailab.cluster.embedded.storage.store import Store
from kailab.cluster.protocol import Object
from kailab.errors import Forbidden
from kailab.model.quantities import parse


def with_runtime_class(store: Store, spec: Object, name: str) -> Object:
    """The pod spec with what its class adds; the same object where that is nothing. Raises Forbidden."""
    wanted = spec.get("runtimeClassName")
    overhead = spec.get("overhead")
    if not wanted:
        if overhead:
            raise Forbidden(f"Pod {name!r}: spec.overhead: is the RuntimeClass's to give, and the pod names none")
        return spec
    found = store.table("RuntimeClass").objects.get(("", wanted))
    if found is None:
        return spec
    added: Object = {}
    given = (found.get("overhead") or {}).get("podFixed") or {}
    if overhead and _amounts(overhead) != _amounts(given):
        raise Forbidden(f"Pod {name!r}: spec.overhead: is not the overhead of RuntimeClass {wanted!r}; leave it out")
    if given:
        added["overhead"] = given
    scheduling = found.get("scheduling") or {}
    if nodes := scheduling.get("nodeSelector"):
        own = spec.get("nodeSelector") or {}
        for key, value in nodes.items():
            if own.get(key, value) != value:
                raise Forbidden(
                    f"Pod {name!r}: spec.nodeSelector[{key}]: is {own[key]!r}, and RuntimeClass {wanted!r} asks for {value!r}"
                )
        added["nodeSelector"] = {**own, **nodes}
    if tolerations := scheduling.get("tolerations"):
        own = spec.get("tolerations") or []
        added["tolerations"] = [*own, *(one for one in tolerations if one not in own)]
    return {**spec, **added} if added else spec


def _amounts(overhead: Mapping[str, Any]) -> dict[str, Any]:
    return {name: parse(amount) for name, amount in overhead.items()}
