"""``python -m checks.explaining.shares FILE...``: the share of right answers by area, as the table of docs/explain.md.

Each file is what ``python -m checks explain --area AREA -o json`` wrote. Runs of one area are added up.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checks.explaining.platform_cluster import SIZES
from checks.explaining.run import AREAS
from checks.recorded_files import read_json
from kailab.errors import KailabError

MISTAKES_NODES = (1, 12)
"""The fewest and the most nodes of a cluster in the area ``mistakes``."""
HEADERS = (
    "area", "nodes", "clusters", "answers", "causes right", "steps judged", "answers with a step that did other than it said",
    "with a number against the objects", "with screens that disagree", "answers right in all",
)  # fmt: skip


def table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The lines of a Markdown table with a row for each area that was run."""
    lines = [f"| {' | '.join(HEADERS)} |", f"|{'---|' * len(HEADERS)}"]
    for area in AREAS:
        same = [run for run in runs if run["area"] == area]
        if same:
            lines.append(f"| {' | '.join(_row(area, same))} |")
    return lines


def _row(area: str, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    fewest, most = SIZES[area].nodes if area in SIZES else MISTAKES_NODES

    def total(name: str) -> int:
        return sum(run[name] for run in runs)

    def faulty(*parts: str) -> int:
        return sum(any(fault[0] in parts for fault in failed["faults"]) for run in runs for failed in run["failed"])

    asked, steps = total("asked"), total("steps")
    return [
        f"`{area}`", f"{fewest} to {most}", f"{total('cases'):,}", f"{asked:,}",
        _share(asked - faulty("verdict", "cause", "naming", "failed"), asked), f"{steps:,}",
        str(faulty("step", "words", "outcome")) if steps else "",
        str(faulty("number")), str(faulty("screens")), _share(total("right"), asked),
    ]  # fmt: skip


def _share(right: int, asked: int) -> str:
    return f"{right:,} ({100 * right / asked:.2f} %)" if asked else "0"


def main(arguments: Sequence[str]) -> int:
    try:
        print("\n".join(table([read_json(Path(name)) for name in arguments])))
    except KailabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
