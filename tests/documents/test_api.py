"""The public API: what the packages export is there, told, typed, and described in docs/api.md as it is."""

from __future__ import annotations

import importlib
import subprocess
import sys

import griffe
import pytest

from tools.api_reference import PACKAGES, TARGET, exported, methods, public_modules, reference
from tools.included_files import DOCUMENTS, ROOT, included, with_files


@pytest.fixture(scope="module")
def modules() -> dict[str, griffe.Module]:
    return {module.path: module for module in public_modules()}


def test_the_reference_is_current() -> None:
    assert TARGET.read_text(encoding="utf-8") == reference(), "run `make docs`"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_exports_can_be_imported(package: str) -> None:
    module = importlib.import_module(package)
    assert len(module.__all__) > 5
    for name in module.__all__:
        assert getattr(module, name) is not None, name
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'no_such_name'"):
        module.no_such_name  # noqa: B018


def test_every_public_name_has_a_docstring(modules) -> None:
    untold = []
    for module in modules.values():
        for name, found in exported(module).items():
            parts = methods(found) if isinstance(found, griffe.Class) else []
            untold += [one.path for one in (found, *parts) if one.docstring is None and name != "__version__"]
    assert untold == []


def test_every_public_function_is_typed_throughout(modules) -> None:
    untyped = []
    for module in modules.values():
        for found in exported(module).values():
            parts = methods(found) if isinstance(found, griffe.Class) else [found]
            for one in parts:
                if isinstance(one, griffe.Function):
                    given = [each for each in one.parameters if each.name not in ("self", "cls")]
                    if one.returns is None or any(each.annotation is None for each in given):
                        untyped.append(one.path)
    assert untyped == []


def test_importing_the_packages_imports_nothing_that_is_not_asked_for() -> None:
    """So that a command pays only for what it uses."""
    script = (
        "import sys\n"
        "import kailab, kailab.lab, kailab.engine\n"
        "dear = {'numpy', 'msgspec', 'yaml', 'kubernetes', 'aiohttp', 'jinja2', 'rich', 'pytest'}\n"
        "print(sorted(dear & set(sys.modules)))\n"
        "from kailab import EngineConfig\n"
        "assert EngineConfig().gpu_placement == 'binpack'\n"
        "from kailab.lab import expect\n"
        "assert callable(expect)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_the_examples_in_the_documents_are_the_files_that_tests_use() -> None:
    for name in DOCUMENTS:
        text = (ROOT / name).read_text(encoding="utf-8")
        assert included(text)
        assert with_files(text) == text, "run `make docs`"
