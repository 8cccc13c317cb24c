"""Invalid trials are refused before anything is started, with file, line, field and what was expected."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.errors import InputError
from kailab.trials.baseline import read_baseline
from kailab.trials.trial_file import read_trial
from tests.trials.conftest import Trial

SOUND = "schedulers: [kailab, kube-scheduler]\non: [lending]\nisolation: embedded\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("on: [lending]\n", "trial.yaml:1: trial: schedulers: is required"),
        (SOUND + "schedulrs: []\n", "trial.yaml:4: trial: schedulrs: unknown field; did you mean schedulers"),
        (SOUND.replace("kube-scheduler", "kubescheduler"), r"trial.yaml:1: .*schedulers\[1\]: there is no scheduler 'kubescheduler'"),
        (SOUND.replace("lending", "borrowing"), r"trial.yaml:2: .*on\[0\]: borrowing: no such file or folder"),
        (SOUND.replace("embedded", "virtual"), "there is no backend 'virtual'; expected one of"),
        (SOUND.replace(", kube-scheduler", ", kailab"), "two contenders are named kailab"),
        (SOUND.replace("kube-scheduler", "kai=bin"), "cannot run on embedded: a real KAI needs a real API server"),
        (SOUND + "reference: kai\n", "the reference 'kai' is not a contender"),
        (SOUND + "fleet: large\n", "large"),
        (SOUND + "with: [jobset]\n", "--with: the backend embedded does not take it"),
        (SOUND.replace("embedded", "controlplane") + "with: [jobsets]\n", "there is no operator 'jobsets'; there are jobset"),
        (SOUND + "with: []\n", "trial.yaml:4: trial: with: is empty; expected"),
        (SOUND + "jobs: 0\n", "trial.yaml:4: trial: jobs: 0 is too small; expected 1 or more"),
        (SOUND + "time: {ratio: 1}\n", "time.ratio: 1 is too small; expected more than 1"),
        (SOUND + "compare: [speed]\n", r"compare\[0\]: 'speed' is not valid; expected verdict or outcome"),
        (SOUND.replace("kube-scheduler", "{scheduler: kailab, config: none.yaml}"), "none.yaml: can't be read: No such file"),
        (SOUND.replace("kube-scheduler", "{scheduler: kube-scheduler, config: trial.yaml}"), "takes no configuration"),
        ("[]", "trial.yaml:1: trial: a list is not valid; expected a mapping"),
        ("", "0 documents; expected one trial"),
    ],
)  # fmt: skip
def test_a_trial_file(home: Path, text: str, told: str) -> None:
    (home / "trial.yaml").write_text(text)
    with pytest.raises(InputError, match=told):
        read_trial(home / "trial.yaml")


def test_all_faults_at_once(home: Path) -> None:
    (home / "trial.yaml").write_text("schedulers: [nobody, {scheduler: kailab, config: x}]\non: [nowhere]\n")
    with pytest.raises(InputError) as caught:
        read_trial(home / "trial.yaml")
    first, second, third = str(caught.value).splitlines()
    assert "trial: schedulers[0]: there is no scheduler 'nobody'" in first
    assert "/x: can't be read" in second
    assert "trial: on[0]: nowhere: no such file or folder" in third


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("accepted:\n- {contender: a, test: b}\n", r"accepted.yaml:2: baseline: accepted\[0\].reason: is required"),
        ("accepted:\n- {contender: a, test: b, reason: ''}\n", "reason: is empty; expected text"),
        ("accepted:\n- {contender: a, test: b, reason: c, kind: speed}\n", "kind: 'speed' is not valid"),
        ("accept: []\n", "accepted: is required"),
    ],
)
def test_a_baseline(home: Path, text: str, told: str) -> None:
    (home / "accepted.yaml").write_text(text)
    with pytest.raises(InputError, match=told):
        read_baseline(home / "accepted.yaml")


def test_the_command_line(trial: Trial, home: Path) -> None:
    for arguments, told in (
        (("run", "lending"), "lending: no scheduler and no configuration to compare"),
            (("run", "manifests/queues.yaml"), "manifests/queues.yaml: no scheduler and no configuration to compare"),
            (("run", "--config", "trial.yaml"), "there is nothing to run"),
        (("run", "trial.yaml", "--isolation", "kind"), "--isolation: can't be used with a trial file"),
        (("run", "--scheduler", "kube-scheduler", "--scheduler", "kailab", "--config", "nowhere.yaml", "lending"), "nowhere.yaml"),
        (("show", "nothing"), "nothing: no such trial"),
        (("clean", "nothing"), "nothing: no such trial"),
    ):  # fmt: skip
        done = trial(*arguments)
        assert (done.code, told in done.err, done.out) == (2, True, ""), (arguments, done)
    assert not (home / "trials").exists()


def test_a_damaged_folder_is_told(trial: Trial, home: Path) -> None:
    (home / "trials" / "broken").mkdir(parents=True)
    (home / "trials" / "broken" / "trial.json").write_text("{")
    done = trial("show", "broken")
    assert (done.code, "trial.json: damaged" in done.err) == (2, True)


def test_an_exercise_and_scenarios_of_one_name_are_told_apart(home: Path) -> None:
    (home / "lending.yaml").write_text((home / "returning.yaml").read_text())
    (home / "trial.yaml").write_text(SOUND.replace("[lending]", "[lending, lending.yaml, lending]"))
    assert [one.name for one in read_trial(home / "trial.yaml").subjects] == ["lending", "lending-scenarios"]
    (home / "more" / "lending").mkdir(parents=True)
    (home / "more" / "lending" / "test_lending.py").write_text("")
    (home / "trial.yaml").write_text(SOUND.replace("[lending]", "[lending, more/lending]"))
    with pytest.raises(InputError, match="would both be named lending"):
        read_trial(home / "trial.yaml")
