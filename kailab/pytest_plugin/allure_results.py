"""Tests with labs in allure's report: labels, a step for each operation and expectation, and the evidence as attachments.

allure is taken from ``sys.modules``: importing it takes longer than a whole lab, and if no other plugin has imported it there is no report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from kailab.errors import ExpectationFailed, InputError
from kailab.evidence.large_files import SUFFIX
from kailab.scheduler.observers import LabOpening, Observer

if TYPE_CHECKING:
    from kailab.cluster.protocol import Cluster, Object
    from kailab.evidence.recorder import Recorder

SHOWN = {
    "timeline.txt": "text/plain",
    "decisions.jsonl": "application/x-ndjson",
    "expectations.jsonl": "application/x-ndjson",
    "pending.json": "application/json",
    "events.json": "application/json",
}
"""The evidence files that are attached, beside the manifests."""

UNREPORTED = frozenset({"settle"})
"""Operations without a step, because every expectation settles its lab."""


class AllureSteps(Observer):
    """Reports each operation and expectation of a lab to allure as a step, nested in the test's own steps. ``recorder``: the recorder of the same lab,
    which is called before this observer and scrubs texts."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._cluster: Cluster | None = None
        self._opened = 0.0

    def on_opened(self, opening: LabOpening) -> None:
        self._cluster, self._opened = opening.cluster, opening.opened

    def on_step(self, operation: str, text: str = "", *, state: bool = False, **detail: Any) -> None:
        if operation in UNREPORTED:
            return
        space = {"namespace": detail["namespace"]} if detail.get("namespace") else {}
        self._report(f"{operation} {text}".rstrip(), space)

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        # The refused texts are left out, because they may contain secrets. The raised error has the reason.
        self._report("refused", {}, InputError("the lab refused its input"))

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        seen = self._recorder.scrub(seen)
        self._report(f"expect {expected}", {"seen": seen}, None if held else ExpectationFailed(f"seen: {seen}"))

    def on_closing(self, waiting: Any) -> None:
        self._cluster = None

    def _report(self, title: str, params: Mapping[str, str], error: Exception | None = None) -> None:
        # A step of a closed lab would belong to no test.
        if self._cluster is None:
            return
        hook = sys.modules["allure_commons"].plugin_manager.hook
        step = str(uuid4())
        at = f"{self._cluster.now() - self._opened:g} s"
        hook.start_step(
            uuid=step, title=self._recorder.scrub(title), params={"lab": self._recorder.lab, "at": at, **params}
        )
        hook.stop_step(uuid=step, exc_type=error and type(error), exc_val=error, exc_tb=None)


def attach_evidence(folder: Path) -> None:
    """Attach files of a test's evidence folder to the test, which is allure's current item after its fixtures were torn down."""
    allure = sys.modules["allure"]
    for path in sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and (path.name.removesuffix(SUFFIX) in SHOWN or path.parent.name == "manifests")
    ):
        # A large file stays compressed, because allure keeps a copy of each attachment.
        kind = "application/gzip" if path.suffix == SUFFIX else SHOWN.get(path.name, "application/yaml")
        name = path.relative_to(folder).as_posix()
        allure.attach(path.read_bytes(), name=name, attachment_type=kind, extension=path.suffix.lstrip("."))


def label_test(item: pytest.Item, exercise: str, sentence: str) -> None:
    """Set epic, feature and story of a test to its exercise, the first sentence of its module, and its own sentence. Labels that were set by allure's
    decorators stay."""
    dynamic = sys.modules["allure"].dynamic
    existing = {marker.kwargs.get("label_type") for marker in item.iter_markers("allure_label")}
    module = _first_sentence(getattr(getattr(item, "module", None), "__doc__", None))
    for kind, text in (
        ("epic", _title(item.path.parent) or exercise),
        ("feature", module or exercise),
        ("story", sentence or getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")),
    ):
        if kind not in existing:
            getattr(dynamic, kind)(text)


def write_environment(config: pytest.Config, facts: Mapping[str, str]) -> None:
    """Write the report's environment.properties; an existing file is kept."""
    path = Path(config.getoption("allure_report_dir")) / "environment.properties"
    if path.parent.is_dir() and not path.exists():
        path.write_text("".join(f"{name}={text}\n" for name, text in facts.items()), encoding="utf-8")


def _title(folder: Path) -> str:
    """The title of the README beside a test; empty without one."""
    try:
        lines: Iterable[str] = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next((line.removeprefix("# ").strip() for line in lines if line.startswith("# ")), "")


def _first_sentence(text: str | None) -> str:
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    return paragraph.rstrip(".")
