"""What a session adds to the record of its lab: one record, whoever wrote it and however often a server began anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from kailab.evidence.entries import Decision, GroupWaits
from kailab.evidence.lab_record import LabRecord
from kailab.evidence.replay import replay_run
from kailab.lab import Lab
from kailab.lab.capture import capture
from kailab.serve.actions import DeleteObject, SetFields, SubmitManifests
from kailab.serve.session import LabSession
from tests.serve.conftest import TEXTS, begun, opened
from tests.serve.sessions import BORROWER, OWNER, TEAMS, done


def test_a_lab_in_memory_goes_on_as_one_that_is_read_anew(session: LabSession, tmp_path: Path) -> None:
    """The record of one session is that of many, but for what a scheduler that begins anew tells again."""
    begun(tmp_path / "other.state")
    for wish in (
        TEAMS,
        BORROWER,
        OWNER,
        SetFields(["deployment/borrower.replicas=23"]),
        DeleteObject("deployment/owner"),
    ):
        done(session, wish)
        done(opened(tmp_path / "other.state"), wish)
    one, other = (LabRecord(path).whole() for path in (session.path, tmp_path / "other.state"))
    assert [step.text for step in one.steps] == [step.text for step in other.steps]
    assert [state for _, state in one.states] == [state for _, state in other.states]
    assert made(one.decisions) == made(other.decisions)


def made(entries: Sequence[Decision]) -> list[tuple[type, float, str, str]]:
    """What was done to which pod, where."""
    return [
        (type(entry), entry.t, entry.pod, getattr(entry, "node", ""))
        for entry in entries
        if not isinstance(entry, GroupWaits)
    ]


def test_a_server_that_begins_anew_records_what_is_new(session: LabSession, tmp_path: Path) -> None:
    """Its first cycle goes on from the last one that was recorded: no record, and no reason, is told twice."""
    done(session, TEAMS, BORROWER, SubmitManifests(TEXTS["70-too-large"]))
    session.close()
    before = LabRecord(session.path).whole()
    assert any(isinstance(entry, GroupWaits) for entry in before.decisions)
    done(opened(session.path), SetFields(["deployment/borrower.replicas=23"]))
    after = LabRecord(session.path).whole()
    assert len(after.cycles) > len(before.cycles)
    assert [cycle.number for cycle in after.cycles if cycle.changes.whole] == [1]
    waits = [entry.podgroup for entry in after.decisions if isinstance(entry, GroupWaits)]
    assert len(waits) == len(set(waits))
    decided_again(session.path, tmp_path)


def test_after_what_went_unrecorded_all_is_recorded(session: LabSession, tmp_path: Path) -> None:
    done(session, TEAMS, BORROWER)
    session.close()
    with Lab.resume(session.path) as lab:
        lab.scale("Deployment", "borrower", 23)
        lab.settle()
        lab.save(session.path)
    before = len(LabRecord(session.path).whole().cycles)
    done(opened(session.path), SetFields(["deployment/borrower.replicas=22"]))
    assert LabRecord(session.path).whole().cycles[before].changes.whole
    decided_again(session.path, tmp_path)


@pytest.mark.parametrize(
    "place", ["{record}", "{record}/.partial-{pid}-so_far"], ids=["no folder", "half of it written"]
)
def test_what_could_not_be_recorded_is_recorded_with_the_next_change(state: Path, tmp_path: Path, place: str) -> None:
    warnings: list[str] = []
    session = LabSession(state, warnings.append)
    done(session, TEAMS, BORROWER)
    assert not warnings
    record, aside = LabRecord(state).folder, tmp_path / "aside"
    before = len(LabRecord(state).whole().cycles)
    hindrance = Path(place.format(record=record, pid=os.getpid()))
    record.rename(aside) if hindrance == record else hindrance.mkdir()
    if hindrance == record:
        hindrance.write_bytes(b"")
    done(session, SetFields(["deployment/borrower.replicas=23"]))
    [warning] = warnings
    assert "not recorded yet" in warning
    if hindrance == record:
        hindrance.unlink()
        aside.rename(record)
    else:
        hindrance.rmdir()
    assert len(LabRecord(state).whole().cycles) == before
    done(session, SetFields(["deployment/borrower.replicas=22"]))
    cycles = LabRecord(state).whole().cycles
    assert [cycle.number for cycle in cycles] == list(range(1, len(cycles) + 1))
    assert len(cycles) > before + 1
    decided_again(state, tmp_path)


def decided_again(state: Path, folder: Path) -> None:
    """From its evidence alone, with the same outcome."""
    with Lab.resume(state, read_only=True) as lab:
        assert replay_run(capture(lab, LabRecord(state), folder / "evidence")).same
