"""Small objects for a real API server, and the patience to see what becomes of them."""

from __future__ import annotations

from collections.abc import Callable

import tenacity


def pod(name: str, **spec) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "main"}], **spec},
    }


def config_map(name: str, **data: str) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def soon(condition: Callable[[], bool]) -> None:
    tenacity.Retrying(
        retry=tenacity.retry_if_result(lambda holds: not holds),
        stop=tenacity.stop_after_delay(300),
        wait=tenacity.wait_fixed(0.02),
    )(condition)
