"""The hunt finds a fault in an engine: here that of another distribution, which is kailab's own with one rule wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from checks.cli import hunt
from checks.hunting.random_sample import seeded
from kailab.scenarios.running import run_scenario
from kailab.scenarios.scenario import read_scenario_file

FAULTY = '''
"""kailab's scheduler, in which what non-preemptible work holds counts twice against its quota."""

from dataclasses import dataclass, replace
from unittest.mock import patch

from kailab.engine.actions import preempt
from kailab.engine.queueing import capacity
from kailab.undertest.kailab import Kailab
from kailab.undertest.registry import SchedulerKind

FAULTY = SchedulerKind("quotas counted twice", made="faults_scheduler:Faulty")


def over_quota(queue, wanted):
    for level in queue.path:
        for r in capacity.RESOURCES:
            held = 2 * level.non_preemptible[r]
            if wanted[r] and level.quota[r] < held + wanted[r]:
                code = capacity.PendingCode.NON_PREEMPTIBLE_OVER_QUOTA
                return capacity._refusal(code, level, r, wanted[r], level.quota[r], held)
    return None


class Deciding:
    """As the real one, with the rule wrong while it decides."""

    def __init__(self, real):
        self._real = real

    def step(self):
        with patch.object(capacity, "over_quota", over_quota), patch.object(preempt, "over_quota", over_quota):
            return self._real.step()

    def __getattr__(self, name):
        return getattr(self._real, name)


@dataclass(frozen=True)
class Faulty(Kailab):
    title = "faulty"

    def within(self, wiring):
        found = super().within(wiring)
        return replace(found, decider=Deciding(found.decider))
'''
ACCEPTED = """\
accepted:
- contender: faulty
  test: seed-*
  reason: it counts twice
"""


@pytest.fixture
def faulty(bring, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    site = bring("faults", "[kailab.schedulers]\nfaulty = faults_scheduler:FAULTY\n", faults_scheduler=FAULTY)
    # What is found is run as a trial, whose cells are processes of their own.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH")))))
    monkeypatch.chdir(tmp_path)


def hunted(*arguments: str) -> Result:
    wanted = ["--against", "faulty", "--isolation", "embedded", "--name", "found", *arguments]
    return CliRunner().invoke(hunt, wanted, catch_exceptions=False)


@pytest.mark.slow
@pytest.mark.usefixtures("faulty")
def test_it_is_found_cut_down_and_kept_with_the_evidence_of_both(tmp_path: Path) -> None:
    done = hunted("--clusters", "3", "--seed", "1", "-o", "json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert told["counts"]["differs"] >= 1
    assert told["counts"]["chance"] == told["counts"]["error"] == 0
    (first, *_) = [one for one in told["clusters"] if one["state"] == "differs"]
    assert first["objects"] < len(list(seeded(first["seed"]).objects()))
    # What is kept is a scenario as anybody writes one, expecting what kailab decides.
    (scenario,) = read_scenario_file(tmp_path / first["scenario"])
    assert run_scenario(scenario, "kailab").differences == ()
    assert run_scenario(scenario, "faulty").differences
    for side in ("kailab", "faulty"):
        assert list((tmp_path / first["scenario"]).parent.glob(f"trial/cells/scenario-{side}-*/evidence/*/run.json"))

    # Again it goes on where it was, and tells the same.
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "hunts/found/clusters").iterdir()}
    again = hunted("--clusters", "3", "--seed", "1")
    assert again.exit_code == 1
    assert f"seed {first['seed']}: differs" in again.stdout
    assert "first decided otherwise (" in again.stdout
    assert {file: file.stat().st_mtime_ns for file in kept} == kept

    (tmp_path / "accepted.yaml").write_text(ACCEPTED)
    accepted = hunted("--clusters", "3", "--seed", "1", "--baseline", "accepted.yaml")
    assert accepted.exit_code == 0, accepted.output
    assert "accepted: it counts twice" in accepted.stdout
