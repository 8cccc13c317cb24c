"""What is built for others: a wheel with all that a user needs and nothing for work on kailab alone, and a source
distribution from which the same wheel can be built."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def build(target: str, source: Path, out: Path) -> Path:
    pytest.importorskip("hatchling")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)], cwd=source, check=True)
    [built] = out.iterdir()
    return built


def tracked(folder: str) -> set[str]:
    """Files below a folder that belong to the project."""
    there = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(ROOT).as_posix() for path in there}


def contents(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("wheel", ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def run(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs Python with the wheel installed: in an environment of its own, where everything but kailab is this one's."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    [packages] = place.glob("lib/python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    # A path in a .pth file comes behind the environment's own packages, and .pth files in it are not read: so an editable
    # installation of kailab in this environment is not seen.
    ours = [entry for entry in sys.path if entry.endswith("-packages")]
    (packages / "borrowed.pth").write_text("\n".join(ours) + "\n", encoding="utf-8")
    work = tmp_path_factory.mktemp("work")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAILAB_"))}

    def python(*arguments: str, cwd: Path = work) -> subprocess.CompletedProcess[str]:
        command = [str(place / "bin" / "python"), *arguments]
        return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)

    found = python("-c", "import kailab; print(kailab.__file__)")
    assert found.stdout.startswith(str(packages)), found
    return python


def done(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_wheel_has_every_file_of_the_packages_and_the_fleets(wheel: Path) -> None:
    wanted = tracked("kailab") | {path.replace("fleets/", "kailab/fleet/shipped/") for path in tracked("fleets")}
    assert contents(wheel) == wanted


def test_the_source_distribution_is_whole(wheel: Path, tmp_path: Path) -> None:
    sdist = build("sdist", ROOT, tmp_path / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    [source] = tmp_path.glob("kailab-*")
    there = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    wanted: Iterable[str] = (
        tracked("kailab")
        | tracked("fleets")
        | tracked("tests")
        | tracked("docs")
        | tracked("checks")
        | tracked("benchmarks")
    )
    assert set(wanted) <= there
    assert contents(build("wheel", source, tmp_path / "wheel")) == contents(wheel)


def test_a_lab_from_the_wheel_is_started_used_and_ended(run) -> None:
    assert "lesson" in done(run("-m", "kailab", "fleet", "list"))
    done(run("-m", "kailab", "up"))
    manifest = ROOT / "exercises" / "quota" / "manifests"
    done(run("-m", "kailab", "apply", "-f", str(manifest / "queues.yaml"), "-f", str(manifest / "within-quota.yaml")))
    assert "Running" in done(run("-m", "kailab", "get", "pods"))
    done(run("-m", "kailab", "down"))


def test_an_exercise_runs_on_the_wheel(run, tmp_path: Path) -> None:
    folder = ROOT / "exercises" / "quota"
    ran = run("-m", "pytest", str(folder), "-p", "no:cacheprovider", "--kailab-evidence", str(tmp_path / "evidence"))
    assert " passed" in done(ran)
    assert "failed" not in ran.stdout
