"""A pod's life on a real control plane with KWOK is the one that it has on the embedded cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

PATIENCE_SECONDS = 300
Pod = dict[str, Any]


def container(pod: Pod) -> Pod:
    return (pod["status"].get("containerStatuses") or [{}])[0]


def running(pod: Pod) -> bool:
    return bool(pod["status"]["phase"] == "Running")


def ended(pod: Pod) -> bool:
    return bool(pod["status"]["phase"] in ("Succeeded", "Failed"))


def waiting(restarts: int) -> Callable[[Pod], bool]:
    return lambda pod: container(pod).get("restartCount") == restarts and "waiting" in container(pod)["state"]


def again(restarts: int) -> Callable[[Pod], bool]:
    return lambda pod: container(pod).get("restartCount") == restarts and "running" in container(pod)["state"]


@dataclass
class Life:
    """``until``: the moment to look at. ``facts``: (phase, state of the first container, its exit code and reason now or
    last, restarts)."""

    until: Callable[[Pod], bool]
    facts: tuple[str, str, int | None, str, int]
    annotations: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)


def _runs(seconds: str, **spec: Any) -> dict[str, Any]:
    return {"annotations": {"kailab.dev/run-seconds": seconds}, "spec": spec}


def _fails(text: str, **spec: Any) -> dict[str, Any]:
    return {"annotations": {"kailab.dev/fail": text}, "spec": spec}


_TWO = [{"name": "one", "image": "a"}, {"name": "two", "image": "b"}]
_RUNS = ("Running", "running", None, "", 0)

LIVES = {
    "ready": Life(running, _RUNS),
    "ready-late": Life(running, _RUNS, {"kailab.dev/ready-seconds": "2.5"}),
    "ready-at-once": Life(running, _RUNS, {"kailab.dev/ready-seconds": "0"}),
    "two-containers-and-inits": Life(
        running, _RUNS, {}, {"containers": _TWO, "initContainers": [{**_TWO[0], "name": "i"}]}
    ),
    "on-the-host": Life(running, _RUNS, {}, {"hostNetwork": True}),
    "runs-never": Life(ended, ("Succeeded", "terminated", 0, "Completed", 0), **_runs("2", restartPolicy="Never")),
    "runs-onfailure": Life(
        ended, ("Succeeded", "terminated", 0, "Completed", 0), **_runs("1.5", restartPolicy="OnFailure")
    ),
    "runs-always": Life(waiting(1), ("Running", "waiting", 0, "Completed", 1), **_runs("1")),
    "runs-always-again": Life(again(1), ("Running", "running", 0, "Completed", 1), **_runs("1")),
    "fails-never": Life(ended, ("Failed", "terminated", 1, "Error", 0), **_fails("1", restartPolicy="Never")),
    "fails-onfailure": Life(
        waiting(1), ("Running", "waiting", 1, "Error", 1), **_fails("1", restartPolicy="OnFailure")
    ),
    "fails-always": Life(waiting(1), ("Running", "waiting", 1, "Error", 1), **_fails("1")),
    "fails-by-name": Life(
        ended, ("Failed", "terminated", 1, "Xid: 79", 0), **_fails("1:Xid: 79", restartPolicy="Never")
    ),
    "oom-never": Life(
        ended, ("Failed", "terminated", 137, "OOMKilled", 0), **_fails("1:OOMKilled", restartPolicy="Never")
    ),
    "oom-always": Life(waiting(1), ("Running", "waiting", 137, "OOMKilled", 1), **_fails("1:OOMKilled")),
    "both-fail": Life(
        ended, ("Failed", "terminated", 1, "Error", 0), **_fails("1", restartPolicy="Never", containers=_TWO)
    ),
    "crashes-twice": Life(waiting(2), ("Running", "waiting", 1, "Error", 2), **_fails("1")),
    "backs-off-longer": Life(again(2), ("Running", "running", 1, "Error", 2), **_fails("1")),
    "fails-before-its-end": Life(
        ended,
        ("Failed", "terminated", 1, "Error", 0),
        {"kailab.dev/run-seconds": "3", "kailab.dev/fail": "1"},
        {"restartPolicy": "Never"},
    ),
    "ends-before-it-fails": Life(
        ended,
        ("Succeeded", "terminated", 0, "Completed", 0),
        {"kailab.dev/run-seconds": "1", "kailab.dev/fail": "3"},
        {"restartPolicy": "Never"},
    ),
}


@pytest.fixture(scope="module")
def lived(real: Any) -> dict[str, Pod]:
    """Each life of ``LIVES`` on the real cluster, side by side: the pod at the moment to look at, or as it was last seen."""
    cluster = real.cluster
    watch = cluster.watch(["Pod"])
    for name, life in LIVES.items():
        real.start(name, life.annotations, **life.spec)
    seen: dict[str, Pod] = {}
    open_lives = dict(LIVES)
    end = time.monotonic() + PATIENCE_SECONDS
    while open_lives and time.monotonic() < end:
        for event in watch.poll():
            name = event.object["metadata"]["name"]
            if name in open_lives:
                seen[name] = event.object
                if open_lives[name].until(event.object):
                    del open_lives[name]
        cluster.wait(0.5)
    watch.close()
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", LIVES)
def test_a_pod_lives_the_same(embedded: Any, lived: dict[str, Pod], name: str) -> None:
    life = LIVES[name]
    embedded.start(name, life.annotations, **life.spec)
    virtual, real = embedded.until(name, life.until), lived[name]
    assert virtual is not None
    assert embedded.facts(virtual) == embedded.facts(real) == life.facts
    assert embedded.told(real) == embedded.told(virtual)
    # Nothing happens before its time. How much later, a busy machine decides.
    took, least = embedded.spans(real), embedded.spans(virtual)
    assert len(took) == len(least)
    assert all(a >= b for a, b in zip(took, least))
