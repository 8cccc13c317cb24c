"""Processes that die: the scheduler again and again, the API server, its store, a leader beside its standby."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from tests.faults import work
from tests.faults.api import patiently
from tests.faults.conftest import Candidate, Field
from tests.faults.proxy import Proxy

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KAILAB_FAULT_KILLS", "20"))
"""Of the scheduler. Few in CI; 50 and more in a search for what CI's do not meet."""
SEED = 7
# Shorter than a test has patience for, and long enough for a busy machine to renew it.
TERMS = ("--lease-duration", "12", "--renew-deadline", "9", "--retry-period", "1")


def test_a_scheduler_killed_again_and_again(field: Field) -> None:
    """At random moments from its start on, while gangs and single pods come and go."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    field.fleet(work.twenty())
    names = ("team-a", "team-b", "team-c", "team-d")
    field.create(*work.queues(160, *names), work.flood("flood", 60))
    gangs: dict[str, int] = {}
    scheduler, starts = field.scheduler(), 0
    for number in range(KILLS):
        if len(gangs) == 8:  # 12 GPUs each at most: all fit beside the flood
            gone = chance.choice(sorted(gangs))
            del gangs[gone]
            for attempt in patiently():
                with attempt:
                    field.api.delete("ReplicaSet", gone, propagationPolicy="Background")
                    field.api.delete("PodGroup", gone)
        name = f"gang-{number}"
        gangs[name] = chance.randint(2, 12)
        field.create(*work.gang(name, chance.choice(names), gangs[name]))
        if chance.random() < 0.9:  # else it may die before it has begun
            field.until(lambda seen, before=starts: scheduler.said.count("leading") > before, "it has begun")
        time.sleep(chance.uniform(0.0, 1.5))
        field.look()
        scheduler.crash()
        starts = scheduler.said.count("leading")
        scheduler.again()
    field.settled({**gangs, "flood": 60}, sum(gangs.values()) + 60)
    field.nobody_restarted()


@pytest.mark.parametrize("name", ["kube-apiserver", "etcd"])
def test_a_server_started_anew_while_filling(field: Field, name: str) -> None:
    scheduler = field.scheduler()
    filling = work.filling()
    field.create(*filling.objects)
    field.until(lambda seen: sum(seen.used().values()) > 0, "the first pods are bound")
    field.plane.kill(name, signal.SIGKILL)
    time.sleep(2.0)
    field.plane.restart(name)
    field.create(work.job("late", "team-a", 2))
    field.until(lambda seen: len(seen.of("late")) == 2, "the controllers are at work again")
    for attempt in patiently():
        with attempt:
            field.api.delete("Job", "late", propagationPolicy="Background")
    field.settled(filling.owed, filling.full)
    assert scheduler.running


def holder(field: Field) -> str:
    for attempt in patiently():
        with attempt:
            leases = field.api.list("Lease", "kai-scheduler")
    return str(leases[0]["spec"].get("holderIdentity") or "") if leases else ""


def two(field: Field) -> tuple[dict[str, Candidate], dict[str, Proxy]]:
    """Candidates by identity, each behind a proxy that counts what it writes."""
    candidates: dict[str, Candidate] = {}
    proxies: dict[str, Proxy] = {}
    for identity in ("first", "second"):
        proxy = proxies[identity] = field.proxy()
        candidates[identity] = field.scheduler(
            "--identity", identity, *TERMS, kubeconfig=proxy.kubeconfig, elected=True
        )
    return candidates, proxies


def led(field: Field) -> tuple[work.Work, str]:
    """A filling under way, and who leads."""
    filling = work.filling()
    field.create(*filling.objects)
    field.until(lambda seen: sum(seen.used().values()) > 0, "the first pods are bound")
    return filling, holder(field)


def test_a_leader_that_dies(field: Field) -> None:
    candidates, _ = two(field)
    filling, leader = led(field)
    candidates[leader].crash()
    field.create(work.pod("late", "team-b", 0))
    field.settled({**filling.owed, "late": 1}, filling.full)
    assert holder(field) not in ("", leader)


def test_a_leader_that_is_frozen_beyond_its_lease(field: Field) -> None:
    """When it goes on, another one leads, and it writes nothing any more: it only asks for the lease."""
    candidates, proxies = two(field)
    filling, leader = led(field)
    candidates[leader].freeze()
    proxies[leader].take_in()
    frozen = time.monotonic()
    field.until(lambda seen: holder(field) not in ("", leader), "the other one leads")
    candidates[leader].signal(signal.SIGCONT)
    field.create(work.pod("late", "team-b", 0))
    field.settled({**filling.owed, "late": 1}, filling.full)
    written = [
        (one.method, one.path)
        for one in proxies[leader].since(frozen)
        if one.writes and not one.path.startswith("/apis/coordination.k8s.io/")
    ]
    assert written == []
    assert any(one.writes for one in proxies[holder(field)].since(frozen))
    field.nobody_restarted()
