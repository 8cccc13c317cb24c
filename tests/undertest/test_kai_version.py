"""Which KAI it is, by what a Go program carries, says, and by the name of its folder."""

from __future__ import annotations

from pathlib import Path

from kailab.components.versions import build_information
from kailab.undertest.binaries import named_version
from kailab.undertest.kai.folder import KaiFolder, built_version, kai_version
from kailab.undertest.kai.releases import ReleaseFeatures

MODULE = (
    "path\tx/cmd/scheduler\nmod\tgithub.com/kai-scheduler/KAI-scheduler\t{version}\t\nbuild\tvcs.revision={revision}\n"
)
MARK = b"0w\xaf\x0c\x92t\x08\x02A\xe1\xc1\x07\xe6\xd6\x18\xe6"  # around the text in real programs, 16 bytes


def program(path: Path, information: str = "") -> Path:
    """A file with build information as Go's linker writes it: magic, pointer size, flags, two strings with their lengths."""

    def counted(content: bytes) -> bytes:
        length, prefix = len(content), b""
        while length >= 0x80:
            prefix += bytes([length & 0x7F | 0x80])
            length >>= 7
        return prefix + bytes([length]) + content

    head = b"\x7fELF" + bytes(60)
    told = counted(b"go1.24.4") + counted(MARK + information.encode() + MARK)
    path.write_bytes(head + (b"\xff Go buildinf:\x08\x02" + bytes(16) + told if information else b""))
    return path


def folder(path: Path, information: str = "") -> KaiFolder:
    path.mkdir(parents=True)
    scheduler = program(path / "scheduler", information)
    return KaiFolder(
        path, {"scheduler": scheduler}, (), built_version(scheduler) or named_version(path), ReleaseFeatures((0, 16, 0))
    )


def test_a_release_is_in_the_program(tmp_path: Path) -> None:
    kai = folder(tmp_path / "kai", MODULE.format(version="v0.12.3", revision="d5bc503a" * 5))
    told = kai_version(kai)
    assert told.startswith("v0.12.3, scheduler sha256:")
    assert len(told.rpartition(":")[2]) == 12


def test_a_build_of_a_working_copy_tells_its_commit(tmp_path: Path) -> None:
    kai = folder(tmp_path / "kai", MODULE.format(version="(devel)", revision="d5bc503a" * 5))
    assert kai_version(kai).startswith("d5bc503a" * 5)


def test_the_stamped_version_takes_precedence(tmp_path: Path) -> None:
    flags = "build\t-ldflags=\"-X 'x/pkg/version.gitVersion=v0.14.0' -X 'x/pkg/version.gitCommit=abc1234'\"\n"
    kai = folder(tmp_path / "kai", MODULE.format(version="(devel)", revision="f" * 40) + flags)
    assert kai_version(kai).startswith("v0.14.0 commit abc1234, ")


def test_the_version_in_the_log_of_the_scheduler_takes_precedence(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "Go Version: go1.24.4\nbuildDate: Not provided.\ngitCommit: abc1234\ngitVersion: v0.13.1\nI1120 more\n"
    )
    kai = folder(tmp_path / "kai-v0.9.0", MODULE.format(version="v0.12.3", revision="f" * 40))
    assert kai_version(kai, log).startswith("v0.13.1 commit abc1234, ")
    log.write_text("gitCommit: Not provided.\ngitVersion: Not provided.\n")
    assert kai_version(kai, log).startswith("v0.12.3, ")


def test_the_last_start_in_a_log_with_two_releases_counts(tmp_path: Path) -> None:
    log = tmp_path / "log"
    old = "gitCommit: abc1234\ngitVersion: v0.13.1\n" + "I1120 a line of its work\n" * 5000
    log.write_text(old + "gitCommit: def5678\ngitVersion: v0.16.8\nI1120 more\n")
    kai = folder(tmp_path / "kai-v0.9.0")
    assert kai_version(kai, log).startswith("v0.16.8 commit def5678, ")
    log.write_text(old + "gitCommit: Not provided.\ngitVersion: Not provided.\n")
    assert kai_version(kai, log).startswith("v0.9.0 (by its folder's name), ")
    log.write_text("")
    assert kai_version(kai, log).startswith("v0.9.0 (by its folder's name), ")


def test_the_name_of_the_folder_is_the_last_source_of_the_version(tmp_path: Path) -> None:
    assert kai_version(folder(tmp_path / "kai-v0.9.0" / "bin")).startswith("v0.9.0 (by its folder's name), ")


def test_a_truncated_file_or_no_program_has_no_version(tmp_path: Path) -> None:
    whole = program(tmp_path / "whole", "x" * 300).read_bytes()
    for end in range(0, len(whole) - 17, 7):
        (tmp_path / "part").write_bytes(whole[:end])
        build_information(tmp_path / "part")
    assert build_information(tmp_path / "absent") == ""
