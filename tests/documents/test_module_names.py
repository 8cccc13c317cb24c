"""The modules that docs/design.md names are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DESIGN = ROOT / "docs" / "design.md"
HOMES = ("kailab", "kailab/engine", "kailab/scheduler")
"""A name is relative to one of these, or to the project's root."""


def stands(dotted: str) -> bool:
    """True for a module or package, or for something that its module mentions."""
    path, _, last = dotted.replace(".", "/").rpartition("/")
    for home in (ROOT, *(ROOT / name for name in HOMES)):
        if any((home / name).exists() for name in (f"{path}/{last}.py", f"{path}/{last}")):
            return True
        for module in (home / f"{path}.py", home / path / "__init__.py"):
            if path and module.exists() and re.search(rf"\b{last}\b", module.read_text(encoding="utf-8")):
                return True
    return False


def test_every_module_named_in_the_design_exists() -> None:
    text = DESIGN.read_text(encoding="utf-8")
    packages = {path.name for home in HOMES for path in (ROOT / home).iterdir() if path.is_dir()}
    dotted = set(re.findall(r"`(?:kailab\.)?((?:[a-z_]+\.)+[a-z_]+)`", text))
    files = {name.removesuffix(".py").replace("/", ".") for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", text)}
    named = {name for name in dotted | files if name.split(".")[0] in packages and not name.endswith(".json")}
    assert len(named) > 50
    assert sorted(name for name in named if not stands(name)) == []
