"""The scenarios of examples/regressions: known faults of KAI, each with the outcome that is right. kailab has it; so has a real KAI that
the text does not name."""

from __future__ import annotations

from pathlib import Path

import pytest

from kailab.scenarios.running import run_scenario
from kailab.scenarios.scenario import Scenario, read_scenarios
from kailab.trials.definition import subjects_of

FOLDER = Path(__file__).parents[2] / "examples" / "regressions"
DOCUMENT = Path(__file__).parents[2] / "docs" / "trials.md"
FILES = sorted(file for file in FOLDER.glob("*.yaml") if not file.name.startswith("fleet-"))


@pytest.mark.parametrize("scenario", read_scenarios(FILES), ids=lambda one: one.name)
def test_kailab_does_what_is_right(scenario: Scenario) -> None:
    ran = run_scenario(scenario)
    assert (ran.differences, ran.stopped) == ((), "")


def test_a_trial_takes_the_folder_and_each_is_in_the_document() -> None:
    names = [subject.name for subject in subjects_of(str(FOLDER))]
    assert names == [file.stem for file in FILES]
    document = DOCUMENT.read_text()
    assert [name for name in names if f"`{name}`" not in document] == []
