"""The definitions by themselves."""

from __future__ import annotations

import pytest

from kailab.cluster.install import claimed_nodes, crds, fleet_devices
from kailab.fleet.reading import load_fleet
from kailab.model.kinds import KINDS
from kailab.model.validation import validate
from kailab.scheduler.reading.claims import ClaimIndex

DEFINITIONS = {crd["spec"]["names"]["kind"]: crd for crd in crds()}


@pytest.mark.parametrize("kind", ["Queue", "PodGroup", "BindRequest", "Topology"])
def test_a_kind_is_defined_as_kailab_knows_it(kind: str) -> None:
    spec, known = DEFINITIONS[kind]["spec"], KINDS[kind]
    (version,) = spec["versions"]
    assert (spec["group"], version["name"], spec["names"]["plural"]) == (known.group, known.versions[0], known.plural)
    assert spec["scope"] == ("Namespaced" if known.namespaced else "Cluster")
    assert version["served"]
    assert version["storage"]
    assert DEFINITIONS[kind]["metadata"]["name"] == known.resource


def test_nothing_else_is_defined() -> None:
    assert sorted(DEFINITIONS) == ["BindRequest", "PodGroup", "Queue", "Topology"]


def test_a_fleets_devices_are_its_whole_gpus() -> None:
    fleet = load_fleet("lesson")
    first, *slices = fleet_devices(fleet)
    assert (first["kind"], first["metadata"]["name"]) == ("DeviceClass", "gpu.nvidia.com")
    claims = ClaimIndex()
    for each in slices:
        assert validate(each, "ResourceSlice") == []
        claims.process_object("ResourceSlice", each, deleted=False)
    for pool in fleet.pools:
        for position in range(pool.count):
            assert claims.gpus_on(pool.node_name(position)) == pool.whole_gpus
    uuids = [device["attributes"]["uuid"]["string"] for each in slices for device in each["spec"]["devices"]]
    assert len(set(uuids)) == len(uuids) == fleet.summary().gpus
    assert fleet_devices(fleet) == fleet_devices(fleet)


def test_nodes_with_devices_offer_their_gpus_once() -> None:
    fleet = load_fleet("lesson")
    for before, after in zip(fleet.nodes(), claimed_nodes(fleet)):
        gone = {"nvidia.com/gpu"}
        for field in ("capacity", "allocatable"):
            assert before["status"][field].keys() - after["status"][field].keys() == gone
        assert after["metadata"] == before["metadata"]
