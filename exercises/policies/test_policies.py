"""Policies: the same work and the same fleet under other rules, each chosen in a scheduler configuration."""

from collections import Counter

import pytest

from kailab.lab import eventually, expect, never, stays

pytestmark = pytest.mark.exercise("policies")

HOUR = 3600

# Hours of waiting: nothing where time is virtual, too long where it is not.
takes_hours = pytest.mark.kailab_backend("embedded")


# --- whose turn it is: a weighted score ------------------------------------------------------------------------------


def both_wait(lab, tenant):
    """The team's GPUs are taken. An old gang that would fill them waits, and a young pod of a higher class."""
    lab.apply("manifests/queues-one-team.yaml", tenant)
    expect(lab.job("tenant")).runs_whole(pods=8)
    lab.apply("manifests/old-gang.yaml")
    lab.settle()


@takes_hours
def test_by_priority_the_young_pod_goes_first(lab):
    """KAI: class before age. The pod takes one of the eight GPUs, and the gang, 20 hours old, waits on."""
    both_wait(lab, "manifests/tenant-20h.yaml")
    lab.advance(19.9 * HOUR)
    lab.apply("manifests/young.yaml")

    lab.advance(0.2 * HOUR)
    expect(lab.pod("young")).running()
    expect(lab.job("old")).waits_whole(pods=8)


@takes_hours
@pytest.mark.kailab_config("config/weighted.yaml")
def test_by_score_a_long_wait_outweighs_a_class(lab):
    """0.3 x 20 h / 24 h + 0.2 for a full node is more than 0.4 for the higher class: the gang starts."""
    both_wait(lab, "manifests/tenant-20h.yaml")
    lab.advance(19.9 * HOUR)
    lab.apply("manifests/young.yaml")

    lab.advance(0.2 * HOUR)
    expect(lab.job("old")).runs_whole(pods=8)
    expect(lab.pod("young")).pending()


@takes_hours
@pytest.mark.kailab_config("config/weighted.yaml")
def test_by_score_a_short_wait_does_not(lab):
    """The same after six hours: 0.3 x 6 h / 24 h + 0.2 is less than 0.4."""
    both_wait(lab, "manifests/tenant-6h.yaml")
    lab.advance(5.9 * HOUR)
    lab.apply("manifests/young.yaml")

    lab.advance(0.2 * HOUR)
    expect(lab.pod("young")).running()
    expect(lab.job("old")).waits_whole(pods=8)


@takes_hours
@pytest.mark.kailab_config("config/weighted.yaml")
def test_explain_shows_the_score(lab):
    """Each part with its weight, which shows what would have to change for it to go first."""
    both_wait(lab, "manifests/tenant-20h.yaml")
    lab.advance(12 * HOUR)
    lab.apply("manifests/young.yaml")
    expect(lab.pod("young")).pending()

    pod = lab.explain_pod("young")
    assert pod.data()["pending"]["numbers"]["score"]["priority"] == [1.0, 0.4]
    assert any(
        line.startswith("Score: 0.4") and "priority 1.000 x 0.4 + waiting 0.000 x 0.3" in line
        for line in pod.lines(everything=True)
    )
    gang = lab.explain_podgroup(group_of(lab, "old"))
    assert gang.data()["pending"]["numbers"]["score"]["waiting"][0] == pytest.approx(0.5, abs=0.01)


def group_of(lab, app):
    return next(row.podgroup for row in lab.picture().rows if row.app == app)


# --- whose turn it is: going first after a day -----------------------------------------------------------------------


def humble_behind_a_backlog(lab, queues):
    lab.apply(queues, "manifests/backlog.yaml")
    lab.settle()
    lab.apply("manifests/humble.yaml")
    expect(lab.job("backlog")).running(pods=8)


@takes_hours
def test_by_priority_the_humble_pod_waits_for_the_end(lab):
    """A backlog of two days: for two days it does not start."""
    humble_behind_a_backlog(lab, "manifests/queues-one-team.yaml")
    never(lambda: expect(lab.pod("humble")).running(), for_=30 * HOUR)


@takes_hours
@pytest.mark.kailab_config("config/aging.yaml")
def test_after_a_day_it_goes_first(lab):
    """Not in the first 24 hours; then with the next free GPU, and it may stay for the queue's minimum runtime."""
    humble_behind_a_backlog(lab, "manifests/queues-one-team.yaml")
    never(lambda: expect(lab.pod("humble")).running(), for_=23 * HOUR)

    eventually(lambda: expect(lab.pod("humble")).running(), within=3 * HOUR)
    stays(lambda: expect(lab.pod("humble")).running(), for_=12 * HOUR)


@takes_hours
@pytest.mark.kailab_config("config/aging.yaml")
def test_a_turn_is_no_right_to_stay(lab):
    """Without a preemptMinRuntime the next pod of the backlog takes the place in the next cycle: age changes the order of
    service, not the rules of eviction."""
    humble_behind_a_backlog(lab, "manifests/queues-unprotected.yaml")
    eventually(lambda: expect(lab.pod("humble")).evicted(by="preempt", for_queue="team-a"), within=26 * HOUR)
    expect(lab.pod("humble")).no_pods()  # a pod of its own: nobody makes it anew


# --- whose work goes -------------------------------------------------------------------------------------------------


def all_lent(lab):
    """team-b borrows 12 GPUs for important work, team-c 4 for work of the lowest class, a part of it ten seconds younger."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/b-work.yaml", "manifests/c-old.yaml")
    lab.settle()
    lab.advance(10)
    lab.apply("manifests/c-new.yaml")
    expect(lab).running(gpus=32)


def test_by_queue_the_largest_borrower_pays(lab):
    """KAI: the queue furthest above its share gives first, whatever the priority of its work."""
    all_lent(lab)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).running(pods=4)
    expect(lab.queue("team-b")).evicted(pods=4)
    expect(lab.queue("team-c")).not_evicted()


@pytest.mark.kailab_config("config/lowest-newest.yaml")
def test_by_priority_the_least_and_newest_work_pays(lab):
    """The same claim; now four pods of team-c go, those that started last."""
    all_lent(lab)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).running(pods=4)
    expect(lab.app("c-new")).evicted(pods=4, by="reclaim", for_queue="owner")
    expect(lab.app("c-old")).not_evicted()
    expect(lab.queue("team-b")).not_evicted()


# --- how many go at once ---------------------------------------------------------------------------------------------


def evictions_by_cycle(lab):
    return sorted(Counter(eviction.cycle for eviction in lab.log.evictions).values())


@pytest.mark.kailab_only("others do not tell in which cycle they evicted")
def test_without_a_maximum_all_go_at_once(lab):
    all_lent(lab)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).running(pods=4)
    assert evictions_by_cycle(lab) == [4]


@pytest.mark.kailab_config("config/two-a-cycle.yaml")
def test_with_a_maximum_they_go_two_by_two(lab):
    """The owner has its four GPUs all the same, a few seconds later."""
    all_lent(lab)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).running(pods=4)
    assert evictions_by_cycle(lab) == [2, 2]


@pytest.mark.kailab_config("config/two-a-cycle.yaml")
def test_a_maximum_starves_the_gang_that_needs_more(lab):
    """Four together or none, and four evictions are never allowed in one cycle: the gang waits for ever, and its reason says so."""
    all_lent(lab)
    lab.apply("manifests/owner-gang.yaml")

    expect(lab.job("owner")).waits_whole(pods=4)
    expect(lab.queue("team-b")).not_evicted()
    tried = lab.explain_podgroup(group_of(lab, "owner")).data()["pending"]["tried"]
    assert ["reclaim", "it would take 4 evictions, and the maximum of 2 a cycle leaves 2, so it never will"] in tried


def a_gang_and_its_owner(lab):
    lab.apply("manifests/queues-lenders.yaml", "manifests/b-gang.yaml")
    expect(lab.queue("team-b")).running(gpus=32)
    lab.apply("manifests/owner-gang.yaml")


def test_a_whole_gang_goes_for_a_few_gpus(lab):
    """Below its minimum of 32 the gang could not run on, so all of it is evicted; each of its evictions has the total."""
    a_gang_and_its_owner(lab)

    expect(lab.queue("owner")).running(pods=4)
    expect(lab.app("huge")).evicted(pods=32, by="reclaim")


@pytest.mark.kailab_only("others do not say what they asked for and took")
def test_an_eviction_says_what_was_asked_for_and_taken(lab):
    a_gang_and_its_owner(lab)

    expect(lab.queue("owner")).running(pods=4)
    assert any("asked: 4 GPU; taken: 32 GPU (32 pods)" in event["message"] for event in lab.get("Event"))


@pytest.mark.kailab_config("config/four-times.yaml")
def test_with_a_ratio_a_gang_is_not_spent_on_a_few_gpus(lab):
    """Eight times what is asked for is beyond four times."""
    a_gang_and_its_owner(lab)

    expect(lab.job("owner")).waits_whole(pods=4)
    expect(lab.queue("team-b")).not_evicted()
    tried = lab.explain_podgroup(group_of(lab, "owner")).data()["pending"]["tried"]
    assert any("victims would give 32 GPU or more for the 4 GPU it asks for" in outcome for _, outcome in tried)


# --- how they go -----------------------------------------------------------------------------------------------------


def events(lab, reason):
    return [event for event in lab.get("Event") if event["reason"] == reason]


def test_without_checkpoints_the_state_is_lost(lab):
    """The victims are gone in a second or two, and the owner runs."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/saving.yaml")
    expect(lab.queue("team-b")).running(gpus=32)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).running(pods=4)
    assert not events(lab, "Checkpointed")


@pytest.mark.kailab_config("config/checkpoint.yaml")
def test_victims_keep_their_gpus_until_their_state_is_saved(lab):
    """For 25 of the 40 seconds the owner has a promise and no GPU, and nothing else is evicted for it."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/saving.yaml")
    expect(lab.queue("team-b")).running(gpus=32)
    lab.apply("manifests/owner-four.yaml")

    expect(lab.queue("owner")).pending(pods=4, reason="Pipelined")
    stays(lambda: expect(lab.queue("owner")).running(pods=0), for_=10)
    eventually(lambda: expect(lab.queue("owner")).running(pods=4), within=60)
    expect(lab.queue("team-b")).evicted(pods=4)
    assert len(events(lab, "Checkpointing")) == len(events(lab, "Checkpointed")) == 4


@pytest.mark.kailab_config("config/checkpoint.yaml")
def test_the_grace_period_has_the_last_word(lab):
    """A state that takes five minutes to save is lost after forty seconds."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/saving-slowly.yaml")
    expect(lab.queue("team-b")).running(gpus=32)
    lab.apply("manifests/owner-four.yaml")
    lab.settle()

    eventually(lambda: expect(lab.queue("owner")).running(pods=4), within=60)
    assert len(events(lab, "CheckpointLost")) == 4
    assert not events(lab, "Checkpointed")


# --- how long is searched --------------------------------------------------------------------------------------------


def test_a_search_finds_the_two_nodes(lab):
    """Which 16 of the 32 pods have to go for two whole nodes? The search tries sets of them until one works."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/full.yaml")
    expect(lab.queue("team-c")).running(gpus=32)
    lab.apply("manifests/two-nodes.yaml")

    expect(lab.job("big")).runs_whole(pods=2)
    expect(lab.app("small")).evicted(pods=16, by="preempt")


@pytest.mark.kailab_only("others count seconds, and how far they get in these depends on the machine")
@pytest.mark.parametrize("config", ["short-search.yaml", "kai-budgets.yaml"])
def test_a_budget_ends_the_search(lab_factory, manifests, config):
    """One set per job is not enough. The gang waits although a longer search would help, and its reason says so."""
    lab = lab_factory(config=str(manifests / "config" / config))
    lab.apply("manifests/queues-lenders.yaml", "manifests/full.yaml")
    expect(lab.queue("team-c")).running(gpus=32)
    lab.apply("manifests/two-nodes.yaml")

    expect(lab.job("big")).waits_whole(pods=2)
    expect(lab.app("small")).not_evicted()
    assert any("search budget" in line for line in lab.explain_podgroup(group_of(lab, "big")).lines(everything=True))


# --- KAI's own configuration -----------------------------------------------------------------------------------------


@pytest.mark.kailab_config("config/spread.yaml")
def test_placement_as_kai_configures_it(lab):
    """Plugin nodeplacement with `spread`: five pods on five nodes instead of two."""
    lab.apply("manifests/queues-lenders.yaml", "manifests/five.yaml")
    expect(lab.deployment("five")).running(pods=5).spread_over(5, "node")


@takes_hours
@pytest.mark.kailab_config("config/first-come.yaml")
def test_without_the_priority_plugin_age_decides(lab):
    """A plugin that is not listed does not count: the gang came before the pod."""
    both_wait(lab, "manifests/tenant-6h.yaml")
    lab.advance(5.9 * HOUR)
    lab.apply("manifests/young.yaml")

    lab.advance(0.2 * HOUR)
    expect(lab.job("old")).runs_whole(pods=8)
    expect(lab.pod("young")).pending()
