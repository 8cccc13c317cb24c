"""The part of a log that tells why a process ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.cluster.controlplane.supervision import log_tail

LOGS = {
    "nothing": ("", ""),
    "the end": ("\n".join(f"line {n}" for n in range(20)), "\n".join(f"  line {n}" for n in range(12, 20))),
    "a panic, not the stack after it": (
        "I1121 begins\npanic: no luck\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:7 +0x1d\nexit status 2\n",
        "  panic: no luck\n  main.main()\n  exit status 2",
    ),
    "etcd's JSON": (
        '{"level":"warn","msg":"simple"}\n{"level":"fatal","ts":"x","msg":"failed","error":"no space left","stacktrace":"a"}\n',
        "  fatal: failed: no space left",
    ),
    "JSON of another kind": ('{"a": [1]}\n{half', '  {"a": [1]}\n  {half'),
    "a Python traceback, its end": (
        'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\n    main()\nValueError: 7\n',
        'Traceback (most recent call last):\n    File "x.py", line 1, in <module>\nValueError: 7',
    ),
    "colours": ("\x1b[31mError: red\x1b[0m\n", "  Error: red"),
}


@pytest.mark.parametrize("name", LOGS)
def test_last_words(tmp_path: Path, name: str) -> None:
    said, expected = LOGS[name]
    (tmp_path / "log").write_text(said)
    found = log_tail(tmp_path / "log")
    assert [line.strip() for line in found.splitlines()] == [line.strip() for line in expected.splitlines()]


def test_a_log_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    assert log_tail(tmp_path / "none") == ""
    (tmp_path / "log").write_bytes(b"\xff\xfe\x00" * 50_000 + b"\nlast")
    assert log_tail(tmp_path / "log").endswith("last")
    assert len(log_tail(tmp_path / "log")) < 1000
