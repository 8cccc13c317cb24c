"""The fake-gpu-operator publishes the GPUs of a fleet. Where its programs are not got, others stand in for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.components import ADDONS, ComponentCache, ComponentSet, MissingComponents, find_addon
from kailab.components.manifests import write_manifests
from kailab.errors import InputError
from kailab.fleet.fleet import Fleet
from kailab.fleet.reading import load_fleet, read_fleet
from kailab.lab import Lab
from kailab.lab.venues.plane import PlaneVenue, open_plane
from kailab.model.objects import Object, labels_of, name_of, status_of
from kailab.operators import OperatorFailed
from kailab.operators.publishing import POOL_LABEL, published_fleet, without_gpus
from tests import gpuoperator
from tests.operators.work import QUEUES

NAME = "fake-gpu-operator"


def fleet_of(*pools: dict[str, Any]) -> Fleet:
    whole = [{"cpu": "16", "memory": "64Gi", "count": 1, **pool} for pool in pools]
    return read_fleet(yaml.safe_dump({"apiVersion": "kailab.dev/v1", "kind": "Fleet", "name": "own", "pools": whole}))


def nodes_of(fleet: Fleet) -> dict[str, Object]:
    return {name_of(node): node for node in fleet.nodes()}


def allocatable(node: Object) -> dict[str, str]:
    return {key: amount for key, amount in status_of(node)["allocatable"].items() if ".com/" in key}


def test_each_pool_with_gpus_is_a_pool_of_the_topology() -> None:
    fleet = fleet_of(
        {"name": "big", "count": 2, "gpus": 8, "gpuModel": "H100", "gpuMemory": "80Gi"},
        {"name": "split", "gpus": 2, "gpuModel": "A100", "mig": {"strategy": "mixed", "profiles": {"1g.5gb": 7}}},
        {"name": "amd", "gpus": 4, "gpuVendor": "amd"},
        {"name": "plain", "resources": {"example.com/fpga": "2"}},
    )
    published = published_fleet(fleet, nodes_of(fleet))
    pools = yaml.safe_load(published.topology)["nodePools"]
    assert pools["big"] == {"gpuCount": 8, "gpuProduct": "H100", "gpuMemory": 81920, "otherDevices": []}
    assert pools["split"]["gpuCount"] == 0
    assert [one["name"] for one in pools["split"]["otherDevices"]] == ["nvidia.com/mig-1g.5gb"]
    assert list(pools) == ["big", "split"]
    pool_of = {name: labels_of(node).get(POOL_LABEL) for name, node in published.nodes.items()}
    assert pool_of == {"big-0": "big", "big-1": "big", "split-0": "split", "amd-0": None, "plain-0": None}
    for name, node in published.nodes.items():
        bare = allocatable(without_gpus(node))
        # What the operator does not publish is there from the start.
        assert bare == {key: amount for key, amount in allocatable(node).items() if "nvidia" not in key}
        assert allocatable(nodes_of(fleet)[name]).items() <= allocatable(node).items()


@pytest.fixture(scope="module", params=["stand-in", "real"])
def cache(
    request: pytest.FixtureRequest, components: ComponentSet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """A cache with the operator's programs, or with those that stand in for them."""
    if request.param == "real":
        try:
            find_addon(NAME)
        except MissingComponents as missing:
            pytest.skip(str(missing))
        yield Path()
        return
    folder = tmp_path_factory.mktemp("cache")
    definitions = Path("deploy", "fake-gpu-operator", "crds")
    (folder / "module" / definitions).mkdir(parents=True)
    (folder / "module" / definitions / "none.yaml").write_text("kind: None\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAILAB_COMPONENTS", str(folder / "programs"))
        (folder / "programs").mkdir()
        for name, path in components.paths.items():
            (folder / "programs" / name).symlink_to(path)
        patched.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
        *programs, manifests = ADDONS[NAME]
        for pin in programs:
            (folder / pin.name).write_bytes(gpuoperator.program())
            ComponentCache().put(pin, folder / pin.name, "adopted", "a test")
        write_manifests(folder / manifests.name, folder / "module", (str(definitions),))
        ComponentCache().put(manifests, folder / manifests.name, "adopted", "a test")
        yield folder


@pytest.fixture(scope="module")
def venue(cache: Path) -> Iterator[PlaneVenue]:
    opened = open_plane("controlplane", operators=NAME)
    yield opened
    opened.close()


def gpus(lab: Lab) -> dict[str, str]:
    return {
        name_of(node): status_of(node)["allocatable"].get("nvidia.com/gpu", "") for node in lab.cluster.list("Node")
    }


@pytest.mark.slow
def test_labs_have_the_gpus_that_it_publishes(
    cache: Path,
    venue: PlaneVenue,
    eventually: Callable[[Callable[[], bool]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def pids() -> dict[str, int]:
        return {process.name: process.pid for process in venue.plane.processes() if process.name in programs}

    programs = {pin.name for pin in ADDONS[NAME]}
    with Lab.open(load_fleet("lesson"), backend="controlplane", venue=venue) as lab:
        lab.apply(
            [
                *QUEUES,
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {"name": "work", "namespace": "default", "labels": {"kai.scheduler/queue": "team-a"}},
                    "spec": {
                        "schedulerName": "kai-scheduler",
                        "containers": [{"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
                    },
                },
            ]
        )
        lab.settle()
        assert lab.cluster.get("Pod", "work", "default")["spec"]["nodeName"]
        assert sorted(gpus(lab).values()) == ["4", "4", "8", "8", "8"]
        first = pids()
        assert first.keys() == programs - {"manifests.zip"}
    with Lab.open(load_fleet("lesson"), backend="controlplane", venue=venue) as lab:
        assert sorted(gpus(lab).values()) == ["4", "4", "8", "8", "8"]
        assert pids() == first
    # Another fleet with the same names: the operator would keep the old number of GPUs if it went on.
    for count in (2, 5):
        fleet = fleet_of({"name": "own", "gpus": count, "gpuModel": "H100"}, {"name": "plain"})
        with Lab.open(fleet, backend="controlplane", venue=venue) as lab:
            assert gpus(lab) == {"own-0": str(count), "plain-0": ""}
    assert pids() != first
    with pytest.raises(InputError, match="--dra publishes the GPUs of the nodes for claims"):
        Lab.open(load_fleet("lesson"), backend="controlplane", venue=venue, devices=True)
    if cache != Path():  # the real operator publishes the GPUs of all nodes
        with monkeypatch.context() as patched:
            patched.setattr("kailab.operators.processes._PUBLISH_SECONDS", 1.0)
            with pytest.raises(OperatorFailed, match=r"does not publish the GPUs of 1 of 1 nodes \(refused-0 \.\.\.\)"):
                Lab.open(fleet_of({"name": "refused", "gpus": 2}), backend="controlplane", venue=venue)
    venue.plane.kill("status-updater")
    eventually(lambda: not {one.name: one for one in venue.plane.processes()}["status-updater"].running)
    with pytest.raises(OperatorFailed, match="status-updater does not run: it was killed by SIGKILL"):
        Lab.open(load_fleet("lesson"), backend="controlplane", venue=venue)
