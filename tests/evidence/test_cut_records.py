"""What cycles keep of records: nothing that evidence leaves out of objects, and the same decisions all the same."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from msgspec import structs

from kailab.engine.config import EngineConfig
from kailab.engine.decisions import Decisions
from kailab.engine.snapshot.changes import Changes
from kailab.engine.snapshot.records import Node, Requirement, Shape, Task
from kailab.engine.snapshot.snapshot import Snapshot
from kailab.errors import ApiError
from kailab.evidence import cycles, store
from kailab.evidence.cycles import RecordedCycle
from kailab.evidence.entries import PodBound, WriteRefused
from kailab.evidence.recorder import Recorder, write_test
from kailab.evidence.replay import replay_run
from kailab.evidence.run import RunFolder
from kailab.evidence.sanitizing import RecordCutter
from kailab.lab import Lab

SECRET, OTHER = "zQ0001xK9vRtoken", "zQ0002xK9vRtoken"
QUEUE = {
    "apiVersion": "scheduling.run.ai/v2",
    "kind": "Queue",
    "metadata": {"name": "team"},
    "spec": {"resources": {kind: {"quota": -1, "limit": -1} for kind in ("gpu", "cpu", "memory")}},
}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "pause",
        "env": [{"name": "TOKEN", "value": SECRET}],
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"kai.scheduler/queue": "team", "note": f"note-{SECRET}"}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [container],
            **spec,
        },
    }


def written(tmp_path: Path, recorder: Recorder) -> Path:
    run = RunFolder.begin(tmp_path)
    run.write("e", "t", lambda folder: write_test(folder, "e/t", [recorder], "passed"))
    run.finish()
    return run.path


def everything(run: Path) -> bytes:
    paths = [path for path in run.rglob("*") if path.is_file()]
    return b"".join(gzip.decompress(p.read_bytes()) if p.suffix == ".gz" else p.read_bytes() for p in paths)


def test_labels_and_refusals_that_tell_too_much(tmp_path, monkeypatch):
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        for node in lab.get("Node"):
            labels = {"pool": "a", "example.com/owner": f"owner-{OTHER}", "example.com/rack": "r7"}
            lab.cluster.patch("Node", node["metadata"]["name"], None, {"metadata": {"labels": labels}})
        real = lab.cluster.bind

        def bind(namespace: str, name: str, node: str, *rest: Any) -> None:
            if name == "refused":
                raise ApiError(f"admission webhook denied the request: TOKEN={SECRET}")
            real(namespace, name, node, *rest)

        monkeypatch.setattr(lab.cluster, "bind", bind)
        lab.apply(QUEUE, pod("free"), pod("chosen", nodeSelector={"pool": "a"}), pod("refused"))
        lab.settle()
        lab.advance(120)
    run = written(tmp_path, recorder)
    content = everything(run)
    assert SECRET.encode() not in content
    assert OTHER.encode() not in content
    (refused, *_) = (one for one in store.load_test(run, "e/t").decisions("lab") if isinstance(one, WriteRefused))
    assert (refused.verb, refused.pod) == ("bind", "default/refused")
    assert "denied the request" in refused.reason
    found = replay_run(run)
    assert found.same, str(found)
    assert found.decisions > 3
    nodes = cycles.read_cycles_file(run / "e/t/lab")[1][0].changes.set.nodes
    assert {dict(node.labels)["pool"] for node in nodes} == {"a"}, "the label that a pod selects by is kept"
    racks = {dict(node.labels)["example.com/rack"] for node in nodes}
    assert racks == {"r7"}, "pages group nodes by racks, as `top` does, whatever selects them"


def test_gpus_that_pods_share_keep_their_ids(tmp_path):
    """Their ids stand in labels, too, of which evidence keeps only some."""
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        shares = pod("shares")
        shares["metadata"]["annotations"] = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
        del shares["spec"]["containers"][0]["resources"]
        lab.apply(QUEUE, shares)
        lab.settle()
    run = written(tmp_path, recorder)
    (bound,) = (one for one in store.load_test(run, "e/t").decisions("lab") if isinstance(one, PodBound))
    assert len(bound.gpu_groups) == 2
    assert "(left out)" not in bound.gpu_groups
    assert replay_run(run).same


def cycle(*nodes: Node, tasks: tuple[Task, ...] = ()) -> RecordedCycle:
    changes = Changes(set=Snapshot(nodes=nodes, tasks=tasks), whole=True)
    return RecordedCycle(number=1, now=0.0, config=EngineConfig(), changes=changes, decisions=Decisions(now=0.0))


def without(*secrets: str):
    def scrubbed(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "(left out)")
        return text

    return scrubbed


def test_texts_that_were_different_stay_different():
    one, two, same = (
        Node(name=name, unavailable=f"refused: {secret}")
        for name, secret in (("a", SECRET), ("b", OTHER), ("c", SECRET))
    )
    cutter = RecordCutter(lambda key: False, without(SECRET, OTHER))
    (kept,) = cutter.cycles([cycle(one, two, same)])
    texts = [node.unavailable for node in kept.changes.set.nodes]
    assert texts[0] == texts[2] != texts[1]
    assert all(text.startswith("refused: (left out)") for text in texts)
    assert len(cutter.cut) == 2


def test_shapes_are_cut_once_and_stay_shared():
    shape = Shape(blocked=(f"missing: {SECRET}",), selector=(Requirement(key="pool", operator="Exists"),))
    tasks = tuple(Task(uid=f"u{n}", name=f"n{n}", namespace="x", podgroup="", shape=shape) for n in range(3))
    node = Node(name="a", labels=(("pool", "x"), ("note", "y"), ("nvidia.com/gpu.product", "z")))
    cutter = RecordCutter(lambda key: key.startswith("nvidia.com/"), without(SECRET))
    (kept,) = cutter.cycles([cycle(node, tasks=tasks)])
    shapes = [task.shape for task in kept.changes.set.tasks]
    assert shapes[0] is shapes[1] is shapes[2]
    assert shapes[0] == structs.replace(shape, blocked=("missing: (left out)",))
    assert kept.changes.set.nodes[0].labels == (("pool", "x"), ("nvidia.com/gpu.product", "z"))


def test_what_was_cut_is_told_where_decisions_differ(tmp_path):
    """Replay does not say that somebody altered a decision where the folder itself lacks what it rested on."""
    recorder = Recorder()
    with Lab.open(observers=[recorder]) as lab:
        lab.apply(QUEUE, pod("free"))
        lab.settle()
    folder = written(tmp_path, recorder) / "e/t/lab"
    head, kept = cycles.read_cycles_file(folder)
    (folder / cycles.NAME).unlink(missing_ok=True)
    (folder / f"{cycles.NAME}.gz").unlink(missing_ok=True)
    bound = next(one for one in kept if one.decisions.binds)
    moved = structs.replace(bound.decisions, binds=(structs.replace(bound.decisions.binds[0], node="elsewhere"),))
    kept[kept.index(bound)] = structs.replace(bound, decisions=moved)
    cycles.write_cycles_file(folder, head.opened, 2, kept)
    told = str(replay_run(folder.parents[2]))
    assert "2 texts of the records were left out of the evidence" in told
    assert "elsewhere" in told
