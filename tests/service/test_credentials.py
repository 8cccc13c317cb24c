"""Credentials that the server refuses from some time on: the process ends, and a new one continues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from kailab.cluster.kubernetes.apiclient.transport import AnswerCounts
from kailab.errors import NotFound
from kailab.scheduler.service.process import CredentialCheck
from kailab.trials.upgrade import ACCOUNT, NAMESPACE, ActingPlane


class Moment:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_refused_counts_from_the_first_of_an_unbroken_row() -> None:
    clock = Moment()
    answers = AnswerCounts(clock)
    told = []
    for code in (200, 401, 0, 401, 403, 401, 409):
        clock.now += 1.0
        answers.count("GET", code)
        told.append(answers.refused_since)
    assert told == [None, 2.0, 2.0, 2.0, None, 6.0, None]
    assert answers.counted["GET", 401] == 3


@pytest.fixture
def acting(plane, live) -> Iterator[ActingPlane]:
    yield ActingPlane(plane, live)
    with suppress(NotFound):
        live.delete("ServiceAccount", ACCOUNT, NAMESPACE)
    live.delete("ClusterRoleBinding", "kailab-trial-scheduler")


@pytest.mark.slow
def test_a_server_that_takes_them_again_is_worked_with(live) -> None:
    credentials = CredentialCheck(patience=5.0)
    credentials.watch(live.transport)
    live.transport.answers.note_answer(401)
    credentials.check()
    assert live.transport.answers.refused_since is not None  # not for so long yet
    live.transport.answers.refused_since = time.monotonic() - 60.0
    credentials.check()
    assert live.transport.answers.refused_since is None  # asked, and taken


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_process_whose_account_was_made_anew_ends_and_says_why(acting, live, build) -> None:
    """One process holds a lease and only renews it; the other has no lease and a pod to bind."""
    own = ("--no-leader-elect", "--scheduler-name", "other-scheduler")
    for name in ("deaf-holder", "deaf-alone"):
        acting.act(name)
    holder, alone = build.Running(acting, "deaf-holder"), build.Running(acting, "deaf-alone", *own)
    both = (holder, alone)
    build.eventually(lambda: all(one.ask("/readyz")[1].startswith("ok: leading") for one in both))
    acting.renew()
    build.eventually(lambda: not any(acting.accepted(one.name) for one in both))
    live.create(build.live_pod("a", schedulerName="other-scheduler"))
    build.eventually(lambda: not any(one.process.running for one in both))
    for one in both:
        assert one.process.exit == 2
        assert "does not accept the credentials" in one.log()
        assert "this process ends so that it can be started again" in one.log()
        assert "Traceback" not in one.log()
    again = build.Running(acting, "deaf-alone", *own)
    try:
        build.eventually(lambda: build.bound(live, "a"))
    finally:
        acting.stop(again.name)
