"""Who looks on sees a change before it is saved; where it can't be saved they see the lab as it was."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kailab.errors import StateError
from kailab.lab import Lab
from kailab.serve.actions import SubmitManifests
from kailab.serve.session import LabSession
from kailab.serve.worker import Broadcaster, LabWorker, PageUpdate
from tests.serve.conftest import TEXTS
from tests.serve.forms import form_of

TEAMS = SubmitManifests(TEXTS["10-two-teams"])


def in_room(state: Path, do: Callable[[LabWorker, Broadcaster], Awaitable[None]]) -> list[PageUpdate]:
    """What everybody was told meanwhile."""
    heard: list[PageUpdate] = []

    async def looking_on() -> None:
        newsroom = Broadcaster()
        room = LabWorker(LabSession(state, print), newsroom, print)
        publish = newsroom.publish

        async def overheard(*said: Any) -> None:
            await publish(*said)
            heard.append(newsroom.latest)

        newsroom.publish = overheard  # type: ignore[method-assign]
        try:
            await room.refresh()
            await do(room, newsroom)
        finally:
            room.close()

    asyncio.run(looking_on())
    return heard


def queues(news: PageUpdate) -> list[str]:
    assert news.view is not None
    told = form_of(news.view)["queues"]
    return [name for name, changes in zip(told["name"], told["changes"], strict=True) if changes[-1][1] is not None]


async def applied(room: LabWorker) -> str:
    number = (await room.ask(lambda session: session.preview(TEAMS)))["id"]
    return await room.act(lambda session: session.apply(number))


def test_a_change_is_told_once_and_with_what_can_be_done_then(state: Path) -> None:
    async def do(room: LabWorker, newsroom: Broadcaster) -> None:
        assert newsroom.latest.last_operation == ""
        assert "Submit" in await applied(room)

    before, after = in_room(state, do)
    assert (queues(before), queues(after)) == ([], ["org", "team-a", "team-b"])
    assert "Submit" in after.last_operation
    assert (before.controls["undo"]["what"], after.controls["undo"]["why"]) == ("", "")
    assert after.controls["undo"]["what"].startswith("Submit")


def test_what_could_not_be_saved_is_taken_back_from_who_saw_it(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(lab: Lab, path: Path) -> None:
        raise StateError(f"{path}: no room")

    async def do(room: LabWorker, newsroom: Broadcaster) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(Lab, "save", refuses)
            with pytest.raises(StateError, match="no room"):
                await applied(room)
        assert "Submit" in await applied(room)

    told = in_room(state, do)
    assert [queues(one) for one in told] == [[], ["org", "team-a", "team-b"], [], ["org", "team-a", "team-b"]]
    assert told[2].last_operation == ""
    assert told[2].controls["undo"]["what"] == ""
