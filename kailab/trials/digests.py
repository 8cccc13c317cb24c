"""Digests of what a cell's result hangs on, so that what changed is run again and what did not is not."""

from __future__ import annotations

from pathlib import Path

from kailab import __version__
from kailab.cluster.choices import FLAGS
from kailab.evidence.run import digest
from kailab.model.files import file_bytes
from kailab.trials.matrix import Cell, Contender
from kailab.undertest.selection import read_name

_SMALL = 4 * 2**20  # bytes


class Digests:
    """Each file is read once."""

    def __init__(self) -> None:
        self._known: dict[Path, str] = {}

    def of_cell(self, cell: Cell) -> dict[str, str]:
        """By path, of all that the cell stands on."""
        fleet = Path(cell.fleet)
        files = [*cell.subject.files, *([str(fleet)] if fleet.is_file() else [])]
        return {"kailab": __version__, **self._of([*files, *_of_contender(cell.contender)])}

    def _of(self, paths: list[str]) -> dict[str, str]:
        return {path: self._one(Path(path)) for path in paths}

    def _one(self, path: Path) -> str:
        if path not in self._known:
            stat = path.stat()
            # A program of a hundred megabytes is told by its size and time.
            small = stat.st_size <= _SMALL
            self._known[path] = digest(file_bytes(path)) if small else f"{stat.st_size} {stat.st_mtime_ns}"
        return self._known[path]


def _of_contender(contender: Contender) -> list[str]:
    named = read_name(contender.scheduler)
    found = [contender.config] if contender.config else []
    for option, value in named.options.items():
        path = Path(str(value))
        if option in FLAGS and path.is_dir():
            found += [str(file) for file in sorted(path.rglob("*")) if file.is_file()]
        elif path.is_file():
            found.append(str(path))
    return list(dict.fromkeys(found))
