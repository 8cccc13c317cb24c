"""A fleet as its file has it."""

import pytest

from kailab.fleet.fleet import fleet_definition
from kailab.fleet.library import available_fleets
from kailab.fleet.reading import load_fleet, read_fleet
from kailab.model.yamltext import write_documents

ODD = """
apiVersion: kailab.dev/v1
kind: Fleet
name: odd
description: All that a fleet may say
pools:
  - {name: a, count: 4, cpu: 64, memory: 512Gi, pods: 30, gpus: 8, gpuModel: X, gpuMemory: 80Gi, nameTemplate: "n{index:03}",
     startIndex: 7, labels: {zone: z}, annotations: {note: x}, taints: [], resources: {rdma/hca: 8},
     layout: [{label: example.com/block, nodes: 4}, {label: example.com/rack, nodes: 2, name: "r{index}", start: 3}]}
  - {name: b, count: 1, cpu: 4, memory: 1Gi, gpus: 1, mig: {strategy: mixed, profiles: {1g.10gb: 7}}}
topologies: [{name: racks, levels: [example.com/block, example.com/rack]}]
priorityClasses: [{name: high, value: 200, globalDefault: false, description: y}]
"""


@pytest.mark.parametrize("name", [*available_fleets(), "odd"])
def test_read_again_it_is_the_same_fleet(name: str) -> None:
    fleet = read_fleet(ODD, "f") if name == "odd" else load_fleet(name)
    again = read_fleet(write_documents([fleet_definition(fleet)]), fleet.file)
    assert again == fleet
    assert again.objects() == fleet.objects()
