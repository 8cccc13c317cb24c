"""HAMi's resources and annotations in work that KAI places: told when it is applied."""

from __future__ import annotations

import pytest

from kailab.fleet.fleet import Fleet, Pool
from kailab.lab import Lab

NAME = "nvidia.com/gpumem"


def pod(scheduler="kai-scheduler", annotations=None, **asked):
    limits = {name.replace("_", "."): amount for name, amount in asked.items()} or {NAME: 1000}
    metadata = {"name": "one", "labels": {"kai.scheduler/queue": "q"}, "annotations": annotations or {}}
    container = {"name": "c", "image": "x", "resources": {"limits": limits}}
    spec = {"containers": [container], **({"schedulerName": scheduler} if scheduler else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def said(work, **resources):
    pool = Pool(name="a", count=1, cpu="8", memory="8Gi", gpus=2, resources=dict.fromkeys(resources.values(), "80000"))
    with Lab.open(Fleet(name="f", pools=(pool,))) as lab:
        return [text for text in lab.apply(work).warnings if "HAMi" in text]


def test_a_resource_that_no_node_offers_is_said_to_let_no_pod_run() -> None:
    (text,) = said(pod())
    assert f"spec.containers[0].resources.limits[{NAME}]: is HAMi's" in text
    assert "no node offers it, so the pods never run" in text
    assert "gpu-memory" in text


def test_a_fleet_that_offers_it_has_it_counted_for_the_node() -> None:
    (text,) = said(pod(), offered=NAME)
    assert "KAI counts it as a resource of the whole node" in text


@pytest.mark.parametrize("name", ["nvidia.com/use-gputype", "hami.io/gpu-scheduler-policy"])
def test_an_annotation_is_said_not_to_be_read(name) -> None:
    texts = said(pod(annotations={name: "A100"}, **{"nvidia_com/gpu": 1}))
    assert len(texts) == 1
    assert f"metadata.annotations[{name}]: is HAMi's, and KAI does not read it" in texts[0]


def test_work_of_another_scheduler_is_its_own() -> None:
    work = pod(scheduler="hami-scheduler")
    del work["metadata"]["labels"]
    assert said(work) == []
