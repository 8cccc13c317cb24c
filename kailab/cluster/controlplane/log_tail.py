"""What a process said before it ended: the part of its log that tells why."""

from __future__ import annotations

import os
import re
from pathlib import Path

import msgspec

from kailab.model import decoding

LINES = 8
_TAIL_BYTES = 64_000
_LONGEST = 400
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# A crash of a Go program, klog's fatal level, etcd's, what cobra prints last. What follows it is its detail.
_FATAL = re.compile(r'^(panic: |fatal error: |Error: |F\d{4} |Traceback )|"level":"(fatal|panic)"|^level=FATAL|^FATAL')
_TRACE = re.compile(r"^(goroutine \d+|created by |\t| {4})")


class _Said(msgspec.Struct):
    """What etcd and KWOK write."""

    level: str = ""
    msg: str = ""
    error: str = ""
    err: str = ""


def log_tail(log: Path, lines: int = LINES) -> str:
    """At most so many lines, indented; empty if there are none."""
    said = [line for line in tail(log) if not _TRACE.match(line)]
    # The last such line: earlier ones belong to earlier starts, which share the log.
    fatal = next((at for at in range(len(said) - 1, -1, -1) if _FATAL.search(said[at])), None)
    # A Python traceback says at its end what happened.
    chosen = said[-lines:] if fatal is None or said[fatal].startswith("Traceback") else said[fatal : fatal + lines]
    return "\n".join(f"  {_plain(line)[:_LONGEST]}" for line in chosen)


def _plain(line: str) -> str:
    """A line of a log in JSON as text, without the place in the source; any other as it is."""
    if not line.startswith("{"):
        return line
    try:
        said = decoding.decode_json(line, _Said)
    except msgspec.MsgspecError:
        return line
    about = said.error or said.err
    return f"{said.level.lower()}: {said.msg}{f': {about}' if about else ''}" if said.msg else line


def tail(log: Path) -> list[str]:
    """The last lines of a log that are not blank, without colours."""
    try:
        with open(log, "rb") as file:
            # Nothing ever cuts the log of a plane: it may be large.
            file.seek(max(os.fstat(file.fileno()).st_size - _TAIL_BYTES, 0))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    return [line.rstrip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
