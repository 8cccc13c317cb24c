"""Lazy exports of a package: a name's module is imported when the name is first read (PEP 562).

A command that needs one name does not pay for the imports of the others: numpy alone takes longer than ``kailab get pods``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``. ``names`` maps each name to its module, relative to the package."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # An exported name must differ from its module's name: importing the module binds that name in the package, and this function
        # is not called any more.
        value = getattr(import_module(f"{package}.{names[name]}"), name)
        setattr(sys.modules[package], name, value)  # later reads do not call this function
        return value

    return get
