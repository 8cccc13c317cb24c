"""Whatever a path leads to, the answer is the content or an InputError that says what it is."""

from __future__ import annotations

import gzip
import os
import socket
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kailab.errors import InputError, Where
from kailab.model import files


def test_a_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfpl\xc3\xa4in")
    assert files.read_text(tmp_path / "a") == "pläin"
    assert files.read_text(os.devnull) == ""


def test_a_pipe_is_read_to_its_end(tmp_path):
    pipe = tmp_path / "p"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as aside:
        written = aside.submit(pipe.write_text, "a: 1\n" * 50_000)
        assert files.read_text(pipe) == "a: 1\n" * 50_000
        assert written.result() == 250_000


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda path: path.mkdir(), "Is a directory"),
        (lambda path: os.mkfifo(path), "is a pipe to which nobody has written"),
        (lambda path: path.symlink_to("/dev/zero"), "is a device or a socket"),
        (lambda path: path.symlink_to(path), "can't be read"),
        (lambda path: path.write_bytes(b"ok\n\xff"), ":2: not UTF-8 text"),
        (lambda path: None, "No such file"),
        (lambda path: socket.socket(socket.AF_UNIX).bind(str(path)), "can't be read"),
    ],
)
def test_what_is_no_file_is_refused(tmp_path, monkeypatch, make, expected):
    monkeypatch.setattr(files, "PATIENCE_SECONDS", 0.2)
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x"
    make(path)
    with pytest.raises(InputError, match=expected):
        files.read_text(path)


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (b"7z\xbc\xaf\x27\x1c\x00\x04", r"is a 7-Zip archive, not plain text; unpack it \(`7z x`\)"),
        (b"Rar!\x1a\x07\x01\x00", "is a RAR archive"),
        (b"\x28\xb5\x2f\xfd\x04", "is packed with zstd"),
        (gzip.compress(b"kind: Pod", mtime=0), "is packed with gzip"),
        ("kind: Pod".encode("utf-32"), "is UTF-32 text"),
        ("kind: Pod".encode("utf-16-be"), "looks like UTF-16 text without a byte order mark"),
        (bytes(257) + b"ustar", "is a tar archive"),
        (b"BZh is how\xff", ":1: not UTF-8 text"),
    ],
)
def test_the_format_of_what_is_no_text_is_named(start: bytes, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        files.decode_text(start, "x")
    assert files.decode_text(b"BZh is text", "x") == "BZh is text"


def test_the_name_of_a_file_stays_on_one_line(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_bytes(b"\xff")
    with pytest.raises(InputError) as refused:
        files.read_text(tmp_path / "a\nb")
    assert str(refused.value) == rf"{tmp_path}/a\nb:1: not UTF-8 text"


def test_a_file_without_end_is_not_read_to_its_end(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 2**21)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        files.read_bytes(tmp_path / "a", 2**20)


def test_a_path_that_can_t_be_one_is_refused():
    with pytest.raises(InputError):
        files.read_text("a\0b")


# What reading gives of paths that lead to no file: pipes that nobody ends, devices, what is larger once it is unpacked.


def test_a_pipe_whose_writer_falls_silent_is_not_waited_for(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "LONG_PATIENCE_SECONDS", 0.05)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    try:
        os.write(writer, b"kind: ")
        with pytest.raises(InputError, match="is a pipe to which nobody has written"):
            files.read_bytes(pipe)
    finally:
        os.close(writer)


def test_a_pipe_that_is_written_to_is_read(tmp_path) -> None:
    reader, writer = os.pipe()
    try:
        os.write(writer, b"kind: Pod")
        os.close(writer)
        assert files.read_bytes(f"/dev/fd/{reader}") == b"kind: Pod"
    finally:
        os.close(reader)


@pytest.mark.parametrize("path", ["/dev/zero", "pipe", "."])
def test_what_kailab_did_not_write_is_told_as_the_system_would(tmp_path, monkeypatch, path) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    with pytest.raises(OSError, match=r"is a device or a socket|is a pipe|Is a directory"):
        files.file_bytes(path)
    with pytest.raises(FileNotFoundError):
        files.file_bytes("nothing")


def test_a_file_beyond_the_bound_is_refused(tmp_path) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"0123456789")
    assert files.file_bytes(path, 10) == b"0123456789"
    with pytest.raises(OSError, match="larger than"):
        files.file_bytes(path, 9)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress])
def test_what_is_packed_is_unpacked_up_to_a_bound(pack) -> None:
    packed = pack(b"\0" * 5000)
    assert files.unpacked(packed, Where(), 5000) == b"\0" * 5000
    with pytest.raises(InputError, match="once it is unpacked"):
        files.unpacked(packed, Where(), 4999)
    with pytest.raises(InputError, match="cut short"):
        files.unpacked(packed[:-4], Where(), 5000)
    with pytest.raises(InputError, match="can't be unpacked"):
        files.unpacked(b"plain text", Where())


def test_what_is_denser_than_any_record_is_not_unpacked(monkeypatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 2**16)
    with pytest.raises(InputError, match="once it is unpacked"):
        files.unpacked(zlib.compress(b"\0" * 2**20), Where())


def test_members_one_after_the_other_are_one_content() -> None:
    assert files.unpacked(gzip.compress(b"ab") + gzip.compress(b"cd") + b"\0\0", Where()) == b"abcd"


def test_evidence_of_strangers_that_is_no_file_is_told(tmp_path) -> None:
    from kailab.evidence import run

    (tmp_path / "decisions.jsonl").write_bytes(b"{}\n")
    run.write_sums(tmp_path)
    Path(tmp_path / "decisions.jsonl").unlink()
    os.mkfifo(tmp_path / "decisions.jsonl")
    assert list(map(str, run.check_sums(tmp_path))) == ["changed: decisions.jsonl (is a pipe; expected a file)"]
