"""The file of a snapshot: whole or refused, and without what was planted in the cluster."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from kailab.cluster.embedded.storage.sealed_file import seal
from kailab.errors import InputError
from kailab.lab.lab import Lab
from kailab.snapshots import opening, snapshot, taking
from kailab.snapshots.snapshot import FORMAT, LEAST_LIMIT, MAGIC
from tests.evidence.test_secrets import QUEUE, Secrets, around, kubeconfig, pod, workload
from tests.snapshots.conftest import body_of


@pytest.fixture
def taken(tmp_path: Path) -> Path:
    path = tmp_path / "lab.snap"
    with Lab.open() as lab:
        lab.apply(QUEUE)
        lab.settle()
        snapshot.write_snapshot(path, taking.of_lab(lab))
    return path


def test_no_secret_of_the_cluster_is_in_it(tmp_path: Path) -> None:
    secrets, path = Secrets(), tmp_path / "planted.snap"
    with Lab.open() as lab:
        lab.apply(QUEUE, *around(secrets), pod(secrets, "one"), pod(secrets, "two", gpus=9))
        for kind in ("Deployment", "StatefulSet", "Job", "RayCluster", "PyTorchJob"):
            lab.apply([{"kind": kind, **named(kind, secrets)}])
        lab.settle()
        there = lab.cluster.get("Pod", "one", "default")
        lab.cluster.event(there, "Warning", "Failed", f"login with {secrets('event')}")
        token = there["spec"]["containers"][0]["env"][0]["value"]
        said = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": f"denied: TOKEN={token}",
        }
        lab.cluster.patch("Pod", "two", "default", {"status": {"conditions": [said]}}, subresource="status")
        lab.apply(
            [
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": "access"},
                    "data": {"config": kubeconfig(secrets)},
                }
            ]
        )
        snapshot.write_snapshot(path, taking.of_lab(lab))
    assert len(secrets.planted) > 100
    (tmp_path / "unpacked").mkdir()
    (tmp_path / "unpacked" / "body").write_bytes(body_of(path))
    assert secrets.found_in(tmp_path) == []
    kinds = json.loads(body_of(path))["objects"]
    assert "Secret" not in kinds
    assert [one["metadata"]["name"] for one in kinds["ConfigMap"]] == ["access", "settings"]
    assert all(one.keys() <= {"apiVersion", "kind", "metadata"} for one in kinds["ConfigMap"])
    assert {one["metadata"]["name"] for one in kinds["Pod"]} >= {"one", "two"}


def named(kind: str, secrets: Secrets) -> dict[str, object]:
    from tests.evidence.test_secrets import VERSIONS

    return {"apiVersion": VERSIONS.get(kind, "apps/v1"), **workload(kind, secrets)}


def test_labels_stay_that_something_selects_by(tmp_path: Path) -> None:
    topology = {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": {"name": "racks"},
        "spec": {"levels": [{"nodeLabel": "lab/rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
    }
    with Lab.open() as lab:
        lab.apply([topology])
        for node in lab.get("nodes"):
            lab.patch("Node", node["metadata"]["name"], {"metadata": {"labels": {"owner": "somebody"}}})
        nodes = taking.of_lab(lab).objects["Node"]
    assert {node["metadata"]["labels"]["lab/rack"] for node in nodes} == {"rack-1", "rack-2", "rack-3"}
    assert not any("owner" in node["metadata"]["labels"] for node in nodes)


def test_nothing_is_written_over(taken: Path) -> None:
    found = snapshot.read_snapshot(taken)
    with pytest.raises(InputError, match=r"lab\.snap: exists already"):
        snapshot.write_snapshot(taken, found)
    snapshot.write_snapshot(taken, found, force=True)
    assert snapshot.read_snapshot(taken) == found


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)


def headless(path: Path) -> None:
    path.write_bytes(path.read_bytes()[10:])


def later_format(path: Path) -> None:
    seal(path, MAGIC, FORMAT + 1, b"")


def bomb(path: Path) -> None:
    seal(path, MAGIC, FORMAT, zlib.compress(b" " * (LEAST_LIMIT + 2**20)))


def another_shape(path: Path) -> None:
    seal(path, MAGIC, FORMAT, zlib.compress(b'{"taken": 1, "objects": []}'))


def half_packed(path: Path) -> None:
    seal(path, MAGIC, FORMAT, zlib.compress(b"{" * 10_000)[:-6])


def no_names(path: Path) -> None:
    plain = json.loads(body_of(path))
    plain["objects"]["Pod"] = [{"spec": {}}]
    seal(path, MAGIC, FORMAT, zlib.compress(json.dumps(plain).encode()))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "notes.txt").write_text("nothing")


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (cut_short, "damaged: .* bytes expected"),
        (flipped, "damaged: its checksum does not match"),
        (headless, "can.t be opened; expected a snapshot"),
        (later_format, "is in format 2, of a newer kailab; this one reads format 1"),
        (bomb, "unpacks to more than 64 MiB"),
        (another_shape, "damaged: Expected `object`, got `array`"),
        (half_packed, "damaged: the compressed part ends early"),
        (no_names, r"Pod 0: metadata\.name: damaged: expected a name"),
        (empty, "can.t be opened; expected a snapshot"),
        (folder, "can.t be opened; expected a snapshot"),
    ],
)
def test_what_can_not_be_opened_is_told(spoil: Callable[[Path], None], told: str, taken: Path) -> None:
    spoil(taken)
    with pytest.raises(Exception, match=told) as refused:
        opening.read_snapshot_source(taken)
    assert str(taken) in str(refused.value)
    assert getattr(refused.value, "exit_code", None) == 2
