"""Whatever a path leads to, the answer is the content or an InputError that says what it is."""

from __future__ import annotations

import os
import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from kailab.errors import InputError
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


def test_a_file_without_end_is_not_read_to_its_end(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 2**21)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        files.read_bytes(tmp_path / "a", 2**20)


def test_a_path_that_can_t_be_one_is_refused():
    with pytest.raises(InputError):
        files.read_text("a\0b")
