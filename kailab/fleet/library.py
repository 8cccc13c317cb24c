"""Where fleets are found by name: the ``fleets`` folder of the working directory, then those that come with kailab."""

from __future__ import annotations

from pathlib import Path

from kailab.errors import InputError
from kailab.model.suggestions import closest_names

SUFFIXES = (".yaml", ".yml", ".json")
_PACKAGE = Path(__file__).parent


def fleet_folders() -> list[Path]:
    """Folders searched; the first match wins. In a source checkout kailab's own are in the repository's ``fleets``; a
    wheel has them as ``kailab/fleet/shipped``."""
    folders = [Path("fleets"), _PACKAGE / "shipped", _PACKAGE.parent.parent / "fleets"]
    return [folder for folder in folders if folder.is_dir()]


def available_fleets() -> dict[str, Path]:
    """Fleets by name, in alphabetical order."""
    fleets: dict[str, Path] = {}
    for folder in fleet_folders():
        for file in sorted(folder.iterdir()):
            if file.suffix in SUFFIXES and file.is_file():
                fleets.setdefault(file.stem, file)
    return dict(sorted(fleets.items()))


def is_fleet_path(name_or_path: str | Path) -> bool:
    """Whether a fleet is given by path, not by name."""
    text = str(name_or_path)
    return isinstance(name_or_path, Path) or "/" in text or "\\" in text or Path(text).suffix in SUFFIXES


def find_fleet(name_or_path: str | Path) -> Path:
    """The file of a fleet given by name or path. Raises InputError with the names of the available fleets."""
    text = str(name_or_path)
    if is_fleet_path(name_or_path):
        return Path(text)
    known = available_fleets()
    if text in known:
        return known[text]
    close = closest_names(text, known)
    hint = f"did you mean {close[0]}? There are" if close else "there are"
    raise InputError(f"no fleet is called {text!r:.80}; {hint}: {', '.join(known) or 'none'}; or give a path")
