"""From where in a test something was done to a lab, and where a test failed: the line of the user's own code.

Own is the innermost frame that is neither of kailab, pytest or pluggy, nor of Python's library, nor of an installed distribution: a
library that calls the lab for a test says nothing of the test. Of tests that are installed themselves it is the innermost of those.
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
"""Characters of a line. A longer one is left out whole: cut in the middle of a secret, the rest of that would be recognized no more."""

_INSTALLED = {"site-packages", "dist-packages"}


class _File(NamedTuple):
    """Of code. ``shown``: as evidence names it; empty where it is never told. ``end``: what lies outside of such a frame is no test."""

    shown: str = ""
    own: bool = False
    end: bool = False


class SourceFinder:
    """Of one session. ``root``: pytest's rootdir; files below it are told as seen from there, others by their names."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._files: dict[str, _File] = {}
        self._lines: dict[tuple[str, int], SourceLine] = {}

    def here(self) -> SourceLine | None:
        """Of who called; None where no test did."""
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
        """Of an error that was raised; None where no code of the test has part in it."""
        found: tuple[bool, CodeType, int] | None = None
        while trace is not None:
            file = self._file(trace.tb_frame)
            if file.own or (file.shown and not (found and found[0])):
                found = file.own, trace.tb_frame.f_code, trace.tb_lineno
            trace = trace.tb_next
        return None if found is None else self._line(*found[1:])

    def _file(self, frame: FrameType) -> _File:
        name = frame.f_code.co_filename
        found = self._files.get(name)
        if found is None:
            found = self._files[name] = self._kind(name, str(frame.f_globals.get("__name__", "")).partition(".")[0])
        return found

    def _kind(self, name: str, package: str) -> _File:
        # pytest calls tests and fixtures through pluggy alone.
        if package == "pluggy":
            return _File(end=True)
        if package in ("pytest", "_pytest") or name.startswith("<") or Path(name).is_relative_to(_KAILAB):
            return _File()
        seen = self._from_root(Path(name))
        for place in range(len(seen.parts) - 1, 0, -1):
            if seen.parts[place - 1] in _INSTALLED:
                return _File(Path(*seen.parts[place:]).as_posix())
        if any(seen.is_relative_to(library) for library in _LIBRARY):
            return _File()
        return _File(seen.name if seen.is_absolute() else seen.as_posix(), own=True)

    def _from_root(self, file: Path) -> Path:
        """Absolute where it does not lie below the root."""
        for seen, root in ((file, self._root), (file.resolve(), self._root.resolve())):
            if seen.is_relative_to(root):
                return seen.relative_to(root)
        return file.absolute()

    def _line(self, code: CodeType, number: int) -> SourceLine:
        key = code.co_filename, number
        found = self._lines.get(key)
        if found is None:
            text = linecache.getline(*key).strip()
            shown = self._files[code.co_filename].shown
            found = SourceLine(file=shown, line=number, text=text if len(text) <= _LONGEST else "")
            self._lines[key] = found
        return found


_KAILAB = Path(kailab.__file__).parent
_LIBRARY = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
