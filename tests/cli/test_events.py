"""Events by workload, and who displaced whom, on the command line."""

from __future__ import annotations

import json


def test_events_are_grouped_by_workload_and_reason(kailab, busy) -> None:
    done = kailab("events")
    assert done.code == 0
    head, first, *others = done.out.splitlines()
    assert head.split("  ")[0] == "WORKLOAD"
    assert first.startswith("Job default/train ")
    # The workload's name stands once, above all its reasons.
    assert all(line.startswith(" ") for line in others)
    [group] = json.loads(kailab("events", "-A", "-o", "json").out)["workloads"]
    assert group["workload"] == "Job default/train"
    counts = {(row["type"], row["reason"]): row["count"] for row in group["events"]}
    listed = json.loads(kailab("get", "events", "-o", "json").out)["items"]
    assert sum(counts.values()) == sum(event.get("count") or 1 for event in listed)
    bound = next(row for row in group["events"] if row["reason"] == "Bound")
    assert (bound["count"], len(bound["objects"])) == (16, 16)


def test_events_of_one_subject_of_a_type_and_of_a_span(kailab, busy) -> None:
    whole = kailab("events", "job", "train", "-o", "json").out
    assert whole == kailab("events", "-o", "json").out
    [warned] = json.loads(kailab("events", "job/train", "--types", "Warning", "-o", "json").out)["workloads"]
    assert {row["type"] for row in warned["events"]} == {"Warning"}
    assert kailab("run", "--for", "2h").code == 0
    late = kailab("events", "--since", "1h")
    assert (late.code, late.out) == (0, "")
    assert json.loads(kailab("events", "--since", "3h", "-o", "json").out)["workloads"]


def test_events_that_can_not_be(kailab, busy) -> None:
    for words in (("job", "ghost"), ("job",), ("--types", "Odd"), ("--since", "0s"), ("--since", "soon")):
        done = kailab("events", *words)
        assert (done.code != 0, done.err.lower().startswith("error")) == (True, True), (words, done.err)


def test_the_timeline_of_evictions(kailab, busy) -> None:
    done = kailab("timeline", "--evictions", "--since", "1h")
    assert done.code == 0
    assert done.out.startswith("No pod was evicted since 2026-01-01T00:00:00Z.")
    data = json.loads(kailab("timeline", "--evictions", "-o", "json").out)
    assert (data["evictions"], data["workloads"], data["chains"], data["moves"]) == ([], [], [], {})
    assert kailab("timeline", "--since", "0s").code == 2


def test_podgroups_have_their_place_in_line_as_explain_says_it(kailab, busy) -> None:
    kailab("submit", "later", "-q", "team-a", "--gpus", "4")
    head, *rows = kailab("get", "podgroups").out.splitlines()
    start = head.index("PLACE")
    shown = {row.split()[0]: row[start : start + 5].strip() for row in rows}
    places = {
        name: json.loads(kailab("explain", "podgroup", name, "--no-steps", "-o", "json").out)["place"] for name in shown
    }
    assert shown == {name: str(place or "") for name, place in places.items()}
    assert "1" in shown.values()
