"""What of the documents' manifests can be read as it is, and what is said of the rest.

Two of the web pages lost all indentation when their text was taken, and one shows a shape to be filled in: those
blocks are no manifests any more, and each must be refused with its line. The others must be read to the last object.
"""

from __future__ import annotations

from collections import Counter

import pytest

from kailab.errors import InputError
from kailab.model.kinds import KINDS
from kailab.model.manifests import from_objects, load_text
from kailab.model.yamltext import write_documents

READABLE = {"gangs": 13, "recipe": 4}

LOST = [
    pytest.param("course", "name: research-team", 12, "key 'quota' is given twice", id="course-queue-flattened"),
    pytest.param("course", "name: ml-team", 14, "key 'quota' is given twice", id="course-child-queue-flattened"),
    pytest.param("course", "name: gpu-pod", 3, "metadata: is missing", id="course-pod-flattened"),
    pytest.param(
        "lesson",
        "kind: Queue",
        1,
        "'<kai-queue-apiVersion>' is not valid",
        id="lesson-queue-flattened-and-a-shape-to-fill-in",
    ),
    pytest.param("policies", "kind: SchedulingPolicy", 12, "'strategy' is given twice", id="policies-policy-flattened"),
    pytest.param("policies", "name: llm-training", 9, "'spec' is given twice", id="policies-job-flattened"),
    pytest.param("policies", "kind: DeviceClass", 3, "metadata: is missing", id="policies-device-class-flattened"),
    pytest.param("policies", "name: dra-training", 3, "metadata: is missing", id="policies-claiming-pod-flattened"),
    pytest.param("policies", "name: inference-2", 3, "metadata: is missing", id="policies-shared-claim-flattened"),
]


def test_no_block_is_overlooked(documents):
    counts = {name: len(blocks) for name, blocks in documents.items()}
    assert counts == {**READABLE, **Counter(case.values[0] for case in LOST)}


def read(documents, name):
    return [load_text(block.text, f"{name}:{block.line}") for block in documents[name]]


def test_every_object_of_the_gang_document_is_read(documents):
    found = Counter(one.object["kind"] for manifests in read(documents, "gangs") for one in manifests)
    assert found == Counter(
        Pod=9, PriorityClass=3, Quota=2, ResourceQuota=2, SchedulingPolicy=2, PyTorchJob=1, Namespace=1, Service=1,
        ServiceMonitor=1, QueuePolicy=1, PreemptionPolicy=1, QueueMonitor=1, QueueDrainingPolicy=1, KAISchedulerConfig=1,
    )  # fmt: skip


def test_every_object_of_the_recipe_is_read(documents):
    names = [one.name for manifests in read(documents, "recipe") for one in manifests]
    assert names == [
        *(f"Queue/{name}" for name in ("root", "training", "inference", "development")),
        "Namespace/ai-workloads",
        "Job/ai-workloads/gpu-test",
        *(f"PriorityClass/kai-{level}-priority" for level in ("high", "normal", "low")),
    ]


@pytest.mark.parametrize("name", sorted(READABLE))
def test_each_kind_that_is_not_kais_is_kept_with_a_notice_and_no_other(documents, name):
    for manifests in read(documents, name):
        unknown = {one.name for one in manifests if one.kind not in KINDS}
        told = {notice.where.object for notice in manifests.notices if "is not known to kailab" in notice.message}
        assert told == unknown


@pytest.mark.parametrize("name", sorted(READABLE))
def test_what_is_read_is_written_and_read_as_the_same(documents, name):
    for manifests in read(documents, name):
        assert load_text(write_documents(manifests.objects)).objects == manifests.objects
        assert from_objects(manifests.objects).objects == manifests.objects


@pytest.mark.parametrize("name", sorted(READABLE))
def test_every_readable_block_is_taken_by_a_lab_and_kept_as_it_was_written(documents, open_lab, name):
    for block in documents[name]:
        lab = open_lab()
        spaces = {one.object["metadata"].get("namespace") for one in load_text(block.text)} - {None}
        spaces -= {one.object["metadata"]["name"] for one in load_text(block.text) if one.kind == "Namespace"}
        lab.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}} for space in sorted(spaces)])
        applied = lab.apply(block.text)
        assert {change.what for change in applied.changes} == {"created"}
        for change, one in zip(applied.changes, load_text(block.text), strict=True):
            kept = lab.get(change.kind, change.name, change.namespace or None)
            assert kept["apiVersion"] == one.object["apiVersion"]
            if one.kind not in KINDS:
                assert kept["spec"] == one.object["spec"]


@pytest.mark.parametrize("document, wanted, line, message", LOST)
def test_a_block_that_lost_its_indentation_is_refused_with_its_line(block, open_lab, document, wanted, line, message):
    lab = open_lab()
    before = {kind: len(lab.get(kind, namespace=None)) for kind in ("Queue", "Pod", "Job", "DeviceClass")}
    with pytest.raises(InputError, match=message) as caught:
        lab.apply(block(document, wanted).text)
    assert f":{line}: " in str(caught.value)
    assert {kind: len(lab.get(kind, namespace=None)) for kind in before} == before


@pytest.mark.parametrize("version", ["v1", "v2alpha1"])
def test_a_queue_of_an_older_version_is_read_as_todays_and_said_so(block, version):
    text = block("recipe", "kind: Queue").text.replace("run.ai/v2", f"run.ai/{version}")
    manifests = load_text(text)
    assert {one.kind for one in manifests} == {"Queue"}
    told = [notice.text for notice in manifests.notices if "is not a version kailab knows" in notice.message]
    refused = "in a cluster the object is refused, unless the kind Queue is served in this version"
    unknown = f"scheduling.run.ai/{version} is not a version kailab knows; read as scheduling.run.ai/v2"
    assert told == [f"{unknown}; {refused}"] * 4


def test_the_lessons_queue_with_its_indentation_put_back_still_has_a_placeholder_for_its_version(block):
    with pytest.raises(InputError, match="'<kai-queue-apiVersion>' is not valid; expected group/version, or v1"):
        load_text(block("lesson", "kind: Queue").indented("0 0 0 1 0 1 2 3 3"))


def test_resource_claims_of_an_older_version_are_read(block):
    """With their indentation put back."""
    manifests = load_text(
        block("policies", "kind: DeviceClass").indented("0 0 0 1 0 1 1 3 0 0 0 0 0 1 1 0 1 2 3 3 4 4 4 4 6")
    )
    assert [one.kind for one in manifests] == ["DeviceClass", "ResourceClaimTemplate"]
    assert manifests.notices == []
