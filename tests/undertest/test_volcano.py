"""KAI's words in those of Volcano, as its documents use them (capacity plugin, PodGroups); and a folder of its programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kailab.cluster.protocol import Object
from kailab.errors import InputError
from kailab.lab import Lab
from kailab.undertest.contract import EvictionCondition, NotExpressible
from kailab.undertest.selection import choose_scheduler
from kailab.undertest.volcano import FOLDER_ENV, PROGRAMS, find_volcano
from tests.undertest.translated import said

VOLCANO = choose_scheduler("volcano")
VERSION = "scheduling.volcano.sh/v1beta1"


def own(objects: list[Object], kind: str) -> dict[str, Object]:
    """Volcano's objects of a kind, by name."""
    return {obj["metadata"]["name"]: obj for obj in objects if (obj["apiVersion"], obj["kind"]) == (VERSION, kind)}


def test_a_queue_deserves_its_quota_in_the_same_tree(lab: Lab) -> None:
    """quota -> deserved. What has no bound is all that there is: what is not named is not deserved."""
    queues = own(said(VOLCANO, lab, "reclaim/manifests/queues-departments.yaml"), "Queue")
    assert queues["team-a"]["spec"]["parent"] == "dept-1"
    assert "parent" not in queues["dept-1"]["spec"]
    deserved = queues["team-a"]["spec"]["deserved"]
    assert (deserved["nvidia.com/gpu"], deserved["cpu"]) == ("8", str(5 * 96))
    assert "capability" not in queues["team-a"]["spec"]


def test_kais_queues_stay_each_before_its_own(lab: Lab) -> None:
    kinds = [
        (obj["apiVersion"].partition("/")[0], obj["metadata"]["name"])
        for obj in said(VOLCANO, lab, "borrow/manifests/queues.yaml")
    ]
    assert kinds[:4] == [
        ("scheduling.run.ai", "org"),
        ("scheduling.volcano.sh", "org"),
        ("scheduling.run.ai", "team-a"),
        ("scheduling.volcano.sh", "team-a"),
    ]


def test_a_limit_is_a_capability_and_a_priority_a_priority(lab: Lab) -> None:
    limited = own(said(VOLCANO, lab, "borrow/manifests/queues-limit.yaml"), "Queue")
    assert limited["team-a"]["spec"]["capability"] == {"nvidia.com/gpu": "12"}
    ranked = own(said(VOLCANO, lab, "borrow/manifests/queues-priority.yaml"), "Queue")
    assert [ranked[name]["spec"]["priority"] for name in ("team-a", "team-b")] == [200, 100]


@pytest.mark.parametrize(("work", "preemptable"), [("a-train.yaml", "true"), ("plain-deployment.yaml", "false")])
def test_work_names_its_queue_and_whether_it_may_be_preempted(lab: Lab, work: str, preemptable: str) -> None:
    *_, workload = said(VOLCANO, lab, "borrow/manifests/queues.yaml", f"borrow/manifests/{work}")
    template = workload["spec"]["template"]
    assert template["spec"]["schedulerName"] == "volcano"
    assert template["metadata"]["annotations"] == {
        "scheduling.volcano.sh/queue-name": "team-a",
        "volcano.sh/preemptable": preemptable,
    }


def test_a_gang_is_a_pod_group_before_its_pods(lab: Lab) -> None:
    *_, group, job = said(VOLCANO, lab, "gang/manifests/queues.yaml", "gang/manifests/gang-of-10.yaml")
    assert group == {
        "apiVersion": VERSION,
        "kind": "PodGroup",
        "metadata": {"name": "job-gang", "namespace": "default", "annotations": {"volcano.sh/preemptable": "true"}},
        "spec": {"minMember": 10, "queue": "team-a", "priorityClassName": "train"},
    }
    assert job["spec"]["template"]["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == "job-gang"


def test_a_gang_written_by_hand_is_translated_once(lab: Lab) -> None:
    objects = said(VOLCANO, lab, "gang/manifests/queues.yaml", "gang/manifests/ring.yaml")
    assert own(objects, "PodGroup")["ring"]["spec"]["minMember"] == 4
    assert len([obj for obj in objects if obj["kind"] == "PodGroup"]) == 2  # KAI's, and its own
    pods = [obj["metadata"]["annotations"]["scheduling.k8s.io/group-name"] for obj in objects if obj["kind"] == "Pod"]
    assert pods == ["ring"] * 4


@pytest.mark.parametrize(
    ("paths", "concept", "about"),
    [
        (["borrow/manifests/queues-weights.yaml"], "weight for what is over the quota", "Queue/team-a"),
        (["reclaim/manifests/queues-protected.yaml"], "minimum run time", "Queue/team-a"),
        (["quota/manifests/queue-without-resources.yaml"], "limit of 0 for cpu", "Queue/team-a"),
        (
            ["quota/manifests/queues.yaml", "quota/manifests/lost.yaml"],
            "work in a queue that there is not",
            "Pod/no-label",
        ),
    ],
)
def test_concepts_that_it_lacks_are_refused(lab: Lab, paths: list[str], concept: str, about: str) -> None:
    with pytest.raises(NotExpressible, match=f"^{about}: not expressible for volcano, which has no {concept}"):
        said(VOLCANO, lab, *paths)


def test_its_conditions_are_parsed() -> None:
    assert VOLCANO.eviction("volcano: preempting to accommodate a higher priority pod") == EvictionCondition(
        "preempt", ""
    )
    assert VOLCANO.eviction("Pod was deleted by hand") is None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """As one that was built: two programs, and definitions in two files."""
    monkeypatch.delenv(FOLDER_ENV, raising=False)
    made = tmp_path / "volcano-v1.2.3"
    (made / "crds").mkdir(parents=True)
    for name in PROGRAMS:
        (made / name).write_text("#!/bin/sh\necho 'API Version: x'\necho 'Version: v1.15.1'\n")
        (made / name).chmod(0o755)
    names = [
        "queues.scheduling.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "jobs.batch.volcano.sh",
        "jobflows.flow.volcano.sh",
        "jobtemplates.flow.volcano.sh",
    ]
    definitions = [{"kind": "CustomResourceDefinition", "metadata": {"name": name}} for name in names]
    (made / "crds" / "a.yaml").write_text(yaml.safe_dump_all(definitions[:3]))
    (made / "crds" / "b.yaml").write_text(yaml.safe_dump_all(definitions[3:]))
    return made


def test_a_folder_is_found_and_says_its_version(folder: Path) -> None:
    found = find_volcano(folder)
    assert (len(found.crds), found.version()) == (5, "v1.15.1")
    assert choose_scheduler(f"volcano={folder}").option("volcano") == str(folder)


def test_one_that_says_nothing_is_called_by_its_folder(folder: Path) -> None:
    (folder / "scheduler").write_text("#!/bin/sh\nexit 1\n")
    assert find_volcano(folder).version() == "v1.2.3 (by its folder's name)"


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (
            "scheduler",
            "is not there; a Volcano consists of these programs in one folder: scheduler, controller-manager",
        ),
        ("crds/b.yaml", "has no CRD jobflows.flow.volcano.sh; a lab with Volcano needs it"),
    ],
)
def test_a_missing_part_is_reported(folder: Path, missing: str, told: str) -> None:
    (folder / missing).unlink()
    with pytest.raises(InputError, match=told):
        choose_scheduler(f"volcano={folder}").check_options()


def test_without_a_folder_it_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER_ENV, raising=False)
    with pytest.raises(InputError, match="the scheduler volcano needs the folder of its programs: volcano=DIR"):
        VOLCANO.check_options()
