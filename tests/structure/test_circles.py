"""Modules import each other in one direction: imports at the top of modules make no circle, those for types included.

Imports inside functions are not counted: they run when somebody calls the function (docs/design.md says which there are).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import kailab

ROOT = Path(kailab.__file__).parent
Graph = Mapping[str, set[str]]


def read_modules(root: Path) -> dict[str, tuple[str, bool]]:
    """Name -> (source, whether it is a package) of every module below a package's folder."""
    modules = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        package = parts[-1] == "__init__"
        modules[".".join(parts[:-1] if package else parts)] = path.read_text(encoding="utf-8"), package
    return modules


def import_graph(modules: Mapping[str, tuple[str, bool]]) -> Graph:
    """Module -> the modules that it imports at its top, also under ``if TYPE_CHECKING:``."""
    graph = {}
    for name, (source, package) in modules.items():
        targets = {
            target
            for statement in _top_imports(ast.parse(source))
            for text in _names(statement, name, package)
            if (target := _module_of(text, modules))
        }
        graph[name] = targets - {name}
    return graph


def _top_imports(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _top_imports(child)


def _names(statement: ast.Import | ast.ImportFrom, module: str, package: bool) -> Iterator[str]:
    """The full names that a statement imports: of modules, or of names in them."""
    if isinstance(statement, ast.Import):
        yield from (alias.name for alias in statement.names)
        return
    base = statement.module or ""
    if statement.level:
        parts = module.split(".")
        base = ".".join([*parts[: len(parts) - statement.level + package], *filter(None, [base])])
    yield from (f"{base}.{alias.name}" for alias in statement.names)


def _module_of(name: str, modules: Mapping[str, tuple[str, bool]]) -> str:
    """The longest part of a full name that is a module here; empty if none is."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name


def circles(graph: Graph) -> list[list[str]]:
    """Groups of modules that reach each other (Tarjan's strongly connected components with more than one module)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(module: str) -> None:
        numbers[module] = lowest[module] = len(numbers)
        path.append(module)
        for target in sorted(graph.get(module, ())):
            if target not in numbers:
                visit(target)
                lowest[module] = min(lowest[module], lowest[target])
            elif target in path:
                lowest[module] = min(lowest[module], numbers[target])
        if lowest[module] == numbers[module]:
            group = path[path.index(module) :]
            del path[path.index(module) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in graph:
        if module not in numbers:
            visit(module)
    return found


def described(graph: Graph, groups: Iterable[Iterable[str]]) -> list[str]:
    """Each import inside a circle, so that a failure says which ones to take away."""
    return [
        f"{module} imports {target}"
        for group in map(set, groups)
        for module in sorted(group)
        for target in sorted(graph[module] & group)
    ]


def test_no_module_imports_its_importers() -> None:
    graph = import_graph(read_modules(ROOT))
    assert described(graph, circles(graph)) == []


def test_circles_are_found_whatever_form_their_imports_have() -> None:
    modules = {
        "p": ("", True),
        "p.one": ("from p.two import name", False),
        "p.two": ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import three", False),
        "p.three": ("class Three:\n    from . import one", False),
        "p.aside": ("import p.one\n\ndef late():\n    import p.late", False),
        "p.late": ("try:\n    import p.aside\nexcept ImportError:\n    pass", False),
        "p.inner": ("from .leaf import leaf", True),
        "p.inner.leaf": ("from ..inner import other", False),
    }
    graph = import_graph(modules)
    assert circles(graph) == [["p.one", "p.three", "p.two"], ["p.inner", "p.inner.leaf"]]
    assert "p.two imports p.three" in described(graph, circles(graph))
