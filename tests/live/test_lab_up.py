"""``kailab up --backend controlplane``, used with kubectl and with kailab, and down again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from kailab.cluster.polling import wait_until
from kailab.cluster.processes import ask_process, find_process
from kailab.evidence import store
from kailab.evidence.entries import PodBound

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("components")]
EXERCISES = Path(__file__).resolve().parents[2] / "exercises"


def kailab(folder: Path, *arguments: str, code: int = 0, told: str = "") -> str:
    done = subprocess.run(
        [sys.executable, "-m", "kailab", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return str(getattr(done, told or ("stdout" if code == 0 else "stderr")))


def of_folder(folder: Path) -> list[psutil.Process]:
    """Processes that have something of a folder in their command line or environment."""
    found = []
    for process in psutil.process_iter():
        try:
            known = [*process.cmdline(), *process.environ().values()]
        except psutil.Error:
            continue
        if process.pid != os.getpid() and any(str(folder / ".kailab") in text for text in known):
            found.append(process)
    return found


def the_scheduler(folder: Path) -> psutil.Process:
    """Above each process stands a shell with the same arguments."""
    return next(
        process
        for process in of_folder(folder)
        if (ask_process(process, psutil.Process.cmdline) or [])[:4] == [sys.executable, "-m", "kailab", "scheduler"]
    )


@pytest.fixture(scope="module")
def up(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    told = kailab(folder, "up", "--backend", "controlplane")
    yield folder, told
    kailab(folder, "down")


def kubectl(components, told: str, *arguments: str) -> dict:
    kubeconfig = told.partition("export KUBECONFIG=")[2].strip()
    done = subprocess.run(
        [components.path("kubectl"), "--kubeconfig", kubeconfig, *arguments, "-o", "json"],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


def test_kubectl_sees_gpus_queues_and_podgroups(up, components):
    folder, told = up
    kailab(folder, "apply", "-f", str(EXERCISES / "gang/manifests/queues.yaml"))
    kailab(folder, "apply", "-f", str(EXERCISES / "gang/manifests/filler.yaml"))
    nodes = kubectl(components, told, "get", "nodes")["items"]
    assert sum(int(node["status"]["allocatable"]["nvidia.com/gpu"]) for node in nodes) == 32
    assert {queue["metadata"]["name"] for queue in kubectl(components, told, "get", "queues")["items"]} >= {"team-a"}
    groups = kubectl(components, told, "get", "podgroups", "-A")["items"]
    assert len(groups) == 24
    pods = kubectl(components, told, "get", "pods")["items"]
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}


def test_kailab_explains_what_its_scheduler_decided_in_another_process(up):
    folder, _ = up
    kailab(folder, "apply", "-f", str(EXERCISES / "gang/manifests/gang-of-10.yaml"))
    told = kailab(folder, "explain", "job", "gang", "--all")
    assert "there is room for 8 of the 10 pods" in told


def test_the_health_of_a_scheduler_in_another_process(up):
    folder, _ = up
    found = json.loads(kailab(folder, "health", "-o", "json"))
    assert found["healthy"]
    assert found["cycle"]["took"] > 0
    assert found["metrics"]["cycles"] >= 1
    assert found["unknown"] == []
    (decisions,) = folder.rglob("decisions.json")
    alone = json.loads(kailab(folder, "health", "--decisions", str(decisions), "-o", "json"))
    # It may have been through a cycle between two looks.
    later = json.loads(kailab(folder, "health", "-o", "json"))
    assert found["cycle"]["number"] <= alone["cycle"]["number"] <= later["cycle"]["number"]
    assert "how long its last cycle took" in alone["unknown"][-1]
    scheduler = the_scheduler(folder)
    scheduler.suspend()
    try:
        assert "does not answer" in kailab(folder, "health", "--all", code=1, told="stdout")
    finally:
        scheduler.resume()


def test_an_audit_of_a_lab_whose_scheduler_is_another_process(up):
    folder, _ = up
    data = json.loads(kailab(folder, "audit", "-o", "json", code=1, told="stdout"))
    assert "Starved" in {one["code"] for one in data["findings"]}
    assert not [one for one in data["findings"] if one["code"] == "FitsNowhere"]
    assert data["waits"][0]["groups"] == 1


def test_what_was_done_by_hand_is_evidence_and_can_be_decided_again(up):
    """The scheduler is a process of its own: what its cycles rested on lies beside its decisions."""
    folder, _ = up
    run = kailab(folder, "evidence", "capture").strip()
    kailab(folder, "evidence", "verify", run)
    test = store.load_test(folder / run, "lab/by-hand")
    assert [step.operation for step in test.steps("lab")][:2] == ["apply", "settle"]
    assert sum(isinstance(entry, PodBound) and entry.app == "filler" for entry in test.decisions("lab")) == 24
    told = json.loads(kailab(folder, "evidence", "replay", run, "-o", "json"))
    assert told["same"], told
    assert told["decisions"] >= 24


LATE = """
apiVersion: v1
kind: Pod
metadata:
  name: late
  labels: {kai.scheduler/queue: team-a}
spec:
  schedulerName: kai-scheduler
  tolerations: [{operator: Exists}]
  containers: [{name: work, image: work, resources: {limits: {nvidia.com/gpu: 1}}}]
"""


def test_a_command_waits_for_a_scheduler_that_is_late(up, tmp_path):
    """However long it takes to look at what is new: here it is stopped for a while."""
    folder, _ = up
    (tmp_path / "late.yaml").write_text(LATE)
    scheduler = the_scheduler(folder)
    scheduler.suspend()
    try:
        command = [sys.executable, "-m", "kailab", "apply", "-f", str(tmp_path / "late.yaml")]
        applying = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with pytest.raises(subprocess.TimeoutExpired):
            applying.wait(15)
    finally:
        scheduler.resume()
    said, _ = applying.communicate(timeout=1200)
    assert applying.returncode == 0, said
    (late,) = [line for line in kailab(folder, "get", "pods").splitlines() if line.startswith("late ")]
    assert "Running" in late
    kailab(folder, "delete", "pod", "late")


def test_a_dry_run_changes_nothing(up):
    folder, _ = up
    kailab(folder, "apply", "--dry-run", "-f", str(EXERCISES / "gang/manifests/ring.yaml"))
    assert "ring" not in kailab(folder, "get", "pods")


def test_up_again_says_that_it_is_up(up):
    folder, _ = up
    before = {process.pid for process in of_folder(folder)}
    kailab(folder, "up", "--backend", "controlplane")
    assert {process.pid for process in of_folder(folder)} == before
    assert "another lab is up already" in kailab(folder, "up", "--backend", "embedded", code=2)


def test_a_process_that_died_is_told(up):
    folder, _ = up
    scheduler = the_scheduler(folder)
    scheduler.kill()
    assert wait_until(lambda: find_process(scheduler.pid) is None, 120)
    status = kailab(folder, "status")
    assert "Ended" in status
    assert "kailab-scheduler" in status


def test_down_leaves_no_process_and_no_file(tmp_path):
    kailab(tmp_path, "up", "--backend", "controlplane")
    assert of_folder(tmp_path)
    kailab(tmp_path, "down")
    assert of_folder(tmp_path) == []
    assert [path.name for path in (tmp_path / ".kailab").iterdir()] == ["lab.state.lock"]
    assert "no lab is up" not in kailab(tmp_path, "up")
    kailab(tmp_path, "down")


def test_a_kubernetes_version_that_is_not_known_is_told(tmp_path):
    told = kailab(tmp_path, "up", "--backend", "controlplane", "--kubernetes", "v1.2.3", code=2)
    assert "v1.2.3" in told
