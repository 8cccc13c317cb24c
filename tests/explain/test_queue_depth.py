"""Work that a bounded queue depth keeps from its turn, in a lab that is at rest."""

from __future__ import annotations

from kailab.lab.answer import CauseCode
from tests.explain.building import queue
from tests.explain.node_building import deployment, opened, pod, pool, put, told

ONE_JOB = {"queueDepthPerAction": {"allocate": 1}}


def test_replicas_whose_places_are_given_and_taken_again_run_once_others_have_gone() -> None:
    limited = queue("team", quota=-1, cpu={"quota": -1, "limit": 4000, "overQuotaWeight": 1})
    with opened(pool("n", 1, 4, gpuMemory="80Gi"), config=ONE_JOB) as lab:
        put(lab, limited, pod("h", 1, cpu="4", priority="build"))
        put(lab, deployment("x", 4, cpu="1", annotations={"gpu-memory": "40000"}))
        assert told(lab, "Deployment", "x")[:2] == ("later", CauseCode.OVER_LIMIT)
        lab.delete("Pod", "h")
        lab.settle()
        assert told(lab, "Deployment", "x")[0] == "running"


def test_work_that_is_behind_others_is_told_so_whatever_the_next_cycle_would_remember() -> None:
    with opened(pool("n", 1, 8), config=ONE_JOB) as lab:
        put(lab, pod("runs", 1))
        put(lab, deployment("large", 1, 16))
        put(lab, pod("x", 2))
        verdict, code, sentence = told(lab, "Pod", "x")
        assert (verdict, code) == ("later", CauseCode.BEHIND_OTHERS)
        assert "large" in sentence
        lab.delete("Deployment", "large")
        lab.settle()
        assert told(lab, "Pod", "x")[0] == "running"
