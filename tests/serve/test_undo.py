"""What was done on the page is taken back: the file, the record beside it, and what comes afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.errors import InputError
from kailab.serve.actions import DeleteObject, DrainNode, PageAction, SetFields
from kailab.serve.session import LabSession
from tests.serve.conftest import begun, opened
from tests.serve.sessions import BORROWER, OWNER, TEAMS, done, held, recorded, told


def test_undo_puts_back_the_file_and_the_record(session: LabSession) -> None:
    begun_with, steps = session.path.read_bytes(), recorded(session)
    states = []
    for wish in (TEAMS, BORROWER, OWNER, SetFields(["queue/team-a.gpu.quota=20"])):
        states.append((session.path.read_bytes(), recorded(session)))
        done(session, wish)
    for before in reversed(states):
        assert "Undone" in session.undo()
        assert (session.path.read_bytes(), recorded(session)) == before
    assert (session.path.read_bytes(), recorded(session)) == (begun_with, steps)
    with pytest.raises(InputError, match="nothing to undo"):
        session.undo()


def test_what_comes_after_undo_is_recorded_as_if_nothing_had_been_taken_back(
    session: LabSession, tmp_path: Path
) -> None:
    done(session, TEAMS, BORROWER)
    session.undo()
    done(session, OWNER)
    other = opened(begun(tmp_path / "other.state"))
    done(other, TEAMS, OWNER)
    assert recorded(session) == recorded(other)
    assert held(session) == held(other)
    assert told(session.refresh()) == told(opened(session.path).refresh())


CHANGES = st.lists(
    st.one_of(
        st.integers(0, 40).map(lambda number: SetFields([f"deployment/borrower.replicas={number}"])),
        st.integers(0, 40).map(lambda number: SetFields([f"queue/team-a.gpu.quota={number}"])),
        st.sampled_from(
            [
                OWNER,
                DeleteObject("deployment/owner"),
                DrainNode("a100-0"),
                SetFields(["node/h100-0.unschedulable=true"]),
            ]
        ),
        st.sampled_from(["pause", "go-on", "step", "advance"]),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=8)
@given(changes=CHANGES)
def test_whatever_was_done_is_taken_back_step_by_step(
    changes: list[PageAction | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    session = opened(begun(tmp_path_factory.mktemp("lab") / "lab.state"))
    done(session, TEAMS, BORROWER)
    states = []
    for change in changes:
        before = session.path.read_bytes()
        try:
            _do(session, change)
        except InputError:
            assert session.path.read_bytes() == before
            continue
        if change != "pause":
            states.append(before)
    for before in reversed(states):
        session.undo()
        assert session.path.read_bytes() == before


def _do(session: LabSession, change: PageAction | str) -> None:
    match change:
        case "pause":
            session.pause()
        case "go-on":
            session.go_on()
        case "step":
            session.step()
        case "advance":
            session.advance(30)
        case _:
            done(session, change)  # type: ignore[arg-type]
