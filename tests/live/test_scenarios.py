"""The recorded scenarios on real control planes: counts by phase, reasons and places as a real KAI showed them."""

import pytest

from checks.recorded.scenarios import read_scenarios, run_recorded_scenario
from checks.recorded_files import shared_folder
from kailab.lab.venues import open_venue
from kailab.scenarios.scenario import Scenario

pytestmark = pytest.mark.slow
FOLDER = shared_folder() / "scenarios"
SCENARIOS = read_scenarios(sorted(FOLDER.glob("*.json")))


@pytest.fixture(scope="module")
def venue(components):
    venue = open_venue("controlplane")
    yield venue
    venue.close()


@pytest.mark.skipif(not SCENARIOS, reason=f"no recorded scenarios are in {FOLDER} (KAILAB_SHARED names another place)")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.id)
def test_a_scenario_on_a_control_plane(venue, scenario):
    result = run_recorded_scenario(scenario, "kailab", "controlplane", venue)
    assert result.differences == ()


@pytest.mark.parametrize("backend", ["embedded", "controlplane"])
def test_a_gang_that_is_moved_has_its_place_in_the_end(request, backend):
    """Its Job waits out a back-off of 20 s first, for two pods that were evicted; then it runs in the place it was promised."""
    venue = None if backend == "embedded" else request.getfixturevalue("venue")
    running = {"keep": 3, "gang": 2, "near": 1, "big": 1}
    steps = (
        {"apply": [queue("org"), queue("team", "org")]},
        {"apply": [job("keep", 3, 8, 1)], "expect": counts(keep=3)},
        {"apply": [job("gang", 2, 1, 2)], "expect": counts(keep=3, gang=2)},
        {
            "apply": [pod("near", 1, nodeSelector={"kubernetes.io/hostname": "l40s-1"})],
            "expect": counts(keep=3, gang=2, near=1),
        },
        # Room for it is in neither of the two nodes that are left, as long as the gang stays where it is.
        {"apply": [pod("big", 4)], "expect": counts(**running)},
    )
    scenario = Scenario(suite="made", name="a-gang-is-moved", steps=steps)
    result = run_recorded_scenario(scenario, "kailab", backend, venue)
    assert result.differences == ()


def counts(**running):
    return {"apps": {app: {"Running": count} for app, count in running.items()}}


def queue(name, parent=None):
    spec = {"resources": {"gpu": {"quota": 32, "limit": -1, "overQuotaWeight": 1}}}
    return {
        "apiVersion": "scheduling.run.ai/v2",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec | ({"parentQueue": parent} if parent else {}),
    }


def pod_spec(gpus, **more):
    return {
        "schedulerName": "kai-scheduler",
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Never",
        "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "app", "image": "app", "resources": {"limits": {"nvidia.com/gpu": gpus}}}],
        **more,
    }


def pod(name, gpus, **more):
    labels = {"app": name, "kai.scheduler/queue": "team"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": pod_spec(gpus, **more),
    }


def job(name, pods, gpus, gang):
    metadata = {
        "labels": {"app": name, "kai.scheduler/queue": "team"},
        "annotations": {"kai.scheduler/batch-min-member": str(gang)},
    }
    template = {"metadata": metadata, "spec": pod_spec(gpus)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, **metadata},
        "spec": {"completions": pods, "parallelism": pods, "template": template},
    }
