"""How deleted pods leave, the same on the embedded cluster and on a real control plane with KWOK."""

from __future__ import annotations

from typing import Any

import pytest

from kailab.model.objects import involved_of

pytestmark = pytest.mark.slow
SECONDS, REQUESTED, DONE = (f"kailab.dev/checkpoint-{part}" for part in ("seconds", "requested", "done"))
TERMINATION = "kailab.dev/termination-seconds"


def running(pod: dict[str, Any]) -> bool:
    return bool(pod["status"]["phase"] == "Running")


@pytest.fixture(params=["embedded", "real"])
def place(request: pytest.FixtureRequest) -> Any:
    found: Any = request.getfixturevalue(request.param)
    return found


def leaving(place: Any, name: str, grace: float | None, annotations: dict[str, str], **more: object) -> None:
    place.start(name, annotations, **more)
    place.until(name, lambda pod: running(pod))
    place.cluster.delete("Pod", name, "default", grace)


def test_deleted_pods_go_each_in_its_time_and_none_after_its_grace(place: Any) -> None:
    names = {"quick": {}, "lingers": {TERMINATION: "20"}, "cut-short": {TERMINATION: "100000"}}
    for name, notes in names.items():
        place.start(name, notes)
    for name in names:
        place.until(name, lambda pod: running(pod))
    place.cluster.delete("Pod", "lingers", "default", 60)
    place.cluster.delete("Pod", "quick", "default", 20)
    place.gone("quick")
    lingers = place.pod("lingers")
    assert lingers is not None
    assert lingers["metadata"]["deletionGracePeriodSeconds"] == 60
    assert running(lingers)
    place.gone("lingers")
    place.cluster.delete("Pod", "cut-short", "default", 2)
    place.gone("cut-short")


def hooked(**hook: Any) -> list[dict[str, Any]]:
    return [{"name": "main", "image": "pause", "lifecycle": {"preStop": hook}}]


def test_a_pre_stop_hook_takes_its_time_within_the_grace(place: Any) -> None:
    """One that sleeps, for as long as it says; one that nobody can look into, for the whole grace period."""
    hooks = {
        "action": hooked(sleep={"seconds": 20}),
        "command": hooked(exec={"command": ["/bin/sh", "-c", "sleep 20"]}),
        "opaque": hooked(exec={"command": ["save", "--all"]}),
        "told": hooked(exec={"command": ["save", "--all"]}),
    }
    for name, containers in hooks.items():
        place.start(name, {TERMINATION: "1"} if name == "told" else {}, containers=containers)
    for name in hooks:
        place.until(name, lambda pod: running(pod))
        place.cluster.delete("Pod", name, "default", 120)
    place.gone("told")
    for name in ("action", "command", "opaque"):
        assert place.pod(name) is not None, name
    place.gone("action")
    place.gone("command")
    assert place.pod("opaque") is not None
    place.cluster.delete("Pod", "opaque", "default", 1)
    place.gone("opaque")


def test_a_pod_that_never_got_ready_goes_too(place: Any) -> None:
    place.start("early", {"kailab.dev/ready-seconds": "100000"})
    place.cluster.delete("Pod", "early", "default", 2)
    place.gone("early")


def test_deleted_without_grace_is_gone_at_once(place: Any) -> None:
    leaving(place, "at-once", 0, {})
    place.gone("at-once")


@pytest.mark.parametrize("grace", [0, 3])
def test_a_finalizer_holds_an_ended_pod(place: Any, grace: int) -> None:
    name = f"held-{grace}"
    leaving(place, name, grace, {TERMINATION: "1"}, finalizers=["kailab.dev/held"])
    held = place.until(name, lambda pod: pod["status"]["phase"] == "Failed" and place.told(pod)["grace"] == 0)
    assert held is not None
    assert place.facts(held) == ("Failed", "terminated", 143, "Error", 0)
    assert place.told(held)["held by"] == ["kailab.dev/held"]
    assert place.told(held)["conditions"]["Ready"] == ("False", "PodFailed", "")
    place.cluster.patch("Pod", name, "default", {"metadata": {"finalizers": None}})
    place.gone(name)


def test_a_finalizer_does_not_change_how_a_pod_has_ended(place: Any) -> None:
    place.start("held-done", {"kailab.dev/run-seconds": "1"}, restartPolicy="Never", finalizers=["kailab.dev/held"])
    place.until("held-done", lambda pod: pod["status"]["phase"] == "Succeeded")
    place.cluster.delete("Pod", "held-done", "default")
    held = place.until("held-done", lambda pod: "deletionTimestamp" in pod["metadata"])
    assert held is not None
    assert place.facts(held) == ("Succeeded", "terminated", 0, "Completed", 0)
    place.cluster.patch("Pod", "held-done", "default", {"metadata": {"finalizers": None}})
    place.gone("held-done")


def test_a_finalizer_let_go_early_leaves_the_pod_its_time(place: Any) -> None:
    leaving(place, "let-go", 60, {TERMINATION: "20"}, finalizers=["kailab.dev/held"])
    place.cluster.patch("Pod", "let-go", "default", {"metadata": {"finalizers": None}})
    left = place.pod("let-go")
    assert left is not None
    assert running(left)
    place.gone("let-go")


@pytest.mark.parametrize(
    ("name", "grace", "annotations", "said"),
    [
        ("saves", 30, {SECONDS: "1"}, ("Normal", "Checkpointed", "It saved its state before it left")),
        (
            "saves-too-slowly",
            2,
            {SECONDS: "100000"},
            ("Warning", "CheckpointLost", "Its grace period ended before its state was saved"),
        ),
        (
            "has-saved",
            100000,
            {SECONDS: "90000", DONE: "yes"},
            ("Normal", "Checkpointed", "It saved its state before it left"),
        ),
    ],
)
def test_a_pod_asked_to_save_its_state(
    place: Any, name: str, grace: int, annotations: dict[str, str], said: tuple[str, str, str]
) -> None:
    leaving(place, name, grace, {**annotations, REQUESTED: "2026-01-01T00:00:00Z"})
    place.gone(name)
    assert place.said(name) == [said]


def test_a_pod_says_that_it_has_saved_its_state(place: Any) -> None:
    leaving(place, "says-so", 100000, {SECONDS: "90000", REQUESTED: "2026-01-01T00:00:00Z"})
    place.cluster.patch("Pod", "says-so", "default", {"metadata": {"annotations": {DONE: "yes"}}})
    place.gone("says-so")
    assert place.said("says-so") == [("Normal", "Checkpointed", "It saved its state before it left")]


def test_a_checkpoint_of_a_pod_that_a_finalizer_holds(place: Any) -> None:
    annotations = {SECONDS: "1", REQUESTED: "2026-01-01T00:00:00Z"}
    leaving(place, "saves-held", 30, annotations, finalizers=["kailab.dev/held"])
    held = place.until("saves-held", lambda pod: place.told(pod)["grace"] == 0)
    assert held is not None
    assert place.facts(held) == ("Failed", "terminated", 143, "Error", 0)
    assert place.said("saves-held") == [("Normal", "Checkpointed", "It saved its state before it left")]
    place.cluster.patch("Pod", "saves-held", "default", {"metadata": {"finalizers": None}})
    place.gone("saves-held")


def test_a_pod_that_was_not_asked_saves_nothing(place: Any) -> None:
    leaving(place, "not-asked", 20, {SECONDS: "100000"})
    place.gone("not-asked")
    leaving(place, "asked-after-it", 20, {SECONDS: "1", REQUESTED: "2026-01-01T00:00:00Z"})
    assert place.said("asked-after-it")
    reasons = {involved_of(event).get("name"): event["reason"] for event in place.cluster.list("Event", "default")}
    assert "not-asked" not in reasons


def test_a_pod_that_others_change_goes_on_with_its_life(place: Any) -> None:
    place.start("changed", {"kailab.dev/ready-seconds": "2", "kailab.dev/run-seconds": "2"}, restartPolicy="Never")
    place.cluster.patch("Pod", "changed", "default", {"metadata": {"labels": {"touched": "once"}}})
    place.until("changed", lambda pod: running(pod))
    place.cluster.patch("Pod", "changed", "default", {"metadata": {"labels": {"touched": "twice"}}})
    done = place.until("changed", lambda pod: pod["status"]["phase"] == "Succeeded")
    assert done is not None
    assert done["metadata"]["labels"] == {"touched": "twice"}
