"""Objects shown: tables that stay as they are, and the objects themselves."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kailab.cli.table import column_widths, fit_table, format_age, render_table


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
    assert header.split() == ["NAME", "PHASE", "QUEUE", "MIN", "RUNNING", "REASON", "PLACE", "AGE"]
    assert row.split()[1:] == ["Running", "team-a", "1", "16/20", "OverLimit", "1", "1s"]


@pytest.mark.parametrize(
    ("words", "minimum"),
    [
        ("subGroups: [{name: a, minMember: 4}, {name: b, minMember: 2}]", "6"),
        ("minSubGroup: 1, subGroups: [{name: a, minMember: 4}, {name: b, minMember: 2}]", "2"),
        (
            "subGroups: [{name: all, minSubGroup: 2}, {name: a, parent: all, minMember: 5}, {name: b, parent: all, minMember: 3}]",
            "8",
        ),
        ("minMember: 3", "3"),
    ],
)
def test_the_minimum_of_a_podgroup_is_that_of_its_subgroups(started, words: str, minimum: str) -> None:
    text = (
        "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: tree, namespace: default}\n"
        f"spec: {{queue: team-a, {words}}}"
    )
    assert started("apply", "--no-settle", "-f", "-", input=text).code == 0
    _, row = started("get", "podgroups").out.splitlines()
    assert row.split()[:4] == ["tree", "Pending", "team-a", minimum]


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
        (("pods,jobs", "a"), "KIND/NAME"),
        (("pod/a/b",), "KIND/NAME"),
        (("pods", "team/a"), "write `pods a -n team`"),
        (("pods", "a", "-l", "x=y"), "-l"),
        (("pods", "a", "-A"), "-A"),
        (("pods", "-l", "=="), "=="),
        (("pods", "-o", "xml"), "xml"),
        ((), "Missing argument"),
        ((",",), "no objects are named"),
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
    assert format_age(seconds) == told


def test_tables_line_up_and_end_without_spaces() -> None:
    text = render_table(["A", "LONG", "C"], [["x", "", "a\nb"], ["yyyy", "z", ""]])
    assert text == "A      LONG   C\nx             a b\nyyyy   z"
    assert render_table(["A"], [["x"]], no_headers=True) == "x"


def test_paths_as_kubectl_writes_them(busy) -> None:
    said = busy(
        "get", "pods", "-o", 'jsonpath={range .items[*]}{.metadata.labels.kai\\.scheduler/queue}{"\\n"}{end}'
    ).out
    assert said == "team-a\n" * 20
    assert busy("get", "q", "team-a", "-o", "jsonpath={.spec.resources.gpu}").out == (
        '{"quota": 8, "limit": 16, "overQuotaWeight": 1}'
    )
    running = busy("get", "pods", "-o", 'jsonpath={.items[?(@.status.phase=="Running")].metadata.name}').out
    assert len(running.split(" ")) == 16


def test_columns_of_ones_own(busy) -> None:
    said = busy(
        "get", "nodes", "-o", r"custom-columns=NODE:.metadata.name,GPUS:.status.allocatable.nvidia\.com/gpu,X:.no"
    )
    assert said.out.splitlines()[:2] == ["NODE     GPUS   X", "a100-0   8      <none>"]


@pytest.mark.parametrize(
    "options, said",
    [
        (["-o", "jsonpath={.items[}"], "is no JSONPath"),
        (["-o", "jsonpath={range .items[*]}"], "{range} without {end}"),
        (["-o", "jsonpath={items}"], "expected a dot at the beginning"),
        (["-o", "custom-columns=NAME"], "expected HEADER:PATH"),
        (["-o", "jsonpath"], "is not one of"),
        (["-o", "go-template={{.items}}"], "`kailab get ... -o json` prints whole objects"),
        (["--sort-by", ".nope"], "no object has the field .nope"),
        (["--field-selector", "status.phase"], "expected FIELD=VALUE or FIELD!=VALUE"),
        (["-o", "tree"], "-o tree is for queues"),
        (["-o", "turns"], "-o turns is for queues"),
        (["-o", "json", "--show-labels"], "--show-labels and -L apply to tables only"),
        (["-w", "-o", "json"], "--watch shows tables only"),
    ],
)
def test_a_way_to_show_them_that_there_is_not(busy, options, said) -> None:
    done = busy("get", "pods", *options)
    assert done.code == 2
    assert said in done.err


def test_fields_choose_and_order(busy) -> None:
    assert len(busy("get", "pods", "--field-selector", "status.phase=Pending", "-o", "name").out.split()) == 4
    assert (
        len(busy("get", "pods", "--field-selector", "status.phase!=Pending,spec.nodeName!=", "-o", "name").out.split())
        == 16
    )
    named = busy("get", "nodes", "--sort-by", r"{.status.allocatable.nvidia\.com/gpu}", "-o", "name").out.split()
    assert set(named[:2]) == {"node/l40s-0", "node/l40s-1"}


def test_a_field_that_no_object_has_is_said(busy) -> None:
    """A field that is there in some of them, or that is asked to be absent, is no mistake."""
    found = busy("get", "pods", "--field-selector", "status.phas=Pending")
    assert found.code == 0
    assert "warning: --field-selector: no Pod has the field status.phas" in found.err
    for fine in ("spec.nodeName!=a100-0", "metadata.deletionTimestamp="):
        assert "warning" not in busy("get", "pods", "--field-selector", fine).err


def test_labels_as_columns(busy) -> None:
    header, row, *_ = busy("get", "pods", "-L", "app,kai.scheduler/queue", "--show-labels").out.splitlines()
    assert header.split()[-3:] == ["APP", "QUEUE", "LABELS"]
    assert row.split()[-3:-1] == ["train", "team-a"]
    assert "app=train" in row.split()[-1]


TREE = """\
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: org}, spec: {resources: {gpu: {quota: 16, limit: -1}}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: ml}, spec: {parentQueue: org, resources: {gpu: {quota: 4, limit: -1}}}}
---
{apiVersion: scheduling.run.ai/v2, kind: Queue, metadata: {name: web}, spec: {parentQueue: org, resources: {gpu: {quota: 8, limit: -1}}}}
"""


def test_queues_as_a_tree(busy) -> None:
    busy("apply", "--no-settle", "-f", "-", input=TREE)
    lines = busy("get", "queues", "-o", "tree").out.splitlines()
    assert lines[0].split() == ["NAME", "QUOTA", "LIMIT", "FAIR-SHARE", "ALLOCATED", "BORROWED", "WAITING", "STANDS"]
    assert [line.split("   ")[0] for line in lines[1:]] == ["org", "├─ ml", "└─ web", "team-a"]
    assert lines[-1].split()[-3:] == ["8", "4", "borrowing"]


GANG = """
apiVersion: batch/v1
kind: Job
metadata: {{name: {0}, labels: {{kai.scheduler/queue: {1}}}, annotations: {{kai.scheduler/batch-min-member: "4"}}}}
spec:
  parallelism: 4
  completions: 4
  template:
    metadata: {{labels: {{kai.scheduler/queue: {1}}}}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      containers: [{{name: c, image: x, resources: {{limits: {{nvidia.com/gpu: 7}}}}}}]
"""


def test_queues_in_the_order_in_which_they_are_served(busy) -> None:
    """web holds nothing of its quota, team-a more than its own: web comes first. Both wait for gangs that find no room."""
    busy("apply", "--no-settle", "-f", "-", input=TREE)
    busy("apply", "-f", "-", input="---".join(GANG.format(f"g-{queue}", queue) for queue in ("team-a", "web")))
    lines = busy("get", "queues", "-o", "turns").out.splitlines()
    assert lines[0].split() == ["PLACE", "QUEUE", "WAITING", "NEXT", "REFUSED", "WHY"]
    (first, *_) = [line.split() for line in lines[1:]]
    assert first[1] == "web"
    assert "default/pg-g-web" in lines[1]
    assert [line for line in lines[2:] if " team-a " in line and "behind web" in line]


UID = "00000000-0000-4000-8000-000000000013"


def test_a_table_is_made_to_fit_a_terminal_names_last() -> None:
    headers = ["NAME", "PODGROUP", "AGE"]
    rows = [["train-0", f"pg-train-{UID}", "3s"]]
    assert fit_table(headers, rows, 80).rows == rows
    assert fit_table(headers, rows, 40).rows == [["train-0", "pg-train…0013", "3s"]]
    assert fit_table(headers, rows, 10).rows[0][0] == "train-0"
    long = ["podgroup.scheduling.run.ai/pg-a-workload-with-a-long-name-" + UID, "Pending", "team-a"]
    assert fit_table(["NAME", "PHASE", "QUEUE"], [long], 40).rows[0][0] == "podgroup/pg-a-work…0013"


@given(
    rows=st.lists(
        st.tuples(
            st.from_regex(r"[a-z0-9-]{1,60}", fullmatch=True),
            st.from_regex(r"[A-Z]{1,12}", fullmatch=True),
            st.from_regex(r"[a-z]{1,12}( [a-z]{1,12}){0,20}", fullmatch=True),
        ),
        min_size=1,
        max_size=5,
    ),
    room=st.integers(48, 120),
)
def test_sentences_are_wrapped_and_never_cut(rows: list[tuple[str, str, str]], room: int) -> None:
    headers = ["OBJECT", "TYPE", "MESSAGE"]
    laid = fit_table(headers, [headers, *rows], room)
    assert [row[2].replace("\n", " ") for row in laid.rows[1:]] == [row[2] for row in rows]
    columns = column_widths(laid.cell_lines)
    assert sum(columns) + len(laid.gap) * (len(columns) - 1) <= room
    assert all(len(alone) <= room for _, alone in laid.lines())


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "words",
    [
        ("get", "queues"),
        ("get", "queues", "-o", "tree"),
        ("get", "queues", "-o", "turns"),
        ("get", "podgroups"),
        ("get", "pods,podgroups"),
        ("get", "events"),
        ("course", "challenges"),
    ],
)
def test_tables_fit_a_terminal_of_80_columns(busy, on_a_terminal, words: tuple[str, ...]) -> None:
    busy("apply", "--no-settle", "-f", "-", input=TREE)
    lines = on_a_terminal(80, *words)
    assert len(lines) > 1
    assert [line for line in lines if len(line) > 80] == []
    if words == ("get", "events"):
        whole = {line.split("   ")[-1] for line in busy("get", "events", "--no-headers").out.splitlines()}
        assert whole
        said = " ".join(" ".join(lines).split())
        assert [message for message in whole if " ".join(message.split()) not in said] == []


def test_what_changes_is_shown_as_it_changes(busy, process) -> None:
    with process("get", "pods", "--watch", text=True) as watching:
        assert watching.stdout is not None
        first = [watching.stdout.readline() for _ in range(21)]
        assert first[0].split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        busy("patch", "queue", "team-a", "-p", '{"spec": {"resources": {"gpu": {"limit": 20}}}}')
        changed = [watching.stdout.readline().split() for _ in range(4)]
        assert {row[2] for row in changed} == {"Running"}
        busy("down")
        assert watching.wait(60) == 0
        assert watching.stderr is not None
        assert "the lab is down" in watching.stderr.read()
