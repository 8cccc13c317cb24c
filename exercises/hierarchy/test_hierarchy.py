"""A company of 100 GPUs: departments own shares of it, teams own shares of their department."""

import pytest

from kailab.lab import between, expect

pytestmark = [pytest.mark.exercise("hierarchy"), pytest.mark.kailab_fleet("hundred")]


def test_quotas_read_as_percentages(lab):
    """100 GPUs; 40 + 35 + 25 owned by departments, and each department's quota is the sum of its teams' quotas."""
    lab.apply("manifests/queues.yaml")
    lab.settle()

    quota = {name: lab.explain_queue(name).data()["quota"] / 1000 for name in lab.picture().shares.queues}
    assert quota["research"] + quota["data-science"] + quota["infrastructure"] == lab.facts()["gpus"] == 100
    assert quota["llm"] + quota["vision"] == quota["research"]
    assert quota["analytics"] + quota["inference"] == quota["data-science"] == 24.5 + 10.5


def test_alone_a_team_may_have_everything(lab):
    """LLM owns 24, borrows its sister's 16, and 60 from the other departments."""
    lab.apply("manifests/queues.yaml", "manifests/llm.yaml")

    expect(lab.queue("llm")).running(gpus=100).borrows(gpus=16, from_queue="vision")
    expect(lab.queue("data-science")).lends(gpus=35, to="research")
    expect(lab.queue("infrastructure")).lends(gpus=25, to="research")


def test_a_sister_comes_first_when_the_department_is_within_its_share(lab):
    """All others busy, Vision comes back: it gets its 16 from LLM, which had borrowed them; other teams lose nothing."""
    lab.apply("manifests/queues.yaml", "manifests/llm.yaml")
    lab.settle()
    lab.apply("manifests/analytics.yaml", "manifests/ops.yaml")
    expect(lab.queue("research")).running(gpus=40)

    back = lab.now
    lab.apply("manifests/vision.yaml")
    expect(lab.queue("vision")).running(gpus=16)
    expect(lab.queue("llm")).running(gpus=24).evicted(pods=16, for_queue="vision", since=back)
    expect(lab.queue("data-science")).running(gpus=35).not_evicted()
    expect(lab.queue("infrastructure")).running(gpus=25).not_evicted()


def test_departments_get_their_share_back_from_the_borrower(lab):
    """Data Science returns and gets its 35 and a part of what is still idle; with Infrastructure back nothing is idle,
    and each has exactly its quota."""
    lab.apply("manifests/queues.yaml", "manifests/llm.yaml")
    expect(lab.queue("research")).running(gpus=100)

    lab.apply("manifests/analytics.yaml")
    expect(lab.queue("data-science")).running(gpus=40)
    expect(lab.queue("research")).running(gpus=60)

    lab.apply("manifests/ops.yaml")
    expect(lab.queue("infrastructure")).running(gpus=25)
    expect(lab.queue("data-science")).running(gpus=35)
    expect(lab.queue("research")).running(gpus=40)


def test_all_at_once_everyone_has_what_they_own(lab):
    """All teams together want more than the fleet has: departments 40, 35, 25; LLM 24, Vision 16. Half GPUs (24.5 and 10.5) can't
    both be rounded up: of 35 one team has 24 or 25. On a busy cluster the odd one may be in use by Research when the others
    come: for half a GPU beyond its share nobody may take it back."""
    lab.apply("manifests/queues.yaml", "manifests/llm.yaml", "manifests/vision.yaml", "manifests/ops.yaml")
    lab.apply("manifests/analytics.yaml", "manifests/inference-train.yaml")

    expect(lab).running(gpus=100)
    expect(lab.queue("research")).running(gpus=between(40, 41))
    expect(lab.queue("llm")).running(gpus=between(24, 25))
    expect(lab.queue("vision")).running(gpus=between(16, 17))
    expect(lab.queue("data-science")).running(gpus=between(34, 35))
    expect(lab.queue("analytics")).running(gpus=between(24, 25))
    expect(lab.queue("inference")).running(gpus=between(10, 11))
    expect(lab.queue("infrastructure")).running(gpus=25)


def test_serving_finds_its_quota_free_whoever_borrowed_it(lab):
    """The fleet is full of borrowed training; Inference, non-preemptible, starts its ten pods at once."""
    lab.apply("manifests/queues.yaml", "manifests/llm.yaml")
    lab.settle()
    lab.apply("manifests/analytics.yaml", "manifests/ops.yaml")
    lab.settle()

    lab.apply("manifests/inference.yaml")
    expect(lab.queue("inference")).running(gpus=10).no_pending()
    expect(lab.queue("analytics")).running(gpus=25)
    expect(lab.queue("data-science")).running(gpus=35)
