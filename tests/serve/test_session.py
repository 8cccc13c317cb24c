"""The lab behind the page: previewed, changed, stepped; saved and locked as commands do it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kailab.cluster.embedded.storage.state_file import StateLock
from kailab.errors import InputError, StateError
from kailab.lab import Lab, lab_files
from kailab.lab.settle import NotSettled
from kailab.serve.actions import AddNodes, DeleteObject, DrainNode, PageAction, SetFields, SubmitManifests, read_action
from kailab.serve.session import LabSession, OutdatedRequest
from kailab.serve.view import PageView
from tests.serve.conftest import TEXTS, begun, opened
from tests.serve.forms import form_of
from tests.serve.sessions import BORROWER, OWNER, TEAMS, done, held, recorded, told


def test_a_preview_tells_what_then_comes_and_changes_nothing(session: LabSession) -> None:
    done(session, TEAMS, BORROWER)
    before = session.path.read_bytes()
    found = session.preview(OWNER)
    assert session.path.read_bytes() == before
    [borrower, owner] = found["workloads"]
    assert (borrower["before"]["running"], borrower["after"]["running"]) == (24, 16)
    assert {one["beneficiary"]["name"] for one in borrower["evicted"]} == {"owner"}
    assert (owner["before"], owner["after"]["running"]) == (None, 16)
    queues = {one["name"]: one["after"]["allocated"] for one in found["queues"]}
    assert "8 evicted" in session.apply(found["id"])
    assert held(session) == {"org": 32, "team-a": 16, "team-b": 16} == queues


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (SubmitManifests("kind: ["), "editor:"),
        (SubmitManifests("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: 3}\n"), "editor:"),
        (SubmitManifests(TEXTS["20-borrower"].replace("replicas: 24", "replicas: many")), "editor:"),
        (SubmitManifests(TEXTS["20-borrower"], namespace="nowhere"), 'namespace "nowhere" does not exist'),
        (SubmitManifests("# nothing\n"), "no object"),
        (SubmitManifests("/etc/passwd"), "editor"),
        (SubmitManifests("-"), "editor"),
        (SubmitManifests(TEXTS["10-two-teams"].replace("parentQueue: org", "parentQueue: team-a")), "editor:"),
        (SetFields(["queue/none.gpu.quota=1"]), "none"),
        (SetFields(["queue/team-a.gpu.quota=much"]), "a number"),
        (SetFields(["queue/team-a.colour=red"]), "expected one of these fields"),
        (SetFields(["deployment/borrower.replicas=-1"]), "from 0"),
        (SetFields([]), "no fields"),
        (DeleteObject("deployment/none"), "none"),
        (DeleteObject("borrower"), "KIND/NAME"),
        (DrainNode("none"), "none"),
        (AddNodes("a100:many"), "POOL:COUNT"),
    ],
)
def test_what_can_not_be_done_is_refused_with_its_reason(session: LabSession, wish: PageAction, message: str) -> None:
    done(session, TEAMS, BORROWER)
    before = session.path.read_bytes()
    with pytest.raises(InputError) as refused:
        session.preview(wish)
    assert message in str(refused.value)
    assert "root:" not in str(refused.value)
    assert session.path.read_bytes() == before


def test_every_fault_of_a_text_is_told_with_its_line(session: LabSession) -> None:
    text = TEXTS["10-two-teams"].replace("quota: 12", "quota: lots")
    with pytest.raises(InputError) as refused:
        session.preview(SubmitManifests(text))
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "quota: lots" in line]
    assert len(lines) == 2
    assert [f"editor:{number}:" in str(refused.value) for number in lines] == [True, True]


@pytest.mark.parametrize(
    "body",
    [b"", b"null", b"[]", b"{", b'{"do": "rm"}', b'{"do": "submit"}', b'{"do": "submit", "text": 3}', b"\xff",
     b'{"do": "delete", "what": "x", "more": 1}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_wish_is_refused(body: bytes) -> None:
    with pytest.raises((InputError, RecursionError)):
        read_action(body)


def test_paused_the_scheduler_waits_for_steps(session: LabSession) -> None:
    done(session, TEAMS)
    session.pause()
    told = done(session, BORROWER)
    assert "paused" in told
    assert held(session) == {"org": 0, "team-a": 0, "team-b": 0}
    assert "24" in session.preview(OWNER)["summary"] or session.preview(OWNER)["workloads"]
    session.step()
    assert held(session)["team-a"] == 24
    done(session, OWNER)
    assert held(session)["team-b"] == 0
    session.go_on()
    assert not session.paused
    assert held(session) == {"org": 32, "team-a": 16, "team-b": 16}


def test_steps_come_to_where_the_lab_settles_by_itself(session: LabSession, tmp_path: Path) -> None:
    session.pause()
    done(session, TEAMS, BORROWER, OWNER)
    for _ in range(30):
        session.step()
    other = opened(begun(tmp_path / "other.state"))
    done(other, TEAMS, BORROWER, OWNER)
    assert held(session) == held(other)


def test_time_passes_as_said(session: LabSession) -> None:
    with Lab.resume(session.path, read_only=True) as lab:
        before = lab.now
    session.advance(600)
    with Lab.resume(session.path, read_only=True) as lab:
        assert lab.now - before >= 600
    for seconds in (0, -1, float("inf"), float("nan")):
        with pytest.raises(InputError):
            session.advance(seconds)


def test_what_another_command_does_is_seen_and_outdates_previews(session: LabSession) -> None:
    done(session, TEAMS)
    preview = session.preview(BORROWER)
    assert not session.stale
    with lab_files.open_for_change(session.path, print, print) as lab:
        lab.patch("Queue", "team-a", {"spec": {"priority": 7}})
        lab.settle()
    assert session.stale
    with pytest.raises(OutdatedRequest, match="has changed"):
        session.apply(preview["id"])
    with pytest.raises(InputError, match="nothing to undo"):
        session.undo()
    session.refresh()
    assert not session.stale
    assert session.controls()["undo"]["why"]
    with Lab.resume(session.path, read_only=True) as lab:
        assert lab.get("queue", "team-a")["spec"]["priority"] == 7
        assert lab.get("deployments") == []


def test_a_preview_is_applied_once(session: LabSession) -> None:
    number = session.preview(TEAMS)["id"]
    session.apply(number)
    for unknown in (number, "", "0" * 16):
        with pytest.raises(OutdatedRequest, match="not available any more"):
            session.apply(unknown)


def test_a_lab_in_use_is_left_alone(session: LabSession, monkeypatch: pytest.MonkeyPatch) -> None:
    number, before = session.preview(TEAMS)["id"], session.path.read_bytes()
    monkeypatch.setattr(lab_files, "PATIENCE_SECONDS", 0.2)
    with StateLock(session.path), pytest.raises(StateError, match="in use"):
        session.apply(number)
    assert session.path.read_bytes() == before
    session.apply(number)


def test_a_lab_of_another_scheduler_is_shown_and_changed(tmp_path: Path) -> None:
    session = opened(begun(tmp_path / "lab.state", "kube-scheduler"))
    assert "24 pods running" in done(session, TEAMS, BORROWER)
    session.refresh()
    session.step()
    session.undo()
    session.undo()
    with Lab.resume(session.path, read_only=True) as lab:
        assert lab.get("deployments") == []


def test_a_change_is_shown_before_it_is_saved(session: LabSession) -> None:
    shown = []

    def show(view: PageView) -> None:
        with Lab.resume(session.path, read_only=True) as lab:
            shown.append((told(view), [queue["metadata"]["name"] for queue in lab.get("queues")]))

    session.show = show
    for wish in (TEAMS, BORROWER):
        done(session, wish)
        seen, saved = shown[-1]
        assert saved == ([] if wish is TEAMS else ["org", "team-a", "team-b"])
        # Once it is saved another look, and one by somebody who comes later, see the same.
        assert seen == told(session.refresh()) == told(LabSession(session.path, print).refresh())


def test_in_a_large_lab_the_change_and_the_first_cycle_are_shown_before_the_others(session: LabSession) -> None:
    done(session, TEAMS)
    done(session, BORROWER)
    session.many_pods = 1
    shown: list[tuple[Any, str]] = []
    session.show = lambda view: shown.append((told(view), session.last_operation))
    said = done(session, SubmitManifests(TEXTS["30-owner"]))
    [(changed, at_once), (first, meanwhile), (last, then)] = shown
    assert at_once == meanwhile == "Submit Deployment/owner: the scheduler is at work"
    assert then == said
    assert len(changed[0]["moments"]) < len(first[0]["moments"])
    evicting = [[each["counts"] for each in form["moments"] if "evict" in each["counts"]] for form, _ in (first, last)]
    assert evicting[0] == evicting[1] != []
    assert len(first[0]["moments"]) < len(last[0]["moments"])
    assert last == told(session.refresh()) == told(LabSession(session.path, print).refresh())


def test_what_was_shown_meanwhile_is_taken_back_where_the_lab_does_not_settle(
    session: LabSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(session, TEAMS)
    session.many_pods = 0
    before, view, said = session.path.read_bytes(), told(session.refresh()), session.last_operation
    number, shown = session.preview(BORROWER)["id"], list[Any]()
    session.show = lambda view: shown.append(told(view))
    settle = Lab.settle

    def restless(lab: Lab, between: Callable[[], None] | None = None) -> None:
        settle(lab, between)
        raise NotSettled("something keeps changing")

    with monkeypatch.context() as broken:
        broken.setattr(Lab, "settle", restless)
        with pytest.raises(NotSettled):
            session.apply(number)
    assert len(shown) == 2
    assert (session.path.read_bytes(), told(session.refresh()), session.last_operation) == (before, view, said)


def test_a_change_that_can_not_be_saved_did_not_happen(session: LabSession, monkeypatch: pytest.MonkeyPatch) -> None:
    done(session, TEAMS)
    before, view, steps = session.path.read_bytes(), told(session.refresh()), recorded(session)
    number = session.preview(BORROWER)["id"]
    with monkeypatch.context() as broken:
        broken.setattr(Lab, "save", refuses)
        with pytest.raises(StateError, match="no room"):
            session.apply(number)
    assert (session.path.read_bytes(), told(session.refresh()), recorded(session)) == (before, view, steps)
    assert "24 pods running" in done(session, BORROWER)
    session.undo()
    assert session.path.read_bytes() == before


def refuses(lab: Lab, path: Path) -> None:
    raise StateError(f"{path}: no room")


def test_a_look_at_a_lab_that_is_not_at_rest_leaves_it_so(session: LabSession) -> None:
    """Read by all its parts it would go on: what is shown, and done next, is the lab of the file."""
    done(session, TEAMS)
    session.pause()
    done(session, BORROWER)
    before = session.path.read_bytes()
    anew = LabSession(session.path, lambda text: None)
    view = anew.refresh()
    assert form_of(view)["pods"]["name"] == []
    assert anew.path.read_bytes() == before
    assert held(anew) == {"org": 0, "team-a": 0, "team-b": 0}
    anew.step()
    assert sum(held(anew).values()) > 0
