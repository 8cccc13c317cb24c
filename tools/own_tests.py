"""Write docs/write-your-own-tests.md from the docstrings of fixtures, marks and expectations: ``python -m tools.own_tests``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import griffe

from kailab.pytest_plugin.settings import MARKERS, add_options
from tools.api_reference import ROOT
from tools.api_reference import code_block as code
from tools.api_reference import text_of as docstring

TARGET = ROOT / "docs" / "write-your-own-tests.md"
PARTS = ROOT / "tools" / "own_tests_page"
FIXTURES = ("lab", "baseline_lab", "lab_factory", "manifests")
SUBJECTS = ("queue", "app", "job", "deployment", "workload", "pod", "podgroup", "node")
CHANGES = ("apply", "delete", "scale", "patch", "fail_node", "recover_node", "settle", "advance", "now", "explain")


def page() -> str:
    """The text of the page."""
    package = griffe.load("kailab", search_paths=[str(ROOT)])
    lab, expectation = package["lab.lab.Lab"], package["lab.expectations.Expectation"]
    vocabulary = [
        ("kailab.lab.at_least", package["lab.expectations.at_least"]),
        ("kailab.lab.at_most", package["lab.expectations.at_most"]),
        ("kailab.lab.between", package["lab.expectations.between"]),
    ]
    sections = {
        "FIXTURES": _fixtures(package["pytest_plugin.fixtures"]),
        "MARKS": _marks(),
        "SUBJECTS": _functions("lab", ((name, lab.all_members[name]) for name in SUBJECTS)),
        "CHANGES": _functions("lab", ((name, lab.all_members[name]) for name in CHANGES)),
        "WORDS": _functions(
            "expect(...)", ((name, member) for name, member in expectation.members.items() if not name.startswith("_"))
        ),
        "AMOUNTS": _functions("", ((path.rpartition(".")[2], member) for path, member in vocabulary)),
        "TIME": _functions("", ((name, package["lab.temporal"][name]) for name in ("eventually", "stays", "never"))),
        "OPTIONS": _options(),
    }
    text = (PARTS / "page.md").read_text(encoding="utf-8")
    for name, lines in sections.items():
        text = text.replace(f"<!-- {name} -->", "\n".join(lines).strip())
    return text


def _fixtures(module: griffe.Module) -> Iterator[str]:
    for name in FIXTURES:
        yield f"- `{name}`: {_flat(module[name])}"


def _marks() -> Iterator[str]:
    for marker in MARKERS:
        name, _, text = marker.partition(": ")
        yield f"- `@pytest.mark.{name}`: {text}"


def _functions(owner: str, members: Iterable[tuple[str, Any]]) -> Iterator[str]:
    for name, member in members:
        member = member.final_target if isinstance(member, griffe.Alias) else member
        before = f"{owner}." if owner else ""
        if isinstance(member, griffe.Function):
            shape = str(member.signature()).replace("(self, ", "(").replace("(self)", "()").partition(" -> ")[0]
            yield f"#### {before}{name}\n\n{code(f'{before}{shape}')}\n{docstring(member)}"
        else:
            yield f"#### {before}{name}\n\n{docstring(member)}"


def _options() -> Iterator[str]:
    options: list[tuple[str, str]] = []

    class Group:
        def addoption(self, name: str, **settings: Any) -> None:
            title = f"{name} {settings['metavar']}" if settings.get("metavar") else name
            options.append((title, settings["help"]))

    class Parser:
        def getgroup(self, *names: str) -> Group:
            return Group()

        def addini(self, *names: str, **how: Any) -> None:
            pass

    parser: Any = Parser()
    add_options(parser)
    yield from (f"- `{title}`: {text}" for title, text in options)


def _flat(obj: griffe.Object) -> str:
    return " ".join(docstring(obj).split())


def main() -> None:
    TARGET.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
