"""docs/api.md from the docstrings of what the public packages export: ``python -m tools.api_reference``.

griffe reads the source without running it; what is public is what ``__all__`` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "api.md"
PACKAGES = ("kailab", "kailab.lab", "kailab.engine")

_HEAD = """\
# API reference

Generated from the docstrings by `make docs`; change those, not this file. What is public is what these packages export, and
[what is stable](extending.md#what-is-stable) says how it may change. Units, everywhere in the engine: GPU in milli-GPU (1000: one
device), CPU in millicores, memory in bytes, times in seconds since the epoch.
"""


def reference() -> str:
    """The text of docs/api.md."""
    modules = public_modules()
    contents = " · ".join(f"[{module.path}](#{_anchor(module.path)})" for module in modules)
    parts = [_HEAD, f"Contents: {contents}\n"]
    home: dict[str, str] = {}
    for module in modules:
        parts += [f"## {module.path}\n", text_of(module)]
        for name, found in exported(module).items():
            parts += _told(f"{module.path}.{name}", found, home)
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def public_modules() -> list[griffe.Module]:
    """The packages whose exports are public."""
    package = griffe.load("kailab", search_paths=[str(ROOT)])
    assert isinstance(package, griffe.Module)
    found = [package, *(package[path.removeprefix("kailab.")] for path in PACKAGES[1:])]
    return [module for module in found if isinstance(module, griffe.Module)]


def exported(module: griffe.Module) -> dict[str, griffe.Object]:
    """What ``__all__`` names, in alphabetical order, each where it is defined."""
    names = sorted((str(name) for name in module.exports or ()), key=lambda name: (name.lower(), name))
    return {name: _target(module[name]) for name in names}


def methods(found: griffe.Class) -> list[griffe.Function]:
    """Those that users call."""
    members = (member for name, member in found.members.items() if not name.startswith("_"))
    return [member for member in members if isinstance(member, griffe.Function)]


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _told(path: str, found: griffe.Object, home: dict[str, str]) -> Iterator[str]:
    """``home``: what was told already -> where."""
    yield f"### {path}\n"
    if found.path in home:
        yield f"The same as [{home[found.path]}](#{_anchor(home[found.path])}).\n"
        return
    home[found.path] = path
    if isinstance(found, griffe.Class):
        yield from _class(found)
    elif isinstance(found, griffe.Function):
        yield code_block(str(found.signature()))
        yield text_of(found)
    elif isinstance(found, griffe.Attribute):
        yield code_block(_shape(found))
        yield text_of(found)


def _class(found: griffe.Class) -> Iterator[str]:
    bases = ", ".join(str(base) for base in found.bases)
    yield code_block(f"class {found.name}({bases})" if bases else f"class {found.name}")
    yield text_of(found)
    members = (member for name, member in found.members.items() if not name.startswith("_"))
    fields = [member for member in members if isinstance(member, griffe.Attribute) and _declared(member)]
    if fields:
        yield "\n".join(_field(member) for member in fields) + "\n"
    for method in methods(found):
        yield f"#### {found.name}.{method.name}\n"
        yield code_block(str(method.signature()).replace("(self, ", "(").replace("(self)", "()"))
        yield text_of(method)


def _declared(member: griffe.Attribute) -> bool:
    """A field, a property or a constant; not what a method happens to set."""
    return "property" in member.labels or "class-attribute" in member.labels or member.annotation is not None


def _field(member: griffe.Attribute) -> str:
    told = " ".join(text_of(member).split())
    return f"- `{_shape(member)}`: {told}" if told else f"- `{_shape(member)}`"


def _shape(member: griffe.Attribute) -> str:
    annotation = "" if member.annotation is None else f": {member.annotation}"
    value = "" if member.value is None or "property" in member.labels else f" = {member.value}"
    return f"{member.name}{annotation}{value}"


def code_block(text: str) -> str:
    return f"```python\n{text}\n```\n"


def text_of(found: griffe.Object) -> str:
    """The docstring as Markdown: double backquotes are code there too, and examples are blocks of it."""
    if found.docstring is None:
        return ""
    text = found.docstring.value.replace("``", "`").strip()
    text = re.sub(
        r"(?:^>>> .*\n?(?:^(?!>>>).+\n?)*)+", lambda example: code_block(example.group().strip()), text, flags=re.M
    )
    return text.rstrip() + "\n"


def _anchor(path: str) -> str:
    """As GitHub makes it of a heading."""
    return path.lower().replace(".", "")


def main() -> None:
    TARGET.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
