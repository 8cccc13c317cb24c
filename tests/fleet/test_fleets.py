from __future__ import annotations

import copy

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.errors import InputError, InputErrors, KailabError
from kailab.fleet.library import available_fleets
from kailab.fleet.reading import SCHEMA, load_fleet, read_fleet
from kailab.model.kinds import kind_key
from kailab.model.schema_files import read_schema
from kailab.model.validation import validate

SHIPPED = ["eight-hundred", "hundred", "lesson", "mixed", "racks", "scale-2000", "scale-500", "scale-5000"]
SMALL = {
    "apiVersion": "kailab.dev/v1",
    "kind": "Fleet",
    "name": "small",
    "pools": [{"name": "a100", "count": 2, "gpus": 8, "gpuModel": "A100", "cpu": 96, "memory": "1000Gi"}],
}


def fleet(**pool):
    value = copy.deepcopy(SMALL)
    value["pools"][0].update(pool)
    return value


def read(value):
    return read_fleet(yaml.safe_dump(value, sort_keys=False), "f.yaml")


def test_the_lesson_fleet():
    nodes = {node["metadata"]["name"]: node for node in load_fleet("lesson").nodes()}
    assert list(nodes) == ["a100-0", "a100-1", "h100-0", "l40s-0", "l40s-1"]
    gpus = {name: int(node["status"]["allocatable"]["nvidia.com/gpu"]) for name, node in nodes.items()}
    assert gpus == {"a100-0": 8, "a100-1": 8, "h100-0": 8, "l40s-0": 4, "l40s-1": 4}
    racks = {name: node["metadata"]["labels"]["lab/rack"] for name, node in nodes.items()}
    assert racks == {"a100-0": "rack-1", "a100-1": "rack-1", "h100-0": "rack-2", "l40s-0": "rack-3", "l40s-1": "rack-3"}
    for name, node in nodes.items():
        labels = node["metadata"]["labels"]
        assert labels["nvidia.com/gpu.product"] == name.partition("-")[0].upper()
        assert labels["nvidia.com/gpu.count"] == str(gpus[name])
        assert labels["nvidia.com/gpu.present"] == "true"
        assert labels["kubernetes.io/hostname"] == name
        assert "taints" not in node["spec"]
        amounts = node["status"]["allocatable"]
        assert (amounts["cpu"], amounts["memory"], amounts["pods"]) == ("96", "1000Gi", "110")
        assert {"type": "Ready", "status": "True"}.items() <= node["status"]["conditions"][0].items()


@pytest.mark.parametrize("name", SHIPPED)
def test_fleets_that_come_with_kailab_are_sound(name):
    loaded = load_fleet(name)
    assert loaded.name == name
    for obj in loaded.objects():
        assert validate(obj, kind_key(obj)) == []
    names = [node["metadata"]["name"] for node in loaded.nodes()]
    assert len(set(names)) == len(names) == loaded.summary().nodes


@pytest.mark.parametrize(
    ("name", "gpus", "nodes"),
    [("lesson", 32, 5), ("hundred", 100, 13), ("eight-hundred", 800, 100), ("racks", 192, 24), ("mixed", 84, 26), ("scale-500", 4000, 500),
     ("scale-2000", 16000, 2000),
     ("scale-5000", 40000, 5000)],
)  # fmt: skip
def test_what_they_add_up_to(name, gpus, nodes):
    summary = load_fleet(name).summary()
    assert (summary.gpus, summary.nodes) == (gpus, nodes)


def test_fleets_are_found_by_name_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert set(SHIPPED) <= set(available_fleets())
    (tmp_path / "fleets").mkdir()
    (tmp_path / "fleets" / "lesson.yaml").write_text(yaml.safe_dump({**SMALL, "name": "mine"}))
    assert load_fleet("lesson").name == "mine"  # one's own come first
    assert load_fleet(tmp_path / "fleets" / "lesson.yaml").name == "mine"
    with pytest.raises(InputError, match=r"no fleet is called 'leson'; did you mean lesson\?"):
        load_fleet("leson")
    with pytest.raises(InputError, match=r"nowhere.yaml: can't be read: No such file"):
        load_fleet("nowhere.yaml")


def test_layout_puts_nodes_into_racks_and_zones():
    nodes = load_fleet("racks").nodes()
    places = [(n["metadata"]["labels"]["lab/zone"], n["metadata"]["labels"]["lab/rack"]) for n in nodes]
    assert places[0] == ("zone-1", "rack-1")
    assert places[11:13] == [("zone-1", "rack-3"), ("zone-2", "rack-4")]
    assert len(set(places)) == 6
    topology = load_fleet("racks").topologies[0]
    assert [level["nodeLabel"] for level in topology["spec"]["levels"]] == [
        "lab/zone",
        "lab/rack",
        "kubernetes.io/hostname",
    ]


def test_mig_devices_are_offered_by_profile():
    mixed = {"strategy": "mixed", "profiles": {"1g.10gb": 28, "3g.40gb": 4}}
    made = read(fleet(mig=mixed))
    amounts = made.nodes()[0]["status"]["allocatable"]
    assert (amounts["nvidia.com/mig-1g.10gb"], amounts["nvidia.com/mig-3g.40gb"]) == ("28", "4")
    assert "nvidia.com/gpu" not in amounts
    assert made.nodes()[0]["metadata"]["labels"]["nvidia.com/mig.strategy"] == "mixed"
    assert made.summary().gpus == 0
    assert made.summary().models[0].mig == {"1g.10gb": 56, "3g.40gb": 8}
    single = read(fleet(mig={"strategy": "single", "profiles": {"1g.10gb": 56}}))
    assert single.nodes()[0]["status"]["allocatable"]["nvidia.com/gpu"] == "56"


def test_gpu_memory_is_in_mebibytes():
    labels = [read(fleet(gpuMemory=m)).nodes()[0]["metadata"]["labels"] for m in ("80Gi", 81920)]
    assert [label["nvidia.com/gpu.memory"] for label in labels] == ["81920", "81920"]


def test_the_taint_of_fake_nodes_is_for_clusters_with_real_ones():
    """Where there are no others a manifest from anywhere may run; what a file says of taints holds everywhere."""
    default = [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]
    (pool,) = read(fleet()).pools
    assert ["taints" in node["spec"] for node in pool.nodes()] == [False] * pool.count
    assert [node["spec"]["taints"] for node in pool.nodes(beside_real=True)] == [default] * pool.count
    own = [{"key": "lab/reserved", "effect": "NoSchedule"}]
    for told, expected in ((own, own), ([], None)):
        (pool,) = read(fleet(taints=told)).pools
        for beside_real in (False, True):
            assert [n["spec"].get("taints") for n in pool.nodes(beside_real=beside_real)] == [expected] * pool.count


def test_names_taints_and_resources():
    made = read(
        fleet(nameTemplate="n{index:03}-{pool}", startIndex=9, taints=[], resources={"rdma/hca": 4}, labels={"a": "b"})
    )
    node = made.nodes()[1]
    assert node["metadata"]["name"] == "n010-a100"
    assert "taints" not in node["spec"]
    assert node["status"]["allocatable"]["rdma/hca"] == "4"
    assert node["metadata"]["labels"]["a"] == "b"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gpu": 8}, r"f.yaml:11: Fleet/small: pools\[0\].gpu: unknown field; did you mean gpus\?"),
        ({"gpuMOdel": "x"}, r"did you mean gpuModel\?"),
        ({"zzz": 1}, r"unknown field; expected one of name, description, count"),
        ({"count": -1}, r"f.yaml:6: Fleet/small: pools\[0\].count: -1 is too small; expected 0 or more"),
        ({"count": 10**9}, r"is too large; expected 100000 at most"),
        ({"count": "2"}, r"'2' is not valid; expected a whole number"),
        ({"gpus": 5000}, r"pools\[0\].gpus: 5000 is too large"),
        ({"gpus": 0.5}, r"expected a whole number"),
        ({"cpu": -1}, r"pools\[0\].cpu: -1 is negative"),
        ({"memory": "1000GB"}, r"f.yaml:10: .*memory: '1000GB' is not a quantity"),
        ({"memory": "1e30"}, r"too large"),
        ({"nameTemplate": "node"}, r"gives every node the same name"),
        ({"nameTemplate": "{node}-{index}"}, r"expected \{pool\}, \{index\}"),
        ({"nameTemplate": "Node_{index}"}, r"pools\[0\].nameTemplate: 'Node_0' is not valid"),
        ({"labels": {"a b": "c"}}, r"pools\[0\].labels\[a b\]"),
        ({"labels": {"a": 1}}, r"pools\[0\].labels.a: 1 is not valid; expected text"),
        ({"taints": [{"key": "a", "effect": "Never"}]}, r"'Never' is not valid; expected NoSchedule or"),
        ({"taints": [{"effect": "NoSchedule"}]}, r"pools\[0\].taints\[0\].key: is required"),
        ({"mig": {"strategy": "single", "profiles": {"1g.5gb": 1, "2g.10gb": 1}}}, r"expected one profile"),
        ({"mig": {"strategy": "mixed", "profiles": {"tiny": 1}}}, r"is not a MIG profile"),
        ({"layout": [{"label": "z", "nodes": 3}, {"label": "r", "nodes": 2}]}, r"layout\[1\].nodes: a z of 3 nodes does not divide"),
        ({"resources": {"rdma/hca": 0.5}}, r"resources\[rdma/hca\]: 0.5 is not a whole number"),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_field(change, message):
    with pytest.raises(InputError, match=message):
        read(fleet(**change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pools": []}, "pools: is empty; expected at least one"),
        ({"kind": "Flet"}, "kind: 'Flet' is not valid; expected 'Fleet'"),
        ({"name": "Big Fleet"}, "lower-case"),
        ({"pool": []}, r"pool: unknown field; did you mean pools\?"),
        ({"topologies": [{"name": "t", "levels": ["lab/rack"]}]}, "no node carries the label 'lab/rack'"),
        ({"priorityClasses": [{"name": "p"}]}, r"priorityClasses\[0\].value: is required"),
        ({"pools": SMALL["pools"] * 2}, "there are two of pool 'a100'|is in pool"),
        ({"pools": [SMALL["pools"][0] | {"name": n, "count": 60_000} for n in "ab"]}, "120,000 nodes in all"),
    ],
)
def test_errors_of_the_whole(change, message):
    with pytest.raises(InputError, match=message):
        read({**SMALL, **change})


def test_all_problems_are_told_at_once():
    with pytest.raises(InputErrors) as caught:
        read(fleet(gpu=8, count=-1, cpu=[]))
    assert len(caught.value.errors) == 3


@pytest.mark.parametrize("text", ["", "- 1", "3", "a: [", "a: 1\n---\nb: 2", "kind: Fleet"])
def test_what_is_no_fleet(text):
    with pytest.raises(InputError, match=r"f.yaml"):
        read_fleet(text, "f.yaml")


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(read_schema(SCHEMA))


ODD = [
    None,
    True,
    -1,
    0,
    2**70,
    1e308,
    float("nan"),
    "",
    "x",
    "1e99",
    "é",
    "\x00",
    [],
    [1],
    {},
    {"": 1},
    {"a": "b"},
    [[]],
    "{",
    "{index}",
]
FULL = {
    **fleet(layout=[{"label": "lab/rack", "nodes": 1}], taints=[{"key": "a", "effect": "NoSchedule"}], labels={"a": "b"},
            mig={"strategy": "mixed", "profiles": {"1g.10gb": 1}}, resources={"x/y": 1}, nameTemplate="{pool}-{index}",
            gpuMemory="80Gi"),
    "topologies": [{"name": "t", "levels": ["lab/rack", "kubernetes.io/hostname"]}],
    "priorityClasses": [{"name": "p", "value": 1}],
}  # fmt: skip


def spots(value, path=()):
    if path:
        yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from spots(item, (*path, key))


@given(st.lists(st.tuples(st.integers(0, 10**6), st.sampled_from(ODD), st.booleans()), min_size=1, max_size=3))
@settings(max_examples=400)
def test_damaged_fleets_give_a_fleet_or_an_error(steps):
    value = copy.deepcopy(FULL)
    for where, odd, rename in steps:
        there = list(spots(value))
        if not there:
            break
        *front, key = there[where % len(there)]
        parent = value
        for step in front:
            parent = parent[step]
        if rename and isinstance(parent, dict):
            parent[str(odd)] = parent.pop(key)
        else:
            parent[key] = copy.deepcopy(odd)
    try:
        objects = read_fleet(yaml.safe_dump(value, allow_unicode=True), "f.yaml").objects()[:20]
        said = "a fleet"
    except KailabError as error:
        objects, said = [], str(error)
    assert said
    for obj in objects:
        assert validate(obj, kind_key(obj)) == []


def test_gpus_of_amd_are_a_resource_of_their_own_name():
    (first, _) = read(fleet(gpuVendor="amd", gpuModel="MI300X")).nodes()
    assert first["status"]["allocatable"]["amd.com/gpu"] == "8"
    assert "nvidia.com/gpu" not in first["status"]["allocatable"]
    labels = first["metadata"]["labels"]
    assert labels["amd.com/gpu.product-name"] == "MI300X"
    assert not [name for name in labels if name.startswith("nvidia.com/")]
    with pytest.raises(InputError, match=r"pools\[0\].gpuMemory: applies to NVIDIA GPUs only"):
        read(fleet(gpuVendor="amd", gpuMemory="80Gi"))
    with pytest.raises(InputError, match="gpuVendor"):
        read(fleet(gpuVendor="intel"))


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: v1\nkind: List\nitems: []\n",
        '{"apiVersion": "v1", "kind": "NodeList", "items": []}',
        "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: team}\n",
    ],
    ids=["a list", "as JSON", "another object"],
)
def test_objects_without_nodes_make_no_fleet(text: str) -> None:
    with pytest.raises(InputError, match=r"^nodes.yaml: holds Kubernetes objects, but no nodes.*kailab apply -f"):
        read_fleet(text, "nodes.yaml")
