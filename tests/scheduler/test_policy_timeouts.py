"""Policies that never return: the error names them, and the lab continues."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kailab.engine import JobOrder, register_policy
from kailab.engine.config import EngineConfig
from kailab.engine.policies.settings import PolicyChoice
from kailab.errors import PolicyError
from kailab.lab import Lab
from kailab.scheduler import policy_timeouts
from kailab.scheduler.policy_timeouts import PolicyTimeout, PolicyWatchdog

QUEUES = Path(__file__).parents[2] / "exercises" / "quota" / "manifests"


def endless() -> None:
    while True:
        pass


def asleep() -> None:
    time.sleep(3600)


class Endless(JobOrder, frozen=True):
    def key(self, job: object) -> float:
        endless()
        return 0.0


@pytest.mark.parametrize("hangs", [endless, asleep])
def test_a_question_without_an_end_is_given_up(hangs) -> None:
    patient = PolicyWatchdog(looks=2, every=0.05)
    with pytest.raises(PolicyTimeout), patient.ends(hangs.__code__):
        hangs()


def test_many_short_questions_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def short() -> None:
        time.sleep(0.002)

    patient = PolicyWatchdog(looks=2, every=0.01)
    with patient.ends(short.__code__):
        for _ in range(100):
            short()


def test_in_any_thread() -> None:
    patient, found = PolicyWatchdog(looks=2, every=0.05), []

    def run() -> None:
        try:
            with patient.ends(endless.__code__):
                endless()
        except PolicyTimeout as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    assert len(found) == 1


def test_a_lab_names_the_policy_and_the_cycle_and_goes_on_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy_timeouts.WATCHDOG, "_looks", 2)
    monkeypatch.setattr(policy_timeouts.WATCHDOG, "_every", 0.05)
    register_policy("endless-here", Endless)
    config = EngineConfig(job_order_policy=PolicyChoice(name="endless-here"))
    with Lab.open("lesson", config=config) as lab:
        lab.apply(QUEUES / "queues.yaml")
        lab.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": "one", "labels": {"kai.scheduler/queue": "team-a"}},
                "spec": {"schedulerName": "kai-scheduler", "containers": [{"name": "main", "image": "none"}]},
            }
        )
        with pytest.raises(
            PolicyError,
            match=r"'endless-here': key of PodGroup .* PolicyTimeout: the policy did not return in time.*test_policy_timeouts.py, line \d+\); in cycle 1",
        ):
            lab.settle()


def test_it_starts_anew_in_a_process_that_was_forked() -> None:
    code = """
import os
from kailab.scheduler.policy_timeouts import PolicyTimeout, PolicyWatchdog
def endless():
    while True: pass
patient = PolicyWatchdog(looks=2, every=0.05)
with patient.ends(endless.__code__):
    pass
child = os.fork()
try:
    with patient.ends(endless.__code__):
        endless()
except PolicyTimeout:
    os.write(1, b"given up\\n")  # in one piece, as the other process may write at the same moment
if child:
    os.waitpid(child, 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "given up\n" * 2, done.stderr
