"""Who displaced whom, by workload and as chains."""

from __future__ import annotations

from kailab.evidence.eviction_chains import EvictionHistory, eviction_history
from kailab.evidence.history import LabHistory
from kailab.evidence.recorder import Recorder
from kailab.evidence.subject_timeline import subject_pods, subject_timeline
from kailab.lab import Lab
from tests.explain.manifests import deployment, fleet, job, queue


def history_of(*moments: object, nodes: int = 1) -> LabHistory:
    """A lab of nodes with 4 GPUs, after these objects came one after the other, ten seconds apart."""
    recorder = Recorder()
    with Lab.open(fleet({"count": nodes}), observers=[recorder]) as lab:
        for objects in moments:
            lab.apply(objects)
            lab.settle()
            lab.advance(10)
    return LabHistory.of_recording(recorder.recording)


def displaced() -> LabHistory:
    """A borrows the quotas of b and c; b takes more than its own back, then c takes its quota from both."""
    return history_of(
        [queue("a", quota=0), queue("b", quota=2), queue("c", quota=2)],
        [deployment("borrower", "a", 4)],
        [deployment("second", "b", 4)],
        [deployment("third", "c", 2)],
    )


def shown(found: EvictionHistory) -> list[tuple[str, str, int, float]]:
    return [(one.victim, one.beneficiary, len(one.pods), one.gpus) for one in found.displacements]


def test_evictions_are_grouped_by_workload_with_what_each_freed() -> None:
    found = eviction_history(displaced())
    assert found.by_victim["Deployment default/borrower"]
    total = sum(len(one.pods) for one in found.displacements)
    assert found.lines()[0].startswith(f"{total} pods of {len(found.by_victim)} workload")
    for one in found.displacements:
        assert one.gpus == 1000 * len(one.pods) == 1000 * sum(one.nodes.values())
        assert one.beneficiary_queue in ("b", "c")
    data = found.data()
    assert [workload["workload"] for workload in data["workloads"]] == list(found.by_victim)
    assert all(workload["displaced_by"] for workload in data["workloads"])


def test_a_chain_names_who_displaced_whom_in_turn() -> None:
    """`high` displaces `middle` of its own queue; with more quota, `middle` comes back and displaces `low`."""
    high = job("high", "q", 4)
    high["metadata"]["labels"]["priorityClassName"] = "build-preemptible"
    history = history_of(
        [queue("q", quota=4, weight=0), queue("r", quota=0)],
        [job("middle", "q", 4), job("low", "r", 4)],
        [high],
        [queue("q", quota=8)],
        nodes=2,
    )
    found = eviction_history(history)
    assert shown(found) == [
        ("Job default/middle", "Job default/high", 4, 4000),
        ("Job default/low", "Job default/middle", 4, 4000),
    ]
    [chain] = found.chains()
    assert [(depth, one.victim) for depth, one in chain] == [(0, "Job default/middle"), (1, "Job default/low")]
    *_, first, second = found.lines()
    assert first.endswith("Z  Job default/high (q) displaced Job default/middle (q): 4 pods, 4 GPUs")
    assert second.endswith("Z    Job default/middle (q) displaced Job default/low (r): 4 pods, 4 GPUs")
    assert found.data()["chains"] == [[{"depth": 0, "eviction": 0}, {"depth": 1, "eviction": 1}]]


def test_since_leaves_out_what_was_before() -> None:
    history = displaced()
    everything = eviction_history(history)
    last = everything.displacements[-1].t
    late = eviction_history(history, since=last)
    assert 0 < len(late.displacements) < len(everything.displacements)
    assert eviction_history(history, since=last + 1).lines()[0].startswith("No pod was evicted since ")
    assert all(event.t >= last for event in subject_timeline(history, since=last).happenings)


def test_of_a_subject_both_what_it_lost_and_what_it_took() -> None:
    history = displaced()
    lost = eviction_history(history, belongs=subject_pods(history, "Deployment", "borrower", "default"))
    took = eviction_history(history, belongs=subject_pods(history, "Deployment", "third", "default"))
    assert {one.victim for one in lost.displacements} == {"Deployment default/borrower"}
    assert {one.beneficiary for one in took.displacements} == {"Deployment default/third"}


def test_a_move_is_no_eviction() -> None:
    """Each node has half its GPUs free; once its limit lets it, the large one gets a whole node, and the small ones move."""
    half = [job(f"half-{n}", "a", 1, 2, nodeSelector={"kubernetes.io/hostname": f"p0-{n}"}) for n in range(2)]
    recorder = Recorder()
    with Lab.open(fleet({"count": 2}), observers=[recorder]) as lab:
        lab.apply([queue("a"), queue("b"), *half])
        lab.settle()
        lab.apply([job("free-0", "a", 1, 1), job("free-1", "a", 1, 1)])
        lab.settle()
        lab.delete("Job", "half-0")
        lab.settle()
        lab.apply([job("whole", "b", 1, 4)])
        lab.settle()
    history = LabHistory.of_recording(recorder.recording)
    found, events = eviction_history(history), subject_timeline(history).happenings
    assert found.moves
    assert not found.displacements
    assert not [event for event in events if event.what == "evicted"]
    [moved] = [event for event in events if event.what == "moved"]
    assert sum(found.moves.values()) == len(moved.pods)
    assert "moved from p0-0 (2) by consolidation for Job default/whole of queue b" in moved.text
    assert [line for line in found.lines() if "moved to other nodes, which is no eviction: Job default/free-" in line]
