"""Write docs/api.md from the docstrings of the exports of the public packages: ``python -m tools.api_reference``.

griffe reads the source without running it. The public names are those in ``__all__``.
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
    sections = [_HEAD, f"Contents: {contents}\n"]
    home: dict[str, str] = {}
    for module in modules:
        sections += [f"## {module.path}\n", text_of(module)]
        for name, obj in exported(module).items():
            sections += _section(f"{module.path}.{name}", obj, home)
    return "\n".join(part for part in sections if part).rstrip() + "\n"


def public_modules() -> list[griffe.Module]:
    """The packages whose exports are public."""
    package = griffe.load("kailab", search_paths=[str(ROOT)])
    assert isinstance(package, griffe.Module)
    modules = [package, *(package[path.removeprefix("kailab.")] for path in PACKAGES[1:])]
    return [module for module in modules if isinstance(module, griffe.Module)]


def exported(module: griffe.Module) -> dict[str, griffe.Object]:
    """The objects named in ``__all__``, in alphabetical order, resolved to their definitions."""
    names = sorted((str(name) for name in module.exports or ()), key=lambda name: (name.lower(), name))
    return {name: _target(module[name]) for name in names}


def methods(cls: griffe.Class) -> list[griffe.Function]:
    """The public methods of a class."""
    members = (member for name, member in cls.members.items() if not name.startswith("_"))
    return [member for member in members if isinstance(member, griffe.Function)]


def _target(member: griffe.Object | griffe.Alias) -> griffe.Object:
    return member.final_target if isinstance(member, griffe.Alias) else member


def _section(path: str, obj: griffe.Object, home: dict[str, str]) -> Iterator[str]:
    """The section of one export. ``home``: paths of objects that have a section already -> their export."""
    yield f"### {path}\n"
    if obj.path in home:
        yield f"The same as [{home[obj.path]}](#{_anchor(home[obj.path])}).\n"
        return
    home[obj.path] = path
    if isinstance(obj, griffe.Class):
        yield from _class(obj)
    elif isinstance(obj, griffe.Function):
        yield code_block(str(obj.signature()))
        yield text_of(obj)
    elif isinstance(obj, griffe.Attribute):
        yield code_block(_shape(obj))
        yield text_of(obj)


def _class(cls: griffe.Class) -> Iterator[str]:
    bases = ", ".join(str(base) for base in cls.bases)
    yield code_block(f"class {cls.name}({bases})" if bases else f"class {cls.name}")
    yield text_of(cls)
    members = (member for name, member in cls.members.items() if not name.startswith("_"))
    fields = [member for member in members if isinstance(member, griffe.Attribute) and _declared(member)]
    if fields:
        yield "\n".join(_field(member) for member in fields) + "\n"
    for method in methods(cls):
        yield f"#### {cls.name}.{method.name}\n"
        yield code_block(str(method.signature()).replace("(self, ", "(").replace("(self)", "()"))
        yield text_of(method)


def _declared(member: griffe.Attribute) -> bool:
    """True for a field, a property or a constant; False for an attribute that only a method sets."""
    return "property" in member.labels or "class-attribute" in member.labels or member.annotation is not None


def _field(member: griffe.Attribute) -> str:
    text = " ".join(text_of(member).split())
    return f"- `{_shape(member)}`: {text}" if text else f"- `{_shape(member)}`"


def _shape(member: griffe.Attribute) -> str:
    annotation = "" if member.annotation is None else f": {member.annotation}"
    value = "" if member.value is None or "property" in member.labels else f" = {member.value}"
    return f"{member.name}{annotation}{value}"


def code_block(text: str) -> str:
    return f"```python\n{text}\n```\n"


def text_of(obj: griffe.Object) -> str:
    """The docstring as Markdown: double backquotes become single ones, and examples become code blocks."""
    if obj.docstring is None:
        return ""
    text = obj.docstring.value.replace("``", "`").strip()
    text = re.sub(
        r"(?:^>>> .*\n?(?:^(?!>>>).+\n?)*)+", lambda example: code_block(example.group().strip()), text, flags=re.M
    )
    return text.rstrip() + "\n"


def _anchor(path: str) -> str:
    """The anchor that GitHub gives a heading."""
    return path.lower().replace(".", "")


def main() -> None:
    TARGET.write_text(reference(), encoding="utf-8")


if __name__ == "__main__":
    main()
