"""The example of docs/clusters.md gives the documented results."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.cli.table import format_age
from kailab.replay.clusters.figures import figures
from tests.replay.clusters_file import dispatched

ROOT = Path(__file__).parents[2]
EXAMPLE, PAGE = ROOT / "examples" / "clusters", ROOT / "docs" / "clusters.md"


@pytest.mark.parametrize("file", ["clusters.yaml", "philly.yaml"])
def test_the_files_can_be_read(file, trace_file) -> None:
    trace = trace_file("a,0,60,8,vision", "b,0,60,8,speech", header="name,submit,seconds,gpus,team")
    assert len(dispatched(trace, EXAMPLE / file).journeys) == 2


@pytest.mark.parametrize(
    "policy, waited, away, moved, cost",
    [
        ("stay-home", "112m", 0, 0, 3531.74),
        ("spill-over", "17m", 8, 4, 3575.66),
        ("global-queue", "15m", 8, 4, 3568.99),
        ("data-gravity", "104m", 1, 0, 3771.74),
    ],
)
def test_it_is_as_the_page_tells_it(policy, waited, away, moved, cost) -> None:
    told = figures(dispatched(EXAMPLE / "trace.csv", EXAMPLE / "clusters.yaml", dispatch=policy))
    assert told.total.waited is not None
    assert (format_age(told.total.waited.mean), told.away, told.moved / 10**12, told.cost) == (
        waited,
        away,
        moved,
        cost,
    )
    assert f"| {cost:,} USD |" in PAGE.read_text()


def test_the_pages_own_policy_dispatches(tmp_path) -> None:
    (tmp_path / "nights.py").write_text(PAGE.read_text().partition("```python\n")[2].partition("```")[0])
    found = dispatched(EXAMPLE / "trace.csv", EXAMPLE / "clusters.yaml", dispatch=f"{tmp_path}/nights.py:NightShift")
    away = {one.job.name: one.at for one in found.journeys if one.at != one.home}
    # East costs as much as west by the hour; the first in the file is taken.
    assert away == {"voices-1": "west"}
