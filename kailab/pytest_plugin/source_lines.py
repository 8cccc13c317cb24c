"""The line of the user's code that called a lab, or at which a test failed.

It is the line of the innermost frame outside of kailab, pytest, pluggy, the standard library and installed distributions: if a library calls the
lab for a test, the line of the test is wanted. If the tests themselves are installed, it is their innermost frame.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from pathlib import Path
from types import CodeType, FrameType, TracebackType
from typing import NamedTuple

import kailab
from kailab.evidence.entries import SourceLine

_LONGEST = 400
"""Longest line in characters. A longer one is left out as a whole, because a truncated secret would not be recognised any more."""

_INSTALLED = {"site-packages", "dist-packages"}


class _File(NamedTuple):
    """A code file. ``shown``: its name in evidence; empty if it is never shown. ``own``: it is the user's and not installed. ``end``: no
    caller of its frames belongs to a test."""

    shown: str = ""
    own: bool = False
    end: bool = False


class SourceFinder:
    """Finds lines for one session. ``root``: pytest's rootdir; files below it are shown relative to it, others by their names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, _File] = {}
        self._lines: dict[tuple[str, int], SourceLine] = {}

    def here(self) -> SourceLine | None:
        """The line of the caller; None if no test is calling."""
        frame: FrameType | None = sys._getframe(1)
        installed: FrameType | None = None
        while frame is not None:
            file = self._file(frame)
            if file.own:
                return self._line(frame.f_code, frame.f_lineno)
            if file.end:
                break
            installed = installed or (frame if file.shown else None)
            frame = frame.f_back
        return None if installed is None else self._line(installed.f_code, installed.f_lineno)

    def of_failure(self, trace: TracebackType | None) -> SourceLine | None:
        """The line at which an error was raised; None if no code of a test is involved."""
        innermost: tuple[bool, CodeType, int] | None = None
        while trace is not None:
            file = self._file(trace.tb_frame)
            if file.own or (file.shown and not (innermost and innermost[0])):
                innermost = file.own, trace.tb_frame.f_code, trace.tb_lineno
            trace = trace.tb_next
        return None if innermost is None else self._line(*innermost[1:])

    def _file(self, frame: FrameType) -> _File:
        name = frame.f_code.co_filename
        file = self._files.get(name)
        if file is None:
            file = self._files[name] = self._kind(name, str(frame.f_globals.get("__name__", "")).partition(".")[0])
        return file

    def _kind(self, name: str, package: str) -> _File:
        # pytest calls tests and fixtures only through pluggy.
        if package == "pluggy":
            return _File(end=True)
        if package in ("pytest", "_pytest") or name.startswith("<") or Path(name).is_relative_to(_KAILAB):
            return _File()
        relative = self._from_root(Path(name))
        for index in range(len(relative.parts) - 1, 0, -1):
            if relative.parts[index - 1] in _INSTALLED:
                return _File(Path(*relative.parts[index:]).as_posix())
        if any(relative.is_relative_to(library) for library in _LIBRARY):
            return _File()
        return _File(relative.name if relative.is_absolute() else relative.as_posix(), own=True)

    def _from_root(self, file: Path) -> Path:
        """The path relative to the root; absolute if it is outside of it."""
        for seen, root in ((file, self._root), (file.resolve(), self._root.resolve())):
            if seen.is_relative_to(root):
                return seen.relative_to(root)
        return file.absolute()

    def _line(self, code: CodeType, number: int) -> SourceLine:
        key = code.co_filename, number
        source = self._lines.get(key)
        if source is None:
            text = linecache.getline(*key).strip()
            shown = self._files[code.co_filename].shown
            source = SourceLine(file=shown, line=number, text=text if len(text) <= _LONGEST else "")
            self._lines[key] = source
        return source


_KAILAB = Path(kailab.__file__).parent
_LIBRARY = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
