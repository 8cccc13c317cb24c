"""Objects for labs, in the few shapes that these tests need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests import builders

Build = Callable[..., dict[str, Any]]


@pytest.fixture
def queue() -> Build:
    def build(name: str, quota: int, limit: int = -1, parent: str = "", weight: int = 1) -> dict[str, Any]:
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        spec: dict[str, Any] = {
            "resources": {
                "gpu": {"quota": quota, "limit": limit, "overQuotaWeight": weight},
                "cpu": free,
                "memory": free,
            }
        }
        if parent:
            spec["parentQueue"] = parent
        return {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": spec}

    return build


@pytest.fixture
def job() -> Build:
    return builders.job
