"""Write docs/coverage.md: what an embedded lab does with each field of Pod, Job, Queue, PodGroup and operators' kinds. Run it when a test reports that the table
is stale:

    python -m tools.coverage_table
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from tools.field_coverage import COVERED, OPERATORS_ACT, Effect, Field, fields_of, operator_of

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


_OPERATORS = """
## Operators' kinds

The fields of the pinned definitions. Pods of these kinds are treated like the Pod above, in whatever form the kind describes them. A field that
the definition lacks is told at apply. ClusterTrainingRuntime, ClusterServingRuntime and ClusterWorkflowTemplate are as their kinds in namespaces.
"""


def render() -> str:
    """The text of the page."""
    parts = [_HEAD]
    for kind in COVERED:
        rows = fields_of(kind)
        parts.append(f"\n## {kind}\n\n| field | | |\n|---|---|---|\n")
        parts += [f"| `{row.path}` | {row.effect} | {row.note} |\n" for row in rows if row.effect is not Effect.CHECKED]
        parts += _listed(rows, Effect.CHECKED, "Checked only")
    parts.append(_OPERATORS)
    for kind in OPERATORS_ACT:
        rows = fields_of(kind)
        parts.append(f"\n### {kind} ({operator_of(kind)})\n")
        parts += _listed(rows, Effect.ACTS, "Acts")
        if told := [f"| `{row.path}` | {row.note} |\n" for row in rows if row.effect is Effect.TOLD]:
            parts += ["\n| told | |\n|---|---|\n", *told]
        parts += _listed(rows, Effect.CHECKED, "Checked only")
    return "".join(parts)


def _listed(rows: list[Field], effect: Effect, title: str) -> list[str]:
    """A paragraph with the fields of one effect; none if there are none."""
    paths = [f"`{row.path}`" for row in rows if row.effect is effect]
    text = textwrap.fill(", ".join(paths), 120, break_long_words=False, break_on_hyphens=False)
    return [f"\n{title} ({len(paths)}):\n\n{text}\n"] if paths else []


if __name__ == "__main__":
    FILE.write_text(render(), encoding="utf-8")
