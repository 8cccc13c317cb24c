"""The plugin as its users meet it: pytest runs inside pytest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

# Before pytester remembers which modules there are: it forgets later ones after each run, and numpy loads but once.
import kailab.lab  # noqa: F401

pytest_plugins = ["pytester"]

QUEUES = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team-a}
spec:
  resources:
    gpu: {quota: 8, limit: 8, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: trainer, labels: {app: trainer, kai.scheduler/queue: team-a}}
spec:
  parallelism: 40
  completions: 40
  template:
    metadata: {labels: {app: trainer, kai.scheduler/queue: team-a}}
    spec:
      schedulerName: kai-scheduler
      restartPolicy: Never
      tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]
      containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: 1}}}]
"""
TESTS = """
    import pytest
    from kailab.lab import expect

    def test_the_limit_holds(lab):
        lab.apply("queues.yaml", "job.yaml")
        expect(lab.queue("team-a")).running(gpus=8)

    def test_nothing_holds_the_baseline(baseline_lab):
        baseline_lab.apply("queues.yaml", "job.yaml")
        expect(baseline_lab.app("trainer")).running(gpus=32)

    def test_that_fails(lab):
        lab.apply("queues.yaml", "job.yaml")
        expect(lab.queue("team-a")).running(gpus=16)

    def test_without_a_lab():
        pass
"""


@pytest.fixture
def exercise(pytester: pytest.Pytester) -> Path:
    """exercises/limit with manifests and four tests, one of which fails."""
    pytester.makeini("[pytest]\naddopts = -p no:cacheprovider --import-mode=importlib\n")
    folder = pytester.mkdir("exercises") / "limit"
    folder.mkdir()
    (folder / "queues.yaml").write_text(QUEUES)
    (folder / "job.yaml").write_text(JOB)
    pytester.makepyfile(**{"exercises/limit/test_limit": TESTS})
    return folder


def only_run(root: Path) -> Path:
    (run,) = (root / "evidence").iterdir()
    return run


def contents(run: Path) -> dict[str, bytes]:
    return {p.relative_to(run).as_posix(): p.read_bytes() for p in sorted(run.rglob("*")) if p.is_file()}


def test_labs_evidence_and_what_is_said_of_them(pytester, exercise):
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(
        [
            "kailab: backend embedded; scheduler kailab and fleet lesson, unless a test is marked with others; evidence evidence",
            "*expected queue team-a: 16 GPUs running",
            "*seen     queue team-a: 32 Pending (32 GPUs), 8 Running (8 GPUs)",
            "*Queue team-a: quota 8 GPUs, limit 8 GPUs*",
            "*OverLimit*",
            "*what happened in lab*",
            "*apply queues.yaml, job.yaml: 1 Queue created, 1 Job created",
            "kailab: evidence of 3 tests in evidence/*",
        ]
    )
    run = only_run(pytester.path)
    tests = {p.parent.relative_to(run).as_posix() for p in run.rglob("result.json")}
    assert tests == {
        "limit/test_the_limit_holds",
        "limit/test_nothing_holds_the_baseline",
        "limit/test_that_fails",
    }
    failed = json.loads((run / "limit/test_that_fails/result.json").read_text())
    assert failed["outcome"] == "failed"
    assert "16 GPUs running" in failed["message"]
    kept = run / "limit/test_the_limit_holds/lab/manifests/01-queues.yaml"
    assert list(yaml.safe_load_all(kept.read_text())) == list(yaml.safe_load_all(QUEUES))
    assert (run / "limit/test_nothing_holds_the_baseline/baseline/decisions.jsonl").read_text().count("bind") == 32


def test_a_failure_points_into_the_test(pytester, exercise):
    result = pytester.runpytest_inprocess("-k", "that_fails")
    result.stdout.fnmatch_lines(["*test_limit.py:*: ExpectationFailed"])
    result.stdout.no_fnmatch_line("*kailab/lab/expectations.py*")


def test_two_runs_are_equal_but_for_run_json(pytester, exercise):
    pytester.runpytest_inprocess("--kailab-evidence", "one")
    pytester.runpytest_inprocess("--kailab-evidence", "two")
    (one,), (two,) = (list((pytester.path / name).iterdir()) for name in ("one", "two"))
    first, second = contents(one), contents(two)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == ["run.json"]


@pytest.mark.slow
def test_workers_share_one_run_with_the_same_evidence(pytester, exercise):
    from kailab.evidence import store

    pytester.runpytest_inprocess("--kailab-evidence", "alone")
    result = pytester.runpytest_subprocess("-n", "2", "--kailab-evidence", "shared")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["kailab: evidence of 3 tests in shared/*"])
    (alone,), (shared,) = (list((pytester.path / name).iterdir()) for name in ("alone", "shared"))
    assert store.verify_evidence(shared) == []
    first, second = contents(alone), contents(shared)
    assert [name for name in first | second if first.get(name) != second.get(name)] == ["run.json"]


def test_evidence_can_be_off(pytester, exercise):
    result = pytester.runpytest_inprocess("--kailab-evidence", "off")
    result.assert_outcomes(passed=3, failed=1)
    assert not (pytester.path / "evidence").exists()
    result.stdout.no_fnmatch_line("*kailab: evidence of*")


def test_a_run_without_labs_leaves_nothing(pytester):
    pytester.makepyfile("def test_it(): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
    assert not (pytester.path / "evidence").exists()


@pytest.mark.parametrize("given", [("--kailab-evidence", "taken"), ()])
def test_a_folder_that_cannot_be_written_ends_the_run_at_once(pytester, exercise, given):
    (pytester.path / (given[1] if given else "evidence")).write_text("a file")
    result = pytester.runpytest_subprocess(*given)
    assert result.ret == 2
    text = result.stdout.str() + result.stderr.str()
    assert "evidence can't be written there" in text
    assert "Traceback" not in text
    assert "passed" not in text


def test_ini_marker_and_option(pytester):
    pytester.makeini("[pytest]\nkailab_fleet = hundred\nkailab_evidence = kept\n")
    pytester.makepyfile(
        """
        import pytest

        def test_ini(lab):
            assert lab.fleet == "hundred"

        @pytest.mark.kailab_fleet("lesson")
        @pytest.mark.kailab_scheduler("kube-scheduler")
        def test_marker(lab):
            assert (lab.fleet, lab.scheduler) == ("lesson", "kube-scheduler")

        @pytest.mark.kailab_config(gpu_placement="spread")
        def test_config(lab):
            assert lab.config.gpu_placement == "spread"

        @pytest.mark.exercise("named")
        def test_factory(lab_factory, manifests, request):
            one, two = lab_factory(), lab_factory(fleet="lesson", scheduler="kube-scheduler", name="other")
            assert (one.fleet, two.fleet) == ("hundred", "lesson")
            assert manifests == request.path.parent
        """
    )
    pytester.runpytest_inprocess("--strict-markers").assert_outcomes(passed=4)
    (run,) = (pytester.path / "kept").iterdir()
    assert {p.name for p in (run / "named").glob("*/*") if p.is_dir()} == {"lab", "other"}


def test_the_file_of_a_fleet_is_beside_the_test_or_in_the_working_directory(pytester):
    """As in CI, where pytest runs at the root of a repository and the tests are in a folder of it."""
    fleet = "{apiVersion: kailab.dev/v1, kind: Fleet, name: NAME, pools: [{name: a, count: 1, gpus: 8, cpu: 8, memory: 8Gi}]}"
    folder = pytester.mkdir("scheduling")
    (folder / "fleet.yaml").write_text(fleet.replace("NAME", "beside"))
    for name in ("fleet", "other"):
        (pytester.path / f"{name}.yaml").write_text(fleet.replace("NAME", "at-the-root"))
    (folder / "test_fleet.py").write_text(
        """
import pytest

@pytest.mark.kailab_fleet("fleet.yaml")
def test_beside(lab):
    assert lab.fleet == "beside"

@pytest.mark.kailab_fleet("other.yaml")
def test_at_the_root(lab, lab_factory):
    assert (lab.fleet, lab_factory(fleet="fleet.yaml").fleet) == ("at-the-root", "beside")

@pytest.mark.kailab_fleet("nowhere.yaml")
def test_nowhere(lab):
    pass
"""
    )
    result = pytester.runpytest_inprocess("--kailab-evidence", "off", "scheduling")
    result.assert_outcomes(passed=2, errors=1)
    assert f"{folder / 'nowhere.yaml'}: can't be read: No such file or directory" in result.stdout.str()


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (
            ("--kailab-backend", "controlplane", "--kailab-components", "nowhere"),
            "backend controlplane with kailab can't run here",
        ),
        (
            ("--kailab-scheduler", "kai"),
            "scheduler kai can't run on backend embedded: a real KAI needs a real API server",
        ),
    ],
)
def test_what_cannot_run_is_skipped_with_its_reason(pytester, option, reason):
    pytester.makepyfile("def test_it(lab): pass")
    result = pytester.runpytest_inprocess("-rs", *option)
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines([f"*{reason}*"])


def test_what_only_kailab_has_is_skipped_under_others_with_its_reason(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kailab_only("others keep no log")
        def test_it(lab): pass

        @pytest.mark.kailab_only
        def test_no_reason(lab): pass
        """
    )
    pytester.runpytest_subprocess("--kailab-evidence=off", "-k", "test_it").assert_outcomes(passed=1)
    result = pytester.runpytest_subprocess("--kailab-evidence=off", "--kailab-scheduler=kube-scheduler", "-rs")
    result.assert_outcomes(skipped=1, errors=1)
    result.stdout.fnmatch_lines(["*not with kube-scheduler: others keep no log*"])
    result.stdout.fnmatch_lines(["*marker kailab_only needs a reason*"])


def test_a_backend_that_there_is_not_is_a_usage_error(pytester):
    result = pytester.runpytest_subprocess("--kailab-backend", "moon")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kailab-backend: 'moon' is none of: embedded*"])


def test_a_fleet_that_there_is_not_is_a_usage_error(pytester):
    result = pytester.runpytest_subprocess("--kailab-fleet", "lessons")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kailab-fleet: no fleet is called 'lessons'; did you mean lesson?*"])


def test_evidence_is_written_whatever_the_outcome(pytester):
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def broken(lab):
            raise RuntimeError("set-up fails")

        def test_broken_set_up(broken): pass

        def test_error(lab): raise ValueError(object())

        def test_skip(lab): pytest.skip("not today")

        @pytest.mark.xfail(reason="known")
        def test_xfail(lab): assert False

        @pytest.mark.parametrize("what", ["a/b", "a b"])
        def test_odd_names(lab, what): pass
        """
    )
    pytester.runpytest_inprocess()
    run = only_run(pytester.path)
    results = {
        result["test"].rpartition("/")[2].rpartition(".")[2]: result
        for result in (json.loads(p.read_text()) for p in run.rglob("result.json"))
        if "odd" not in result["test"]
    }
    assert {name: result["outcome"] for name, result in results.items()} == {
        "test_broken_set_up": "error",
        "test_error": "failed",
        "test_skip": "skipped",
        "test_xfail": "xfailed",
    }
    assert results["test_error"]["message"] == "ValueError: <object object at 0x...>"
    assert len([p for p in run.rglob("result.json") if "odd_names" in str(p)]) == 2


def test_loading_the_plugin_loads_none_of_the_lab():
    code = (
        "import sys, kailab.pytest_plugin.plugin; "
        "light = ('kailab.errors', 'kailab.exports', 'kailab.version', 'kailab.extensions', 'kailab.cluster', 'kailab.cluster.registry', 'kailab.cluster.backends', "
        "'kailab.undertest', 'kailab.undertest.selection', 'kailab.undertest.registry'); "
        "print([m for m in sys.modules if m.startswith('kailab.') and not m.startswith('kailab.pytest_plugin')"
        " and m not in light]"
        " + [m for m in ('numpy', 'msgspec', 'yaml', 'jinja2', 'kubernetes') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--kailab-backend", "cloud"), "'cloud' is none of: embedded, controlplane, kind, vcluster, kubeconfig"),
        (("--kailab-kubeconfig", "x"), "--kailab-kubeconfig: the backend embedded does not take it"),
        (("--kailab-kai-bin", "x"), "--kailab-kai-bin: the backend embedded does not"),
        (
            ("--kailab-backend", "kubeconfig", "--kailab-kubernetes", "v9"),
            "--kailab-kubernetes: the backend kubeconfig",
        ),
    ],
)
def test_an_option_without_a_use_is_refused(pytester: pytest.Pytester, options: tuple[str, ...], said: str) -> None:
    result = pytester.runpytest_subprocess(*options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{said}*"])


def test_an_ini_key_is_a_default_for_the_backends_that_understand_it(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkailab_components = programs\n")
    pytester.makepyfile("def test_nothing(): pass")
    result = pytester.runpytest_subprocess()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["kailab: kailab_components: the backend embedded does not take it; *"])


def test_a_configuration_is_not_for_every_scheduler(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kailab_config(gpu_placement="spread")
        def test_of_kailab(lab, baseline_lab):
            assert lab.config.gpu_placement == "spread"

        @pytest.mark.kailab_config(gpu_placement="spread")
        @pytest.mark.kailab_scheduler("kube-scheduler")
        def test_of_another(lab):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-rs", "--kailab-evidence", "off")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*not with kube-scheduler: it takes no scheduler configuration*"])


SECRETIVE = """
import pytest

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "labels": {"app": "one", "kai.scheduler/queue": "team-a"}},
       "spec": {"schedulerName": "kai-scheduler", "containers": [
           {"name": "c", "image": "https://me:zQimage77@host/img", "args": ["--token=zQargs7777"],
            "env": [{"name": "A", "value": "zQenv77777"}], "resources": {"limits": {"nvidia.com/gpu": 16}}}]}}

def test_an_expectation(lab):
    from kailab.lab import expect
    lab.apply("queues.yaml", POD)
    lab.settle()
    pod = lab.get("Pod", "one")
    lab.cluster.event(pod, "Warning", "Denied", "a webhook denied it: A=zQenv77777")
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Denied", "message": "denied: zQargs7777"}]}
    lab.cluster.patch("Pod", "one", "default", {"status": status}, subresource="status")
    expect(lab.app("one")).running(pods=1)

def test_an_assertion(lab):
    lab.apply("queues.yaml", POD)
    assert lab.get("Pod", "one")["spec"]["containers"][0]["image"] == "zQimage77"

def test_a_refusal(lab):
    lab.apply({**POD, "spec": {**POD["spec"], "initContainers": "zQinit7777"}})
"""


def test_a_failure_shows_no_secrets_in_allure_junit_and_evidence(pytester):
    (pytester.path / "queues.yaml").write_text(QUEUES)
    (pytester.path / "test_it.py").write_text(SECRETIVE)
    options = ("--alluredir", "allure", "--junitxml", "junit.xml", "--kailab-evidence", "runs", "--tb=short")
    pytester.runpytest_subprocess(*options).assert_outcomes(failed=3)
    written = [p for name in ("allure", "runs") for p in (pytester.path / name).rglob("*") if p.is_file()]
    assert len(written) > 50
    for path in [*written, pytester.path / "junit.xml"]:
        content = path.read_bytes()
        for secret in (b"zQenv77777", b"zQargs7777", b"zQimage77", b"zQinit7777"):
            assert secret not in content, f"{secret!r} in {path}"


def test_bad_input_is_shown_at_the_line_of_the_test(pytester):
    pytester.makepyfile(
        """
        import pytest
        from kailab.lab import expect

        def test_file(lab):
            lab.apply("nowhere.yaml")

        def test_amount(lab):
            expect(lab).running(gpus="32")

        @pytest.mark.kailab_fleet("lessons")
        def test_fleet(lab): pass
        """
    )
    result = pytester.runpytest_inprocess("--kailab-evidence", "off")
    result.assert_outcomes(failed=2, errors=1)
    text = result.stdout.str()
    assert '>       lab.apply("nowhere.yaml")\nE       kailab.errors.InputError: ' in text
    assert ">       expect(lab).running(gpus=\"32\")\nE       kailab.errors.InputError: '32' is no amount" in text
    assert "no fleet is called 'lessons'; did you mean lesson?" in text
    for inside in ("operations.py", "files.py", "library.py", "_caller.py"):
        assert inside not in text
    full = pytester.runpytest_inprocess("--kailab-evidence", "off", "--full-trace").stdout.str()
    assert "operations.py" in full
