"""``trace record`` on the command line."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kailab.cluster.controlplane import ControlPlane
from kailab.cluster.kubernetes import Connection, KubernetesCluster
from kailab.cluster.polling import wait_until
from tests.cli.test_lint import QUEUE

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: train
  labels: {kai.scheduler/queue: team, user: eve}
  annotations: {kailab.dev/run-seconds: "60"}
spec:
  schedulerName: kai-scheduler
  restartPolicy: Never
  containers: [{name: m, image: m, resources: {limits: {nvidia.com/gpu: "2"}}}]
"""


def test_a_lab_is_recorded_and_replayed(kailab, home) -> None:
    (home / "work.yaml").write_text(f"{QUEUE}---\n{POD}")
    assert kailab("up", "--fleet", "lesson").code == 0
    assert kailab("apply", "-f", "work.yaml").code == 0
    done = kailab("trace", "record", "t.csv", "--once")
    assert (done.code, done.out.strip()) == (0, "t.csv: 0 jobs have ended; 1 is pending or running and left out")
    assert kailab("run", "--for", "5m").code == 0
    refused = kailab("trace", "record", "t.csv", "--once")
    assert refused.code == 2
    assert "t.csv: exists already; give another name, or --force" in refused.err
    done = kailab("trace", "record", "t.csv", "--once", "--force")
    assert (done.code, done.out.strip()) == (0, "t.csv: 1 job has ended; 0 are pending or running and left out")
    header, line = (home / "t.csv").read_text().splitlines()
    assert header == "name,submit,seconds,gpus,share,pods,cpu,memory_mib,models,team,priority,user,mig"
    assert line.split(",")[0] == "default/train"
    assert line.split(",")[2:] == ["60", "2", "1", "1", "0", "0", "", "team", "", "eve", ""]
    replayed = kailab("replay", "t.csv", "--fleet", "lesson")
    assert replayed.code == 0, replayed.err
    assert replayed.out.startswith("1 job of t.csv (csv) on lesson")


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("t.csv", "--once", "--for", "1m"), "--once and --for can't be used together"),
        (("t.parquet", "--once"), "t.parquet: expected a file name that ends in .csv"),
        (("nowhere/t.csv", "--once"), "the folder nowhere does not exist"),
        (("t.csv", "--for", "soon"), "--for"),
    ],
)
def test_an_invalid_recording_is_refused_before_anything_is_written(kailab, home, arguments, told) -> None:
    done = kailab("trace", "record", *arguments)
    assert done.code == 2
    assert told in done.err
    assert not list(home.glob("*.csv"))


def test_ctrl_c_ends_it_and_nothing_is_lost(kailab, home) -> None:
    (home / "work.yaml").write_text(f"{QUEUE}---\n{POD}")
    for arguments in (("up", "--fleet", "lesson"), ("apply", "-f", "work.yaml"), ("run", "--for", "5m")):
        assert kailab(*arguments).code == 0
    command = [sys.executable, "-m", "kailab", "trace", "record", "t.csv"]
    with subprocess.Popen(command, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "Recording; Ctrl-C ends it" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out.strip()) == (
        0,
        "t.csv: 1 job has ended; 0 are pending or running and left out",
    ), err
    assert "default/train" in (home / "t.csv").read_text()
    assert [path.name for path in home.glob(".*.csv")] == []


@pytest.mark.slow
def test_a_control_plane_is_recorded_by_its_kubeconfig(kailab, home, components, tmp_path) -> None:
    plane = ControlPlane.up(tmp_path, components)
    try:
        cluster = KubernetesCluster(Connection.from_kubeconfig(plane.kubeconfig))
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "theirs", "namespace": "default"},
            "spec": {"schedulerName": "nobody", "containers": [{"name": "m", "image": "m"}]},
        }
        cluster.apply(pod)
        ended = {"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z", "containerStatuses": [_ended("m")]}
        cluster.patch("Pod", "theirs", "default", {"status": ended}, "status")
        wait_until(lambda: cluster.get("Pod", "theirs", "default")["status"].get("phase") == "Succeeded", 30)
        cluster.close()
        done = kailab("trace", "record", "t.csv", "--once", "--kubeconfig", str(plane.kubeconfig))
        assert done.code == 0, done.err
        line = (home / "t.csv").read_text().splitlines()[1].split(",")
        assert (line[0], line[2:4], line[9]) == ("default/theirs", ["90", "0"], "default")
    finally:
        plane.down()


def _ended(name: str) -> dict:
    times = {"startedAt": "2026-01-01T00:00:10Z", "finishedAt": "2026-01-01T00:01:40Z", "exitCode": 0}
    return {
        "name": name,
        "image": "m",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": times},
    }
