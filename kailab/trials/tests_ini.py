"""The fleet that the settings of a project's tests name: ``kailab_fleet`` in pytest.ini, pyproject.toml and others.

A trial without a fleet of its own uses it, so that tests run on the same fleet in a trial as by themselves.
"""

from __future__ import annotations

import configparser
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kailab.errors import InputError, Where
from kailab.fleet.reading import load_fleet
from kailab.model.files import read_text

_KEY = "kailab_fleet"
_INI = {
    "pytest.toml": "",
    ".pytest.toml": "",
    "pytest.ini": "pytest",
    ".pytest.ini": "pytest",
    "pyproject.toml": "",
    "tox.ini": "pytest",
    "setup.cfg": "tool:pytest",
}
"""Files in pytest's order, and the section of those that are no TOML."""


class FleetOfTests(NamedTuple):
    """``fleet``: a name or a file, as the tests give it. ``file``: the file that names it."""

    fleet: str
    file: Path


def fleet_of_tests(path: Path) -> FleetOfTests | None:
    """The fleet that pytest would use for tests at ``path``, from the nearest file with settings of pytest in its folder or
    above. None if that file names no fleet, or there is none. Raises InputError for an unknown fleet."""
    start = path if path.is_dir() else path.parent
    for folder in (start, *start.parents):
        for name, section in _INI.items():
            file = folder / name
            settings = _settings(file, section) if file.is_file() else None
            if settings is not None:
                return _fleet(settings, file)
    return None


def _settings(file: Path, section: str) -> Mapping[str, Any] | None:
    """Pytest's settings in a file; None if it has none. A file that is not valid is pytest's to report."""
    own = file.stem.removeprefix(".") == "pytest"
    try:
        text = read_text(file)
        if section:
            sections = configparser.ConfigParser(interpolation=None)
            sections.read_string(text)
            found = dict(sections[section]) if section in sections else None
        else:
            content = tomllib.loads(text)
            table = content if own else content.get("tool", {})
            found = table.get("pytest", {}) or None
            found = found.get("ini_options", found) if found else None
        # A file of pytest's own ends the search even if it is empty.
        return {} if found is None and own else found
    except (InputError, configparser.Error, tomllib.TOMLDecodeError, AttributeError):
        return None


def _fleet(settings: Mapping[str, Any], file: Path) -> FleetOfTests | None:
    named = settings.get(_KEY) or None
    if named is None:
        return None
    beside = file.parent / str(named)
    fleet = str(beside) if beside.is_file() else str(named)
    try:
        load_fleet(fleet)
    except InputError as error:
        if beside.is_file():
            raise  # the fault is in that file
        raise InputError(str(error), Where(file=str(file), field=_KEY)) from None
    return FleetOfTests(fleet, file)
