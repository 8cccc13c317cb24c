"""Run the checks that a change needs, in about a minute: format, lint, types, import contracts, pages made from the code, and the tests that cover what changed.

    python -m tools.quick              the tests that cover what differs from the branch point of main
    python -m tools.quick engine       the tests of one package

A test covers a changed module if it imports the module by name. If no test imports it, the tests of its package run instead:
``tests/NAME`` belongs to ``kailab/NAME`` (CONTRIBUTING.md lists the exceptions). Slow tests are left to ``make test``.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
SOURCES = ("kailab", "checks", "benchmarks", "tools")
TESTS_OF = {
    "advice": ("lab",),
    "cluster": ("cluster", "kubernetes", "stages"),
    "scheduler": ("scheduler", "service"),
}
"""The folders of tests/ with the tests of a package whose name differs from theirs."""

PAGES = (
    "tests/documents/test_api.py::test_the_reference_is_current",
    "tests/documents/test_own_tests.py::test_the_page_is_current",
    "tests/tools/test_coverage.py::test_the_page_is_current",
    "tests/snapshots/test_anonymising.py::test_every_word_that_kailab_reads_is_known",
)
"""Any docstring, option or field can make these pages old, so they are compared whatever changed; `make docs` writes them anew."""

CHECKS = {
    "format": ("ruff", "format", "--check", "."),
    "lint": ("ruff", "check", "."),
    "import contracts": ("lint-imports",),
    "types": ("mypy",),
    "pages made from the code": ("pytest", "-q", "-p", "no:cacheprovider", "--kailab-evidence", "off", *PAGES),
}


def main() -> None:
    """Run the checks beside the tests. Exit with 1 if one of them fails."""
    packages = sys.argv[1:]
    unknown = [name for name in packages if not any(_folders(name))]
    if unknown:
        sys.exit(f"error: no tests for {', '.join(unknown)}; packages: {', '.join(sorted(_names(ROOT / 'kailab')))}")
    tests = [folder for name in packages for folder in _folders(name)] if packages else list(tests_of(_changed()))
    began = time.monotonic()
    with ThreadPoolExecutor(1) as pool:
        checked = pool.submit(_check)
        passed = _test(tests)
        passed = checked.result() and passed
    print(f"{'passed' if passed else 'FAILED'} in {time.monotonic() - began:.0f} s")
    sys.exit(not passed)


def tests_of(changed: Iterable[Path]) -> Iterator[Path]:
    """Yield the test files and folders that cover the changed files (paths relative to the project's root)."""
    changed = [path for path in changed if path.suffix == ".py"]
    yield from sorted({path for path in changed if path.name.startswith("test_") and (ROOT / path).exists()})
    modules = {_module(path): path for path in changed if path.parts[0] in SOURCES}
    if not modules:
        return
    imports = {test: _imports(test) for test in sorted((ROOT / "tests").rglob("test_*.py"))}
    covered = set()
    for test, imported in imports.items():
        if hit := imported & modules.keys():
            covered |= hit
            yield test.relative_to(ROOT)
    for module in sorted(modules.keys() - covered):
        yield from _folders(module.split(".")[1] if module.startswith("kailab.") else module.split(".")[0])


def _folders(package: str) -> Iterator[Path]:
    for name in TESTS_OF.get(package, (package,)):
        if (ROOT / "tests" / name).is_dir():
            yield Path("tests") / name


def _names(folder: Path) -> Iterator[str]:
    return (path.name for path in folder.iterdir() if (path / "__init__.py").exists())


def _changed() -> list[Path]:
    """Return the files that differ from the point where this branch left main, and the files that git does not know yet."""
    base = _git("merge-base", "HEAD", "origin/main") or _git("merge-base", "HEAD", "main") or ["HEAD"]
    if base == _git("rev-parse", "HEAD") and not _git("status", "--porcelain"):
        base = ["HEAD~1"]  # on main, with nothing changed: what the last commit changed
    listed = _git("diff", "--name-only", base[0]) + _git("ls-files", "--others", "--exclude-standard")
    return [Path(name) for name in dict.fromkeys(listed)]


def _git(*arguments: str) -> list[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )[:-1]


def _module(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def _imports(test: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return found


def _check() -> bool:
    passed = True
    for name, command in CHECKS.items():
        done = subprocess.run([BIN / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            passed = False
            print(f"--- {name}\n{done.stdout}{done.stderr}")
    return passed


def _test(tests: list[Path]) -> bool:
    if not tests:
        print("no test covers what changed; `python -m tools.quick PACKAGE` runs the tests of a package")
        return True
    command: list[str | Path] = [
        BIN / "python",
        "-m",
        "pytest",
        "-q",
        "-m",
        "not slow",
        "--kailab-evidence",
        "off",
        "-p",
        "no:cacheprovider",
    ]
    spread = (
        ["-n", "2", "--dist", "worksteal"] if len(tests) > 2 or any((ROOT / test).is_dir() for test in tests) else []
    )
    done = subprocess.run([*command, *spread, *tests], cwd=ROOT, check=False)
    return done.returncode in (0, 5)  # 5: only slow tests cover it


if __name__ == "__main__":
    main()
