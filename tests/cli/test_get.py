"""Objects shown: tables that stay as they are, and the objects themselves."""

from __future__ import annotations

import json

import pytest
import yaml

from kailab.cli.table import age, render


def test_pods(busy) -> None:
    lines = busy("get", "pods").out.splitlines()
    assert lines[0] == "NAME          READY   STATUS    RESTARTS   AGE"
    assert len(lines) == 21
    states = [tuple(line.split()[1:]) for line in lines[1:]]
    assert states.count(("1/1", "Running", "0", "1s")) == 16
    assert states.count(("0/1", "Pending", "0", "1s")) == 4


def test_pods_wide_show_their_node_and_queue(busy) -> None:
    header, *rows = (line.split() for line in busy("get", "pods", "-o", "wide").out.splitlines())
    assert header[5:] == ["NODE", "GPUS", "QUEUE", "PODGROUP"]
    nodes = [row[5] for row in rows]
    assert nodes.count("<none>") == 4
    assert {row[7] for row in rows} == {"team-a"}


def test_queues(busy) -> None:
    assert busy("get", "queues").out.splitlines() == [
        "NAME     PARENT   QUOTA   LIMIT   ALLOCATED   REQUESTED   FAIR-SHARE   AGE",
        "team-a            8       16      16          20          16           1s",
    ]


def test_a_queue_without_bounds_reads_as_such(started) -> None:
    text = (
        "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\n"
        "spec: {resources: {gpu: {quota: -1, limit: -1}}}"
    )
    started("apply", "--no-settle", "-f", "-", input=text)
    cells = started("get", "q", "--no-headers").out.split()
    assert cells[:4] == ["q", "unlimited", "unlimited", "0"]


def test_podgroups(busy) -> None:
    header, row = busy("get", "podgroups").out.splitlines()
    assert header.split() == ["NAME", "PHASE", "QUEUE", "MIN", "RUNNING", "REASON", "AGE"]
    assert row.split()[1:] == ["Running", "team-a", "1", "16/20", "OverLimit", "1s"]


def test_nodes(busy) -> None:
    header, *rows = busy("get", "nodes").out.splitlines()
    assert header == "NAME     STATUS   GPUS   MODEL   PODS   AGE"
    used = [row.split()[2] for row in rows]
    assert sum(int(cell.split("/")[0]) for cell in used) == 16
    assert [cell.split("/")[1] for cell in used] == ["8", "8", "8", "4", "4"]
    assert [row.split()[3] for row in rows] == ["A100", "A100", "H100", "L40S", "L40S"]


def test_events(busy) -> None:
    header, *rows = busy("get", "events").out.splitlines()
    assert header.split()[:4] == ["LAST", "SEEN", "TYPE", "REASON"]
    assert any("Scheduled" in row and "Successfully assigned pod default/train-" in row for row in rows)
    assert any("OverLimit" in row for row in rows)


def test_several_kinds_are_named_in_full(busy) -> None:
    first, second = busy("get", "jobs,queues").out.split("\n\n")
    assert "job.batch/train   Running   0/20" in first
    assert "queue.scheduling.run.ai/team-a" in second
    assert "podgroup.scheduling.run.ai/" in busy("get", "all").out


def test_all_namespaces(busy) -> None:
    lines = busy("get", "pods", "-A").out.splitlines()
    assert lines[0].split()[:2] == ["NAMESPACE", "NAME"]
    assert all(line.startswith("default ") for line in lines[1:])
    assert busy("get", "nodes", "-A").out.split()[0] == "NAME"


def test_by_label(busy) -> None:
    assert len(busy("get", "pods", "-l", "app=train", "-o", "name").out.split()) == 20
    assert busy("get", "pods", "-l", "app!=train").err == "No resources found in default namespace.\n"


@pytest.mark.parametrize("word", ["pod", "pods", "po", "Pod"])
def test_the_names_of_a_kind(busy, word: str) -> None:
    assert busy("get", word, "-o", "name").out.startswith("pod/train-")


def test_as_objects(busy) -> None:
    queue = json.loads(busy("get", "queue", "team-a", "-o", "json").out)
    assert queue["spec"]["resources"]["gpu"]["quota"] == 8
    assert yaml.safe_load(busy("get", "queue/team-a", "-o", "yaml").out) == queue
    many = json.loads(busy("get", "queues,jobs", "-o", "json").out)
    assert many["kind"] == "List"
    assert [item["kind"] for item in many["items"]] == ["Queue", "Job"]
    assert json.loads(busy("get", "cm", "-o", "json").out)["items"] == []


def test_what_get_prints_can_be_applied(busy) -> None:
    text = busy("get", "queue", "team-a", "-o", "yaml").out
    assert busy("apply", "-f", "-", input=text).out.startswith("queue.scheduling.run.ai/team-a ")


def test_a_kind_without_columns_of_its_own(busy) -> None:
    text = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w, namespace: default}\nspec: {}"
    busy("apply", "-f", "-", input=text)
    assert busy("get", "widget").out.splitlines()[0] == "NAME   AGE"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("pods", "ghost"), "'ghost' not found"),
        (("ghosts",), "no kind is called 'ghosts'"),
        (("podz",), "did you mean"),
        (("pods,jobs", "a"), "kind/name"),
        (("pod/a/b",), "kind/name"),
        (("pods", "a", "-l", "x=y"), "-l"),
        (("pods", "a", "-A"), "-A"),
        (("pods", "-l", "=="), "=="),
        (("pods", "-o", "xml"), "xml"),
        ((), "Missing argument"),
        ((",",), "say what"),
    ],
)
def test_wrong_use(busy, arguments: tuple[str, ...], said: str) -> None:
    done = busy("get", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert said in done.err


def test_looking_changes_nothing(busy, state) -> None:
    before = state.read_bytes()
    for arguments in (("get", "all"), ("status",), ("explain", "queue", "team-a"), ("get", "pods", "-o", "yaml")):
        assert busy(*arguments).code == 0
    assert state.read_bytes() == before


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0s"), (119.9, "119s"), (120, "2m"), (599, "9m59s"), (600, "10m"), (10799, "179m"), (10800, "3h"),
     (10860, "3h1m"), (86400, "24h"), (172800, "2d"), (180000, "2d2h"), (86400 * 8, "8d"), (-5, "0s")],
)  # fmt: skip
def test_ages(seconds: float, told: str) -> None:
    assert age(seconds) == told


def test_tables_line_up_and_end_without_spaces() -> None:
    text = render(["A", "LONG", "C"], [["x", "", "a\nb"], ["yyyy", "z", ""]])
    assert text == "A      LONG   C\nx             a b\nyyyy   z"
    assert render(["A"], [["x"]], no_headers=True) == "x"
