"""The examples of docs/extending.md as a distribution: built, installed beside kailab, and used by commands and tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]

pytestmark = pytest.mark.slow

QUEUE = """
apiVersion: scheduling.run.ai/v2
kind: Queue
metadata: {name: team}
spec:
  resources:
    gpu: {quota: 8, limit: 8, overQuotaWeight: 1}
    cpu: {quota: -1, limit: -1, overQuotaWeight: 1}
    memory: {quota: -1, limit: -1, overQuotaWeight: 1}
"""
SQUAD = """---
apiVersion: acme.example.com/v1
kind: Squad
metadata: {name: NAME, labels: {kai.scheduler/queue: team}}
spec:
  replicas: PODS
  template:
    metadata: {labels: {kai.scheduler/queue: team}}
    spec:
      schedulerName: kai-scheduler
      tolerations: [{operator: Exists}]
      containers: [{name: c, image: pause, resources: {limits: {nvidia.com/gpu: GPUS}}}]
"""
CONFIG = "kailab: {jobOrder: {policy: fewest-gpus-first, parameters: {patience: 600}}, nodeScore: emptiest-node, victimOrder: shortest-run}\n"


def squad(name: str, pods: int, gpus: int) -> str:
    return SQUAD.replace("NAME", name).replace("PODS", str(pods)).replace("GPUS", str(gpus))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the distribution as an installer leaves it: its wheel, unpacked."""
    folder = tmp_path_factory.mktemp("acme")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(build, cwd=ROOT / "examples" / "acme", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Runs a module of Python beside the distribution, in a folder of its own."""

    def go(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "200"}
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return go


def test_doctor_lists_what_is_installed(run: Run) -> None:
    found = json.loads(run("kailab", "doctor", "-o", "json").stdout)
    told = {one["name"]: one["told"] for one in found if one["area"] == "extension" and one["there"]}
    names = {"backends flaky", "kinds squad", "schedulers first-fit"}
    names |= {f"policies {name}" for name in ("fewest-gpus-first", "emptiest-node", "shortest-run")}
    assert told == dict.fromkeys(names, "acme-kailab 1.0")


def test_one_of_each_on_the_command_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "squads.yaml").write_text(QUEUE + squad("large", 2, 4) + squad("small", 3, 1))
    run("kailab", "up", "--backend", "flaky", "--scheduler-config", "config.yaml")
    run("kailab", "apply", "-f", "squads.yaml")
    table = {row.split()[0]: row.split()[1] for row in run("kailab", "get", "squads").stdout.splitlines()}
    assert table == {"NAME": "MEMBERS", "large": "2", "small": "3"}
    assert "squad.acme.example.com/small" in run("kailab", "get", "all").stdout
    told = run("kailab", "explain", "squad/large").stdout
    assert "the policy 'fewest-gpus-first' gives it 1, 8000; the smallest comes first" in told
    assert "3 of 3 pods running" in run("kailab", "explain", "squad/small").stdout
    assert "flaky" in run("kailab", "status").stdout


def test_one_of_each_under_pytest_and_whose_it_is_in_the_evidence(run: Run, tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "test_acme.py").write_text(
        "import pytest\n"
        "from kailab import expect\n"
        f"OBJECTS = {QUEUE + squad('large', 2, 4) + squad('small', 4, 1)!r}\n"
        "@pytest.mark.kailab_config('config.yaml')\n"
        "def test_it(lab):\n"
        "    lab.apply(OBJECTS)\n"
        "    lab.settle()\n"
        "    expect(lab.workload('squad', 'small')).running(pods=4).spread_over(3)\n"
        "    expect(lab.workload('squad', 'large')).pending(pods=2)\n"
        "    assert lab.backend == 'flaky'\n"
    )
    run(
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--kailab-backend",
        "flaky",
        "--kailab-evidence",
        "kept",
        "test_acme.py",
    )
    (about,) = (tmp_path / "kept").rglob("lab.json")
    chosen = json.loads(about.read_text())["settings"]["engine"]["job_order_policy"]
    assert chosen == {
        "name": "fewest-gpus-first",
        "parameters": {"patience": 600},
        "distribution": "acme-kailab",
        "version": "1.0",
    }
    replay = ("evidence", "replay", "--evidence", "kept")
    assert "all decisions are the same" in run("kailab", *replay).stdout


def test_a_scheduler_under_test(run: Run, tmp_path: Path) -> None:
    (tmp_path / "squads.yaml").write_text(QUEUE + squad("large", 2, 8) + squad("small", 3, 1))
    run("kailab", "up", "--scheduler", "first-fit")
    run("kailab", "apply", "-f", "squads.yaml")
    pods = run("kailab", "get", "pods", "-o", "json").stdout
    nodes = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in json.loads(pods)["items"]}
    assert nodes == {"large-0": "a100-0", "large-1": "a100-1", **{f"small-{n}": "h100-0" for n in range(3)}}
    assert "first-fit" in run("kailab", "status").stdout


def test_a_name_that_nobody_brings_is_refused_with_those_that_there_are(run: Run) -> None:
    told = run("kailab", "up", "--backend", "flakey", code=2).stderr
    assert (
        "there is no backend 'flakey'; expected one of: embedded, controlplane, kind, vcluster, kubeconfig, flaky"
        in told
    )
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("group", "arguments", "told"),
    [
        ("backends", ("up", "--backend", "bad"), "kailab.backends 'bad' of broken 2.0 can't be loaded"),
        ("schedulers", ("up", "--scheduler", "bad"), "kailab.schedulers 'bad' of broken 2.0 can't be loaded"),
        ("kinds", ("get", "bads"), "kailab.kinds 'bad' of broken 2.0 can't be loaded"),
    ],
)
def test_a_broken_distribution_is_named_where_it_is_used_and_disturbs_nobody_else(
    run: Run,
    tmp_path: Path,
    group: str,
    arguments: tuple[str, ...],
    told: str,
) -> None:
    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(f"[kailab.{group}]\nbad = broken_module:BAD\n")
    (tmp_path / "broken_module.py").write_text("1 / 0\n")  # the folder that commands run in is on their path
    run("kailab", "up", "--keep")
    run("kailab", "get", "nodes")
    other = ("--state", "other") if arguments[0] == "up" else ()
    said = run("kailab", *arguments, *other, code=2).stderr
    assert told in said
    assert "ZeroDivisionError: division by zero" in said
    assert "Traceback" not in said
