"""Real KAIs of several releases, each on a control plane of its own, through the same exercise: quota, borrow, reclaim, gang.

``KAILAB_KAI_RELEASES`` names their folders, one after the other as in PATH; each is called for its release or says it.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kailab.lab import Lab, expect
from kailab.undertest.kai.folder import KaiFolder, find_kai
from kailab.undertest.kai.releases import features_by_marks, marks_of

pytestmark = pytest.mark.slow

RELEASES_ENV = "KAILAB_KAI_RELEASES"
FOLDERS = [Path(one).absolute() for one in os.environ.get(RELEASES_ENV, "").split(os.pathsep) if one]
EXERCISES = Path(__file__).parents[2] / "exercises"
RECLAIM, GANG, SHARING = (EXERCISES / name / "manifests" for name in ("reclaim", "gang", "sharing"))
ABSENT = pytest.param(None, id="none", marks=pytest.mark.skip(f"no real KAIs here: {RELEASES_ENV} names no folders"))


@pytest.fixture(scope="module", params=[pytest.param(one, id=one.name) for one in FOLDERS] or [ABSENT])
def kai(request: pytest.FixtureRequest) -> KaiFolder:
    return find_kai(request.param)


@pytest.fixture
def lab(kai: KaiFolder, components: object) -> Iterator[Lab]:
    with Lab.open(backend="controlplane", scheduler=f"kai={kai.path}") as opened:
        yield opened


def test_its_programs_tell_the_release_that_its_folder_says(kai: KaiFolder) -> None:
    dialect, told = features_by_marks(marks_of(kai.binaries))
    assert dialect.number <= kai.dialect.number, told
    assert dialect.crds == kai.dialect.crds
    assert dialect.kueue_topology == kai.dialect.kueue_topology


def test_lent_capacity_comes_back_when_its_owner_asks(lab: Lab) -> None:
    lab.apply(RECLAIM / "queues.yaml", RECLAIM / "borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply(RECLAIM / "owner.yaml")
    expect(lab.queue("team-b")).running(gpus=16)
    expect(lab.queue("team-a")).running(gpus=16)
    expect(lab.queue("team-a")).evicted(pods=16, by="reclaim", for_queue="team-b")


def test_a_gang_waits_whole_and_starts_whole(lab: Lab, kai: KaiFolder) -> None:
    """A PodGroup says so in every release; for a Job ``batch-min-member`` does, since v0.14.1."""
    lab.apply(GANG / "queues.yaml", GANG / "filler.yaml")
    lab.settle()
    lab.apply(_podgroup(), [_member(number) for number in range(10)])
    expect(lab.app("squad")).running(pods=0)
    lab.apply(GANG / "gang-of-10.yaml")
    job = yaml.safe_load((GANG / "gang-of-10.yaml").read_text())
    knows = kai.dialect.ignored_words(job) == []
    expect(lab.job("gang")).running(pods=0 if knows else 8)
    lab.delete("Job", "gang")
    lab.delete("Deployment", "filler")
    expect(lab.app("squad")).running(pods=10)


def test_parts_of_gpus_are_packed(lab: Lab, kai: KaiFolder) -> None:
    """Pods of one template, each of which KAI's webhook gives a ConfigMap of its own where the binder asks for it."""
    if kai.dialect.pod_webhook not in (None, *kai.binaries):
        pytest.skip(f"{kai.path} lacks the program {kai.dialect.pod_webhook}, whose webhook this release needs")
    lab.apply(SHARING / "queues.yaml", SHARING / "quarters.yaml")
    expect(lab.app("quarter")).running(pods=10, gpus=2.5).sharing(devices=3)
    lab.delete("Deployment", "quarter")
    expect(lab).no_pods()


def _podgroup() -> list[dict]:
    spec = {"queue": "team-a", "minMember": 10, "priorityClassName": "train"}
    return [
        {"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": "squad"}, "spec": spec}
    ]


def _member(number: int) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"squad-{number}",
            "labels": {"app": "squad", "kai.scheduler/queue": "team-a"},
            "annotations": {"pod-group-name": "squad"},
        },
        "spec": {
            "schedulerName": "kai-scheduler",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "busybox", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
