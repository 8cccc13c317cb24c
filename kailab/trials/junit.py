"""A trial as JUnit's XML: a suite for each column but the reference's, a case for each test, failed where it differs."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

# What XML 1.0 can't hold, even escaped.
_UNFIT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(told: dict[str, Any]) -> bytes:
    """``told``: see ``telling.data``."""
    root = ElementTree.Element("testsuites", name=told["trial"])
    differing = {(one["test"], one["column"]): one for one in told["differing"]}
    for column in told["columns"]:
        _suite(root, told, column, differing)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _suite(root: Any, told: dict[str, Any], column: dict[str, Any], differing: dict[Any, Any]) -> None:
    name = column["name"]
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    failures = errors = skipped = 0
    for row in told["rows"]:
        result = row["results"][name]
        case = ElementTree.SubElement(
            suite, "testcase", classname=f"{told['trial']}.{name}", name=row["test"], time=f"{result['seconds']:g}"
        )
        found = differing.get((row["test"], name), {})
        open_ones = [one["text"] for one in found.get("differences", ()) if one["accepted"] is None]
        accepted = [one for one in found.get("differences", ()) if one["accepted"] is not None]
        if result["verdict"] == "error" and not (accepted and not open_ones):
            errors += 1
            _say(ElementTree.SubElement(case, "error", message="it could not be run"), result["message"])
        elif open_ones:
            failures += 1
            lines = [*open_ones, *([found["firstDecision"]] if found["firstDecision"] else [])]
            lines += [f"evidence of {side}: {path}" for side, path in found["evidence"].items() if path]
            message = _fit(f"differs from {found['reference']}: {open_ones[0]}")
            _say(ElementTree.SubElement(case, "failure", message=message), "\n".join(lines))
        elif accepted:
            skipped += 1
            reasons = "; ".join(dict.fromkeys(one["accepted"] for one in accepted))
            ElementTree.SubElement(case, "skipped", message=_fit(f"differs, as accepted: {reasons}"))
    for attribute, number in (
        ("tests", len(told["rows"])), ("failures", failures), ("errors", errors), ("skipped", skipped)
    ):  # fmt: skip
        suite.set(attribute, str(number))


def _say(element: Any, text: str) -> None:
    element.text = _fit(text)


def _fit(text: str) -> str:
    return _UNFIT.sub("?", text)
