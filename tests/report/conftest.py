"""A run to report on, as pytest leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.run import RunFolder
from kailab.lab import Lab

MANIFESTS = Path(__file__).parents[2] / "exercises" / "reclaim" / "manifests"
SENTENCE = "The owner <b>gets</b> its share & the borrower gives it back."
MESSAGE = 'expected </script><img src=x onerror="document.title=1"> and saw another'


def reclaimed(scheduler: str = "kailab", owner: int = 16) -> Recorder:
    """An owner takes its share back from a borrower: so many GPUs of it."""
    recorder = Recorder()
    with Lab.open(observers=[recorder], scheduler=scheduler) as lab:
        lab.apply(MANIFESTS / "queues.yaml", MANIFESTS / "borrower.yaml")
        lab.settle()
        manifest = MANIFESTS / "owner.yaml"
        lab.apply(manifest if owner == 16 else _asking(manifest, owner))
        lab.settle()
        lab.noted_expectation("queue team-b", "queue team-b: 16 GPUs <running>", "16 Running (16 GPUs)", True)
    return recorder


def _asking(manifest: Path, replicas: int) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(manifest.read_text())
    found["spec"]["replicas"] = replicas
    return found


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tests, of which one failed."""
    folder = RunFolder.begin(tmp_path_factory.mktemp("evidence"))
    recorder, other = reclaimed(), reclaimed("kube-scheduler")
    folder.write(
        "fair", "test_reclaim", lambda at: write_test(at, "fair/test_reclaim", [recorder], "passed", "", SENTENCE)
    )
    folder.write("fair", "test_default", lambda at: write_test(at, "fair/test_default", [other], "failed", MESSAGE))
    folder.finish({"kailab": "0"}, {})
    return folder.path
