"""The audit by GPU model, of holdings above a bound, and of running work whose queue, PodGroup or owner is gone."""

from __future__ import annotations

from kailab.advice.audit import audit
from kailab.advice.findings import AuditFinding, FindingCode
from kailab.lab import Lab
from tests.explain.manifests import deployment, fleet, job, podgroup, queue

POOLS = ({"count": 2, "gpuModel": "H100"}, {"count": 3, "gpuModel": "A100"})
H100 = {"nvidia.com/gpu.product": "H100"}


def found(lab: Lab, code: FindingCode) -> list[AuditFinding]:
    return [finding for finding in audit(lab).findings if finding.code is code]


def opened() -> Lab:
    lab = Lab.open(fleet(*POOLS))
    lab.apply([queue("org", quota=-1), queue("red", "org", quota=12), queue("blue", "org", quota=4)])
    return lab


def test_a_full_model_while_others_are_free() -> None:
    with opened() as lab:
        lab.apply([job("have", "red", 8, nodeSelector=H100)])
        lab.settle()
        lab.apply([job("want", "blue", 2, nodeSelector=H100, annotations={"kai.scheduler/preemption-delay": "9h"})])
        lab.apply([queue("red", "org", quota=8)])
        lab.settle()
        [full] = found(lab, FindingCode.MODEL_FULL)
        assert (
            "8 of 8 H100 GPUs are in use; 12 free GPUs are A100 (12), which this work does not take." in full.sentence
        )
        assert (full.numbers["waiting"], full.numbers["queues"]) == (2000, ["blue"])
        assert (
            full.do
            == "If it can run on A100, allow that in its node selector or affinity; else free GPUs of H100, or add some."
        )
        assert "queue/blue" in full.objects


def test_a_quota_that_counts_gpus_of_models_that_its_work_can_not_use() -> None:
    with opened() as lab:
        lab.apply([job("have", "red", 4, nodeSelector=H100), job("free", "blue", 2)])
        lab.settle()
        [finding] = found(lab, FindingCode.QUOTA_BEYOND_MODELS)
        assert finding.objects == ("queue/red",)
        assert finding.sentence.startswith(
            "red has a quota of 12 GPUs, and all its work, running and waiting, takes only H100, of which there are 8 GPUs: 4 GPUs of"
        )
        assert (finding.numbers["beyond"], finding.do[:34]) == (4000, "Lower the gpu quota of red to 8, o")
        # What it says to do ends it; so does work that can use the other model.
        lab.apply([job("other", "red", 1)])
        lab.settle()
        assert not found(lab, FindingCode.QUOTA_BEYOND_MODELS)


def test_a_cordon_does_not_make_a_model_unusable() -> None:
    with opened() as lab:
        lab.apply([job("have", "red", 1)])
        lab.settle()
        for name in ("p1-0", "p1-1", "p1-2"):
            lab.patch("Node", name, {"spec": {"unschedulable": True}})
        lab.settle()
        assert not found(lab, FindingCode.QUOTA_BEYOND_MODELS)


def test_holdings_above_a_lowered_limit_and_quota_name_the_work_and_what_to_do() -> None:
    with opened() as lab:
        lab.apply([deployment("chat", "red", 6, priority="inference"), job("have", "red", 3)])
        lab.settle()
        lab.apply([queue("red", "org", quota=4, limit=5)])
        lab.settle()
        [limit] = found(lab, FindingCode.ABOVE_LIMIT)
        assert "red holds 9 GPUs, above its limit of 5 GPUs" in limit.sentence
        assert limit.sentence.endswith("The largest work in it: Deployment chat (6 GPUs), Job have (3 GPUs).")
        assert limit.do == "Raise its limit to 9 GPUs, or delete or scale down work that holds 4 GPUs."
        [firm] = found(lab, FindingCode.NON_PREEMPTIBLE_ABOVE_QUOTA)
        assert firm.sentence.endswith("The largest work in it: Deployment chat (6 GPUs).")
        assert firm.do.startswith(
            "Raise its quota to 6 GPUs, or delete, scale down or make preemptible work that holds 2 GPUs"
        )


def test_running_work_whose_queue_is_gone() -> None:
    with opened() as lab:
        lab.apply([job("have", "red", 3)])
        lab.settle()
        assert not found(lab, FindingCode.ORPHANED)
        lab.delete("Queue", "red")
        lab.settle()
        [orphan] = found(lab, FindingCode.ORPHANED)
        assert "hold 3 GPUs, and their Queue red does not exist: no queue counts what it holds" in orphan.sentence
        assert orphan.numbers == {"pods": 3, "gpu": 3000, "missing": "Queue", "name": "red"}
        assert orphan.do.startswith("Create the queue again")
        assert orphan.objects[-1] == "queue/red"


def test_running_pods_whose_podgroup_or_owner_is_gone() -> None:
    with opened() as lab:
        lab.apply([podgroup("own", "red", 1)])
        lone = {
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "left", "namespace": "default", "labels": {"kai.scheduler/queue": "red"}, "annotations": {"pod-group-name": "own"},
                "ownerReferences": [
                    {"apiVersion": "batch/v1", "kind": "Job", "name": "gone", "uid": "no-such-uid", "controller": True}
                ],
            },
            "spec": job("x")["spec"]["template"]["spec"],
        }  # fmt: skip
        lab.cluster.create(lone)
        lab.settle()
        lab.cluster.delete("PodGroup", "own", "default")
        missing = {finding.numbers["missing"]: finding for finding in found(lab, FindingCode.ORPHANED)}
        assert set(missing) == {"PodGroup", "Job"}
        assert missing["PodGroup"].objects == ("pod/default/left", "podgroup/default/own")
        assert (
            "its owner Job default/gone does not exist: no controller replaces or ends them" in missing["Job"].sentence
        )
        # Files that were opened may lack the owner, whose pods nobody should delete then.
        assert missing["Job"].do.startswith("If the lab was opened from files, add `kubectl get jobs.batch")
        again = {**lone, "metadata": {**lone["metadata"], "name": "too"}}
        reference = {**lone["metadata"]["ownerReferences"][0], "name": "also-gone", "uid": "nor-this"}
        lab.cluster.create({**again, "metadata": {**again["metadata"], "ownerReferences": [reference]}})
        lab.apply([podgroup("own", "red", 1)])
        lab.settle()
        [all_jobs] = [one for one in found(lab, FindingCode.ORPHANED) if one.numbers["missing"] == "Job"]
        assert (
            "2 pods of 2 Jobs (default/also-gone, default/gone) hold 2 GPUs, and there is no Job at all"
            in all_jobs.sentence
        )
        assert "kubectl get jobs.batch -A -o yaml" in all_jobs.do
        # Files may lack a kind in one namespace only: many missing objects of a kind are one finding, too.
        lab.apply([job("there", "red", 1)])
        for number in range(2):
            reference = {**reference, "name": f"third-{number}", "uid": f"third-{number}"}
            owned = {**again["metadata"], "name": f"third-{number}", "ownerReferences": [reference]}
            lab.cluster.create({**again, "metadata": owned})
        lab.settle()
        [all_jobs] = [one for one in found(lab, FindingCode.ORPHANED) if one.numbers["missing"] == "Job"]
        assert "4 pods of 4 Jobs" in all_jobs.sentence
        assert "none of these Jobs exists" in all_jobs.sentence
