"""A release of KAI by its chart on a kind cluster: it schedules, takes back, and goes without a trace.

Needs a folder with the chart and its images, which ``KAILAB_KAI_CHART`` names; the release is that of its images.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.helm import find_helm
from kailab.components import ComponentSet
from kailab.errors import ConnectError
from kailab.lab import Lab, expect
from kailab.lab.venues import Venue, open_venue
from kailab.undertest.kai import installation
from kailab.undertest.kai.chart import CHART_ENV, packed_files, read_image_archive

pytestmark = pytest.mark.slow

_RESOURCES = "{gpu: {quota: 16, limit: -1}, cpu: {quota: -1, limit: -1}, memory: {quota: -1, limit: -1}}"
QUEUES = f"""\
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: team-a}}
spec: {{resources: {_RESOURCES}}}
---
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {{name: team-b}}
spec: {{resources: {_RESOURCES}}}
"""
WORK = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: 8
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}, kai.scheduler/queue: {queue}, priorityClassName: train}}}}
    spec:
      schedulerName: kai-scheduler
      tolerations: [{{key: kwok.x-k8s.io/node, operator: Exists, effect: NoSchedule}}]
      containers: [{{name: main, image: none, resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}}}]
"""


@pytest.fixture
def release() -> str:
    folder = os.environ.get(CHART_ENV)
    if not folder:
        pytest.skip(f"no chart of KAI with its images here: {CHART_ENV} names no folder")
    try:
        find_helm()
    except ConnectError as error:
        pytest.skip(str(error))
    names = [
        name
        for path in packed_files(Path(folder))
        if (found := read_image_archive(path)) is not None
        for name in found.images
    ]
    return next(name.rpartition(":")[2] for name in names if "/scheduler:" in name)


@pytest.fixture
def venue(components: ComponentSet, release: str, tmp_path: Path) -> Iterator[Venue]:
    made = open_venue("kind", folder=tmp_path / "room", scheduler=f"kai@{release}")
    try:
        yield made
    finally:
        made.close()


def test_it_decides_and_goes_without_a_trace(venue: Venue, release: str, tmp_path: Path) -> None:
    with Lab.open(backend="kind", venue=venue, scheduler=f"kai@{release}") as lab:
        for name, content in (
            ("queues.yaml", QUEUES),
            ("borrower.yaml", WORK.format(name="borrower", queue="team-a", gpus=4)),
            ("owner.yaml", WORK.format(name="owner", queue="team-b", gpus=2)),
        ):
            (tmp_path / name).write_text(content)
        lab.apply(tmp_path / "queues.yaml")
        lab.apply(tmp_path / "borrower.yaml")
        expect(lab.queue("team-a")).running(gpus=32)
        lab.apply(tmp_path / "owner.yaml")
        expect(lab.queue("team-b")).running(gpus=16)
        expect(lab.queue("team-a")).running(gpus=16)
        assert installation.installed_release(lab.cluster) == release
    # Another decides, in the same cluster: nothing of it is left, and the kinds are kailab's own.
    with Lab.open(backend="kind", venue=venue, scheduler="kailab") as lab:
        assert installation.installed_release(lab.cluster) == ""
        assert lab.cluster.list("Pod", "kai-scheduler") == []
        assert list(installation.webhooks_of_chart(lab.cluster)) == []
        roles = [role["metadata"]["name"] for role in lab.cluster.list("ClusterRole")]
        assert [name for name in roles if name.startswith("kai-")] == []
        assert all(
            crd["metadata"]["labels"]["kailab.dev/installed-by"]
            for crd in installation.definitions_of_chart(lab.cluster)
        )
        lab.apply(tmp_path / "queues.yaml")
        lab.apply(tmp_path / "borrower.yaml")
        expect(lab.queue("team-a")).running(gpus=32)
