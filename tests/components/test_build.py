"""Programs built from source."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kailab.cluster.polling import wait_until
from kailab.cluster.processes import find_process
from kailab.components import AcquisitionMethod, ComponentCache, MissingComponents, get_components, pins
from kailab.components.build import Go, build, find_go
from kailab.components.errors import BuildFailed
from kailab.components.pins import ADDONS, FAKE_GPU_OPERATOR
from kailab.components.recipes import RECIPES
from kailab.components.versions import check_version, reported_version

ETCD = pins()[0]
REQUIRED = "KAILAB_REQUIRE_BUILD"


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A ``go`` that answers to its version and then does as the script says."""
    folder.mkdir()
    go = folder / "go"
    go.write_text(f'#!/bin/sh\n[ "$1" = env ] && {{ echo go1.99.1; exit; }}\n{script}\n')
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


def test_what_go_said_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: ComponentCache) -> None:
    stand_in(tmp_path / "go", monkeypatch, "echo 'go: downloading x' >&2; echo 'go.mod requires go >= 2.0' >&2; exit 1")
    told: list[str] = []
    with pytest.raises(MissingComponents) as failed:
        get_components(way=AcquisitionMethod.build, cache=cache, tell=told.append)
    assert "etcd v3.6.8 can't be built: `go mod download` of go1.99.1 failed:\n  go.mod requires go >= 2.0" in str(
        failed.value
    )
    assert "needs a newer Go than go1.99.1" in str(failed.value)
    assert "go: downloading" not in str(failed.value)
    assert any(line.startswith("etcd v3.6.8 (1 of 6): building with go1.99.1") for line in told)
    assert not [path for path in cache.root.rglob("*") if path.is_file() and not path.name.startswith(".")]


def test_a_build_that_is_interrupted_leaves_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = tmp_path / "pid"
    stand_in(tmp_path / "go", monkeypatch, f"sleep 1000 & echo $! > {pid}; wait")
    go = find_go()
    assert go == Go(str(tmp_path / "go" / "go"), "1.99.1")

    def interrupt(what: str, seconds: int, of: int) -> None:
        assert what == "building etcd v3.6.8"
        if pid.exists() and pid.read_text().strip():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(ETCD, go, tmp_path, interrupt)
    compiler = int(pid.read_text())

    assert wait_until(lambda: find_process(compiler) is None, 60)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_told_to_end_takes_its_build_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    pid, temporary = tmp_path / "pid", tmp_path / "temporary"
    temporary.mkdir()
    stand_in(tmp_path / "go", monkeypatch, f"sleep 1000 & echo $! > {pid}; wait")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    command = [sys.executable, "-m", "kailab", "components", "get", "--by", "build"]
    getting = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: pid.exists() and bool(pid.read_text().strip()), 60)
        compiler = int(pid.read_text())
        getting.send_signal(number)
        assert getting.wait(60) == 130  # as at Ctrl-C
    finally:
        getting.kill()
        getting.wait()
    assert wait_until(lambda: find_process(compiler) is None, 60)
    assert not list(temporary.glob("kailab-build-*"))


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get(REQUIRED) != "1", reason=f"takes minutes and Go's module proxy: set {REQUIRED}=1")
def test_etcd_is_built_from_source(tmp_path: Path) -> None:
    go = find_go()
    assert go is not None
    told: list[int] = []
    made = build(ETCD, go, tmp_path, lambda what, seconds, of: told.append(seconds))
    assert reported_version("etcd", made) == ETCD.version
    assert told == sorted(told)
    with pytest.raises(BuildFailed, match="can't be built"):
        build(ETCD._replace(version="v3.6.9999"), go, tmp_path, lambda *_: None)


def test_a_program_without_a_module_is_built_from_its_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go = find_go()
    if go is None or shutil.which("git") is None:
        pytest.skip("there is no Go or no git here")
    (pin, *_), recipe = ADDONS[FAKE_GPU_OPERATOR], RECIPES[FAKE_GPU_OPERATOR]
    source = tmp_path / "source"
    (source / "cmd" / pin.name).mkdir(parents=True)
    (source / "go.mod").write_text(f"module {recipe.module}\n\ngo 1.24\n")
    (source / "cmd" / pin.name / "main.go").write_text("package main\n\nfunc main() {}\n")

    def git(*arguments: str) -> str:
        own = ["-c", "user.name=a test", "-c", "user.email=test@kailab.invalid"]
        return subprocess.check_output(["git", *own, *arguments], cwd=source, text=True).strip()

    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "All of it")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{source}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", f"https://{recipe.module}")
    recipes = {**RECIPES, FAKE_GPU_OPERATOR: recipe._replace(commit=git("rev-parse", "HEAD"))}
    monkeypatch.setattr("kailab.components.build.RECIPES", recipes)
    check_version(pin, build(pin, go, tmp_path, lambda *_: None))
    recipes[FAKE_GPU_OPERATOR] = recipe._replace(commit="0" * 40)
    with pytest.raises(BuildFailed, match=r"can't be built: `git fetch --quiet` of .*git failed"):
        build(pin, go, tmp_path, lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildFailed, match="no module proxy has it, and there is no git here"):
        build(pin, go, tmp_path, lambda *_: None)
