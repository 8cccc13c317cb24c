"""A test's evidence in its allure report, where there is one: allure's calls do nothing unless its results
folder is on."""

from __future__ import annotations

import sys
from pathlib import Path

SHOWN = {
    "timeline.txt": "text/plain",
    "decisions.jsonl": "application/x-ndjson",
    "expectations.jsonl": "application/x-ndjson",
    "pending.json": "application/json",
    "events.json": "application/json",
}


def attach(folder: Path) -> None:
    """Attach what a reader of the report looks at first, from a test's evidence folder.

    Only if something else has loaded allure: loading it takes longer than a whole lab.
    """
    allure = sys.modules.get("allure")
    if allure is None:
        return
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and _shown(path)]
    for path in files:
        kind = SHOWN.get(path.name, "application/yaml")
        allure.attach(path.read_bytes(), name=path.relative_to(folder).as_posix(), attachment_type=kind)


def _shown(path: Path) -> bool:
    return path.name in SHOWN or path.parent.name == "manifests"
