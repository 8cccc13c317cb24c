"""What holds objects of a cluster is written in one way, which keeps it private (``kailab.model.private_files``)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

KAILAB = Path(__file__).parents[2] / "kailab"
HOLD_NO_OBJECTS = (
    "components", "cluster/vcluster/vcluster_command.py", "cluster/built_images.py",
    "pytest_plugin/allure_results.py",
)  # fmt: skip
"""Programs, images, and tables of kailab's own."""
FOR_OTHERS = ("cli", "evidence/run.py", "evidence/signing.py", "trials/baseline.py", "course/certificate.py")
"""Files that a person named in order to have them, or to pass them on: reports, tables, certificates, public keys, lists that are committed.
Their mode is the umask's."""
WAYS = {"mkdir", "makedirs", "write_text", "write_bytes"}


def writes(source: str) -> Iterator[int]:
    """Lines in which a file or folder is made in any other way."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        # A method: the functions of ``private_files`` are called by their own names.
        if isinstance(function, ast.Attribute) and name in WAYS:
            yield node.lineno
        if name == "open" and any(isinstance(one, ast.Constant) and _writes(one.value) for one in node.args):
            yield node.lineno


def _writes(mode: object) -> bool:
    return isinstance(mode, str) and 0 < len(mode) <= 4 and mode[0] in "wax" and set(mode) <= set("waxbt+")


def test_files_of_a_lab_are_written_in_one_way() -> None:
    found = [
        f"kailab/{name}:{line}"
        for path in sorted(KAILAB.rglob("*.py"))
        if (name := path.relative_to(KAILAB).as_posix()) != "model/private_files.py"
        and not name.startswith((*HOLD_NO_OBJECTS, *FOR_OTHERS))
        for line in writes(path.read_text(encoding="utf-8"))
    ]
    assert found == []
