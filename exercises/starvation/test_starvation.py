"""Starvation: which work can be kept waiting for ever, by which work, and what helps."""

import pytest

from kailab.lab import at_least, at_most, between, eventually, expect, never, stays

pytestmark = pytest.mark.exercise("starvation")

# Hours of waiting: nothing where time is virtual, too long where it is not.
takes_hours = pytest.mark.kailab_backend("embedded")


# --- between teams: can't happen to work within quota ----------------------------------------------------------------


def test_a_flood_cannot_shut_out_a_small_team(lab):
    """100 pods of team-a fill the fleet; one pod of team-b comes last, and runs: one of the 100 makes room."""
    lab.apply("manifests/queues.yaml", "manifests/flood.yaml")
    expect(lab.queue("team-a")).running(gpus=32).pending(pods=68)

    lab.apply("manifests/one.yaml")
    expect(lab.pod("one")).running()
    expect(lab.queue("team-a")).running(gpus=31).evicted(pods=1, by="reclaim", for_queue="team-b")


@takes_hours
def test_under_the_default_scheduler_a_flood_shuts_everyone_out(baseline_lab):
    """The contrast: nothing ends, so the one pod waits for ever."""
    baseline_lab.apply("manifests/queues.yaml", "manifests/flood.yaml")
    baseline_lab.settle()
    baseline_lab.apply("manifests/one.yaml")

    never(lambda: expect(baseline_lab.pod("one")).running(), for_=24 * 3600)


# --- inside a team: can happen, and is asked for ---------------------------------------------------------------------


@takes_hours
def test_low_priority_starves_behind_high(lab):
    """While `build` work waits in the queue, `train` work of the same queue does not start: hours of it."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/important.yaml", "manifests/humble.yaml")

    expect(lab.job("important")).running(pods=8)
    never(lambda: expect(lab.pod("humble")).running(), for_=8 * 3600)


def test_explain_says_what_holds_it_and_who_is_ahead(lab):
    """It is not the fleet (24 GPUs are idle) but the team's limit; and the waiting rest of the backlog comes first."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/important.yaml")
    expect(lab.job("important")).running(pods=8)
    lab.apply("manifests/humble.yaml")
    expect(lab.pod("humble")).pending(pods=1, reason="OverLimit")

    team = lab.explain_queue("team-a").data()
    assert team["allocated"] == team["limit"] == 8_000  # milli-GPU
    ahead = lab.explain_pod("humble").data()["ahead"]
    assert len(ahead) == 1
    assert ahead[0].startswith("pg-important-")


@takes_hours
def test_it_runs_when_the_backlog_is_done(lab):
    """400 pods, eight at a time, ten minutes each: 50 rounds, more than eight hours. Then it is its turn."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/important.yaml", "manifests/humble.yaml")

    eventually(lambda: expect(lab.pod("humble")).running(), within=50 * 605)
    expect(lab.job("important")).running(pods=at_most(7))


# --- by size: a big gang behind a stream of small jobs ---------------------------------------------------------------


@takes_hours
def test_a_big_gang_starves_behind_small_jobs(lab):
    """Every minute a GPU comes free, and a small Job, younger than the gang, takes it. Eight are never free at once."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/small-jobs.yaml")
    lab.advance(20 * 60)
    lab.apply("manifests/big-gang.yaml")

    stays(lambda: expect(lab.job("big")).waits_whole(pods=8), for_=1800)
    expect(lab.app("small")).running(pods=between(7, 8)).no_pending()


@takes_hours
def test_a_higher_class_gets_the_gang_in(lab):
    """One class up, still preemptible: the gang starts at once, and the small Jobs wait for it."""
    lab.apply("manifests/queues-one-team.yaml", "manifests/small-jobs.yaml")
    lab.advance(20 * 60)
    lab.apply("manifests/big-gang-first.yaml")

    expect(lab.job("big")).runs_whole(pods=8)
    expect(lab.app("small")).running(pods=0).evicted(pods=at_least(7), by="preempt", for_queue="team-a")


# --- over time: yesterday does not count, unless it is told to -------------------------------------------------------


@takes_hours
def test_without_memory_a_newcomer_gets_half(lab):
    """team-a had the whole fleet for six hours. Plain fair share ignores this: 16 and 16, from now on."""
    lab.apply("manifests/queues-equal.yaml", "manifests/a-train.yaml")
    lab.advance(6 * 3600)
    lab.apply("manifests/b-train.yaml")

    stays(lambda: expect(lab.queue("team-b")).running(gpus=16), for_=6 * 3600)


@takes_hours
@pytest.mark.kailab_config(k_value=1.0)
def test_with_memory_a_newcomer_is_made_good(lab):
    """Time-based fairness: a team with little past use gets more now, until both have had the same."""
    lab.apply("manifests/queues-equal.yaml", "manifests/a-train.yaml")
    lab.advance(6 * 3600)

    lab.apply("manifests/b-train.yaml")
    expect(lab.queue("team-b")).running(gpus=at_least(30))
    lab.advance(3 * 3600)
    expect(lab.queue("team-b")).running(gpus=between(22, 25))
    lab.advance(3 * 3600)
    expect(lab.queue("team-b")).running(gpus=between(19, 21))


@takes_hours
@pytest.mark.kailab_config(k_value=1.0)
def test_memory_leaves_quota_alone(lab):
    """Past use affects only borrowing: 16 GPUs that team-a owns stay its own, whatever it used before."""
    lab.apply("manifests/queues.yaml", "manifests/a-train.yaml")
    lab.advance(6 * 3600)
    lab.apply("manifests/b-train.yaml")

    stays(lambda: expect(lab.queue("team-a")).running(gpus=16), for_=3600)


@takes_hours
def test_two_gangs_without_memory_one_starves(lab):
    """Two teams with the same claim, each with a gang as big as the fleet. A share of 16 does not help the second."""
    lab.apply("manifests/queues-equal.yaml", "manifests/a-gang.yaml")
    lab.advance(2 * 3600)
    lab.apply("manifests/b-gang.yaml")

    expect(lab.queue("team-b")).fair_share(gpus=16)
    stays(lambda: expect(lab.job("b-gang")).waits_whole(pods=32), for_=24 * 3600)


@takes_hours
@pytest.mark.kailab_config(k_value=2.0)
def test_two_gangs_with_memory_take_turns(lab):
    """With past use included, team-b's share grows to the whole fleet, and later team-a's does again."""
    lab.apply("manifests/queues-equal.yaml", "manifests/a-gang.yaml")
    lab.advance(2 * 3600)

    lab.apply("manifests/b-gang.yaml")
    expect(lab.queue("team-b")).fair_share(gpus=32)
    expect(lab.job("b-gang")).runs_whole(pods=32)
    expect(lab.job("a-gang")).running(pods=0).evicted(pods=32, by="reclaim", for_queue="team-b")
    stays(lambda: expect(lab.job("b-gang")).runs_whole(pods=32), for_=5 * 3600)
    eventually(lambda: expect(lab.job("a-gang")).runs_whole(pods=32), within=2 * 3600)
