"""KAI's own snapshot archive: written here as its scheduler writes it (KAI plugins/snapshot), and opened."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kailab.errors import InputError
from kailab.evidence.entries import PodBound
from kailab.lab.lab import Lab
from kailab.model.times import parse_time
from kailab.snapshots import kai_archive, opening, snapshot, taking
from kailab.snapshots.opening import lab_of
from kailab.snapshots.snapshot import LEAST_LIMIT
from tests.evidence.test_secrets import QUEUE, Secrets, around, pod
from tests.snapshots.conftest import body_of
from tests.snapshots.test_round_trip import Decisions

LISTS = {
    "pods": "Pod", "nodes": "Node", "queues": "Queue", "podGroups": "PodGroup", "priorityClasses": "PriorityClass",
    "configMaps": "ConfigMap", "topologies": "Topology",
}  # fmt: skip
PARAMS = {
    "schedulerName": "kai-scheduler",
    "partitionParams": {"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""},
    "maxNumberConsolidationPreemptees": 7,
    "allowConsolidatingReclaim": True,
    "globalDefaultStalenessGracePeriod": 90_000_000_000,
}
CONFIG = {
    "actions": "allocate, reclaim",
    "tiers": [{"plugins": [{"name": "predicates"}, {"name": "proportion"}, {"name": "priority"},
                           {"name": "nodeplacement", "arguments": {"gpu": "spread", "cpu": "binpack"}}]}],
}  # fmt: skip


def content_of(lab: Lab) -> dict[str, Any]:
    """Objects without kind and version, as a client's cache has them; lists that are empty are null."""
    raw: dict[str, Any] = {
        name: [
            {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}
            for obj in lab.cluster.list(kind)
        ]
        or None
        for name, kind in LISTS.items()
    }
    return {
        "config": CONFIG,
        "schedulerParams": PARAMS,
        "rawObjects": {**raw, "bindRequests": None, "csiDrivers": None},
    }


def archive(path: Path, content: Any, name: str = "snapshot.json") -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(name, content if isinstance(content, bytes) else json.dumps(content))
    return path


def job(name: str, gpus: int) -> dict[str, Any]:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    template = {
        "metadata": {"labels": {"app": name, "kai.scheduler/queue": "team"}},
        "spec": {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]},
    }
    spec = {"parallelism": 3, "completions": 3, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@pytest.fixture
def content() -> dict[str, Any]:
    """Of a lab in which three pods want one GPU each, four are to be had, and nobody has decided yet."""
    with Lab.open() as lab:
        lab.apply(QUEUE)
        lab.apply([job("first", 1)])
        lab.settle()
        lab.advance(30)
        lab.apply([job("second", 1)])
        for part in (*lab._parts.controllers, *lab._parts.controllers):  # all but the scheduler
            part.step()
        return content_of(lab)


def test_it_opens_with_its_own_settings(content: dict[str, Any], tmp_path: Path) -> None:
    found = opening.read_snapshot_source(archive(tmp_path / "kai.zip", content))
    engine = found.snapshot.facts.settings.engine
    assert engine.actions == ("allocate", "reclaim")
    assert (engine.gpu_placement, engine.max_consolidation_victims, engine.staleness_grace) == ("spread", 7, 90.0)
    assert (engine.allow_consolidating_reclaim, engine.use_signatures) == (True, False)  # what is false is not written
    seen = Decisions()
    with lab_of(found.snapshot, [seen]) as lab:
        uids = {one["metadata"]["uid"] for one in content["rawObjects"]["pods"]}
        assert {one["metadata"]["uid"] for one in lab.get("pods")} == uids
        lab.settle()
        (_, entries), *_ = seen.cycles
        assert [one.app for one in entries if isinstance(one, PodBound)] == ["second"]
        assert sum(row.phase == "Running" for row in lab.picture().rows) == 4


def test_it_is_as_old_as_the_latest_that_it_tells(content: dict[str, Any], tmp_path: Path) -> None:
    path = archive(tmp_path / "kai.zip", content)
    assert opening.read_snapshot_source(path).snapshot.taken == parse_time("2026-01-01T00:00:31Z")
    assert opening.read_snapshot_source(path, at="2026-01-01T01:00:00Z").snapshot.taken == parse_time(
        "2026-01-01T01:00:00Z"
    )
    with pytest.raises(InputError, match=r"--at: .*expected the time at which it was taken"):
        opening.read_snapshot_source(path, at="noon")
    content["rawObjects"]["nodes"][0]["metadata"]["creationTimestamp"] = "2299-01-01T00:00:00Z"
    found = opening.read_snapshot_source(archive(path, content))
    assert found.snapshot.taken == parse_time("2026-01-01T00:00:31Z")
    (notice,) = (notice for notice in found.notices if "in the future" in notice)
    assert notice.startswith("1 object with a time in the future: Node/")


def test_a_pod_that_was_being_bound_counts_as_bound(content: dict[str, Any], tmp_path: Path) -> None:
    waiting = [one for one in content["rawObjects"]["pods"] if not one["spec"].get("nodeName")]
    request = {
        "metadata": {"name": "bind", "namespace": "default", "uid": "b", "creationTimestamp": "2026-01-01T00:00:31Z"},
        "spec": {
            "podName": waiting[0]["metadata"]["name"],
            "selectedNode": "h100-0",
            "receivedResourceType": "Regular",
        },
    }
    failed = {**request, "metadata": {**request["metadata"], "name": "failed"}, "status": {"phase": "Failed"}}
    failed["spec"] = {**request["spec"], "podName": waiting[1]["metadata"]["name"]}
    content["rawObjects"]["bindRequests"] = [request, failed]
    with lab_of(opening.read_snapshot_source(archive(tmp_path / "kai.zip", content)).snapshot) as lab:
        assert lab.cluster.get("Pod", waiting[0]["metadata"]["name"], "default")["spec"]["nodeName"] == "h100-0"
        assert "nodeName" not in lab.cluster.get("Pod", waiting[1]["metadata"]["name"], "default")["spec"]


def test_what_can_not_be_read_is_counted_and_named(content: dict[str, Any], tmp_path: Path) -> None:
    raw = content["rawObjects"]
    raw["queues"].append({"metadata": {"name": "odd"}, "spec": {"resources": {"gpu": {"quota": "many"}}}})
    raw["pods"].append("no pod")
    raw["csiDrivers"] = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]
    raw["flavours"] = [{"metadata": {"name": "new"}}]
    found = opening.read_snapshot_source(archive(tmp_path / "kai.zip", content))
    told = "\n".join(found.notices)
    assert "1 of 2 queues can't be read and are left out: odd (spec.resources.gpu.quota: " in told
    assert "pods can't be read and are left out: 6 (it is no object)" in told
    assert "2 csiDrivers are left out" in told
    assert "1 flavours are left out" in told
    with lab_of(found.snapshot) as lab:
        assert [one["metadata"]["name"] for one in lab.get("queues")] == ["team"]


def test_secrets_in_it_do_not_enter_the_lab(tmp_path: Path) -> None:
    secrets = Secrets()
    with Lab.open() as lab:
        lab.apply(QUEUE, *around(secrets), pod(secrets, "one"))
        lab.settle()
        path = archive(tmp_path / "kai.zip", content_of(lab))
    state = tmp_path / "lab" / "lab.state"
    opening.write_snapshot_lab(state, opening.read_snapshot_source(path).snapshot).close()
    with Lab.resume(state) as lab:
        snapshot.write_snapshot(tmp_path / "again.snap", taking.of_lab(lab))
        there = json.dumps([lab.cluster.list(kind) for kind in lab.cluster.kinds()])
    assert [place for text, place in secrets.planted.items() if text in there] == []
    assert [place for text, place in secrets.planted.items() if text.encode() in body_of(tmp_path / "again.snap")] == []


def another_file(path: Path, content: Any) -> None:
    archive(path, content, "other.json")


def no_json(path: Path, content: Any) -> None:
    archive(path, b"{not json")


def no_objects(path: Path, content: Any) -> None:
    archive(path, {"config": CONFIG})


def odd_config(path: Path, content: Any) -> None:
    archive(path, {**content, "config": {"actions": "allocate, dance"}})


def cut_short(path: Path, content: Any) -> None:
    archive(path, content)
    path.write_bytes(path.read_bytes()[:-200])


def flipped(path: Path, content: Any) -> None:
    archive(path, content)
    damaged = bytearray(path.read_bytes())
    damaged[300] ^= 0xFF
    path.write_bytes(damaged)


def bomb(path: Path, content: Any) -> None:
    archive(path, b" " * (LEAST_LIMIT + 2**20))


def deep(path: Path, content: Any) -> None:
    archive(path, b'{"rawObjects": {"pods": ' + b"[" * 100_000)


def empty(path: Path, content: Any) -> None:
    archive(path, {"rawObjects": {}})


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (another_file, "It holds no Kubernetes objects"),
        (no_json, "damaged: JSON is malformed"),
        (no_objects, "is no snapshot of KAI's: .*`rawObjects`"),
        (odd_config, "no action is called 'dance'"),
        (cut_short, "damaged: File is not a zip file"),
        (flipped, "damaged: "),
        (bomb, "unpacks to more than 64 MiB"),
        (deep, "is no snapshot of KAI's: "),
        (empty, "contains no object with a time"),
    ],
)
def test_what_can_not_be_opened_is_told(
    spoil: Callable[[Path, Any], None], told: str, content: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "kai.zip"
    spoil(path, content)
    with pytest.raises(InputError, match=told) as refused:
        opening.read_snapshot_source(path)
    assert "kai.zip" in str(refused.value)
    assert refused.value.exit_code == 2


def test_an_archive_is_told_from_other_files(tmp_path: Path) -> None:
    path = tmp_path / "made.zip"
    for name, is_kais in ((kai_archive.NAME, True), ("nodes.yaml", False)):
        with zipfile.ZipFile(path, "w") as made:
            made.writestr(name, "{}")
        assert kai_archive.is_archive(path, path.read_bytes()) is is_kais
    assert not kai_archive.is_archive(path, b"{}")
