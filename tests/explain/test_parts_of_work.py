"""A pod, its PodGroup, its workload and its queue are told one cause, whichever of them is asked about."""

from __future__ import annotations

from kailab.advice.audit import audit
from kailab.explain.questions import ask
from kailab.lab import Lab
from kailab.lab.answer import CauseCode
from tests.explain.building import queue
from tests.explain.node_building import change_node, deployment, opened, pool, put

RESERVED = pool("h100", 1, taints=[{"key": "reserved", "value": "llm", "effect": "NoSchedule"}])
CORDON = {"spec": {"unschedulable": True}}


def ready(state: str) -> dict[str, object]:
    return {"status": {"conditions": [{"type": "Ready", "status": state}]}}


def told_by_all(lab: Lab, name: str) -> set[tuple[str, str]]:
    """Code and sentence of the first cause, for each subject that the Deployment's waiting pods are part of."""
    pods = [pod for pod in lab.cluster.list("Pod", "default") if not pod["spec"].get("nodeName")]
    subjects = [("Deployment", name), ("Queue", "team")]
    for pod in pods:
        subjects.append(("Pod", pod["metadata"]["name"]))
        subjects.append(("PodGroup", pod["metadata"]["annotations"]["pod-group-name"]))
    answers = [ask(lab, kind, each, tried=False) for kind, each in subjects]
    causes = [answer.cause for answer in answers]
    return {
        (str(cause.code), cause.sentence.removeprefix(f"Deployment {name}: ")) for cause in causes if cause is not None
    } | ({("", "")} if None in causes else set())


def test_a_closed_node_that_its_own_workload_fills_is_no_place_for_it() -> None:
    """Opening the cordoned node alone lets no pod run; without the taint the other node takes it."""
    with opened(pool("a100", 1), RESERVED) as lab:
        put(lab, deployment("d", 2, 8))
        change_node(lab, "a100-0", CORDON)
        lab.settle()
        [(code, sentence)] = told_by_all(lab, "d")
        assert code == CauseCode.TAINT_NOT_TOLERATED
        assert "h100-0" in sentence
        [finding] = [one for one in audit(lab).findings if one.numbers.get("cause")]
        assert finding.numbers["cause"] == code
        with lab.fork() as fork:
            change_node(fork, "a100-0", {"spec": {"unschedulable": None}})
            fork.settle()
            assert ask(fork, "Deployment", "d", tried=False).running == 1
        change_node(lab, "h100-0", {"spec": {"taints": None}})
        lab.settle()
        assert ask(lab, "Deployment", "d", tried=False).running == 2


def test_pods_that_can_t_terminate_do_not_fill_the_node_once_it_is_ready() -> None:
    """Its evicted pod stays on the node that is not ready. Its other pod fills the only node that is."""
    with opened(pool("a100", 2), RESERVED) as lab:
        put(lab, deployment("d", 2, 8))
        change_node(lab, "a100-0", ready("False"))
        lab.settle()
        lab.advance(600)
        [(code, sentence)] = told_by_all(lab, "d")
        assert code == CauseCode.NODES_CORDONED
        assert "a100-0" in sentence
        change_node(lab, "a100-0", ready("True"))
        lab.settle()
        assert ask(lab, "Deployment", "d", tried=False).running == 2


def test_all_that_the_workload_wants_is_told_by_each_of_its_parts() -> None:
    with opened(pool("a100", 2)) as lab:
        put(lab, deployment("d", 3, 8))
        [(code, sentence)] = told_by_all(lab, "d")
        assert code == CauseCode.NOT_ENOUGH_GPUS
        assert "Its 3 pods want 24 GPUs, and the nodes that they may use have 16 in all" in sentence


def test_other_pods_of_its_workload_are_not_work_in_front_of_it() -> None:
    """A gang at the head of the queue keeps both pods waiting, and the queue's quota has room for one of them."""
    with opened(pool("a100", 1)) as lab:
        put(lab, queue("team", quota=1), queue("away", quota=7))
        put(lab, deployment("held", 8, 1, queue="away"))
        put(lab, deployment("large", 1, 7), deployment("d", 2, 1))
        waiting = [pod for pod in lab.cluster.list("Pod", "default") if not pod["spec"].get("nodeName")]
        names = [pod["metadata"]["name"] for pod in waiting if pod["metadata"]["labels"]["app"] == "d"]
        assert len(names) == 2
        told = {_cause_of(lab, kind, name) for kind, name in (("Deployment", "d"), *(("Pod", name) for name in names))}
        told |= {_cause_of(lab, "Queue", "team", f"default/{name}") for name in names}
    [(code, sentence)] = told
    assert code == CauseCode.BEHIND_OTHERS
    assert "Deployment large (7 GPUs) waits before it" in sentence
    assert "Deployment d" not in sentence


def _cause_of(lab: Lab, kind: str, name: str, pod: str = "") -> tuple[str, str]:
    """The first cause of a pod of the subject, or of its first group."""
    groups = ask(lab, kind, name, tried=False).groups
    cause = next(group.causes[0] for group in groups if not pod or pod in group.pods)
    return str(cause.code), cause.sentence
