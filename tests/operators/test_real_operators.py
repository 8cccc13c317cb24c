"""The real operators beside a control plane, and kailab's own controllers of the same kinds: both make the same pods, and kailab's
grouping gathers both in the same PodGroups.

Each operator's tests run where its program was got, and skip with the command otherwise.
"""

from __future__ import annotations

import pprint
from collections.abc import Iterator
from difflib import unified_diff
from typing import Any

import pytest
import tenacity

from kailab.components import ComponentSet, MissingComponents, find_addon
from kailab.lab import Lab
from kailab.lab.venues import open_venue
from kailab.lab.venues.contract import Venue
from kailab.operators import OPERATORS, choose_operators
from tests.operators.made import made
from tests.operators.work import QUEUES, WORK

pytestmark = pytest.mark.slow

PATIENCE_SECONDS = 150.0


@pytest.fixture(scope="module", params=[name for name, operator in OPERATORS.items() if operator.kinds])
def operator(request: pytest.FixtureRequest) -> str:
    """Found and never got here: it takes minutes to build."""
    name: str = request.param
    for needed in choose_operators(name):
        try:
            find_addon(needed)
        except MissingComponents as missing:
            pytest.skip(str(missing))
    return name


@pytest.fixture(scope="module")
def venue(components: ComponentSet, operator: str) -> Iterator[Venue]:
    opened = open_venue("controlplane", operators=operator)
    yield opened
    opened.close()


@pytest.mark.parametrize("work", [pytest.param(one, id=name) for name, one in WORK.items()])
def test_both_make_the_same(venue: Venue, operator: str, work: tuple[str, list[dict[str, Any]]]) -> None:
    whose, objects = work
    if whose != operator:
        pytest.skip(f"work of {whose}")
    with Lab.open() as own:
        own.apply([*QUEUES, *objects])
        own.settle()
        expected = pprint.pformat(made(own), width=120)
    with Lab.open(backend="controlplane", venue=venue) as lab:
        lab.apply([*QUEUES, *objects])
        for attempt in tenacity.Retrying(
            stop=tenacity.stop_after_delay(PATIENCE_SECONDS), wait=tenacity.wait_fixed(1), reraise=True
        ):
            with attempt:
                # Again in each try: what the operator makes late is grouped and placed by the lab, and the operator may wait for that.
                lab.settle()
                found = pprint.pformat(made(lab), width=120)
                told = unified_diff(expected.splitlines(), found.splitlines(), "kailab's", operator, lineterm="", n=9)
                assert found == expected, "\n".join(told)
