"""Folders that are no KAI's: each is refused before anything starts, and the message names the file."""

import platform
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kailab.errors import InputError
from kailab.undertest.kai.folder import BINARIES, BINARIES_ENV, CRDS_ENV, find_kai
from kailab.undertest.kai.processes import KaiProcesses
from kailab.undertest.kai.releases import MARKS, ReleaseFeatures

UNUSED: Any = None  # the plane, where nothing is started
NEEDED_CRDS = ReleaseFeatures((0, 16, 8)).crds


def crd(name: str, version: str) -> dict:
    plural, _, group = name.partition(".")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": group, "names": {"plural": plural}, "versions": [{"name": version, "served": True}]},
    }


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with everything in it: programs of this platform (this Python's own head) and the CRDs. Its name says the release."""
    tmp_path = tmp_path / "kai-v0.16.8"
    tmp_path.mkdir()
    monkeypatch.delenv(BINARIES_ENV, raising=False)
    monkeypatch.delenv(CRDS_ENV, raising=False)
    with Path(sys.executable).resolve().open("rb") as python:
        head = python.read(64)
    for name in BINARIES:
        (tmp_path / name).write_bytes(head)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "crds").mkdir()
    for name, version in NEEDED_CRDS.items():
        (tmp_path / "crds" / f"{name}.yaml").write_text(yaml.safe_dump(crd(name, version)))
    return tmp_path


def test_a_whole_folder(folder: Path) -> None:
    kai = find_kai(folder)
    assert kai.binaries == {name: folder / name for name in BINARIES}
    assert {one["metadata"]["name"] for one in kai.crds} == set(NEEDED_CRDS)


def test_the_program_with_the_webhooks_is_used_if_the_release_needs_it(folder: Path) -> None:
    (folder / "admission").write_bytes((folder / "binder").read_bytes())
    (folder / "admission").chmod(0o755)
    assert "admission" not in find_kai(folder).binaries
    older = folder.rename(folder.parent / "kai-v0.12.23")
    assert find_kai(older).binaries["admission"] == older / "admission"
    (older / "admission").chmod(0o644)
    refused(older, str(older / "admission"), "is not executable")


def test_from_the_environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BINARIES_ENV, str(folder))
    assert find_kai().path == folder


def test_names_with_the_platform_as_kais_build_writes_them(folder: Path) -> None:
    suffix = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    (folder / "binder").rename(folder / f"binder-{suffix}")
    assert find_kai(folder).binaries["binder"].name == f"binder-{suffix}"


def test_crds_in_one_file_elsewhere(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("elsewhere") / "crds.yaml"
    file.write_text(yaml.safe_dump_all(crd(*one) for one in NEEDED_CRDS.items()))
    for one in (folder / "crds").iterdir():
        one.unlink()
    assert len(find_kai(folder, file).crds) == len(NEEDED_CRDS)


def refused(folder: Path | None, *parts: str, crds: Path | None = None) -> None:
    with pytest.raises(InputError) as caught:
        find_kai(folder, crds)
    for part in parts:
        assert part in str(caught.value)
    assert caught.value.exit_code == 2


def test_no_folder_is_given(folder: Path) -> None:
    refused(None, BINARIES_ENV, "scheduler, podgrouper, binder")


def test_no_such_folder(folder: Path) -> None:
    refused(folder / "absent", str(folder / "absent"), "is not there")


def test_a_file_for_a_folder(folder: Path) -> None:
    refused(folder / "binder", str(folder / "binder"), "is a file")


@pytest.mark.parametrize("name", BINARIES)
def test_a_missing_program(folder: Path, name: str) -> None:
    (folder / name).unlink()
    refused(folder, str(folder / name), "is not there")


def test_a_program_that_may_not_be_run(folder: Path) -> None:
    (folder / "podgrouper").chmod(0o644)
    refused(folder, str(folder / "podgrouper"), "chmod +x")


def test_a_program_of_another_machine(folder: Path) -> None:
    head = bytearray((folder / "scheduler").read_bytes())
    head[:20] = b"\x7fELF\x02\x01\x01" + bytes(11) + (0xF3).to_bytes(2, "little")  # RISC-V
    (folder / "scheduler").write_bytes(bytes(head))
    refused(folder, str(folder / "scheduler"), "linux/machine 0xf3", f"not for {sys.platform}/")


@pytest.mark.parametrize(
    ("head", "told"), [(b"MZ\x90" + bytes(30), "windows"), (b"", "not a program"), (b"PK\x03\x04" * 9, "not a program")]
)
def test_a_file_that_is_no_program_for_this_machine(folder: Path, head: bytes, told: str) -> None:
    (folder / "binder").write_bytes(head)
    refused(folder, str(folder / "binder"), told)


def test_a_folder_where_a_program_should_be(folder: Path) -> None:
    (folder / "binder").unlink()
    (folder / "binder").mkdir()
    refused(folder, str(folder / "binder"), "not a file")


def test_no_crds(folder: Path) -> None:
    for one in (folder / "crds").iterdir():
        one.unlink()
    (folder / "crds").rmdir()
    refused(folder, str(folder / "crds"), CRDS_ENV)


@pytest.mark.parametrize("name", NEEDED_CRDS)
def test_a_missing_crd(folder: Path, name: str) -> None:
    (folder / "crds" / f"{name}.yaml").unlink()
    refused(folder, str(folder / "crds"), f"no CRD {name}")


def test_a_crd_of_another_version(folder: Path) -> None:
    name = "queues.scheduling.run.ai"
    (folder / "crds" / f"{name}.yaml").write_text(yaml.safe_dump(crd(name, "v1")))
    refused(folder, name, "serves v1; expected v2")


def test_broken_crds(folder: Path) -> None:
    file = folder / "crds" / "queues.scheduling.run.ai.yaml"
    file.write_text("kind: [CustomResourceDefinition\n")
    refused(folder, str(file), "is not YAML")


def test_the_release_is_that_of_the_folders_name(folder: Path) -> None:
    for version, number in (("v0.17.0", (0, 17, 0)), ("v0.12.23", (0, 12, 23)), ("v0.6.23", (0, 6, 23))):
        named = folder.parent / f"kai-{version}"
        folder.rename(named)
        kai = find_kai(named)
        assert kai.version == f"{version} (by its folder's name)"
        assert kai.dialect == ReleaseFeatures(number)
        named.rename(folder)


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("v0.5.5", "is KAI v0.5.5, older than any release whose flags and definitions kailab knows"),
        ("v0.18.0", "is KAI v0.18.0, whose flags and definitions kailab does not know"),
        ("v0.20.1", "whose flags and definitions kailab does not know"),
        ("v0.11.2", "there is no such line of releases"),
    ],
)
def test_an_unknown_release_is_refused_with_the_known_ones(folder: Path, version: str, why: str) -> None:
    renamed = folder.rename(folder.parent / version)
    refused(renamed, str(renamed), why, "known are v0.6 to v0.17")


def test_a_kai_that_tells_no_release(folder: Path) -> None:
    unnamed = folder.rename(folder.parent / "kai")
    refused(unnamed, str(unnamed), "tells no release", "such as kai-v0.16.8", "known are v0.6 to v0.17")


def test_an_old_release_needs_no_topology_of_its_own(folder: Path) -> None:
    (folder / "crds" / "topologies.kai.scheduler.yaml").unlink()
    refused(folder, "no CRD topologies.kai.scheduler")
    old = folder.rename(folder.parent / "v0.9.20")
    assert "topologies.kai.scheduler" not in {one["metadata"]["name"] for one in find_kai(old).crds}


def test_strings_in_the_programs_identify_a_release(folder: Path) -> None:
    unnamed = folder.rename(folder.parent / "kai")
    for (program, word), span in MARKS.items():
        if span.holds((0, 9, 20)):
            with (unnamed / program).open("ab") as file:
                file.write(word.encode() + b"\0")
    kai = find_kai(unnamed)
    assert kai.dialect == ReleaseFeatures((0, 9, 0))
    assert kai.version == "(v0.9.0 or newer, before v0.10.0, by its programs' words)"


def test_programs_of_several_releases_are_no_kai(folder: Path) -> None:
    unnamed = folder.rename(folder.parent / "kai")
    (unnamed / "scheduler").write_bytes((unnamed / "scheduler").read_bytes() + b"node-level-scheduler\0")
    (unnamed / "podgrouper").write_bytes((unnamed / "podgrouper").read_bytes() + b"generic-karta-fallback\0")
    refused(unnamed, str(unnamed), "fit no release", "v0.17.0")


def test_ignored_fields_are_reported_once_for_all_objects(folder: Path) -> None:
    job = {"kind": "Job", "metadata": {"name": "j", "annotations": {"kai.scheduler/batch-min-member": "4"}}, "spec": {}}
    old = folder.rename(folder.parent / "v0.12.23")
    assert KaiProcesses(UNUSED, old).ignored_words([job, job]) == ("kai.scheduler/batch-min-member",)
    new = old.rename(folder.parent / "v0.16.8")
    assert KaiProcesses(UNUSED, new).ignored_words([job]) == ()
