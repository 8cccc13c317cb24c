"""A control plane with a real KAI, opened from kailab's snapshot and from KAI's own archive of one moment: one cycle on each decides what
KAI then does. ``checks.recorded.snapshot_comparison`` runs all recorded scenarios so; here are some of each sort."""

from __future__ import annotations

import os

import pytest

from checks.recorded.scenarios import read_scenarios
from checks.recorded.snapshot_comparison import TwinBench
from checks.recorded_files import shared_folder
from kailab.components import ComponentSet
from kailab.undertest.kai.folder import BINARIES_ENV

SUITES = ("reclaim", "preempt", "topology", "gang")


@pytest.mark.slow
def test_one_cycle_decides_what_kai_then_does(components: ComponentSet) -> None:
    folder, recorded = os.environ.get(BINARIES_ENV), shared_folder() / "scenarios"
    if not folder:
        pytest.skip(f"no real KAI here: {BINARIES_ENV} names no folder of its binaries")
    if not recorded.is_dir():
        pytest.skip(f"no recorded scenarios in {recorded}")
    first = {one.suite: one for one in reversed(read_scenarios([recorded])) if one.suite in SUITES}
    assert first.keys() == set(SUITES)
    bench = TwinBench(f"kai={folder}")
    try:
        compared = [one for scenario in first.values() for one in bench.compare(scenario)]
    finally:
        bench.close()
    assert [str(one) for one in compared if one.verdict == "differs" or not one.same_decisions] == []
    assert [one.verdict for one in compared].count("one cycle") >= len(compared) - 1
