"""The recorded scenarios on real control planes: counts by phase, reasons and places as a real KAI showed them."""

import pytest

from kailab.conformance.scenarios import read_scenarios, run_scenario
from kailab.conformance.shared import shared_folder
from kailab.lab.planes import open_home

pytestmark = pytest.mark.slow
FOLDER = shared_folder() / "scenarios"
SUITES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def home(components):
    home = open_home("controlplane")
    yield home
    home.close()


@pytest.mark.skipif(not SUITES, reason=f"no recorded scenarios are in {FOLDER} (KAILAB_SHARED names another place)")
@pytest.mark.parametrize("suite", SUITES)
def test_scenarios_on_a_control_plane(home, suite):
    results = [
        run_scenario(scenario, "kailab", "controlplane", home)
        for scenario in read_scenarios([FOLDER / f"{suite}.json"])
    ]
    differences = [f"{result.id}: {one}" for result in results for one in result.differences]
    assert not differences, "\n".join(differences)
