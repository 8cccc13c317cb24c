"""Processes that die, do not start, or are started again."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from kailab.cluster.controlplane import ControlPlane, ControlPlaneFailed, cluster_folder, control_plane, take_down
from kailab.cluster.controlplane.ports import free_ports
from kailab.cluster.controlplane.supervision import ProcessStatus
from kailab.cluster.kubernetes import KubernetesCluster
from kailab.components import ComponentSet
from kailab.errors import StateError

pytestmark = pytest.mark.slow
PROGRAMS = ["etcd", "kube-apiserver", "kube-controller-manager", "kwok"]
Connect = Callable[[Path], KubernetesCluster]
Makes = Callable[[str], dict[str, Any]]
Finds = Callable[[Path], list[psutil.Process]]
Waits = Callable[[Callable[[], bool]], None]


def look(control_plane: ControlPlane, name: str) -> ProcessStatus:
    return next(one for one in control_plane.processes() if one.name == name)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_crash_is_noticed_and_mended(
    control_plane: ControlPlane, connect: Connect, name: str, config_map: Makes, eventually: Waits
) -> None:
    connect(control_plane.kubeconfig).create(config_map(f"before-{name}"))
    before = look(control_plane, name)
    control_plane.kill(name, signal.SIGKILL)
    eventually(lambda: not look(control_plane, name).running)
    after = look(control_plane, name)
    assert after.exit == 128 + signal.SIGKILL
    assert "killed by SIGKILL" in after.why
    with pytest.raises(ControlPlaneFailed, match=f"{name} does not run: it was killed by SIGKILL"):
        control_plane.check()
    with pytest.raises(StateError, match="does not run"):
        control_plane.kill(name)
    control_plane.restart(name)
    assert look(control_plane, name).port == before.port
    assert look(control_plane, name).pid != before.pid
    control_plane.check()
    cluster = connect(control_plane.kubeconfig)
    assert cluster.get("ConfigMap", f"before-{name}", "default")["data"] == {"text": "kept"}
    cluster.create(config_map(f"after-{name}"))


def test_a_restart_keeps_data_and_address(control_plane: ControlPlane, connect: Connect, config_map: Makes) -> None:
    connect(control_plane.kubeconfig).create(config_map("kept"))
    server = control_plane.server
    for name in ("etcd", "kube-apiserver"):
        control_plane.restart(name)
    again = ControlPlane.attach(control_plane.folder)
    assert again.server == server
    assert connect(again.kubeconfig).get("ConfigMap", "kept", "default")


def test_what_is_stopped_on_purpose_is_no_failure(control_plane: ControlPlane) -> None:
    control_plane.stop("kwok")
    assert look(control_plane, "kwok").why == "stopped"
    control_plane.check()
    with pytest.raises(ControlPlaneFailed, match="kwok does not run: stopped"):
        control_plane.check(["kwok"])
    control_plane.restart("kwok")
    assert look(control_plane, "kwok").running


LAST_THREAD = """
import ctypes, os, pathlib, signal, sys, threading, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def last():
    print("up", flush=True)
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)
    time.sleep(1)
    pathlib.Path(sys.argv[2]).touch()
    os._exit(0)
threading.Thread(target=last).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_has_ended_with_the_last_of_its_threads(
    control_plane: ControlPlane, tmp_path: Path, eventually: Waits
) -> None:
    """Until then it has its ports, though it looks like a zombie since its first thread ended."""
    made = control_plane.spawn("threads", [sys.executable, "-c", LAST_THREAD, tmp_path / "seen", tmp_path / "over"])
    eventually(lambda: "up" in control_plane.log("threads").read_text())
    # The other thread may report before the first one ends. It keeps the process alive until this test has seen the
    # first one end.
    eventually(lambda: Path(f"/proc/{made.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    (tmp_path / "seen").touch()
    control_plane.stop("threads", grace=0.0)
    assert (tmp_path / "over").exists()


def test_a_spawned_process_is_like_the_others(control_plane: ControlPlane, eventually: Waits) -> None:
    made = control_plane.spawn(
        "mine", ["/bin/sh", "-c", "trap 'exit 3' TERM; echo $WORD; while :; do sleep 0.05; done"], {"WORD": "hello"}
    )
    assert made.running
    eventually(lambda: control_plane.log("mine").read_text() == "hello\n")
    with pytest.raises(StateError, match=f"runs already, as process {made.pid}"):
        control_plane.spawn("mine", ["/bin/true"])
    control_plane.kill("mine", signal.SIGTERM)
    eventually(lambda: not look(control_plane, "mine").running)
    assert look(control_plane, "mine").exit == 3
    assert look(control_plane, "mine").why == "it ended with exit code 3; the last lines of its log:\n  hello"
    control_plane.restart("mine")
    eventually(lambda: control_plane.log("mine").read_text() == "hello\nhello\n")
    control_plane.stop("mine")
    assert look(control_plane, "mine").exit == 3
    control_plane.check()


def test_a_spawned_process_that_is_no_program(control_plane: ControlPlane, eventually: Waits) -> None:
    control_plane.spawn("nothing", ["/no/such/program"])
    eventually(lambda: not look(control_plane, "nothing").running)
    assert look(control_plane, "nothing").exit == 127
    assert "/no/such/program" in look(control_plane, "nothing").why
    control_plane.stop("nothing")
    control_plane.check()
    for name in ("", "a/b", "etcd"):
        with pytest.raises(StateError, match="can't be the name"):
            control_plane.spawn(name, ["/bin/true"])
    with pytest.raises(StateError, match="no process 'nobody' here"):
        control_plane.stop("nobody")


def with_instead(components: ComponentSet, name: str, script: Path, text: str) -> ComponentSet:
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return dataclasses.replace(components, paths={**components.paths, name: script})


@pytest.mark.parametrize("name", PROGRAMS)
def test_up_says_why_a_program_ended(components: ComponentSet, tmp_path: Path, name: str, left_over: Finds) -> None:
    broken = with_instead(components, name, tmp_path / "broken", "echo first; echo 'panic: out of luck' >&2; exit 7")
    with pytest.raises(ControlPlaneFailed) as failed:
        ControlPlane.up(tmp_path / "plane", broken)
    assert f"{name} does not run: it ended with exit code 7" in str(failed.value)
    assert "panic: out of luck" in str(failed.value)
    assert left_over(tmp_path / "plane") == []
    assert not (tmp_path / "plane").exists()


def test_its_own_last_words(components: ComponentSet, tmp_path: Path) -> None:
    real = components.path("kube-apiserver")
    broken = with_instead(components, "kube-apiserver", tmp_path / "broken", f'exec {real} "$@" --no-such-flag')
    with pytest.raises(ControlPlaneFailed, match="unknown flag: --no-such-flag"):
        ControlPlane.up(tmp_path / "plane", broken)


@pytest.mark.parametrize("which", [0, 2, 4], ids=("etcd", "kube-apiserver", "kwok"))
def test_a_port_that_got_taken(
    components: ComponentSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    with socket.socket() as taken:
        (first,) = free_ports(1)
        taken.bind(("127.0.0.1", first))
        taken.listen()
        asked = []

        def ports(count: int) -> list[int]:
            found = free_ports(count)
            if not asked:
                found[which] = first
            asked.append(found)
            return found

        monkeypatch.setattr(control_plane, "free_ports", ports)
        made = ControlPlane.up(tmp_path / "plane", components)
        try:
            assert len(asked) == 2
            assert {one.port for one in made.processes()} <= set(asked[1])
            made.check()
        finally:
            made.down()


def test_a_folder_that_cannot_be_used(components: ComponentSet, control_plane: ControlPlane, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateError, match="can't be the folder"):
        ControlPlane.up(tmp_path / "file" / "plane", components)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("years of work")
    for refused in (lambda: ControlPlane.up(tmp_path / "full", components), lambda: take_down(tmp_path / "full")):
        with pytest.raises(StateError):
            refused()
    assert (tmp_path / "full" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(StateError, match="is here already"):
        ControlPlane.up(control_plane.folder, components)
    control_plane.check()


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing keeps root from writing")
def test_a_folder_that_cannot_be_written(components: ComponentSet, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(StateError, match="Permission denied"):
        ControlPlane.up(tmp_path / "locked" / "plane", components)


def test_a_disk_that_is_full(components: ComponentSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_folder, "LEAST_FREE_BYTES", 10**18)
    with pytest.raises(StateError, match=r"MB are free there; a control plane needs"):
        ControlPlane.up(tmp_path / "plane", components)
    assert not (tmp_path / "plane").exists()


def test_a_folder_removed_under_it(components: ComponentSet, tmp_path: Path, left_over: Finds) -> None:
    folder = tmp_path / "plane"
    ControlPlane.up(folder, components)
    shutil.rmtree(folder, ignore_errors=True)
    assert left_over(folder)
    take_down(folder)
    assert left_over(folder) == []
