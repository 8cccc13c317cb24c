"""Snapshots with other names: nothing of the names is left, and what they mean to each other is."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from checks.fuzzing.walk import Walk, steps_of
from kailab.engine.snapshot.gpu_requests import GpuFraction, GpuMemory, GpuRequest, MigInstances, WholeGpus
from kailab.errors import InputError
from kailab.evidence.entries import PodBound, PodEvicted, PodPromised
from kailab.lab.lab import Lab
from kailab.model.kinds import KINDS, registered_kinds
from kailab.snapshots import taking
from kailab.snapshots.anonymising import _PLAIN_NOTES, Names, anonymise, read_key
from kailab.snapshots.opening import lab_of
from kailab.snapshots.snapshot import ClusterSnapshot
from tests.kinds.test_one_file import QUEUE, SQUAD, squad
from tests.snapshots.test_round_trip import Decisions
from tools import known_names

KEY = b"a key of sixteen bytes and more"
NAME = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,20}[a-z0-9])?", fullmatch=True)


@given(st.lists(NAME, min_size=2, max_size=30, unique=True))
def test_different_names_stay_different_and_as_long(names: list[str]) -> None:
    mapped = [Names(KEY).text(name) for name in names]
    assert len(set(mapped)) == len(names)
    assert list(map(len, mapped)) == list(map(len, names))


@pytest.mark.parametrize("length", [1, 2])
def test_short_words_are_permuted(length: int) -> None:
    names, letters = Names(KEY), "abcdefghijklmnopqrstuvwxyz0123456789"
    words = [a + b for a in letters for b in letters] if length == 2 else list(letters)
    words = [word for word in words if not word.isdigit()]
    assert len({names.word(word) for word in words}) == len(words)


@given(NAME, NAME)
def test_what_begins_with_a_name_still_does(owner: str, rest: str) -> None:
    names = Names(KEY)
    assert names.text(f"{owner}-{rest}").startswith(f"{names.text(owner)}-")


def test_the_key_decides() -> None:
    name = "team-research-gpu"
    assert Names(KEY).text(name) == Names(KEY).text(name) != Names(b"another key, long enough").text(name)
    assert Names(KEY).text("default") == "default"
    assert Names(KEY).text("web-3").endswith("-3")


def walked(seed: int) -> ClusterSnapshot:
    """Of a random lab in which something is still to be decided."""
    walk = Walk(seed)
    try:
        for step in steps_of(seed, 12):
            walk.take(step)
        for step in (one for one in steps_of(seed + 1000, 40) if one.action in ("apply", "queue")):
            getattr(walk, f"_{step.action}")(step.number, step.other)
        for part in 3 * tuple(walk.lab._parts.controllers):  # all but the scheduler: the pods are there, and grouped
            part.step()
        return taking.of_lab(walk.lab)
    finally:
        walk.close()


def in_order(found: ClusterSnapshot) -> ClusterSnapshot:
    """Nodes renamed so that their names sort alike before and after: equal nodes are taken in the order of their names."""
    nodes = [node["metadata"]["name"] for node in found.objects["Node"]]
    renamed = {f'"{name}"': f'"node-{number:03d}"' for number, name in enumerate(sorted(nodes))}
    text = json.dumps(found.objects)
    for old, new in renamed.items():
        text = text.replace(old, new)
    return structs.replace(found, objects=json.loads(text))


@pytest.mark.parametrize("seed", range(6))
def test_the_same_is_decided_up_to_names(seed: int) -> None:
    names = Names(KEY)
    found = in_order(walked(seed))
    plain, other = Decisions(), Decisions()
    with lab_of(found, [plain]) as lab:
        lab.settle()
        rows = Counter((names.text(row.app), row.phase, names.text(row.node)) for row in lab.picture().rows)
    with lab_of(anonymise(found, KEY), [other]) as lab:
        lab.settle()
        assert Counter((row.app, row.phase, row.node) for row in lab.picture().rows) == rows
    assert told(plain, names) == told(other, None)


def test_operators_find_their_pods_again() -> None:
    """They find them by role, which is in the pods' names and labels."""
    container = {"image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}

    def work(version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": name, "labels": {"kai.scheduler/queue": "team"}}
        return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}

    def part(name: str, replicas: int = 1) -> dict[str, Any]:
        pod = {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [{"name": name, **container}]}
        return {"replicas": replicas, "template": {"spec": pod}}

    groups = {
        "headGroupSpec": {"rayStartParams": {}, "template": part("ray")["template"]},
        "workerGroupSpecs": [{"groupName": "small", "minReplicas": 1, "maxReplicas": 1, **part("ray")}],
    }
    free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
    with Lab.open("lesson") as lab:
        lab.apply(
            work("scheduling.run.ai/v2", "Queue", "team", {"resources": {"gpu": free, "cpu": free, "memory": free}}),
            work("kubeflow.org/v1", "PyTorchJob", "torch", {"pytorchReplicaSpecs": {"Master": part("pytorch"), "Worker": part("pytorch", 2)}}),
            work("kubeflow.org/v2beta1", "MPIJob", "mpi", {"mpiReplicaSpecs": {"Launcher": part("mpi"), "Worker": part("mpi", 2)}}),
            work("ray.io/v1", "RayCluster", "ray", groups),
        )  # fmt: skip
        lab.settle()
        found = anonymise(taking.of_lab(lab), KEY)
    with lab_of(found) as lab:
        before = {row.name: row.phase for row in lab.picture().rows}
        assert Counter(before.values())["Running"] == 8
        lab.settle()
        lab.advance(60)
        assert {row.name: row.phase for row in lab.picture().rows} == before


def told(seen: Decisions, names: Names | None) -> list[tuple[str, ...]]:
    (_, entries), *_ = seen.cycles

    def mapped(text: str) -> str:
        return text if names is None else names.text(text)

    kinds = PodBound | PodPromised | PodEvicted
    return sorted(
        (type(one).__name__, mapped(one.pod), mapped(one.node), one.action) for one in entries if isinstance(one, kinds)
    )


WORDS = ("acme", "skunkworks", "zebra", "falcon", "tango", "gregor", "montage")


def test_no_name_is_left(tmp_path: Path) -> None:
    chance = random.Random(7)
    team, project, pool, model, user, rack, claim = WORDS
    queue = {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": f"{team}-research"},
        "spec": {
            "resources": {
                "gpu": {"quota": 4, "limit": -1},
                "cpu": {"quota": -1, "limit": -1},
                "memory": {"quota": -1, "limit": -1},
            }
        },
    }
    container = {"name": model, "image": f"{team}.io/{model}:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    term = {"matchExpressions": [{"key": f"{team}.com/{rack}", "operator": "In", "values": [f"{rack}-1"]}]}
    template = {
        "metadata": {"labels": {"app": f"{project}-train", "kai.scheduler/queue": f"{team}-research", "user": user}},
        "spec": {
            "schedulerName": "kai-scheduler",
            "containers": [container],
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
            },
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
        },
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": f"{project}-train"}}, "template": template}
    made = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": f"{project}-train"}, "spec": spec}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": claim},
        "spec": {"accessModes": ["ReadWriteOnce"]},
    }
    with Lab.open() as lab:
        node = chance.choice(lab.get("nodes"))["metadata"]["name"]
        lab.patch("Node", node, {"metadata": {"labels": {f"{team}.com/{rack}": f"{rack}-1", f"{pool}/x": "y"}}})
        lab.apply([queue, volume, made])
        lab.settle()
        lab.cluster.event(lab.get("pods")[0], "Warning", "Told", f"{user} asked for {project}")
        before = taking.of_lab(lab)
    after = anonymise(before, KEY)
    text = json.dumps(after.objects) + str(after.facts) + str(after.decided) + str(after.counters)
    assert [word for word in WORDS if word in json.dumps(before.objects)] == [word for word in WORDS if word != pool]
    assert [word for word in WORDS if word in text] == []
    with lab_of(after) as lab:
        pods = {one["metadata"]["uid"] for one in lab.get("pods")}
        lab.settle()
        assert {one["metadata"]["uid"] for one in lab.get("pods")} == pods
        assert {one["spec"]["nodeName"] for one in lab.get("pods")} == {Names(KEY).text(node)}
        lab.delete("Pod", lab.get("pods")[0]["metadata"]["name"])
        lab.settle()
        assert len(lab.get("pods")) == 2


class Planted:
    """Gives out words that stand nowhere else, each with the place where it was planted."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        word = f"zQ{len(self.places):05d}xKvR"
        self.places[word] = place
        return word

    def value(self, value: Any, place: str) -> Any:
        """The same with such a word in the place of each text, beside those that it had; and with fields that nobody knows."""
        if isinstance(value, dict):
            found = {key: self.value(inside, f"{place}.{key}") for key, inside in value.items()}
            found[self(f"a key of {place}")] = self(f"a value in {place}")
            for prefix in ("kailab.dev", "kai.scheduler", "run.ai", "example.com", "nvidia.com", "app.kubernetes.io"):
                found[f"{prefix}/{self(f'a key of {prefix} in {place}')}"] = self(f"a note of {prefix} in {place}")
            for key in (
                "spec",
                "mode",
                "reason",
                "status",
                "type",
                "state",
                "request",
                "memory",
                "driver",
                "expression",
                "attributes",
                "message",
            ):
                found.setdefault(key, self(f"{key} of {place}"))
            return found
        if isinstance(value, list):
            return [self.value(one, f"{place}[{at}]") for at, one in enumerate(value)]
        return f"{value} {self(place)}" if isinstance(value, str) else value

    def left_in(self, text: str) -> list[str]:
        return [self.places[word] for word in re.findall(r"zQ\d{5}xKvR", text) if word in self.places]


def test_no_text_of_any_object_is_left_whatever_field_it_is_in() -> None:
    """A word is planted in every text and every name of a field, of objects of every kind."""
    planted = Planted()
    found = walked(3)
    notes = dict.fromkeys(_PLAIN_NOTES, "x") | {f"kailab.dev/{name}": "x" for name in ("fail", "run-seconds", "lab")}
    bare = {
        key: [{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x", "annotations": notes, "labels": notes},
               "spec": {"a": "b", "resources": {"claims": [{"name": "x"}], "limits": {"x": "1"}}, "selector": {"x": "y"}},
               "status": {"conditions": [{"type": "x", "reason": "y", "status": "z", "message": "m"}]}}]
        for key, kind in KINDS.items()
    }  # fmt: skip
    objects = {
        key: [planted.value(obj, f"{key}[{at}]") for at, obj in enumerate(several[:1])]
        for key, several in (*bare.items(), *((f"{key}s", several) for key, several in found.objects.items()))
    }
    objects[f"{planted('a kind')}.example.com"] = []
    left_out = {planted("a kind that was left out"): planted("why it was left out")}
    evil = structs.replace(
        found, objects=objects, left_out=left_out, node_pool=planted("node pool"), notices=(planted("a notice"),),
        facts=structs.replace(found.facts, fleet=planted("fleet"), scheduler=planted("scheduler"), versions={planted("a program"): planted("a version")}),
    )  # fmt: skip
    left = planted.left_in(msgspec.json.encode(anonymise(evil, KEY)).decode())
    assert left == []
    assert len(planted.places) > 5_000


@pytest.mark.parametrize(
    "text",
    [
        "40Gi",
        "500m",
        "1h30m0s",
        "20:OOMKilled",
        "batch/v1",
        "nvidia.com/mig-1g.5gb",
        "RollingUpdate",
        "0 0 * * MON",
        "25%",
        "v1beta1",
    ],
)
def test_what_is_nobodys_name_stays(text: str) -> None:
    assert Names(KEY).replace_unknown(text) == text


def test_every_word_that_kailab_reads_is_known() -> None:
    """`make docs` writes the list anew."""
    assert known_names.collect_words() - set(known_names.FILE.read_text().split()) == set()


def test_a_key_has_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("short\n")
    with pytest.raises(InputError, match="key: holds 5 bytes; a key has at least 16"):
        read_key(path)
    with pytest.raises(InputError, match="can't be read"):
        read_key(tmp_path / "none")


@pytest.mark.parametrize("form", [WholeGpus, GpuFraction, GpuMemory, MigInstances])
def test_a_bind_request_keeps_the_form_in_which_gpus_are_received(form: type[GpuRequest]) -> None:
    assert form.request_type in known_names.FILE.read_text().split()


def test_a_cron_job_keeps_its_schedule_in_its_time_zone() -> None:
    job = {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}}
    spec = {"schedule": "0 3 * * *", "timeZone": "Asia/Tokyo", "jobTemplate": {"spec": job}}
    with Lab.open() as lab:
        lab.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "nightly"}, "spec": spec})
        with lab_of(anonymise(taking.of_lab(lab), KEY)) as opened:
            (nightly,) = opened.get("cronjobs")
            assert (nightly["spec"]["schedule"], nightly["spec"]["timeZone"]) == ("0 3 * * *", "Asia/Tokyo")
            assert nightly["metadata"]["name"] != "nightly"


def test_the_controller_of_a_registered_kind_still_reads_its_objects() -> None:
    kind = structs.replace(SQUAD, field_names=("members", "minSeats"))
    with registered_kinds(kind):
        with Lab.open() as lab:
            lab.apply(QUEUE, squad("red", replicas=3, minSeats=2), validate="ignore")
            lab.settle()
            snapshot = anonymise(taking.of_lab(lab), KEY)
        with lab_of(snapshot) as opened:
            (red,) = opened.get("squads")
            assert (red["kind"], red["spec"]["minSeats"], red["status"]) == ("Squad", 2, {"members": 3})
            for name in [pod["metadata"]["name"] for pod in opened.get("pods")]:
                opened.delete("pod", name)
            opened.settle()
            assert len([pod for pod in opened.get("pods") if pod["spec"].get("nodeName")]) == 3
