"""What allure's report has of a test with labs: where it belongs, what was done and expected step by step, and its evidence.

allure's own calls are used as it documents them. It is taken from ``sys.modules``: loading it takes longer than a whole lab, and where
nobody else has loaded it there is no report.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from kailab.errors import ExpectationFailed, InputError
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
"""What a reader of the report looks at first, beside the manifests."""

UNREPORTED = frozenset({"settle"})
"""Operations without a step: an expectation settles its lab by itself."""


class AllureSteps(Observer):
    """Tells allure each thing that is done to a lab or expected of it, as it happens: inside of a step of the test's own it is a part of
    that. ``recorder``: of the same lab, told before this; it knows what has to be left out of texts."""

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
        self._tell(f"{operation} {text}".rstrip(), space)

    def on_refusal(self, sources: Sequence[str | Object]) -> None:
        # Why is told by the error; the texts themselves may be anything.
        self._tell("refused", {}, InputError("the lab did not take what it was given"))

    def on_expectation(self, subject: str, expected: str, seen: str, held: bool) -> None:
        seen = self._recorder.scrub(seen)
        self._tell(f"expect {expected}", {"seen": seen}, None if held else ExpectationFailed(f"seen: {seen}"))

    def on_closing(self, waiting: Any) -> None:
        self._cluster = None

    def _tell(self, title: str, told: Mapping[str, str], error: Exception | None = None) -> None:
        # Nothing happens to a lab that is closed; what is said of it then belongs to no test.
        if self._cluster is None:
            return
        hook = sys.modules["allure_commons"].plugin_manager.hook
        one = str(uuid4())
        at = f"{self._cluster.now() - self._opened:g} s"
        hook.start_step(
            uuid=one, title=self._recorder.scrub(title), params={"lab": self._recorder.lab, "at": at, **told}
        )
        hook.stop_step(uuid=one, exc_type=error and type(error), exc_val=error, exc_tb=None)


def attach_evidence(folder: Path) -> None:
    """Attach what is shown of a test's evidence folder, to whatever allure has open: the test itself, once its fixtures are gone."""
    allure = sys.modules["allure"]
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and _shown(path)):
        kind = SHOWN.get(path.name, "application/yaml")
        name = path.relative_to(folder).as_posix()
        allure.attach(path.read_bytes(), name=name, attachment_type=kind, extension=path.suffix.lstrip("."))


def label_test(item: pytest.Item, exercise: str, sentence: str) -> None:
    """Epic, feature and story of a test: its exercise, what the exercise's module teaches, what the test itself says. What the test, its
    class or module has said by allure's decorators stays."""
    dynamic = sys.modules["allure"].dynamic
    own = {marker.kwargs.get("label_type") for marker in item.iter_markers("allure_label")}
    module = _first_sentence(getattr(getattr(item, "module", None), "__doc__", None))
    for kind, text in (
        ("epic", _title(item.path.parent) or exercise),
        ("feature", module or exercise),
        ("story", sentence or getattr(item, "originalname", item.name).removeprefix("test_").replace("_", " ")),
    ):
        if kind not in own:
            getattr(dynamic, kind)(text)


def write_environment(config: pytest.Config, facts: Mapping[str, str]) -> None:
    """What the report says about where the tests ran. A file that is there already is somebody's own."""
    path = Path(config.getoption("allure_report_dir")) / "environment.properties"
    if path.parent.is_dir() and not path.exists():
        path.write_text("".join(f"{name}={text}\n" for name, text in facts.items()), encoding="utf-8")


def _shown(path: Path) -> bool:
    return path.name in SHOWN or path.parent.name == "manifests"


def _title(folder: Path) -> str:
    """Of the lesson's text beside a test; empty where there is none."""
    try:
        lines: Iterable[str] = (folder / "README.md").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return ""
    return next(_headings(lines), "")


def _headings(lines: Iterable[str]) -> Iterator[str]:
    return (line.removeprefix("# ").strip() for line in lines if line.startswith("# "))


def _first_sentence(text: str | None) -> str:
    paragraph = " ".join((text or "").strip().partition("\n\n")[0].split())
    return paragraph.rstrip(".")
