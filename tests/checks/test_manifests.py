"""The comparison of an embedded lab with a control plane: cases are read, objects drawn, differences named and explained."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from checks.fuzzing.drawn_objects import BASES, draw
from checks.manifests.comparison import compare
from checks.manifests.manifest_case import read_cases
from checks.manifests.observation import Answer, Observation, observe

POD = "{apiVersion: v1, kind: Pod, metadata: {name: %s}, spec: {schedulerName: kai-scheduler, containers: [{name: a, image: x}]}}"


def test_a_folder_is_a_case_and_each_of_its_files_a_step(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.yaml").write_text(POD % "first")
    (tmp_path / "one" / "b.yaml").write_text(f"{POD % 'second'}\n---\n{POD % 'third'}\n")
    (tmp_path / "notes.md").write_text(f"Text\n\n```yaml\n{POD % 'fourth'}\n```\n")
    found = {
        case.id: [[obj["metadata"]["name"] for obj in step] for step in case.steps] for case in read_cases([tmp_path])
    }
    assert found == {"one": [["first"], ["second", "third"]], "notes": [["fourth"]]}


def test_the_same_lab_differs_from_itself_in_nothing(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text(
        "{apiVersion: v1, kind: ResourceQuota, metadata: {name: q}, spec: {hard: {pods: 1}}}\n---\n"
        f"{POD % 'a'}\n---\n{POD % 'b'}\n"
    )
    (case,) = read_cases([file])
    mine = observe(case, "embedded")
    assert [bool(answer.refused) for answer in mine.answers] == [False, False, True]
    assert mine.quotas == {"default/q": {"pods": "1"}}
    assert compare(mine, observe(case, "embedded")) == []


def test_a_difference_counts_unless_apply_has_told_it_or_it_is_accepted() -> None:
    here = Observation(
        [Answer("Pod/default/p")], pods={"Pod/default/p": Counter({"Running": 1})}, specs={"Pod/default/p": {}}
    )
    there = Observation(
        [Answer("Pod/default/p")], pods={"Pod/default/p": Counter({"Pending": 1})}, specs={"Pod/default/p": {}}
    )
    (difference,) = compare(here, there)
    assert str(difference) == "Pod/default/p: pods here: 1 Running; on the control plane: 1 Pending"
    assert not difference.explained
    here.answers = [Answer("Pod/default/p", warnings=("Pod/p: spec.x: kailab does not read it",))]
    assert [each.explained for each in compare(here, there)] == [True]
    refused = Observation([Answer("Service/default/s", refused="Service is invalid: spec.ports[0].protocol")])
    assert [each.reason for each in compare(Observation([Answer("Service/default/s")]), refused)] == [
        "nothing here acts on it, so few rules between its fields are checked"
    ]


def test_a_refusal_is_told_by_a_warning_of_its_own_field_alone() -> None:
    there = Observation(
        [Answer("Job/default/j", refused="Job is invalid: spec.template.spec.runtimeClassName: Invalid")]
    )
    for field, explained in (("template.spec.schedulerName", False), ("template.spec.runtimeClassName", True)):
        here = Observation([Answer("Job/default/j", warnings=(f"Job/j: spec.{field}: kailab does not read it",))])
        assert [each.explained for each in compare(here, there)] == [explained]


def test_equal_seeds_draw_equal_objects_and_many_seeds_draw_all_kinds() -> None:
    drawn = [draw(seed) for seed in range(300)]
    assert drawn[:20] == [draw(seed) for seed in range(20)]
    assert {obj["kind"] for obj in drawn} == set(BASES)


def test_a_case_gets_the_namespaces_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    pod = (POD % "a").replace("name: a}, spec", "name: a, namespace: team}, spec")
    file.write_text(f"{pod}\n---\n{POD % 'b'}\n")
    (case,) = read_cases([file])
    assert [[obj["metadata"]["name"] for obj in step] for step in case.steps] == [["team"], ["a", "b"]]
    assert [answer.refused for answer in observe(case, "embedded").answers] == ["", "", ""]


def test_a_warning_about_a_claim_explains_the_pods_that_use_it() -> None:
    said = "PersistentVolumeClaim/data: spec.storageClassName: there is no default StorageClass"
    claim = Answer("PersistentVolumeClaim/default/data", warnings=(said,))

    def differences(*names: str) -> list[bool]:
        pod = Answer("Pod/default/p", names=frozenset(names))
        here = Observation([claim, pod], pods={"Pod/default/p": Counter({"Running": 1})})
        there = Observation([claim, pod], pods={"Pod/default/p": Counter({"Pending": 1})})
        return [each.explained for each in compare(here, there)]

    assert (differences("data", "x"), differences("other")) == ([True], [False])


@pytest.mark.parametrize(("second", "explained"), [("2026-01-01T00:00:00Z", True), ("2026-01-01T00:00:01Z", False)])
def test_work_of_one_second_may_take_each_others_places(second: str, explained: bool) -> None:
    """A server draws uids at random, and KAI orders work of equal age and priority by them."""
    first, other = Counter({"Running": 1}), Counter({"Pending": 1})
    created = {"Pod/default/a": "2026-01-01T00:00:00Z", "Pod/default/b": second}
    here = Observation(pods={"Pod/default/a": first, "Pod/default/b": other}, created=created)
    there = Observation(pods={"Pod/default/a": other, "Pod/default/b": first}, created=created)
    assert [difference.explained for difference in compare(here, there)] == [explained] * 2


def test_work_of_one_second_that_runs_on_one_side_only_is_a_difference() -> None:
    created = dict.fromkeys(("Pod/default/a", "Pod/default/b"), "2026-01-01T00:00:00Z")
    here = Observation(pods={key: Counter({"Running": 1}) for key in created}, created=created)
    there = Observation(pods={key: Counter({"Pending": 1}) for key in created}, created=created)
    assert not any(difference.explained for difference in compare(here, there))
