"""What is shown is the lab's: the last moment is how it stands."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kailab.engine.snapshot import jsonform
from kailab.evidence import store
from kailab.evidence.lab_record import LabRecord
from kailab.lab import Lab
from kailab.lab.capture import EXERCISE, TEST, capture
from kailab.report.lab_form import LabFormBuilder, read_recorded_lab
from kailab.report.page_data import NONE, STATES
from kailab.report.raw import RawTextFiles
from kailab.serve.actions import SetFields, SubmitManifests
from kailab.serve.session import LabSession
from kailab.serve.view import read_present_state
from tests.serve.conftest import TEXTS, begun
from tests.serve.forms import Entries, form_of, resolved


def shown(session: LabSession) -> Any:
    """The lab as the page reads it."""
    return form_of(session.refresh())


def plain(value: Any) -> Any:
    return json.loads(jsonform.encode(value))


def grown(state: Path, *names: str) -> LabSession:
    session = LabSession(state, print)
    session.refresh()
    for name in names:
        session.apply(session.preview(SubmitManifests(TEXTS[name]))["id"])
    return session


def states_of(form: Any) -> dict[str, tuple[str, str]]:
    """Pod -> its state and node at the last moment."""
    pods, found = form["pods"], {}
    for place, name in enumerate(pods["name"]):
        last = pods["first"][place + 1] - 1
        if STATES[pods["state"][last]] != "gone":
            node = pods["node"][last]
            found[name] = (STATES[pods["state"][last]], "" if node == NONE else form["nodes"]["name"][node])
    return found


def test_the_last_moment_is_the_lab_as_it_stands(state: Path) -> None:
    session = grown(state, "10-two-teams", "20-borrower", "30-owner")
    form = shown(session)
    assert [one["kind"] for one in form["moments"]].count("now") == 1
    assert form["moments"][-1]["kind"] == "now"
    with Lab.resume(state, read_only=True) as lab:
        assert form["moments"][-1]["t"] == lab.now - lab.opened
        told = {name: form["queues"]["changes"][place][-1][1] for place, name in enumerate(form["queues"]["name"])}
        assert told == {queue.name: plain(queue) for queue in lab.picture().present.queues}
        rows = lab.picture().rows
        assert {name: node for name, (_, node) in states_of(form).items()} == {row.name: row.node for row in rows}
        assert {form["groups"]["name"][one["group"]] for one in form["waits"] if one["ends"] == NONE} == set(
            lab.picture().pending
        )


def test_what_nobody_has_acted_on_yet_is_shown(state: Path) -> None:
    session = grown(state, "10-two-teams")
    session.pause()
    session.apply(session.preview(SubmitManifests(TEXTS["70-too-large"]))["id"])
    session.apply(session.preview(SetFields(["node/h100-0.unschedulable=true"]))["id"])
    form = shown(session)
    assert states_of(form) == {"default/too-large": ("waits", "")}
    node = form["nodes"]["name"].index("h100-0")
    assert "unschedulable" in form["nodes"]["changes"][node][-1][2]


def test_a_scheduler_without_cycles_is_shown_by_its_states(tmp_path: Path) -> None:
    session = grown(begun(tmp_path / "lab.state", "kube-scheduler"), "10-two-teams", "20-borrower", "30-owner")
    form = shown(session)
    assert form["moments"][-1]["kind"] == "now"
    with Lab.resume(session.path, read_only=True) as lab:
        rows = {row.name: row.node for row in lab.picture().rows}
    assert {name: node for name, (_, node) in states_of(form).items()} == rows
    assert len([one for one in form["waits"] if one["ends"] == NONE]) == sum(not node for node in rows.values())


@pytest.mark.parametrize("scheduler", ["kailab", "kube-scheduler"])
def test_what_is_shown_is_what_evidence_tells(tmp_path: Path, scheduler: str) -> None:
    """Also of what nobody is to know: it is left out of both."""
    session = grown(begun(tmp_path / "lab.state", scheduler), "10-two-teams", "20-borrower", "30-owner")
    session.apply(session.preview(SubmitManifests(SECRET))["id"])
    session.step()
    view = session.refresh()
    with Lab.resume(session.path, read_only=True) as lab:
        run = capture(lab, LabRecord(session.path), tmp_path / "evidence")
        test = store.load_test(run, f"{EXERCISE}/{TEST}")
        raw = RawTextFiles(test.path / "lab", f"{test.name}/lab", "raw")
        form = LabFormBuilder(read_recorded_lab(test, "lab"), raw).form(read_present_state(lab))
    form.raw, chunks = raw.form()
    live = resolved(form_of(view), view.chunks)
    assert live == resolved(plain(form), chunks)
    assert "hunter2hunter2" not in json.dumps(live)


SECRET = TEXTS["70-too-large"].replace("image:", "env: [{name: PASSWORD, value: hunter2hunter2}]\n    image:")


def test_each_reference_of_the_last_moment_leads_to_the_object(state: Path) -> None:
    session = grown(state, "10-two-teams", "20-borrower")
    view = session.refresh()
    form = form_of(view)
    raw = Entries(form, view.chunks)
    for place, name in enumerate(form["queues"]["name"]):
        found = raw.at(form["queues"]["changes"][place][-1][2])["value"]
        assert (found.get("name") or found["metadata"]["name"]) == name


def test_the_desk_has_what_can_be_changed(state: Path) -> None:
    session = grown(state, "10-two-teams", "20-borrower", "40-gang")
    session.apply(session.preview(SetFields(["deployment/borrower.replicas=0"]))["id"])
    view = session.refresh()
    editable = json.loads(gzip.decompress(view.editable))
    workloads = {(one["kind"], one["name"]): one for one in editable["workloads"]}
    assert workloads["Job", "gang"]["replicas"] is None
    assert (workloads["Job", "gang"]["running"], workloads["Job", "gang"]["queue"]) == (8, "team-a")
    assert workloads["Deployment", "borrower"]["replicas"] == 0
    assert [queue["name"] for queue in editable["queues"]] == ["org", "team-a", "team-b"]
    assert editable["queues"][1]["resources"]["gpu"]["quota"] == 12
    assert len(editable["nodes"]) == view.about["nodes"] == 5
    assert {pool["name"]: pool["nodes"] for pool in editable["pools"]} == {"a100": 2, "h100": 1, "l40s": 2}
