"""What keeps a pod waiting by a queue's rules, taken away, lets it run or brings up another cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from kailab.lab import Lab
from kailab.lab.answer import Cause, CauseCode
from tests.explain.building import causes, lab, pods, queue, settled

LEAVES = ("a", "b", "c")
PARENTS = {"a": "x", "b": "x", "c": "y"}


def _amount(name: str, **fields: Any) -> Callable[[Lab, Cause], None]:
    def change(found: Lab, cause: Cause) -> None:
        patch = {"spec": {"resources": {cause.facts["resource"]: fields}}}
        found.patch("Queue", cause.facts[name], patch)

    return change


def _others_poor(found: Lab, cause: Cause) -> None:
    own = {cause.facts["queue"], *(PARENTS[one] for one in LEAVES if one == cause.facts["queue"])}
    for name in (*LEAVES, *set(PARENTS.values())):
        if name not in own and PARENTS.get(cause.facts["queue"]) != name:
            found.patch("Queue", name, {"spec": {"resources": {"gpu": {"quota": 0}}}})


def _wait(found: Lab, cause: Cause) -> None:
    found.advance(cause.facts["until"] - found.cluster.now() + 1)


def _victims_gone(found: Lab, cause: Cause) -> None:
    groups = {f"{one.namespace}/{one.name}" for one in cause.objects if one.kind == "PodGroup"}
    for name in sorted(row.name for group in groups for row in found.picture().by_group[group]):
        found.delete("Pod", name.partition("/")[2])


TAKEN_AWAY: dict[CauseCode, Callable[[Lab, Cause], None]] = {
    CauseCode.OVER_LIMIT: _amount("queue", limit=-1),
    CauseCode.NON_PREEMPTIBLE_OVER_QUOTA: _amount("queue", quota=-1),
    CauseCode.FAIR_SHARE_REACHED: _amount("queue", quota=-1),
    CauseCode.NO_WEIGHT: _amount("queue", overQuotaWeight=5),
    CauseCode.VICTIMS_WITHIN_QUOTA: _others_poor,
    CauseCode.VICTIMS_PROTECTED: _wait,
    CauseCode.VICTIMS_NON_PREEMPTIBLE: _victims_gone,
    CauseCode.PREEMPTION_DELAY: _wait,
    CauseCode.BEHIND_OTHERS: _victims_gone,
}


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Any], list[list[Any]], list[tuple[str, Any]], Any]:
    """Queues as they are first, what is applied one after the other, patches of quotas, and the pod that is asked about."""
    quotas = st.sampled_from([0, 2, 4, 8])
    queues = [queue(name, draw(quotas), -1, draw(st.sampled_from([0, 1, 3]))) for name in ("x", "y")]
    for name in LEAVES:
        runtime = draw(st.sampled_from([{}, {}, {"reclaimMinRuntime": "5m", "preemptMinRuntime": "5m"}]))
        limit, weight = draw(st.sampled_from([-1, -1, -1, -1, 3])), draw(st.sampled_from([0, 1, 1]))
        queues.append(queue(name, draw(quotas), limit, weight, PARENTS[name], **runtime))
    waves = []
    for number in range(draw(st.integers(1, 3))):
        count, leaf = 4 if number else draw(st.sampled_from([5, 8])), draw(st.sampled_from(LEAVES))
        priority = draw(st.sampled_from(["train", "train", "inference"]))
        waves.append(pods(count, f"wave-{number}", leaf, priority=priority, gpus=1))
    patches = [
        (name, {"spec": {"resources": {"gpu": {"quota": draw(quotas)}}}})
        for name in draw(st.lists(st.sampled_from(LEAVES), max_size=2))
    ]
    delay = draw(st.sampled_from([{}, {}, {"preemption_delay": "2m"}]))
    [asked] = pods(
        1, "asked", draw(st.sampled_from(LEAVES)), priority=draw(st.sampled_from(["train", "train", "train", "build"])),
        gpus=draw(st.sampled_from([1, 2])), **delay,
    )  # fmt: skip
    return queues, waves, patches, asked


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(situations())
def test_a_cause_taken_away_lets_it_run_or_brings_up_another(situation) -> None:
    queues, waves, patches, asked = situation
    with lab() as found:
        settled(found, *queues)
        for wave in waves:
            settled(found, *wave)
        for name, patch in patches:
            found.patch("Queue", name, patch)
            found.settle()
        settled(found, asked)
        before = causes(found, "Pod", "asked-0")
        event(str(before[0].code) if before else "runs")
        if not before or before[0].code not in TAKEN_AWAY:
            return
        TAKEN_AWAY[before[0].code](found, before[0])
        found.settle()
        after = causes(found, "Pod", "asked-0")
        same = after and (after[0].code, after[0].facts.get("queue")) == (before[0].code, before[0].facts.get("queue"))
        if same and TAKEN_AWAY[before[0].code] is _victims_gone:
            # Others have taken the room of these victims, and what holds it now may be as far out of reach.
            same = not set(after[0].objects).isdisjoint(before[0].objects)
        assert not same, (before[0].sentence, after[0].sentence)
