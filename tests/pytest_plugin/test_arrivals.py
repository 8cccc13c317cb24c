"""Labs of tests: two applies are two arrivals, warnings are part of the report, labs may be shared, and evidence may be kept of failures only."""

from __future__ import annotations

from pathlib import Path

import pytest

# Before pytester remembers which modules there are: it forgets later ones after each run, and numpy loads but once.
import kailab.lab  # noqa: F401

pytest_plugins = ["pytester"]

COMMON = '''
import pytest
from kailab.lab import expect

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: %s}
spec:
  resources:
    gpu: {quota: %d, limit: -1, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""


def job(name, queue, pods):
    labels = {"app": name, "kai.scheduler/queue": queue}
    container = {"name": "c", "image": "x", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    spec = {"schedulerName": "kai-scheduler", "restartPolicy": "Never", "containers": [container]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels},
        "spec": {"parallelism": pods, "completions": pods, "backoffLimit": pods, "template": template},
    }
'''


@pytest.fixture
def run(pytester: pytest.Pytester):
    def run(body: str, *options: str) -> pytest.RunResult:
        pytester.makepyfile(test_it=COMMON + body)
        return pytester.runpytest("-p", "no:cacheprovider", *options)

    return run


def test_two_applies_are_two_arrivals_unless_one_asks_for_one(run) -> None:
    result = run(
        """
def test_apart(lab):
    lab.apply(QUEUE % ("a", 8), QUEUE % ("b", 24))
    lab.apply(job("first", "a", 32))
    lab.apply(job("second", "b", 4))
    expect(lab.queue("a")).evicted(pods=4, gpus=4, by="reclaim", for_queue="b").running(gpus=28)


def test_together(lab):
    lab.apply(QUEUE % ("a", 8), QUEUE % ("b", 24))
    lab.apply(job("first", "a", 32))
    lab.apply(job("second", "b", 4), together=True)
    expect(lab.queue("a")).not_evicted().running(gpus=28)
""",
        "--kailab-evidence",
        "off",
    )
    result.assert_outcomes(passed=2)


def test_steps_name_objects_and_warnings_are_in_the_report(run, pytester: pytest.Pytester) -> None:
    result = run(
        """
def test_it(lab):
    lab.apply(QUEUE % ("a", 8), job("lost", "nowhere", 1))
    expect(lab.queue("a")).running(gpus=3)
""",
        "--kailab-evidence",
        "e",
    )
    result.assert_outcomes(failed=1, warnings=1)
    result.stdout.fnmatch_lines(["*apply Queue/a, Job/lost: 1 Queue created, 1 Job created*"])
    # Under its apply, before pytest's own summary.
    result.stdout.fnmatch_lines(["* 0 s    warning: Job/lost: *there is no queue 'nowhere'*"])
    result.stdout.fnmatch_lines(["*test_it.py:*: ApplyWarning: lab.apply: Job/lost: *there is no queue 'nowhere'*"])
    names = sorted(file.name for file in Path(pytester.path, "e").rglob("manifests/*"))
    assert names == ["01-Queue-a.yaml", "02-Job-lost.yaml"]


def test_a_warning_can_be_an_error_at_the_line_of_the_test(run) -> None:
    result = run(
        """
def test_it(lab):
    lab.apply(job("lost", "nowhere", 1))
""",
        "--kailab-evidence",
        "off",
        "-W",
        "error::kailab.errors.ApplyWarning",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            '>*lab.apply(job("lost", "nowhere", 1))',
            "E *ApplyWarning: lab.apply: Job/lost: *there is no queue*",
            "test_it.py:*",
        ]
    )
    assert "warn_explicit" not in result.stdout.str()


def test_labs_are_shared_by_fixtures_of_any_scope(run) -> None:
    result = run(
        """
@pytest.fixture(scope="module")
def full(module_lab_factory):
    lab = module_lab_factory(fleet="lesson")
    lab.apply(QUEUE % ("a", 8), QUEUE % ("b", 24), job("big", "a", 32))
    return lab


@pytest.fixture(scope="session")
def empty(session_lab_factory):
    return session_lab_factory()


def test_one(full, empty):
    expect(full.queue("a")).borrows(gpus=24, from_queue="b")


def test_other(full, empty):
    expect(full.queue("a")).running(gpus=32)
    assert empty.get("pods") == []
""",
        "--kailab-evidence",
        "off",
    )
    result.assert_outcomes(passed=2)


def test_a_lender_is_only_named_where_it_is_known(run) -> None:
    result = run(
        """
def test_it(lab):
    lab.apply(QUEUE % ("a", 0), QUEUE % ("b", 16), QUEUE % ("c", 16), job("big", "a", 20))
    expect(lab.queue("a")).borrows(gpus=20)
    with pytest.raises(Exception, match="KAI keeps no record of which of them queue a borrows from"):
        expect(lab.queue("a")).borrows(gpus=10, from_queue="b")
""",
        "--kailab-evidence",
        "off",
    )
    result.assert_outcomes(passed=1)


def test_evidence_of_failures_only(run, pytester: pytest.Pytester) -> None:
    body = """
def test_good(lab):
    expect(lab).no_pods()


def test_bad(lab):
    expect(lab).running(gpus=1)
"""
    run(body, "--kailab-evidence", "e", "--kailab-trace", "on-failure").assert_outcomes(passed=1, failed=1)
    assert [path.parent.name for path in Path(pytester.path, "e").rglob("result.json")] == ["test_it.test_bad"]
    run(body, "--kailab-evidence", "f", "--kailab-trace", "off").assert_outcomes(passed=1, failed=1)
    assert not Path(pytester.path, "f").exists()
    result = run(body, "--kailab-trace", "sometimes")
    result.stderr.fnmatch_lines(["*--kailab-trace: 'sometimes' is none of: on, on-failure, off"])
