"""Whether work would run: now, after so long, not in the time that is looked at, or never."""

from __future__ import annotations

import pytest

from kailab.errors import InputError
from kailab.explain.step_budget import StepBudget
from kailab.lab import Lab
from kailab.lab.answer import IncompleteReason
from kailab.lab.change import carry_out, read_changes
from kailab.whatif.simulation import When, simulate


def ending(manifest, seconds):
    manifest["spec"]["template"]["metadata"]["annotations"] = {"kailab.dev/run-seconds": str(seconds)}
    return manifest


@pytest.fixture
def lab(queue, job):
    """All of the lesson's 32 GPUs are held by two queues within their quotas: half of them for an hour, half without end."""
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16), queue("b", 16), ending(job("brief", "a", 16), 3600), job("endless", "b", 16)])
        lab.settle()
        yield lab


def test_what_fits_runs_now_and_says_where(queue, job):
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16)])
        lab.settle()
        found = simulate(lab, [job("new", "a", 12, gang=True)])
        (fate,) = found.fates
        assert (found.when, fate.when, fate.wanted, len(fate.places)) == (When.NOW, When.NOW, 12, 12)
        assert sum(fate.nodes.values()) == 12
        assert found.within(0)
        assert lab.get("Job") == []


def test_what_waits_for_an_end_runs_later_and_says_when(lab, job):
    before = lab.cluster.dump()
    found = simulate(lab, [job("new", "a", 16, gang=True)], bound=7200)
    (fate,) = found.fates
    assert fate.when is When.LATER
    assert 3500 < fate.seconds < 3700
    assert fate.answer.verdict == "later"
    assert not found.within(0)
    assert not found.within(600)
    assert found.within(3700)
    assert lab.cluster.dump() == before


def test_the_bound_is_a_bound(lab, job):
    found = simulate(lab, [job("new", "a", 16, gang=True)], bound=600)
    assert found.when is When.WAITS
    assert found.fates[0].seconds is None
    assert found.end - found.start <= 602


def test_what_no_going_of_others_lets_run_never_runs(lab, job):
    found = simulate(lab, [job("huge", "a", 64, gang=True)], bound=7200)
    assert found.when is When.NEVER
    assert found.fates[0].answer.verdict == "never"
    assert found.end - found.start < 600  # no time is let pass for it


def test_the_slowest_of_several_counts(lab, job):
    found = simulate(lab, [job("small", "a", 4), job("huge", "a", 64, gang=True)], bound=7200)
    assert [fate.when for fate in found.fates] == [When.LATER, When.NEVER]
    assert found.when is When.NEVER
    assert not found.within(1e9)


def test_those_who_go_for_it_are_named(queue, job):
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16), queue("b", 16), job("borrower", "b", 32)])
        lab.settle()
        found = simulate(lab, [job("owner", "a", 8, gang=True)])
        assert found.when is When.NOW
        assert {(one.workload.name, one.beneficiary.name) for one in found.comparison.evicted} == {
            ("borrower", "owner")
        }
        data = found.data()
        assert data["verdict"] == "now"
        assert {one["name"] for one in data["evicted"]} == {"borrower"}
        a = next(queue for queue in data["queues"] if queue["name"] == "a")
        assert (a["before"]["allocated"], a["after"]["allocated"]) == (0, 8)


def test_what_becomes_of_a_kind_that_nobody_knows_is_not_known(lab, job):
    """Its operator may make pods in a cluster: that is no error, and no verdict. Beside work that is known, only that is asked about."""
    meta = {"name": "nightly", "labels": {"kai.scheduler/queue": "a"}}
    flow = {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": meta, "spec": {}}
    for space in ({}, {"namespace": "default"}):
        found = simulate(lab, [{**flow, "metadata": {**meta, **space}}])
        assert found.when is When.UNKNOWN
        (fate,) = found.fates
        assert fate.answer.cause.code == "NoController"
        assert str(fate.workload) == "Rollout/nightly"
    (fate,) = simulate(lab, [flow, job("small", "a", 4)]).fates
    assert fate.workload.name == "small"


def test_manifests_without_work_are_refused(lab, queue):
    with pytest.raises(InputError, match=r"nothing to simulate.*found Queue"):
        simulate(lab, [queue("c", 1)])


def test_steps_of_all_workloads_share_one_time_limit(lab, job):
    ticks = iter(range(1000))
    work = [job("huge", "a", 64, gang=True), job("larger", "a", 128, gang=True)]
    all_tried = simulate(lab, work)
    found = simulate(lab, work, budget=StepBudget(2.0, clock=lambda: float(next(ticks))))
    assert found.when is all_tried.when is When.NEVER
    first, second = (fate.answer for fate in found.fates)
    assert [first.cause, second.cause] == [fate.answer.cause for fate in all_tried.fates]
    # The first workload used up the time.
    assert second.incomplete.reason is IncompleteReason.TIMEOUT
    assert (second.incomplete.tried, second.steps) == (0, ())
    assert found.data()["workloads"][1]["steps_incomplete"]["reason"] == "timeout"
    assert all_tried.data()["workloads"][1]["steps_incomplete"] is None


def test_without_steps_all_else_is_the_same(lab, job):
    work = [job("new", "a", 16, gang=True)]
    full, plain = simulate(lab, work, bound=7200), simulate(lab, work, bound=7200, tried=False)
    assert plain.fates[0].seconds == full.fates[0].seconds
    assert plain.fates[0].answer.cause == full.fates[0].answer.cause
    assert plain.fates[0].answer.steps == ()
    assert plain.comparison == full.comparison


def test_an_interrupt_keeps_what_is_known_by_then(lab, job):
    """It ends the passing of time, too: the work would run after an hour."""
    progress = []
    found = simulate(
        lab,
        [job("new", "a", 16, gang=True)],
        bound=7200,
        budget=StepBudget(interrupted=lambda: any("lab time" in text for text in progress)),
        on_progress=progress.append,
    )
    assert found.interrupted
    assert found.data()["interrupted"]
    assert found.when is When.WAITS
    assert found.fates[0].answer.cause is not None
    assert found.end - found.start < 3600
    assert not simulate(lab, [job("new", "a", 16, gang=True)], bound=7200).interrupted


def test_all_that_must_go_is_named_with_what_it_frees(queue, job):
    """A borrower of all GPUs loses those of the quota of the work that comes."""
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16), queue("b", 16), job("borrower", "b", 32)])
        lab.settle()
        found = simulate(lab, [job("new", "a", 12, gang=True)])
        [loss] = found.losses
        assert (loss.workload.name, loss.queue, loss.action, loss.beneficiary.name) == (
            "borrower",
            "b",
            "reclaim",
            "new",
        )
        assert (len(loss.pods), loss.gpus, sum(loss.nodes.values())) == (12, 12_000, 12_000)
        first, names = loss.lines()
        assert first.startswith("12 pods of Job/borrower (b) evicted for Job/new (reclaim); frees 12 GPUs on ")
        assert names.count("borrower-") == 12
        assert found.data()["must_go"][0]["frees_gpus"] == 12


def test_a_step_names_all_that_would_go_by_it(lab, job):
    """The step deletes work that holds places; each workload is named with what it frees."""
    found = simulate(lab, [job("new", "a", 16, gang=True)], bound=600)
    [fate] = found.fates
    assert len(fate.must_go) == len(fate.answer.steps)
    removed = {}
    for step, losses in zip(fate.answer.steps, fate.must_go, strict=True):
        removed |= {(loss.workload.name, loss.action): loss for loss in losses}
        deleted = {change["delete"]["name"] for change in step.changes if "delete" in change}
        # A Job with another spec is deleted and made anew.
        assert deleted - {"new"} <= {loss.workload.name for loss in losses}
        assert set(step.outcome.evicted) <= {pod for loss in losses for pod in loss.pods}
    assert removed
    for loss in removed.values():
        assert loss.gpus == 1000 * len(loss.pods) == sum(loss.nodes.values())
    steps = fate.data()["steps"]
    assert [len(step["must_go"]) for step in steps] == [len(losses) for losses in fate.must_go]


def test_steps_change_the_manifest_of_work_that_does_not_exist_yet(queue, job):
    """Nothing that is only simulated can be deleted, as for another node selector of a Job, or patched, as for another queue."""
    elsewhere, misled = job("elsewhere", "a", 2), job("misled", "aa", 2)
    elsewhere["spec"]["template"]["spec"]["nodeSelector"] = {"nvidia.com/gpu.product": "none"}
    with Lab.open("lesson") as lab:
        lab.apply([queue("a", 16)])
        lab.settle()
        for work in (elsewhere, misled):
            found = simulate(lab, [work], bound=60)
            name = work["metadata"]["name"]
            step = found.fates[0].answer.steps[0]
            assert step.do.endswith(f": apply Job {name} with that change.")
            assert [list(change) for change in step.changes] == [["apply"]]
            with lab.fork() as copy:
                carry_out(copy, read_changes([*step.changes]))
                copy.settle()
                running = [pod for pod in copy.cluster.list("Pod") if pod["status"]["phase"] == "Running"]
                assert len(running) == step.outcome.running == 2
