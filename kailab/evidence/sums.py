"""SHA256SUMS: what a folder held when it was written, in the form that ``sha256sum -c`` reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from kailab.model.files import file_bytes
from kailab.model.private_files import write_bytes

FILE = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


class Problem(NamedTuple):
    """One way in which a folder is not what was written. ``path`` is relative to the run's folder."""

    kind: Literal["changed", "missing", "extra", "damaged", "unfinished"]
    path: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.path}" + (f" ({self.detail})" if self.detail else "")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def files_in(folder: Path) -> list[str]:
    """Every file and link below a folder, relative, sorted, but for its own SHA256SUMS."""
    # A link to a folder is listed, not followed: what lies outside of the run is not its evidence.
    found = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    return sorted(name for path in found if (name := path.relative_to(folder).as_posix()) != FILE)


def render(sums: Iterable[tuple[str, str]]) -> bytes:
    """(relative path, digest) pairs as a SHA256SUMS file."""
    return "".join(f"{value}  {name}\n" for name, value in sums).encode()


def empty_folders(folder: Path) -> list[str]:
    """Every folder below a folder that holds no file, relative, sorted. None is ever written; a sum shows none of them."""
    found = [path for path in folder.rglob("*") if path.is_dir() and not path.is_symlink()]
    return sorted(
        path.relative_to(folder).as_posix() for path in found if not files_in(path) and not (path / FILE).exists()
    )


def write(folder: Path) -> None:
    """Sum up all that is in the folder now."""
    write_bytes(folder / FILE, render((name, digest(file_bytes(folder / name))) for name in files_in(folder)))


def read(path: Path) -> dict[str, str]:
    """Relative path -> digest. Raises ValueError for text that kailab does not write so (a file named twice, other line ends), OSError
    where it can't be read."""
    sums: dict[str, str] = {}
    lines = file_bytes(path).decode("utf-8").split("\n")
    if lines.pop():
        raise ValueError("its last line does not end")
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"line {number} is not '<sha256>  <file>'")
        if match.group(2) in sums:
            raise ValueError(f"line {number} names {match.group(2)} again")
        sums[match.group(2)] = match.group(1)
    return sums


def _unlike(path: Path, expected: str) -> str:
    """Why a file is not what was summed up, a space where nothing more can be told; empty where it is."""
    try:
        return "" if digest(file_bytes(path)) == expected else " "
    except OSError as error:
        return error.strerror or str(error)


def check(folder: Path, label: str = "") -> list[Problem]:
    """Compare a folder with its SHA256SUMS. ``label`` goes in front of the paths reported."""
    prefix = f"{label}/" if label else ""
    listing = folder / FILE
    try:
        sums = read(listing)
    except FileNotFoundError:
        return [Problem("missing", f"{prefix}{FILE}")]
    except (OSError, ValueError) as error:
        return [Problem("damaged", f"{prefix}{FILE}", str(error))]
    problems: list[Problem] = []
    present = set(files_in(folder))
    for name, expected in sums.items():
        if name not in present:
            problems.append(Problem("missing", prefix + name))
        # Links are never written. What one points to may change, or be another file on the machine where it is checked.
        elif (folder / name).is_symlink():
            problems.append(Problem("changed", prefix + name, "is a link"))
        elif fault := _unlike(folder / name, expected):
            problems.append(Problem("changed", prefix + name, fault.strip()))
    problems += (Problem("extra", prefix + name) for name in sorted(present - set(sums)))
    problems += (Problem("extra", prefix + name, "an empty folder") for name in empty_folders(folder))
    return problems
