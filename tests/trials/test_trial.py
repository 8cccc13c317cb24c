"""Two schedulers on an exercise and two scenarios, from the command line to the reports."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kailab.errors import InputError
from kailab.evidence.store import load_test
from kailab.lab import Lab
from kailab.scheduler.settings.config_file import settings_of
from kailab.trials.definition import contender, contender_in_use, default_isolation, make_trial, subjects_of
from kailab.trials.outcome import TrialOutcome
from kailab.trials.report import format_counts
from kailab.trials.results import TestResult, TestVerdict
from tests.trials.conftest import Done, Trial, begun, fill

ALL_ACCEPTED = """\
accepted:
- contender: kube-scheduler
  test: "*"
  reason: it knows no queues, and evicts nobody for them
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """One trial for all tests here, which look at it."""
    home = tmp_path_factory.mktemp("trial")
    fill(home)
    process = begun(home, "run", "trial.yaml")
    out, err = process.communicate()
    return home, Done(process.returncode, out, err)


@pytest.fixture
def home(ran: tuple[Path, Done]) -> Path:
    return ran[0]


def told(done: Done) -> dict:
    return json.loads(done.out)


def differing(done: Done) -> Iterator[dict]:
    for one in told(done)["differing"]:
        yield from one["differences"]


def test_a_table_and_what_differs(ran: tuple[Path, Done]) -> None:
    _, done = ran
    assert done.code == 1, done.err
    lines = done.out.splitlines()
    assert lines[0].split() == ["TEST", "KAILAB", "KUBE-SCHEDULER", "WHY"]
    verdicts = {line.split()[0]: line.split()[1:] for line in lines[1:5]}
    assert verdicts["lending/test_idle_quota_is_lent"][:2] == ["passed", "passed"]
    assert verdicts["lending/test_the_owner_gets_its_share_back"][:3] == ["passed", "failed", "!"]
    assert verdicts["returning/the-owner-returns"][:3] == ["passed", "failed", "!"]
    table = " ".join(done.out.partition("\n\n")[0].split())
    assert "kube-scheduler: expected queue team-b: 16 GPUs running; seen queue team-b: 16 Pending (16 GPUs)" in table
    assert "outcome: owner after apply owner.yaml: 16 running -> 0 running" in done.out
    assert "evictions: borrower after apply owner.yaml: 16 evicted -> 0 evicted" in done.out


def test_what_is_there_is_shown_again_and_not_run_again(trial: Trial) -> None:
    first = trial("run", "trial.yaml", "-o", "json")
    assert "4 of 4 cells are done already" in first.err
    shown = trial("show", "small", "-o", "json")
    assert (shown.code, told(shown)) == (1, told(first))


def test_it_is_counted_by_subject(trial: Trial) -> None:
    """By a program and for a document; what was not run is no test of which a scheduler decided anything."""
    found = told(trial("show", "small", "-o", "json"))["counts"]
    nothing = {"failed": 0, "notExpressible": 0, "skipped": 0, "notRun": 0}
    assert found["lending"]["kailab"] == {**nothing, "passed": 2}
    assert found["lending"]["kube-scheduler"] == {**nothing, "passed": 1, "failed": 1}
    shown = trial("show", "small", "-o", "markdown")
    assert shown.code == 1
    lines = shown.out.splitlines()
    assert lines[:2] == ["| passed, of those that ran | kailab | kube-scheduler |", "| --- | --- | --- |"]
    assert "| `lending` | 2 of 2 | 1 of 2 |" in lines
    assert any(line.startswith("| `returning/the-owner-returns` | passed | **failed** ! | kube") for line in lines)


def test_what_was_not_run_has_no_mark(trial: Trial, home: Path) -> None:
    """Nothing is known of how it differs."""
    part = home / "trials" / "part"
    shutil.copytree(home / "trials" / "small", part)
    (cell,) = (part / "cells").glob("returning-kube-scheduler-*")
    shutil.rmtree(cell)
    shown = trial("show", "part", "-o", "markdown").out.splitlines()
    assert any(line.startswith("| `returning/the-owner-returns` | passed | not run |") for line in shown)
    told = trial("show", "part").out
    assert "not run !" not in told
    assert "differences in 1 places; not all of it has been run" in told
    assert "could not be run" not in told


@pytest.mark.parametrize(
    ("verdicts", "told"),
    [
        (("passed", "failed", "skipped"), "1 of 2"),
        (("passed", "not expressible", "error"), "1 of 1, 1 not expressible, 1 not run"),
        (("not expressible", "not expressible"), "2 not expressible"),
        (("skipped",), "–"),
    ],
)
def test_a_count_in_words(verdicts: tuple[TestVerdict, ...], told: str) -> None:
    assert str(format_counts(TestResult(name=f"t{n}", verdict=one) for n, one in enumerate(verdicts))) == told


@pytest.mark.slow
def test_a_contender_alone_is_run_and_compared_with_nobody(trial: Trial, home: Path) -> None:
    """What it came to stands there for those who join it later, by another name of the trial or the same."""
    (home / "accepted.yaml").write_text(ALL_ACCEPTED)
    alone = ("run", "--name", "alone", "--isolation", "embedded", "--scheduler", "kube-scheduler")
    done = trial(*alone, "--baseline", "accepted.yaml", "lending", "returning.yaml")
    assert done.code == 0, done.err
    assert "kube-scheduler is the only contender: nothing is compared" in done.err
    assert done.out.splitlines()[-1] == "4 tests on 1 contender: nothing is compared"
    assert "failed" in done.out
    assert "no longer different" not in done.out
    joined = trial(*alone, "--scheduler", "kailab", "lending", "returning.yaml")
    assert joined.code == 1
    assert "2 of 4 cells are done already" in joined.err


def test_both_sides_have_evidence_and_the_first_decision_that_differs(trial: Trial, home: Path) -> None:
    (one,) = [
        each
        for each in told(trial("show", "small", "-o", "json"))["differing"]
        if each["test"] == "returning/the-owner-returns"
    ]
    assert one["firstDecision"].startswith("first decided otherwise (")
    assert " -> " in one["firstDecision"]
    for side in ("kailab", "kube-scheduler"):
        path = home / one["evidence"][side]
        assert load_test(path.parent.parent, "returning/the-owner-returns").labs["lab"].backend == "embedded"


def test_an_accepted_difference_is_none(trial: Trial, home: Path) -> None:
    (home / "accepted.yaml").write_text(ALL_ACCEPTED)
    done = trial("show", "small", "--baseline", "accepted.yaml")
    assert done.code == 0
    assert "the same but for" in done.out
    assert "failed ~" in done.out
    assert "first decided otherwise" not in done.out


def test_many_differences_of_a_kind_have_one_line(trial: Trial, home: Path) -> None:
    """KAI fills a node before the next one, kube-scheduler spreads: each of five Deployments stands otherwise."""
    queues, borrower = ((home / "manifests" / name).read_text() for name in ("queues.yaml", "borrower.yaml"))
    few = borrower.replace("replicas: 32", "replicas: 2")
    manifests = [queues, *(few.replace("borrower", f"work-{number}") for number in range(5))]
    (home / "many.yaml").write_text("---\n".join(manifests))
    schedulers = ("--scheduler", "kailab", "--scheduler", "kube-scheduler")
    done = trial("run", "--name", "many", "--isolation", "embedded", "--compare", "placement", *schedulers, "many.yaml")
    assert done.code == 1, done.err
    count = len(told(trial("show", "many", "-o", "json"))["differing"][0]["differences"])
    assert count > 2
    (line,) = [line for line in done.out.splitlines() if "placement" in line]
    assert line.startswith(f"  {count} differences of placement (--all shows them); the first: work-")
    every = [line for line in trial("show", "many", "--all").out.splitlines() if "placement" in line]
    assert len(every) == count
    assert all(line.startswith("  placement: work-") for line in every)


def test_what_is_accepted_in_part_leaves_the_rest(trial: Trial, home: Path) -> None:
    (home / "part.yaml").write_text(
        "accepted:\n"
        "- {contender: kube-*, test: 'returning/*', kind: outcome, what: owner, reason: no reclaim}\n"
        "- {contender: kube-*, test: 'gone/*', reason: was once}\n"
    )
    done = trial("show", "small", "--baseline", "part.yaml")
    assert done.code == 1
    assert "outcome: owner" not in done.out.partition("returning/the-owner-returns: kube-scheduler")[2]
    assert "outcome: borrower" in done.out
    assert "accepted, and no longer different: kube-*: gone/* (was once)" in done.out


def test_what_is_open_can_be_written_down_as_accepted(trial: Trial, home: Path) -> None:
    """At the end of a file of one's own, whose words stay; a second time there is nothing to write."""
    file = home / "mine.yaml"
    file.write_text(
        "# reviewed by the platform team\naccepted:\n  # once\n- {contender: kube-*, test: 'gone/*', reason: was once}"
    )
    choice = ("accept", "small", "--baseline", "mine.yaml", "--reason", "no reclaim: never", "--test", "returning/*")
    done = trial(*choice)
    assert done.code == 0, done.err
    assert "accepted: kube-scheduler: returning/the-owner-returns outcome of owner (no reclaim: never)" in done.out
    assert file.read_text().startswith("# reviewed by the platform team\naccepted:\n  # once\n- {contender: kube-*")
    left = trial("show", "small", "--baseline", "mine.yaml", "--verbose", "-o", "json")
    accepted = {one["accepted"] is not None for one in differing(left) if one["test"].startswith("returning/")}
    assert accepted == {True}
    assert any(one["accepted"] is None for one in differing(left))
    assert trial(*choice).code == 2
    assert trial("accept", "small", "--baseline", "mine.yaml", "--reason", "nor lending").code == 0
    assert trial("show", "small", "--baseline", "mine.yaml").code == 0


def test_a_baseline_that_cannot_be_added_to_stays_as_it_is(trial: Trial, home: Path) -> None:
    file = home / "flow.yaml"
    file.write_text("accepted: [{contender: kube-*, test: 'gone/*', reason: was once}]\n")
    done = trial("accept", "small", "--baseline", "flow.yaml", "--reason", "x")
    assert done.code == 2
    assert "flow.yaml: cannot append entries: expected the key accepted" in done.err
    assert file.read_text() == "accepted: [{contender: kube-*, test: 'gone/*', reason: was once}]\n"
    assert not list(home.glob(".flow.yaml*"))
    done = trial("accept", "small", "--baseline", "new.yaml", "--reason", " ")
    assert done.code == 2
    assert "--reason: is empty" in done.err
    assert not (home / "new.yaml").exists()


def test_reports_for_machines_and_for_people(trial: Trial, home: Path) -> None:
    done = trial("show", "small", "--junit", "out/junit.xml", "--html", "out/page.html")
    assert done.code == 1
    suites = {suite.get("name"): suite for suite in ElementTree.parse(home / "out" / "junit.xml").getroot()}
    assert (suites["kailab"].get("tests"), suites["kailab"].get("failures")) == ("4", "0")
    failed = {case.get("name") for case in suites["kube-scheduler"] if case.find("failure") is not None}
    assert "returning/the-owner-returns" in failed
    page = (home / "out" / "page.html").read_text()
    assert "16 running" in page
    assert "src=" not in page
    assert "http" not in page.replace('lang="en"', "")


@pytest.mark.slow
def test_one_that_changed_is_run_again(trial: Trial, home: Path) -> None:
    shutil.copytree(home / "trials" / "small", home / "trials" / "changed")
    text = (home / "returning.yaml").read_text()
    (home / "returning.yaml").write_text(text.replace("team-b: {gpus: 16}", "team-b: {gpus: 12}"))
    done = trial("run", "trial.yaml", "--name", "changed", "-o", "json")
    (home / "returning.yaml").write_text(text)
    assert "2 of 4 cells are done already" in done.err
    (row,) = [row for row in told(done)["rows"] if row["test"] == "returning/the-owner-returns"]
    assert {result["verdict"] for result in row["results"].values()} == {"failed"}


@pytest.mark.slow
def test_a_test_that_could_not_be_run_is_tried_again(trial: Trial, home: Path) -> None:
    """By itself: what its neighbour came to is kept."""
    (home / "reaching").mkdir()
    (home / "reaching" / "test_reaching.py").write_text(
        "import pathlib\n"
        "from kailab.errors import ConnectError\n"
        "HERE = pathlib.Path(__file__).parents[1]\n"
        "def test_well(lab):\n    print(file=open(HERE / 'well', 'a'))\n"
        "def test_unreachable(lab):\n"
        "    if not (HERE / 'server').exists():\n        raise ConnectError('no server answers')\n"
    )
    given = ("--scheduler", "kailab", "--scheduler", "kube-scheduler", "--isolation", "embedded", "reaching")
    first = trial("run", "--name", "again", *given)
    assert first.code == 1
    assert "no difference in what was run; 2 could not be run" in first.out
    (home / "server").touch()
    second = trial("run", "--name", "again", *given)
    assert second.code == 0, second.out + second.err
    assert (home / "well").read_text() == "\n\n"  # each contender once


@pytest.mark.slow
def test_configurations_of_one_scheduler(trial: Trial, home: Path) -> None:
    """The same scheduler decides by two files: without its reclaim action the owner gets nothing back."""
    (home / "full.yaml").write_text('actions: "allocate, reclaim"\n')
    (home / "none.yaml").write_text('actions: "allocate"\n')
    texts = [(home / "manifests" / name).read_text() for name in ("queues.yaml", "borrower.yaml", "owner.yaml")]
    (home / "all.yaml").write_text("---\n".join(texts))
    done = trial(
        "run", "--scheduler", "kailab", "--config", "full.yaml", "--config", "none.yaml", "--isolation", "embedded",
        "--name", "configured", "--compare", "outcome", "lending/test_lending.py::test_the_owner_gets_its_share_back",
        "all.yaml", "-o", "json",
    )  # fmt: skip
    assert done.code == 1, done.err
    assert [one["name"] for one in told(done)["columns"]] == ["kailab-full", "kailab-none"]
    assert {one["what"] for one in differing(done)} == {"owner", "borrower"}
    assert [row["subject"] for row in told(done)["rows"]] == ["lending-test_the_owner_gets_its_share_back", "all"]


@pytest.mark.slow
def test_the_same_scheduler_twice_is_the_same(trial: Trial, home: Path) -> None:
    (home / "names.yaml").write_text("twin: {kind: kailab}\n")
    done = trial(
        "run", "--scheduler", "kailab", "--scheduler", "twin@names.yaml", "--isolation", "embedded", "returning.yaml"
    )
    assert done.code == 0, done.out
    assert "2 tests on 2 contenders: the same" in done.out


def test_one_configuration_is_compared_with_the_one_in_use(trial: Trial, home: Path) -> None:
    """Without a lab that is KAI's default; no scheduler, no isolation and no fleet need be named."""
    (home / "none.yaml").write_text('actions: "allocate"\n')
    done = trial("run", "--config", "none.yaml", "--name", "change", "returning.yaml", "-o", "json")
    assert done.code == 1, done.err
    assert "now: KAI's default configuration" in done.err
    columns = [(one["name"], one["isolation"], one["reference"]) for one in told(done)["columns"]]
    assert columns == [("now", "embedded", True), ("kailab-none", "embedded", False)]
    assert {one["kind"] for one in differing(done)} >= {"verdict", "outcome"}


def test_the_configuration_of_a_lab_is_written_for_its_contender(tmp_path: Path) -> None:
    config = tmp_path / "lab.yaml"
    config.write_text(
        "actions: allocate, reclaim\n"
        "tiers: [{plugins: [{name: priority}, {name: predicates}, {name: nodeplacement, arguments: {gpu: spread}}]}]\n"
        "kailab: {stalenessGracePeriod: 5m, maxConsolidationVictims: 3}\n"
    )
    with Lab.open(config=config) as lab:
        used = contender_in_use(lab, tmp_path / "trials")
        assert settings_of(used.config).engine == lab.config
    with Lab.open(config={"kailab": {"maxTakenRatio": 2}}) as lab, pytest.raises(InputError, match="name both"):
        contender_in_use(lab, tmp_path)


def test_embedded_where_no_process_is_needed(home: Path) -> None:
    processless = [contender("kailab"), contender("kube-scheduler")]
    assert default_isolation(processless, {}) == "embedded"
    assert default_isolation(processless, {"operators": "jobset"}) == "controlplane"
    assert default_isolation([*processless, contender("kueue")], {}) == "controlplane"


def test_the_fleet_of_the_tests_own_settings(tmp_path: Path) -> None:
    """As pytest finds it: the nearest file with its settings, whose paths are relative to it."""
    tests = tmp_path / "tests" / "deep"
    tests.mkdir(parents=True)
    (tests / "test_one.py").write_text("def test_one(lab): pass\n")
    (tmp_path / "pyproject.toml").write_text('[tool.pytest.ini_options]\nkailab_fleet = "racks"\n')
    subjects = subjects_of(str(tests))

    def fleet(**options: str) -> str:
        trial = make_trial([contender("kailab")], subjects, [], name="t", **options)
        (cell,) = trial.cells(trial.subjects[0], lambda _: {})
        return cell.fleet

    assert (fleet(), fleet(fleet="hundred")) == ("racks", "hundred")
    (tmp_path / "tests" / "tox.ini").write_text("[pytest]\nkailab_fleet = mine.yaml\n")
    with pytest.raises(InputError, match=r"tox\.ini: kailab_fleet: mine\.yaml: can't be read"):
        fleet()
    text = (Path(__file__).parents[2] / "fleets" / "lesson.yaml").read_text()
    (tmp_path / "tests" / "mine.yaml").write_text(text)
    assert fleet() == str(tmp_path / "tests" / "mine.yaml")
    (tests / "pytest.ini").write_text("[pytest]\n")
    assert fleet() == "lesson"


def test_one_scheduler_in_two_isolations_is_compared_with_its_first(home: Path) -> None:
    trial = make_trial(
        [contender("kailab")], subjects_of("returning.yaml", home), ["embedded", "controlplane"], name="t"
    )
    outcome = TrialOutcome(trial, home, tuple(name for name, _, _ in trial.columns()), ())
    assert outcome.columns == ("kailab (embedded)", "kailab (controlplane)")
    assert {outcome.reference_of(column) for column in outcome.columns} == {"kailab (embedded)"}
    both = make_trial([contender("kailab"), contender("kube-scheduler")], trial.subjects, trial.isolations, name="t")
    outcome = TrialOutcome(both, home, tuple(name for name, _, _ in both.columns()), ())
    assert outcome.reference_of("kube-scheduler (controlplane)") == "kailab (controlplane)"
