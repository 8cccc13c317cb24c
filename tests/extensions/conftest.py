"""Distributions that bring something for kailab, as an installer leaves them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kailab.engine.policies import contract

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec: {resources: {gpu: {quota: 8, limit: 8, overQuotaWeight: 1}}}
"""
POD = """---
apiVersion: v1
kind: Pod
metadata: {name: PODNAME, labels: {kai.scheduler/queue: team}}
spec:
  schedulerName: kai-scheduler
  containers: [{name: c, image: i, resources: {limits: {nvidia.com/gpu: GPUS}}}]
"""


def pods(**gpus: int) -> str:
    return QUEUE + "".join(POD.replace("PODNAME", name).replace("GPUS", str(wanted)) for name, wanted in gpus.items())


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes a distribution as an installer leaves it: ``bring("acme", "[kailab.policies]\\nx = acme_x:X", acme_x="...")``."""

    monkeypatch.setattr(contract, "_registered", dict(contract._registered))
    brought: list[str] = []

    def make(distribution: str, points: str, version: str = "1.2", **modules: str) -> Path:
        site = tmp_path / distribution
        info = site / f"{distribution}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(points)
        brought.extend(modules)
        for name, text in modules.items():
            (site / f"{name}.py").write_text(text)
        monkeypatch.syspath_prepend(site)
        return site

    yield make
    for name in brought:
        sys.modules.pop(name, None)
