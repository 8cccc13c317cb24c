"""Write docs/coverage.md: what an embedded lab does with each field of Pod, Job, Queue and PodGroup. Run it when a test reports that the table
is stale:

    python -m tools.coverage_table
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from kailab.lab.coverage import COVERED, Effect, Field, fields_of

FILE = Path(__file__).parents[1] / "docs" / "coverage.md"
_HEAD = """\
# What the embedded lab acts on

<!-- Made by `python -m tools.coverage_table`. The notices of `kailab apply` come from the same data. -->

Whatever an embedded lab accepts acts as in a cluster, or `kailab apply` names it. There are four cases:

| | |
|---|---|
| acts | the field decides here what it decides in a cluster |
| told | it decides something in a cluster and nothing here; `apply` says so, with what a cluster does |
| checked | its form is checked; where, when and how many pods run does not depend on it |
| refused | a field that is not in these tables: `apply` names the one that may be meant, and takes the object only with `--validate=warn` |

A row covers the fields below it that have no row of their own; `*` stands for the items of a list. Pods that controllers make from templates
are treated like the Pod here. What a real API server does otherwise, and why, is in [the embedded API](embedded-api.md).
"""


def render() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for kind in COVERED:
        rows = fields_of(kind)
        parts.append(f"\n## {kind}\n\n| field | | |\n|---|---|---|\n")
        parts += [f"| `{row.path}` | {row.effect} | {row.note} |\n" for row in rows if row.effect is not Effect.CHECKED]
        checked = [row for row in rows if row.effect is Effect.CHECKED]
        if checked:
            parts.append(f"\nChecked only ({len(checked)}):\n\n{_listed(checked)}\n")
    return "".join(parts)


def _listed(rows: list[Field]) -> str:
    return textwrap.fill(
        ", ".join(f"`{row.path}`" for row in rows), 120, break_long_words=False, break_on_hyphens=False
    )


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
