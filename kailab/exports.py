"""Names that a package offers from its modules, each imported when somebody asks for it (PEP 562).

So a command that needs one of them does not wait for what the others load: numpy alone takes longer than ``kailab get pods``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_demand(package: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's ``__getattr__``. ``names`` maps each name to the module that defines it: relative to the package, or whole
    (``kailab.explain.answer``) if the module belongs to another package."""

    def get(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A module must not have the name of what it offers: importing it binds the module under that name in the
        # package, and this function is not asked any more.
        module = names[name]
        value = getattr(import_module(module if module.startswith("kailab.") else f"{package}.{module}"), name)
        setattr(sys.modules[package], name, value)  # not asked for again
        return value

    return get
