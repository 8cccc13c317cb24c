"""What is new of a lab, taken in step by step, comes to what all of it told anew is."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kailab.errors import KailabError
from kailab.serve.actions import DeleteObject, DrainNode, PageAction, SetFields, SubmitManifests
from kailab.serve.session import LabSession
from kailab.serve.view import PageView
from tests.serve.conftest import TEXTS, begun
from tests.serve.forms import form_of, resolved, taken_in

POD = TEXTS["70-too-large"].replace("too-large", "small").replace('"64"', '"1"')

WISHES: dict[str, PageAction] = {
    "small": SubmitManifests(POD),
    "too large": SubmitManifests(TEXTS["70-too-large"]),
    "owner": SubmitManifests(TEXTS["30-owner"]),
    "gang": SubmitManifests(TEXTS["40-gang"]),
    "fewer": SetFields(["deployment/borrower.replicas=3"]),
    "more": SetFields(["deployment/borrower.replicas=30"]),
    "cordon": SetFields(["node/h100-0.unschedulable=true"]),
    "uncordon": SetFields(["node/h100-0.unschedulable=false"]),
    "quota": SetFields(["queue/team-b.gpu.quota=4"]),
    "no small": DeleteObject("pod/small"),
    "no gang": DeleteObject("job/gang"),
    "no owner": DeleteObject("deployment/owner"),
    "drain": DrainNode("h100-1"),
}
ORDERS = ("step", "advance", "pause", "go-on", "undo")


def act(session: LabSession, what: str) -> None:
    """As the page does; what is not possible then changes nothing."""
    try:
        if what in WISHES:
            session.apply(session.preview(WISHES[what])["id"])
        elif what == "advance":
            session.advance(30.0)
        else:
            getattr(session, what.replace("-", "_"))()
    except KailabError:
        return


class Page:
    """What a browser has that looks on, and how often it could go on with what it had."""

    def __init__(self) -> None:
        self.form: Any = None
        self.view: PageView | None = None
        self.went_on = 0

    def take(self, view: PageView) -> None:
        """As ``kailab/serve/page/server.js`` does."""
        before = self.view
        since = None if before is None else view.since(before.showing, before.number)
        if since is None:
            self.form = form_of(view)
        else:
            self.went_on += 1
            for new in json.loads(gzip.decompress(since)):
                taken_in(self.form, new)
        self.view = view


def anew(state: Path) -> Any:
    """By a server that has just begun."""
    session = LabSession(state, lambda text: None)
    view = session.refresh()
    found = resolved(form_of(view), view.chunks)
    session.close()
    return found


def test_a_change_is_told_by_what_is_new(state: Path) -> None:
    page = Page()
    session = LabSession(state, lambda text: None)
    page.take(session.refresh())
    session.show = page.take
    for name in ("10-two-teams", "20-borrower"):
        session.apply(session.preview(SubmitManifests(TEXTS[name]))["id"])
    before = page.went_on
    session.apply(session.preview(WISHES["fewer"])["id"])
    session.step()
    assert page.went_on == before + 2
    assert page.view is not None
    assert resolved(page.form, page.view.chunks) == anew(state)
    assert page.form == form_of(page.view)


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([*WISHES, *ORDERS]), min_size=3, max_size=10), st.booleans())
def test_what_is_new_comes_to_the_whole(does: list[str], first_cycles: bool) -> None:
    """``first_cycles``: what the first cycle after a change did is shown at once, as in a large lab."""
    with TemporaryDirectory() as folder:
        state = begun(Path(folder) / "lab.state")
        page, session = Page(), LabSession(state, lambda text: None)
        page.take(session.refresh())
        session.show = page.take
        session.many_pods = 0 if first_cycles else session.many_pods
        for name in ("10-two-teams", "20-borrower"):
            session.apply(session.preview(SubmitManifests(TEXTS[name]))["id"])
        for what in does:
            act(session, what)
            page.take(session.refresh())
        assert page.view is not None
        assert page.form == form_of(page.view)
        assert resolved(page.form, page.view.chunks) == anew(state)
        session.close()
