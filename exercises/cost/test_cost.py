"""The cost of GPUs that idle, that are lent, that half a gang holds, and that are free where nothing fits: 800 of them, at 5 dollars an hour."""

from pathlib import Path

import pytest

from kailab.lab import expect
from kailab.lab.costs import costs
from kailab.model.prices import load_prices

pytestmark = pytest.mark.exercise("cost")

HERE = Path(__file__).parent
MONTH = 730  # hours


def cost_of(lab, prices="prices.yaml"):
    lab.settle()
    return costs(lab.picture(), load_prices(HERE / prices))


def arriving_in_turn(lab):
    """65 % of the fleet is at work. Then the pods of two gangs arrive in turn, each gang of 152 GPUs; 280 are free."""
    lab.apply("manifests/queues-one.yaml", "manifests/small.yaml")
    lab.settle()
    lab.apply("manifests/two-gangs-arriving.yaml")
    for pods in (20, 30, 34, 38):
        lab.settle()
        for name in ("first", "second"):
            lab.patch("Job", name, {"spec": {"parallelism": pods}})


@pytest.mark.kailab_fleet("eight-hundred")
def test_with_fixed_quotas_sixty_per_cent_idle(lab):
    """Two teams want more than they own, two far less: 320 of 800 GPUs work, and 480 cost 2,400 dollars an hour for nothing."""
    lab.apply("manifests/queues-fixed.yaml", "manifests/demand.yaml")
    expect(lab).running(gpus=320).pending(gpus=280)

    found = cost_of(lab)
    assert found.whole == 4000
    assert (found.per_hour["work"], found.per_hour["idle"]) == (1600, 2400)
    assert found.month(found.per_hour["idle"]) == 2400 * MONTH == 1_752_000


@pytest.mark.kailab_fleet("eight-hundred")
def test_with_lending_three_quarters_work(lab):
    """The same teams, demand and quotas, without limits: 600 of 800, and the idle hour costs 1,000 dollars instead of 2,400."""
    lab.apply("manifests/queues-shared.yaml", "manifests/demand.yaml")
    expect(lab).running(gpus=600).no_pending()

    found = cost_of(lab)
    assert (found.per_hour["work"], found.per_hour["idle"]) == (3000, 1000)
    queues = {one.queue: one for one in found.queues}
    # What two teams borrow is most of what the other two leave unused.
    assert sum(queues[name].borrowed_per_hour for name in ("team-a", "team-b")) == pytest.approx(1400)
    assert sum(queues[name].unused_per_hour for name in ("team-c", "team-d")) == pytest.approx(2400)


@pytest.mark.kailab_fleet("eight-hundred")
def test_half_gangs_cost_as_much_as_work(baseline_lab):
    """The default scheduler: all 800 GPUs are allocated and 65 % of them work. 1,400 dollars an hour go to pods that wait for others."""
    arriving_in_turn(baseline_lab)

    found = cost_of(baseline_lab)
    assert found.doing.wasted == 0
    assert (found.doing.work, found.doing.held) == (520_000, 280_000)
    assert found.per_hour["held"] == 1400


@pytest.mark.kailab_fleet("eight-hundred")
def test_whole_gangs_bring_it_to_84_per_cent(lab):
    """The same arrivals under KAI's rules: one gang runs whole, 84 % work, and other work may use the free GPUs."""
    arriving_in_turn(lab)

    found = cost_of(lab)
    assert (found.doing.work, found.doing.held, found.doing.wasted) == (672_000, 0, 128_000)
    assert found.doing.work / found.doing.all == 0.84
    assert found.month(found.per_hour["work"] - 520 * 5) == 152 * 5 * MONTH == 554_800


def test_free_gpus_may_be_of_no_use(lab):
    """Eight pods of three GPUs leave two on three nodes and one on two: eight are free, and a pod of four GPUs fits nowhere."""
    lab.apply("manifests/queues-one.yaml", "manifests/threes.yaml")
    assert cost_of(lab, "prices-lesson.yaml").doing.idle == 8000

    lab.apply("manifests/wide.yaml")
    expect(lab.job("wide")).pending(pods=2)
    found = cost_of(lab, "prices-lesson.yaml")
    assert (found.doing.idle, found.doing.scattered) == (0, 8000)
    # Two A100s on each of two nodes, two H100s, one L40S on each of two nodes.
    assert found.per_hour["scattered"] == 4 * 2.5 + 2 * 5 + 2 * 1


@pytest.mark.kailab_backend("embedded")
def test_a_dead_node_costs_as_much_as_before(lab):
    """GPUs in use there are held and do not work; free GPUs there are not available."""
    lab.apply("manifests/queues-one.yaml", "manifests/threes.yaml")
    lab.settle()
    lab.fail_node("h100-0")

    found = cost_of(lab, "prices-lesson.yaml")
    assert (found.doing.held, found.doing.closed) == (6000, 2000)
    assert (found.per_hour["held"], found.per_hour["closed"]) == (6 * 5, 2 * 5)
