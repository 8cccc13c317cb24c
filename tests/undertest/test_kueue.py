"""What the real Kueue decides on a real control plane, kube-scheduler placing: quota, borrowing, reclaim, gangs.

It is found and never got here: a build takes a quarter of an hour and more. `kailab components get --with kueue` makes these tests run, and
so does KAILAB_REQUIRE_BUILD=1 in tests/components/test_addons.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kailab.cluster.protocol import Object
from kailab.components import MissingComponents, find_addon
from kailab.evidence.recorder import Recorder
from kailab.lab import Lab, expect
from kailab.lab.venues import open_venue
from kailab.lab.venues.contract import Venue
from tests.undertest.test_kueue_words import job

pytestmark = pytest.mark.slow

EXERCISES = Path(__file__).parents[2] / "exercises"
QUEUES = EXERCISES / "borrow" / "manifests" / "queues.yaml"
RECLAIM = EXERCISES / "reclaim" / "manifests"


@pytest.fixture(scope="module")
def venue(components: object) -> Iterator[Venue]:
    try:
        find_addon("kueue")
    except MissingComponents as missing:
        pytest.skip(str(missing))
    opened = open_venue("controlplane", scheduler="kueue")
    yield opened
    opened.close()


@pytest.fixture
def bare(venue: Venue) -> Iterator[Lab]:
    """32 GPUs, and no queues yet."""
    with Lab.open(backend="controlplane", scheduler="kueue", venue=venue, observers=[Recorder("lab")]) as opened:
        yield opened


@pytest.fixture
def lab(bare: Lab) -> Lab:
    """team-a and team-b own half of the GPUs each."""
    bare.apply(QUEUES)
    return bare


def of(team: str, name: str, pods: int = 1, together: int | None = None, **labels: str) -> Object:
    """A Job that runs until it is deleted, on the fleet's fake nodes."""
    made = job(name, pods, together, **{"app": name, "kai.scheduler/queue": team, **labels})
    spec = made["spec"]["template"]["spec"]
    spec["terminationGracePeriodSeconds"] = 0
    spec["tolerations"] = [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]
    made["spec"]["template"]["metadata"]["labels"]["app"] = name
    return made


def queue(name: str, gpus: int, parent: str = "") -> Object:
    """Of which nothing but GPUs is bounded."""
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    spec = {"resources": {"gpu": {**free, "quota": gpus}, "cpu": free, "memory": free}}
    above = {"parentQueue": parent} if parent else {}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": {**above, **spec},
    }


def test_quota_and_what_nobody_uses(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(32)])
    expect(lab.queue("team-a")).running(gpus=32).borrows(gpus=16, from_queue="team-b")


def test_what_is_lent_comes_back(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(32)])
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply([of("team-b", f"b-{number}") for number in range(32)])
    expect(lab.queue("team-b")).running(gpus=16)
    expect(lab.queue("team-a")).running(gpus=16).evicted(pods=16, by="reclaim", for_queue="team-b")


def test_a_gang_runs_whole_or_not_at_all(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}") for number in range(28)])
    lab.apply([of("team-a", "gang", 8, together=8)])
    expect(lab.job("gang")).running(pods=0)
    for number in range(4):
        lab.delete("Job", f"a-{number}")
    expect(lab.job("gang")).runs_whole(pods=8)


def test_non_preemptible_work_stays_within_its_quota(lab: Lab) -> None:
    lab.apply([of("team-a", f"a-{number}", priorityClassName="build") for number in range(20)])
    expect(lab.queue("team-a")).running(gpus=16)


def many(team: str, app: str, count: int) -> list[Object]:
    """A Job for each pod: Kueue admits and preempts Jobs as wholes."""
    return [of(team, f"{app}-{number}") for number in range(count)]


def test_a_department_helps_its_own_first(bare: Lab) -> None:
    """Two departments of 16 GPUs, team-a and team-b share the first. The owner takes from its sister, whose department is within its own;
    the other department notices nothing."""
    bare.apply(RECLAIM / "queues-departments.yaml", many("team-a", "a", 16), many("team-c", "c", 16))
    expect(bare).running(gpus=32)
    bare.apply(many("team-b", "b", 8))
    expect(bare.queue("team-b")).running(gpus=8)
    expect(bare.queue("team-a")).running(gpus=8).evicted(pods=8, by="reclaim", for_queue="team-b")
    expect(bare.queue("team-c")).running(gpus=16).not_evicted()


def test_a_department_gets_its_quota_back_from_another(bare: Lab) -> None:
    bare.apply(RECLAIM / "queues-departments.yaml", many("team-a", "a", 32))
    expect(bare.queue("dept-1")).running(gpus=32)
    bare.apply(many("team-c", "c", 16))
    expect(bare.queue("team-c")).running(gpus=16)
    expect(bare.queue("dept-1")).running(gpus=16).evicted(pods=16, by="reclaim", for_queue="team-c")


def test_what_a_department_is_lent_its_teams_share_alike(bare: Lab) -> None:
    """Three levels: of 32 GPUs 20 are d1's (12 and 8 of its teams) and 12 are d2's, who asks for them last. Meanwhile each team of d1 has
    half of them beside its own."""
    # Step by step: what was a leaf when it was applied is none any more.
    bare.apply([queue("root", 32), queue("d1", 20, "root"), queue("d2", 12, "root")])
    bare.apply([queue("t11", 12, "d1"), queue("t12", 8, "d1"), queue("t21", 12, "d2")])
    bare.apply(many("t11", "a", 32))
    expect(bare.queue("t11")).running(gpus=32)
    bare.apply(many("t12", "b", 20))
    expect(bare.queue("t12")).running(gpus=14)
    expect(bare.queue("t11")).running(gpus=18)
    bare.apply(many("t21", "c", 20))
    expect(bare.queue("t21")).running(gpus=12)
    expect(bare.queue("t12")).running(gpus=8)
    expect(bare.queue("t11")).running(gpus=12)


def test_who_comes_later_has_its_weight_in_what_nobody_owns(bare: Lab) -> None:
    """4 GPUs are each team's, the other 24 are shared 3:1. team-b has taken all 32."""
    bare.apply(QUEUES.with_name("queues-weights.yaml"), many("team-b", "b", 32))
    expect(bare.queue("team-b")).running(gpus=32)
    bare.apply(many("team-a", "a", 32))
    expect(bare.queue("team-a")).running(gpus=22)
    expect(bare.queue("team-b")).running(gpus=10)


def test_a_flood_is_waited_for_until_kueue_is_done_with_it(lab: Lab) -> None:
    """Bare pods, each with a Workload of its own: Kueue admits 32 of them long before it lets the last of these go."""
    pods = []
    for number in range(60):
        template = of("team-a", f"a-{number}")["spec"]["template"]
        template["metadata"]["name"] = f"a-{number}"
        template["metadata"]["labels"] |= {"kai.scheduler/queue": "team-a", "priorityClassName": "train"}
        pods.append({"apiVersion": "v1", "kind": "Pod", **template})
    lab.apply(pods)
    lab.settle()
    assert sum(bool(pod["spec"].get("nodeName")) for pod in lab.get("pods")) == 32


def test_its_version_is_told(lab: Lab) -> None:
    assert lab.venue.versions(lab.under_test)["scheduler"] == "kueue v0.19.2"
