"""A SchedulingShard as the scheduler's configuration, as KAI's operator reads it."""

from __future__ import annotations

import pytest
import yaml

from kailab.errors import InputError
from kailab.fleet.fleet import Fleet, Pool
from kailab.lab import Lab
from kailab.scheduler.settings.config_file import read_settings
from tests.builders import job


def shard(**spec):
    document = {
        "apiVersion": "kai.scheduler/v1",
        "kind": "SchedulingShard",
        "metadata": {"name": "default"},
        "spec": spec,
    }
    return yaml.safe_dump(document)


def test_a_shard_without_settings_is_kais_default() -> None:
    found = read_settings(shard())
    assert found.engine == read_settings("").engine
    assert found.node_pool == "default"
    assert not [text for text in found.notices if "args" in text]


def test_spreading_turns_packing_and_consolidation_off() -> None:
    engine = read_settings(shard(placementStrategy={"gpu": "spread"})).engine
    assert (engine.gpu_placement, engine.cpu_placement, engine.gpu_sharing) == ("spread", "binpack", "spread")
    assert "consolidation" not in engine.actions


def test_its_values_and_arguments_reach_the_scheduler() -> None:
    found = read_settings(
        shard(
            minRuntime={"preemptMinRuntime": "1m", "reclaimMinRuntime": "5m"},
            queueDepthPerAction={"reclaim": 3},
            kValue=0.5,
            usageDBConfig={"clientType": "fake"},
            args={"default-staleness-grace-period": "-1s", "max-consolidation-preemptees": "7", "v": "5"},
            partitionLabelValue="blue",
        )
    )
    engine = found.engine
    assert (engine.preempt_min_runtime, engine.reclaim_min_runtime) == (60, 300)
    assert (engine.queue_depth, engine.k_value) == ({"reclaim": 3}, 0.5)
    assert (engine.staleness_grace, engine.max_consolidation_victims) == (-1, 7)
    assert found.node_pool == "blue"
    assert "spec.args: v has no effect" in found.notices


def test_actions_and_plugins_are_switched_off_and_put_in_order() -> None:
    actions = {"preempt": {"enabled": False}, "reclaim": {"priority": 450}}
    engine = read_settings(shard(actions=actions, plugins={"predicates": {"enabled": False}})).engine
    assert list(engine.actions) == ["allocate", "reclaim", "consolidation", "stalegangeviction"]
    assert not engine.predicates


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"kValu": 1}, "spec.kValu: is not known; expected one of"),
        ({"kValue": "much"}, "spec.kValue: 'much' is not valid; expected a number"),
        ({"placementStrategy": {"gpu": "best"}}, "spec.placementStrategy.gpu: 'best' is no placement"),
        ({"args": {"max-consolidation-preemptees": "many"}}, "spec.args: can't be read"),
        ({"actions": {"dream": {}}}, "no action is called 'dream'"),
    ],
)
def test_faults_are_reported_with_their_place(spec, says) -> None:
    with pytest.raises(InputError, match=says.replace("(", r"\(")):
        read_settings(shard(**spec))


def test_a_lab_of_a_shard_schedules_its_node_pool_only(tmp_path) -> None:
    config = tmp_path / "shard.yaml"
    config.write_text(shard(partitionLabelValue="blue"))
    pool = {"kai.scheduler/node-pool": "blue"}
    size = {"count": 1, "gpus": 8, "cpu": "64", "memory": "64Gi"}
    fleet = Fleet(name="two", pools=(Pool(name="blue", node_labels=pool, **size), Pool(name="grey", **size)))
    queue = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team", "labels": pool},
             "spec": {"resources": {kind: {"quota": -1, "limit": -1} for kind in ("gpu", "cpu", "memory")}}}  # fmt: skip
    with Lab.open(fleet, config=config) as lab:
        lab.apply([queue, job("mine", "team", 1, gpus=4, labels=pool), job("others", "team", 1)])
        lab.settle()
        nodes = {pod["metadata"]["labels"]["job-name"]: pod["spec"].get("nodeName") for pod in lab.cluster.list("Pod")}
    assert nodes == {"mine": "blue-0", "others": None}
