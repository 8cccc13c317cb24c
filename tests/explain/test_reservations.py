"""A pod that is held back for a place that is kept free: what is said of it."""

from __future__ import annotations

from kailab.lab.answer import CauseCode
from kailab.model.labels import EXPECTED_SECONDS, RUN_SECONDS
from tests.explain.node_building import opened, pod, pool, put, told

BACKFILL = {"kailab": {"reservation": "backfill"}}


def lasting(seconds: int) -> dict[str, str]:
    return {EXPECTED_SECONDS: str(seconds), RUN_SECONDS: str(seconds)}


def test_it_is_told_for_whom_the_place_is_kept_and_runs_once_that_one_is_gone() -> None:
    with opened(pool("n", 1, 8), config=BACKFILL) as lab:
        put(lab, pod("runs", 6, annotations=lasting(3600)))
        put(lab, pod("large", 8, annotations=lasting(600)))
        put(lab, pod("late", 2, annotations=lasting(7200)))
        verdict, code, sentence = told(lab, "Pod", "late")
        assert (verdict, code) == ("later", CauseCode.BEHIND_OTHERS)
        assert "it is kept free from 2026-01-01T01:" in sentence
        assert "for Pod large, which comes first" in sentence
        [condition] = lab.get("Pod", "late")["status"]["conditions"]
        assert condition["message"].startswith("Reserved: there is room, and it is kept free")
        put(lab, pod("short", 2, annotations=lasting(600)))
        assert told(lab, "Pod", "short")[0] == "running"
        lab.delete("Pod", "large")
        lab.delete("Pod", "short")
        lab.settle()
        assert told(lab, "Pod", "late")[0] == "running"
