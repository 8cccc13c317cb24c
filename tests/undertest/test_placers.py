"""Schedulers that place pods by queues of their own, each on a real control plane: quota, borrowing, reclaim and gangs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.protocol import Object
from kailab.components import ADDONS, MissingComponents
from kailab.errors import InputError
from kailab.evidence.recorder import Recorder
from kailab.lab import Lab, at_least, at_most, eventually, expect
from kailab.lab.venues import open_venue
from kailab.lab.venues.contract import Venue
from kailab.undertest.contract import NotExpressible
from kailab.undertest.selection import choose_scheduler

pytestmark = pytest.mark.slow

EXERCISES = Path(__file__).parents[2] / "exercises"
QUEUES = EXERCISES / "borrow" / "manifests" / "queues.yaml"
CONTENDERS = ("scheduler-plugins", "yunikorn", "volcano")
EVICTS_TOO_MANY = ("scheduler-plugins",)
"""Each pod that wants its room back counts what the others are still to get, too (SelectVictimsOnNode), so that more goes than is asked
for: docs/other-schedulers.md."""


@pytest.fixture(scope="module", params=CONTENDERS)
def contender(request: pytest.FixtureRequest) -> str:
    """Found and never got here: it takes minutes to build."""
    name: str = request.param
    try:
        choose_scheduler(name).check_options()
    except (MissingComponents, InputError) as missing:
        pytest.skip(str(missing))
    return name


@pytest.fixture(scope="module")
def venue(components: object, contender: str) -> Iterator[Venue]:
    opened = open_venue("controlplane", scheduler=contender)
    yield opened
    opened.close()


@pytest.fixture
def lab(venue: Venue, contender: str) -> Iterator[Lab]:
    """32 GPUs; team-a and team-b own half of them each."""
    with Lab.open(backend="controlplane", scheduler=contender, venue=venue, observers=[Recorder("lab")]) as opened:
        opened.apply(QUEUES)
        yield opened


def job(app: str, team: str, pods: int, gang: bool = False, name: str = "") -> Object:
    """Pods of one GPU each, preemptible as Jobs are to KAI."""
    labels = {"app": app, "kai.scheduler/queue": team}
    spec = {
        "schedulerName": "kai-scheduler",
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "containers": [
            {
                "name": "work",
                "image": "busybox:1.36",
                "resources": {"requests": {"cpu": "100m"}, "limits": {"nvidia.com/gpu": 1}},
            }
        ],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name or app,
            "labels": labels,
            **({"annotations": {"kai.scheduler/batch-min-member": str(pods)}} if gang else {}),
        },
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def jobs(app: str, team: str, count: int) -> list[Object]:
    """A Job for each pod. One Job that has lost many pods holds back new ones for minutes, and Volcano takes back no more for one than
    makes it a whole gang."""
    return [job(app, team, 1, name=f"{app}-{number}") for number in range(count)]


def test_a_queue_that_owns_half_gets_half(lab: Lab) -> None:
    """Both ask for all they own at the same time."""
    lab.apply([job("a", "team-a", 16), job("b", "team-b", 16)])
    expect(lab.queue("team-a")).running(gpus=16)
    expect(lab.queue("team-b")).running(gpus=16)


def test_idle_quota_is_lent_and_comes_back(lab: Lab, contender: str) -> None:
    """A holds all 32; B asks for what it owns, and has it in the end."""
    lab.apply(jobs("a", "team-a", 32))
    expect(lab.queue("team-a")).running(gpus=32).borrows(gpus=16, from_queue="team-b")

    lab.apply(jobs("b", "team-b", 16))
    expect(lab.queue("team-b")).running(gpus=16)
    if contender in EVICTS_TOO_MANY:
        expect(lab.queue("team-a")).running(gpus=at_most(16))
        expect(lab.app("a")).evicted(pods=at_least(16))
        # What was taken beyond that comes back, when the Jobs make their pods anew.
        eventually(lambda: expect(lab.queue("team-a")).running(gpus=16), within=300)
    else:
        expect(lab.queue("team-a")).running(gpus=16)
        expect(lab.app("a")).evicted(pods=16)
    expect(lab.queue("team-b")).running(gpus=16).not_evicted()


def test_an_eviction_says_for_whose_queue(lab: Lab, contender: str) -> None:
    """YuniKorn says it, of the others nothing more is known than that they evict."""
    lab.apply([job("a", "team-a", 32)])
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply(jobs("b", "team-b", 16))
    expect(lab.queue("team-b")).running(gpus=16)
    if contender == "yunikorn":
        expect(lab.app("a")).evicted(pods=16, by="reclaim", for_queue="team-b")
    else:
        expect(lab.app("a")).evicted(pods=at_least(16), by="preempt")


def test_a_limit_holds_even_if_capacity_is_free(lab: Lab) -> None:
    lab.apply(EXERCISES / "borrow" / "manifests" / "queues-limit.yaml", [job("a", "team-a", 16)])
    expect(lab.queue("team-a")).running(gpus=12)


def test_a_limit_of_nothing_lets_nothing_in(lab: Lab, contender: str) -> None:
    """A queue of which no resources are said has a limit of 0, which Volcano can't be told."""
    given = [EXERCISES / "quota" / "manifests" / "queue-without-resources.yaml", job("a", "team-a", 1)]
    if contender == "volcano":
        with pytest.raises(NotExpressible, match="limit of 0"):
            lab.apply(*given)
    else:
        lab.apply(*given)
        lab.settle()
        expect(lab.queue("team-a")).running(gpus=0).pending(pods=1)


def test_a_gang_runs_whole_or_not_at_all(lab: Lab) -> None:
    """28 of 32 are held: of a gang of 8 nothing runs, until 4 more are free."""
    lab.apply([job("stays", "team-a", 24), job("leaves", "team-a", 4)])
    expect(lab.queue("team-a")).running(gpus=28)
    lab.apply([job("gang", "team-a", 8, gang=True)])
    expect(lab.app("gang")).running(pods=0)

    lab.delete("Job", "leaves")
    expect(lab.app("gang")).running(pods=8)


def test_what_is_refused_leaves_nothing_behind(lab: Lab, contender: str) -> None:
    with pytest.raises(InputError, match="namespace"):
        lab.apply([job("a", "team-a", 1), {**job("b", "team-a", 1), "metadata": {"name": "b", "namespace": "nowhere"}}])
    expect(lab.queue("team-a")).running(pods=0)


def test_its_version_is_reported(lab: Lab, contender: str) -> None:
    told = lab.venue.versions(lab.under_test)["scheduler"]
    assert re.match(rf"^{contender} v\d+\.\d+\.\d+", told)
    if contender in ADDONS:
        assert told == f"{contender} {ADDONS[contender][0].version}"
