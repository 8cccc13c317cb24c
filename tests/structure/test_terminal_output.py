"""Commands write to the terminal in one way, which lets nothing through that would steer it (``kailab.cli.terminal``)."""

from __future__ import annotations

import ast
from pathlib import Path

CLI = Path(__file__).parents[2] / "kailab" / "cli"
WAYS = {"print", "echo", "secho", "Console", "print_exception", "print_exc", "pager", "echo_via_pager"}


def test_commands_write_in_one_way() -> None:
    found = []
    for path in sorted(CLI.rglob("*.py")):
        if path.name == "terminal.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            if (called.rpartition(".")[2] in WAYS and called != "console.print") or called.endswith(
                ("stdout.write", "stderr.write")
            ):
                found.append(f"kailab/cli/{path.name}:{node.lineno}")
    assert found == []
