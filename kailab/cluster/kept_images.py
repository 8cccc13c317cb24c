"""Images that were made here: archives, each in a folder of its own with a record of what is in it.

The record is written last: a folder without one is what a build has left that was cut short.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import msgspec

from kailab.components import ComponentCache
from kailab.components.cache import exclusive_folder, sha256_of
from kailab.errors import InputError, KailabError, StateError
from kailab.model import decoding

ARCHIVE = "image.tar.gz"
RECORD = "image.json"


class CannotBuild(KailabError):
    """What a build needs is not here. ``reasons``: each by itself; ``what``: is not made."""

    def __init__(self, reasons: list[str], what: str = "node image") -> None:
        self.reasons, self.what = reasons, what
        super().__init__("\n".join((f"no {what} can be made here:", *(f"  {reason}" for reason in reasons))))

    def __reduce__(self) -> tuple[type[CannotBuild], tuple[list[str], str]]:
        return CannotBuild, (self.reasons, self.what)


class ImageRecord(Protocol):
    """What every record tells. ``name``: with its tag; ``layer``: the sha256 of its only layer, unpacked; ``sha256``, ``megabytes``: of the
    archive; ``created``: UTC; ``recipe``: of the kailab that made it."""

    @property
    def name(self) -> str: ...
    @property
    def kubernetes(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def megabytes(self) -> int: ...
    @property
    def created(self) -> str: ...
    @property
    def recipe(self) -> int: ...


Image = TypeVar("Image", bound=ImageRecord)


class ImageStore(Generic[Image]):
    """``root``: None for ``<cache>/FOLDER``, the user's own. ``what``: one of them is called; ``command``: makes one; ``recipe``: today's."""

    def __init__(
        self, record: type[Image], root: Path | None, folder: str, what: str, command: str, recipe: int
    ) -> None:
        self.root = root or ComponentCache().root.parent / folder
        self.what, self.command = what, command
        self._record, self._recipe = record, recipe

    def folder(self, name: str) -> Path:
        return self.root / name.rpartition(":")[2]

    def archive(self, image: Image) -> Path:
        return self.folder(image.name) / ARCHIVE

    def images(self) -> list[Image]:
        """Newest first. A damaged record counts as none: `build` makes its image anew."""
        found = (self._read(path) for path in self.root.glob(f"*/{RECORD}"))
        return sorted((one for one in found if one is not None), key=lambda one: (one.created, one.name), reverse=True)

    def find(self, name: str) -> Image | None:
        """By its name, with or without the repository."""
        return next((one for one in self.images() if name in (one.name, one.name.rpartition(":")[2])), None)

    def get(self, name: str) -> Image:
        """Raises InputError for one that is not here."""
        found = self.find(name)
        if found is None:
            there = ", ".join(one.name for one in self.images()) or "none"
            raise InputError(f"there is no {self.what} {name!r} made here; there are: {there}")
        return found

    def newest(self, kubernetes: str) -> Image | None:
        """Of a release of Kubernetes, made by this kailab's recipe."""
        wanted = (kubernetes, self._recipe)
        return next((one for one in self.images() if (one.kubernetes, one.recipe) == wanted), None)

    def checked(self, image: Image) -> Path:
        """The archive, whose checksum is right. Raises StateError."""
        path, cure = self.archive(image), f"`{self.command} --again` makes it anew"
        try:
            found = sha256_of(path)
        except OSError as error:
            raise StateError(f"{path}: can't be read: {error.strerror or error}; {cure}") from error
        if found != image.sha256:
            raise StateError(f"{path}: its sha256 is {found}, but {image.sha256} was made; it is not loaded; {cure}")
        return path

    def made(self, name: str, make: Callable[[Path], Image], *, again: bool, tell: Callable[[str], None]) -> Image:
        """The one of this name, kept: made by ``make``, which puts its archive into its folder, unless it is there already; ``again``: in any case.

        Raises StateError, and what ``make`` raises."""
        folder = self.folder(name)
        with exclusive_folder(folder, name, tell):
            there = self.find(name)
            if there is not None and not again:
                self.checked(there)
                tell(f"{there.name} is here already, made {there.created[:10]}; --again makes it anew")
                return there
            image = make(folder)
            self.put(image)
        return image

    def put(self, image: Image) -> None:
        """Its archive is in its folder already. Raises StateError."""
        path = self.folder(image.name) / RECORD
        try:
            arriving = path.with_name(f".{RECORD}")
            arriving.write_bytes(msgspec.json.format(msgspec.json.encode(image)) + b"\n")
            os.replace(arriving, path)
        except OSError as error:
            raise StateError(f"{path}: can't be written: {error.strerror or error}") from error

    def remove(self, image: Image) -> None:
        """Raises StateError."""
        folder = self.folder(image.name)
        try:
            # First: what is left of it then counts as none.
            (folder / RECORD).unlink(missing_ok=True)
            shutil.rmtree(folder)
        except OSError as error:
            raise StateError(f"{folder}: can't be removed: {error.strerror or error}") from error

    def _read(self, path: Path) -> Image | None:
        try:
            return decoding.decode_json(path.read_bytes(), self._record)
        except (OSError, msgspec.MsgspecError):
            return None
