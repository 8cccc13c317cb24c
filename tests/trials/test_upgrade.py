"""Upgrades and rollbacks on a real control plane under load: what is lost, what stops scheduling, and that it schedules
again."""

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from kailab.cli.trial import upgrade
from kailab.errors import InputError
from kailab.fleet.reading import load_fleet
from kailab.trials.upgrade import Upgrade, UpgradePlan, run_upgrade_trial, upgrade_lines
from kailab.undertest.kai.folder import find_kai
from kailab.undertest.selection import choose_scheduler

RELEASES_ENV = "KAILAB_KAI_RELEASES"
EXITS_ON_401 = (0, 17, 0)  # since then KAI's scheduler ends where its token is refused (KAI issue 1817)


@pytest.fixture(scope="module")
def folders() -> list[Path]:
    """Of KAIs, the oldest release first."""
    found = [Path(one).absolute() for one in os.environ.get(RELEASES_ENV, "").split(os.pathsep) if one]
    if len(found) < 2:
        pytest.skip(f"no two real KAIs here: {RELEASES_ENV} names {len(found)} folders")
    return sorted(found, key=lambda one: find_kai(one).dialect.number)


def carried(before: str, after: str, **more: object) -> Upgrade:
    came = run_upgrade_trial(
        UpgradePlan(choose_scheduler(before), choose_scheduler(after), load_fleet("lesson"), **more)
    )
    print("\n".join(upgrade_lines(came)))
    return came


@pytest.mark.slow
@pytest.mark.usefixtures("components")
def test_kailab_is_replaced_and_rolled_back_while_work_runs() -> None:
    done = CliRunner().invoke(upgrade, ["--from", "kailab", "--to", "kailab", "-o", "json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["filled"], told["sound"], told["kept"]) == (24, True, None)
    assert [change["name"] for change in told["changes"]] == ["upgrade", "rollback"]
    for change in told["changes"]:
        assert change["lost"] == change["ended"] == []
        assert [check["name"] for check in change["checks"]] == ["reclaim", "gang", "borrow"]


@pytest.mark.slow
@pytest.mark.usefixtures("components")
def test_kai_is_replaced_by_another_release_and_rolled_back(folders: list[Path]) -> None:
    came = carried(f"kai={folders[0]}", f"kai={folders[-1]}")
    assert came.filled == 24
    for change in came.changes:
        assert change.scheduled is not None
        assert (change.lost, change.deaf, change.ended) == ((), "", ())
        assert [check.failure for check in change.checks] == ["", "", ""]


@pytest.mark.slow
@pytest.mark.usefixtures("components")
def test_a_scheduler_whose_account_was_made_anew_runs_and_is_deaf(folders: list[Path]) -> None:
    """KAI issue 1536: it keeps running with a token that nobody takes. A restart, here the upgrade, gives it a fresh one."""
    came = carried(f"kai={folders[0]}", f"kai={folders[-1]}", renew=True, patience=90.0)
    anew, change, back = came.changes
    assert anew.name == "account made anew"
    if find_kai(folders[0]).dialect.number < EXITS_ON_401:
        assert anew.scheduled is None
        assert anew.deaf == "scheduler: the pod has a PodGroup, and no BindRequest"
        assert not anew.ended
    else:
        assert anew.ended
        assert anew.scheduled is not None
    assert change.scheduled is not None
    assert back.scheduled is not None
    assert not came.sound


def test_who_does_not_read_kais_objects_is_refused() -> None:
    plan = UpgradePlan(choose_scheduler("kailab"), choose_scheduler("kube-scheduler"), load_fleet("lesson"))
    with pytest.raises(InputError, match="read KAI's objects; kube-scheduler does not"):
        plan.check()


def test_bad_input_is_told_before_anything_is_started(tmp_path: Path) -> None:
    def refused(*arguments: str) -> str:
        done = CliRunner().invoke(upgrade, [*arguments])
        assert done.exit_code not in (0, 1) or isinstance(done.exception, InputError)
        return done.output + str(done.exception)

    assert "is not there" in refused("--from", "kailab", "--to", f"kai={tmp_path}/absent")
    assert "absent.yaml" in refused("--from", "kailab", "--to", "kailab", f"{tmp_path}/absent.yaml")
    assert "--to" in refused("--from", "kailab")
