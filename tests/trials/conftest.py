"""A user's folder with manifests, a scenario and an exercise to compare schedulers on, and trials run in
subprocesses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

EXERCISE = Path(__file__).parents[2] / "exercises" / "reclaim"
MANIFESTS = ("queues.yaml", "borrower.yaml", "owner.yaml", "owner-few.yaml")

SCENARIO = """\
name: the-owner-returns
steps:
- apply: [manifests/queues.yaml, manifests/borrower.yaml]
  expect:
    queues: {team-a: {gpus: 32}}
- apply: [manifests/owner.yaml]
  expect:
    queues: {team-a: {gpus: 16}, team-b: {gpus: 16}}
---
name: a-few-come-back
steps:
- apply: [manifests/queues.yaml, manifests/borrower.yaml]
- apply: [manifests/owner-few.yaml]
"""

TESTS = """\
from kailab.lab import expect

def test_idle_quota_is_lent(lab):
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)

def test_the_owner_gets_its_share_back(lab):
    lab.apply("manifests/queues.yaml", "manifests/borrower.yaml")
    expect(lab.queue("team-a")).running(gpus=32)
    lab.apply("manifests/owner.yaml")
    expect(lab.queue("team-b")).running(gpus=16)
"""

TRIAL = """\
name: small
schedulers: [kailab, kube-scheduler]
on: [lending, returning.yaml]
isolation: embedded
"""


class Done(NamedTuple):
    code: int
    out: str
    err: str


Trial = Callable[..., Done]


def fill(home: Path) -> None:
    for folder in (home / "manifests", home / "lending" / "manifests"):
        folder.mkdir(parents=True)
        for name in MANIFESTS:
            (folder / name).write_text((EXERCISE / "manifests" / name).read_text())
    (home / "lending" / "test_lending.py").write_text(TESTS)
    (home / "returning.yaml").write_text(SCENARIO)
    (home / "trial.yaml").write_text(TRIAL)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fill(tmp_path)
    return tmp_path


def begun(home: Path, *arguments: str) -> subprocess.Popen[str]:
    """``kailab trial ...`` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "kailab", "trial", *arguments],
        cwd=home,
        env={**os.environ, "KAILAB_TRIALS": "trials"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def trial(home: Path) -> Trial:
    def run(*arguments: str) -> Done:
        process = begun(home, *arguments)
        out, err = process.communicate()
        return Done(process.returncode, out, err)

    return run
